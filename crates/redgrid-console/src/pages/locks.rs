//! The list of locks, with filters in the address.

use maud::{Markup, html};

use super::{Content, trouble};
use crate::board::{Holder, LockRow};
use crate::holder_state::State;
use crate::query::Query;
use crate::snapshot::Snapshot;
use crate::text::{ago, clock, count, encoded, name, number, since, until, visible};
use crate::view::{View, row_id};

/// Locks on a page.
const PAGE: usize = 50;

/// The kinds that can be selected: the value in the address, and the name.
const KINDS: [(&str, &str); 4] =
    [("lock", "lock"), ("fair", "fair lock"), ("rw", "read-write lock"), ("election", "election")];

/// The filter of the address.
struct Filter<'a> {
    text: &'a str,
    state: &'a str,
    kind: &'a str,
}

impl<'a> Filter<'a> {
    fn of(query: &'a Query) -> Self {
        Filter { text: query.get("q"), state: query.get("state"), kind: query.get("kind") }
    }

    fn has(&self, row: &LockRow) -> bool {
        let in_state = match self.state {
            "" => true,
            "endless" => row.is_endless,
            "waiting" => row.waiting_tasks > 0,
            state => row.states.keys().any(|one| one.id() == state),
        };
        let kind = KINDS.iter().find(|(id, _)| *id == self.kind);
        let has_text =
            || self.text.is_empty() || visible(&row.name).contains(self.text) || row.name.contains(self.text);
        in_state && kind.is_none_or(|(_, name)| row.kind == *name) && has_text()
    }

    /// Returns the address of a page of the list.
    fn address(&self, page: usize) -> String {
        let parameters = [("q", self.text), ("state", self.state), ("kind", self.kind)];
        let set = parameters.into_iter().filter(|(_, value)| !value.is_empty());
        let mut all: Vec<String> = set.map(|(name, value)| format!("{name}={}", encoded(value))).collect();
        if page > 1 {
            all.push(format!("p={page}"));
        }
        if all.is_empty() { "locks".to_owned() } else { format!("locks?{}", all.join("&")) }
    }
}

pub(super) fn frame(content: &Content<'_>, view: &View) -> Markup {
    let filter = Filter::of(content.query);
    html! {
        h1 { "Locks" }
        form.filter method="get" action="locks" role="search" aria-label="Filter of the locks" {
            label { "Name contains" input type="search" name="q" value=(filter.text); }
            label { "Holder"
                select name="state" {
                    option value="" { "any" }
                    @for state in State::ALL {
                        option value=(state.id()) selected[filter.state == state.id()] { (state.label()) }
                    }
                    option value="endless" selected[filter.state == "endless"] { "without a lifetime" }
                    option value="waiting" selected[filter.state == "waiting"] { "others wait" }
                }
            }
            label { "Kind"
                select name="kind" {
                    option value="" { "any" }
                    @for (id, name) in KINDS {
                        option value=(id) selected[filter.kind == id] { (name) }
                    }
                }
            }
            button type="submit" { "Filter" }
            a href="locks" { "Show all" }
        }
        div #locks-note { (view.get("locks-note")) }
        div.scroll tabindex="0" role="region" aria-label="Locks" {
            table {
                caption { "Held locks, and locks that tasks wait for" }
                thead { tr {
                    th scope="col" { "Name" }
                    th scope="col" { "Kind" }
                    th scope="col" { "Holder" }
                    th scope="col" { "State" }
                    th scope="col" { "Held" }
                    th scope="col" { "Lease" }
                    th.n scope="col" { "Token" }
                    th.n scope="col" { "Waiting" }
                } }
                tbody #locks { (view.rows("locks")) }
            }
        }
        div #locks-pages { (view.get("locks-pages")) }
    }
}

pub(super) fn view(content: &Content<'_>, view: &mut View) -> Vec<String> {
    let filter = Filter::of(content.query);
    let matching: Vec<&LockRow> = content.snapshot.locks.iter().filter(|row| filter.has(row)).collect();
    let pages = matching.len().div_ceil(PAGE).max(1);
    let page = content.query.page().min(pages);
    let shown = matching.iter().skip((page - 1) * PAGE).take(PAGE);
    view.part("locks-note", note(content, matching.len()));
    view.part("locks-pages", pager(&filter, page, pages));
    view.table("locks");
    let mut names = Vec::new();
    for row in shown {
        let id = row_id(&row.name);
        view.row("locks", id.clone(), lock_row(&id, row));
        names.push(row.name.clone());
    }
    names
}

