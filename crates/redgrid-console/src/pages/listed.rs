//! The common parts of the lists of queues, synchronizers, limiters, streams and caches.

use std::time::Duration;

use maud::{Markup, html};
use redgrid_inspect::ObjectKind;

use super::Content;
use super::locks::why_not_searched;
use crate::listed::{Detail, Group};
use crate::snapshot::Reading;
use crate::text::{ago, clock, count, encoded, millis, name, number, until, visible, whole_seconds};
use crate::view::{View, row_id};

/// Objects on a page.
const PAGE: usize = 50;

/// Objects that were read longer ago than this are shown with their age, in milliseconds. Slow
/// streams are read each 10 s.
const OLD_MS: u64 = 5_000;

/// A row of a list.
pub(super) struct Row<'a> {
    pub(super) name: &'a str,
    pub(super) kind: ObjectKind,
    pub(super) detail: &'a Detail,
    /// When it was read.
    pub(super) read_at: u64,
}

/// A column: its title, and whether it has numbers. The first column is the name.
pub(super) type Column = (&'static str, bool);

/// Shows the frame of a list: its title, a filter, and a table with these columns.
pub(super) fn frame(content: &Content<'_>, view: &View, group: Group, caption: &str, columns: &[Column]) -> Markup {
    let page = group.page();
    html! {
        h1 { (page.title()) }
        form.filter method="get" action=(page.path()) role="search" aria-label="Filter of the list" {
            label { "Name contains" input type="search" name="q" value=(content.query.get("q")); }
            button type="submit" { "Filter" }
            a href=(page.path()) { "Show all" }
        }
        div #list-note { (view.get("list-note")) }
        div.scroll tabindex="0" role="region" aria-label=(page.title()) {
            table {
                caption { (caption) }
                thead { tr { @for (title, is_number) in columns { th.n[*is_number] scope="col" { (title) } } } }
                tbody #list { (view.rows("list")) }
            }
        }
        div #list-pages { (view.get("list-pages")) }
    }
}

/// Fills a list: `cells` makes the cells of a row after its name. Returns the names on the page.
pub(super) fn fill(
    content: &Content<'_>,
    view: &mut View,
    group: Group,
    columns: usize,
    cells: impl Fn(&Row<'_>) -> (Markup, Markup),
) -> Vec<String> {
    let (list, text) = (content.snapshot.list(group), content.query.get("q"));
    let matching: Vec<(&String, &ObjectKind)> = list.names.iter().filter(|(name, _)| name.contains(text)).collect();
    let pages = matching.len().div_ceil(PAGE).max(1);
    let page = content.query.page().min(pages);
    view.part("list-note", note(content, group, matching.len()));
    view.part("list-pages", pager(group, text, page, pages));
    view.table("list");
    let mut names = Vec::new();
    for (object, kind) in matching.into_iter().skip((page - 1) * PAGE).take(PAGE) {
        names.push(object.clone());
        let id = row_id(object);
        let reading = list.read.get(object);
        let html = match reading.and_then(|reading| Some((reading.get()?, reading.read_at()?))) {
            // It was deleted since the search.
            Some((detail, _)) if **detail == Detail::Missing => continue,
            Some((detail, read_at)) => {
                let (first, rest) = cells(&Row { name: object, kind: *kind, detail, read_at });
                let is_old = content.now.saturating_sub(read_at) > OLD_MS;
                html! {
                    tr id=(id) {
                        th scope="row" { (first) @if is_old { " " span.hint { "read " (ago(read_at)) } } }
                        (rest)
                    }
                }
            }
            None => html! {
                tr id=(id) {
                    th scope="row" { (name(object)) }
                    td colspan=(columns - 1) { (unread(reading)) }
                }
            },
        };
        view.row("list", id, html);
    }
    names
}

/// Shows the end of a time that was left when the object was read, in whole seconds: the inaccuracy
/// of each reading does not change the page.
pub(super) fn end(row: &Row<'_>, left: Duration) -> Markup {
    until(whole_seconds(row.read_at.saturating_add(millis(left))))
}

/// Shows why the object has no data.
fn unread(reading: Option<&Reading<Detail>>) -> Markup {
    html! {
        @match reading.and_then(|reading| reading.trouble.as_ref()) {
            Some((why, since)) => { span.fault { "could not be read since " (clock(*since)) " UTC: " (visible(why)) } }
            None => { "is being read" }
        }
    }
}

/// Says how complete and how old the list is.
fn note(content: &Content<'_>, group: Group, matching: usize) -> Markup {
    let list = content.snapshot.list(group);
    let sweep = &list.sweep;
    let search = match group {
        Group::Queues => "objects?kind=reliable%20queue",
        Group::Synchronizers | Group::Streams => "objects?kind=all",
        Group::Limiters => "objects?kind=rate%20limiter",
    };
    html! {
        p.hint {
            (count(matching, group.noun()))
            @if matching != list.names.len() { " of " (number(list.names.len() as u64)) }
            @if sweep.is_too_large {
                ". " (why_not_searched(content.snapshot)) ", so it is not searched by itself. "
                a href=(search) { "Search for them" }
            } @else if let Some((_, ended)) = sweep.completed {
                @if sweep.is_cut { ". There are more, which are not listed; use the " a href=(search) { "search" } }
                // The time of each search would change the page each second.
                @if content.now.saturating_sub(ended) > 10_000 { ". All keys were read " (ago(ended)) }
            } @else {
                ". The keys are being read; " (number(sweep.found as u64)) " found so far"
            }
        }
        @if let Some((why, since)) = &sweep.trouble {
            p.fault { "Could not search since " (clock(*since)) " UTC: " (visible(why)) "." }
        }
    }
}

fn pager(group: Group, text: &str, page: usize, pages: usize) -> Markup {
    let address = |page: usize| format!("{}?q={}&p={page}", group.page().path(), encoded(text));
    html! {
        @if pages > 1 {
            nav.pages aria-label="Pages of the list" {
                @if page > 1 { a rel="prev" href=(address(page - 1)) { "Previous" } }
                span { "Page " (page) " of " (pages) }
                @if page < pages { a rel="next" href=(address(page + 1)) { "Next" } }
            }
        }
    }
}