/// Says how complete and how old the list is.
fn note(content: &Content<'_>, matching: usize) -> Markup {
    let snapshot = content.snapshot;
    let sweep = &snapshot.sweep;
    html! {
        p.hint {
            (count(matching, "lock"))
            @if matching != snapshot.locks.len() { " of " (number(snapshot.locks.len() as u64)) }
            @if snapshot.are_locks_cut && !sweep.is_cut { " or more: the reports have more entries than are listed" }
            @if sweep.is_too_large {
                ". " (why_not_searched(snapshot)) ", so only locks that processes report are listed. "
                a href="objects?kind=locks" { "Search for all locks" }
            } @else if let Some((_, ended)) = sweep.completed {
                @if sweep.is_cut { ". There are more, which are not listed; use the " a href="objects?kind=locks" { "search" } }
                // The time of each search would change the page each second.
                @if content.now.saturating_sub(ended) > 10_000 { ". All keys were read " (ago(ended)) }
            } @else {
                ". The keys are being read; " (count(sweep.found, "lock")) " found so far"
            }
        }
        @if let Some((why, since)) = &sweep.trouble {
            p.fault { "Could not search for locks since " (clock(*since)) " UTC: " (visible(why)) "." }
        }
        (trouble(&snapshot.living, "the list of clients"))
        (trouble(&snapshot.questions, "the reports of the clients"))
    }
}

/// Says why there is no search for locks.
pub(super) fn why_not_searched(snapshot: &Snapshot) -> &'static str {
    match snapshot.keys {
        Some(_) => "The deployment has more than 1 000 000 keys",
        None => "The number of keys is not known, because a server does not answer INFO",
    }
}

fn pager(filter: &Filter<'_>, page: usize, pages: usize) -> Markup {
    html! {
        @if pages > 1 {
            nav.pages aria-label="Pages of the list" {
                @if page > 1 { a rel="prev" href=(filter.address(page - 1)) { "Previous" } }
                span { "Page " (page) " of " (pages) }
                @if page < pages { a rel="next" href=(filter.address(page + 1)) { "Next" } }
            }
        }
    }
}

fn lock_row(id: &str, row: &LockRow) -> Markup {
    let single = if let [holder] = &row.holders[..] { Some(holder) } else { None };
    let holders = usize::try_from(row.holder_count()).unwrap_or(usize::MAX);
    html! {
        tr id=(id) {
            th scope="row" { a href={ "lock?name=" (encoded(&row.name)) } { (name(&row.name)) } }
            td.w { (row.kind) }
            td {
                @match (&row.holders[..], row.until.is_some() || row.is_endless) {
                    ([], true) => { "see the lock" }
                    ([], false) => { "not known" }
                    ([holder], _) => { (holder_name(holder)) }
                    _ => { (count(holders, "holder")) }
                }
            }
            td { @for one in row.states.keys() { (state(*one)) " " } }
            td { @if let Some(start) = single.and_then(|holder| holder.since) { (since(start)) } @else { "–" } }
            td {
                @if let Some(end) = row.until { (until(end)) }
                @else if row.is_endless { span.state.gone { "no lifetime" } }
                @else { "–" }
            }
            td.n { (single.and_then(|holder| holder.token).map_or_else(|| "–".to_owned(), |token| token.to_string())) }
            td.n {
                (number(row.waiting_tasks))
                @if row.waiting_processes > 1 { " in " (row.waiting_processes) " processes" }
            }
        }
    }
}

/// Names a holder: by its process if that has reported, otherwise by its id.
pub(super) fn holder_name(holder: &Holder) -> Markup {
    html! {
        @match &holder.process {
            Some(process) => { (name(process)) }
            None => { span.id { (name(&holder.client)) } @if let Some(n) = holder.number { ", number " (n) } }
        }
        @if let Some(label) = &holder.label { " " span.label { (name(label)) } }
    }
}

/// Shows a state.
pub(super) fn state(state: State) -> Markup {
    html! { span class={ "state " (state.id()) } title=(state.meaning()) { (state.label()) } }
}
