//! The page of one reliable queue: its state, and its messages without their values.

use maud::{Markup, html};
use redgrid_inspect::QueueView;
use redgrid_inspect::reliable_queue::{MessageGroup, MessagePage, MessageState, MessageSummary};

use super::queues::{oldest, state, unix_ms, waiting};
use super::{Content, trouble};
use crate::actions::link;
use crate::listed::{Detail, Group};
use crate::object_name::bytes_of;
use crate::query::Query;
use crate::text::{bytes, clock, count, duration, encoded, field_of_bytes, name, number, since, until, visible};
use crate::view::View;

/// Messages on a page, as many as one request returns.
const PAGE: u64 = 100;

/// Characters of a header that are shown.
const MOST_TEXT: usize = 200;

/// Headers of a message that are shown.
const MOST_HEADERS: usize = 20;

/// The groups of messages: the value in the address, and the name.
const GROUPS: [(&str, &str, MessageGroup); 4] = [
    ("ready", "ready", MessageGroup::Ready),
    ("flight", "in flight", MessageGroup::InFlight),
    ("delayed", "delayed", MessageGroup::Delayed),
    ("dead", "dead letters", MessageGroup::Dead),
];

/// Returns the group of messages and the index of the first one that the address asks for.
pub(super) fn selected(query: &Query) -> (MessageGroup, u64) {
    let group = GROUPS.iter().find(|(id, ..)| *id == query.get("state"));
    let first = (query.page() as u64 - 1).saturating_mul(PAGE);
    (group.map_or(MessageGroup::Ready, |(.., group)| *group), first)
}

/// Shows the page. The messages are those at the time of the request.
pub(super) fn frame(content: &Content<'_>, view: &View, messages: &Result<MessagePage, String>) -> Markup {
    let queue = content.query.get("name");
    html! {
        h1 { "Queue " (name(queue)) }
        div #queue { (view.get("queue")) }
        section aria-labelledby="h-messages" {
            h2 #h-messages { "Messages" }
            nav.pages aria-label="States of messages" {
                @for (id, label, group) in GROUPS {
                    a href=(address(queue, id, 1)) aria-current=[(group == selected(content.query).0).then_some("true")] {
                        (label)
                    }
                }
            }
            @match messages {
                Ok(page) => { (table(content, page)) }
                Err(why) => { p.fault { "Could not read the messages: " (visible(why)) "." } }
            }
        }
    }
}

fn address(queue: &str, state: &str, page: u64) -> String {
    let page = if page > 1 { format!("&p={page}") } else { String::new() };
    format!("queue?name={}&state={state}{page}", encoded(queue))
}

fn table(content: &Content<'_>, page: &MessagePage) -> Markup {
    let (group, first) = selected(content.query);
    let id = GROUPS.iter().find(|(.., one)| *one == group).map_or("ready", |(id, ..)| *id);
    let (queue, at) = (content.query.get("name"), content.query.page() as u64);
    let (pages, last) = (page.total.div_ceil(PAGE).max(1), first.saturating_add(page.messages.len() as u64));
    let has_actions = content.may_operate && group == MessageGroup::Dead && !page.messages.is_empty();
    let rows = rows(page, content.now, has_actions);
    html! {
        p.hint {
            (count(usize::try_from(page.total).unwrap_or(usize::MAX), "message"))
            @if !page.messages.is_empty() { ", of which " (number(first + 1)) " to " (number(last)) " are shown" }
            ", as of " (clock(content.now)) " UTC. " a href=(address(queue, id, at)) { "Refresh" }
            ". Values are not read."
        }
        @if has_actions { (with_actions(queue, &rows)) } @else { (rows) }
        nav.pages aria-label="Pages of the messages" {
            @if at > 1 { a rel="prev" href=(address(queue, id, (at - 1).min(pages))) { "Previous" } }
            span { "Page " (at) " of " (pages) }
            @if at < pages { a rel="next" href=(address(queue, id, at + 1)) { "Next" } }
        }
    }
}

fn rows(page: &MessagePage, now: u64, has_marks: bool) -> Markup {
    html! {
        div.scroll tabindex="0" role="region" aria-label="Table of messages" {
            table {
                caption { "Messages of the queue, in their order" }
                thead { tr {
                    @if has_marks { th scope="col" { "Marked" } }
                    th scope="col" { "Message" }
                    th scope="col" { "State" }
                    th.n scope="col" { "Deliveries" }
                    th.n scope="col" { "Priority" }
                    th scope="col" { "Pushed" }
                    th.n scope="col" { "Size" }
                    th scope="col" { "Headers" }
                } }
                tbody { @for message in &page.messages { (row(message, now, has_marks)) } }
            }
        }
    }
}

fn row(message: &MessageSummary, now: u64, has_marks: bool) -> Markup {
    html! {
        tr {
            @if has_marks {
                td { input type="checkbox" name="id" value=(message.id) aria-label={ "Message " (message.id) }; }
            }
            th scope="row" { span.id { (message.id) } }
            td { (message_state(&message.state, now)) }
            td.n { (number(message.attempts)) }
            td.n { (message.priority) }
            td { (since(unix_ms(message.pushed_at))) }
            td.n { (bytes(message.size)) }
            td { (headers(message)) }
        }
    }
}

/// Puts dead letters into a form that marks some of them for an action. The action has a page of
/// its own, which asks for confirmation.
fn with_actions(queue: &str, rows: &Markup) -> Markup {
    let object = bytes_of(queue);
    let all = |word: &str| link(word, &object, &[("id", "all")]);
    html! {
        form method="get" action="action" {
            input type="hidden" name="object" value=(field_of_bytes(&object));
            (rows)
            div.pages {
                button type="submit" name="do" value="redrive" { "Redrive those marked" }
                button type="submit" name="do" value="remove" { "Remove those marked" }
                a href=(all("redrive")) { "Redrive all" }
                a href=(all("remove")) { "Remove all" }
            }
        }
    }
}

fn message_state(state: &MessageState, now: u64) -> Markup {
    html! {
        @match state {
            MessageState::Ready => { "ready" }
            MessageState::Delayed { until: end } if unix_ms(*end) <= now => { "ready" }
            MessageState::Delayed { until: end } => { "delayed, " (until(unix_ms(*end))) }
            MessageState::InFlight { until: end } if unix_ms(*end) <= now => {
                span.state.silent { "overdue" } " " (since(unix_ms(*end)))
            }
            MessageState::InFlight { until: end } => { "in flight, " (until(unix_ms(*end))) }
            MessageState::Dead { since: start, reason } => {
                "dead " (since(unix_ms(*start))) ": "
                @if reason == "attempts" { "all attempts were used" } @else { (name(&cut(reason))) }
            }
            _ => { "in another state" }
        }
    }
}

fn headers(message: &MessageSummary) -> Markup {
    html! {
        @match &message.headers {
            None => { "not read" }
            Some(headers) => {
                @for (at, (header, text)) in headers.iter().take(MOST_HEADERS).enumerate() {
                    @if at > 0 { ", " }
                    (name(&cut(header))) ": " (name(&cut(text)))
                }
                @if headers.len() > MOST_HEADERS { ", and " (headers.len() - MOST_HEADERS) " more" }
            }
        }
    }
}

/// Cuts a long text.
fn cut(text: &str) -> String {
    match text.char_indices().nth(MOST_TEXT) {
        Some((end, _)) => format!("{}…", &text[..end]),
        None => text.to_owned(),
    }
}

pub(super) fn view(content: &Content<'_>, view: &mut View) -> Vec<String> {
    let reading = content.snapshot.list(Group::Queues).read.get(content.query.get("name"));
    let Some(reading) = reading else {
        view.part("queue", html! { p.hint { "The queue is being read." } });
        return Vec::new();
    };
    let read_at = reading.read_at().unwrap_or(content.now);
    let summary = match reading.get().map(|detail| &**detail) {
        Some(Detail::Queue(queue)) => summary(content.query.get("name"), queue, read_at),
        Some(_) => html! { p { "There is no reliable queue of this name." } },
        None => html! {},
    };
    let is_paused = match reading.get().map(|detail| &**detail) {
        Some(Detail::Queue(queue)) if content.may_operate => Some(queue.counts.paused_since.is_some()),
        _ => None,
    };
    let action = html! {
        @match is_paused {
            Some(true) => { p { a href=(action_link(content, "resume")) { "Resume the queue" } } }
            Some(false) => { p { a href=(action_link(content, "pause")) { "Pause the queue" } } }
            None => {}
        }
    };
    view.part("queue", html! { (trouble(reading, "the queue")) (summary) (action) });
    Vec::new()
}

fn action_link(content: &Content<'_>, word: &str) -> String {
    link(word, &bytes_of(content.query.get("name")), &[])
}

/// Shows the numbers and the settings of the queue with this id.
fn summary(id: &str, queue: &QueueView, read_at: u64) -> Markup {
    let (counts, settings) = (&queue.counts, &queue.settings);
    let totals = &counts.totals;
    let limit = |limit: Option<u64>| limit.map_or_else(|| "none".to_owned(), number);
    html! {
        dl.numbers {
            div { dt { "State" } dd { (state(queue)) } }
            div { dt { "Ready" } dd { (number(counts.ready)) } }
            div { dt { "Oldest ready" } dd { (oldest(queue, read_at)) } }
            div { dt { "In flight" } dd { (number(counts.in_flight)) } }
            div { dt { "Overdue" } dd { (number(counts.overdue)) } }
            div { dt { "Delayed" } dd { (number(counts.delayed)) } }
            div { dt { "Dead letters" } dd { a href=(address(id, "dead", 1)) { (number(counts.dead)) } } }
            div { dt { "Waiting clients" } dd { (waiting(queue)) } }
        }
        dl.numbers {
            div { dt { "Pushed so far" } dd { (number(totals.pushed)) } }
            div { dt { "Delivered" } dd { (number(totals.received)) } }
            div { dt { "Delivered again" } dd { (number(totals.redelivered)) } }
            div { dt { "Acknowledged" } dd { (number(totals.acknowledged)) } }
            div { dt { "Returned or late" } dd { (number(totals.returned)) } }
            div { dt { "Died" } dd { (number(totals.died)) } }
            div { dt { "Expired" } dd { (number(totals.expired)) } }
        }
        dl.numbers {
            div { dt { "Visibility" } dd { (settings.visibility.map_or_else(|| "30 s".to_owned(), duration)) } }
            div { dt { "Most attempts" } dd { (limit(settings.max_attempts.map(u64::from))) } }
            div { dt { "Capacity" } dd { (limit(settings.capacity)) } }
            div { dt { "Lifetime" } dd { (settings.lifetime.map_or_else(|| "none".to_owned(), duration)) } }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_address_selects_the_messages() {
        let of = |query: &str| selected(&Query::read(Some(query)));
        assert_eq!(of("name=a&state=dead&p=3"), (MessageGroup::Dead, 200));
        assert_eq!(of("name=a"), (MessageGroup::Ready, 0));
        assert_eq!(of("state=nonsense&p=0"), (MessageGroup::Ready, 0));
        assert_eq!(address("a b", "dead", 2), "queue?name=a%20b&state=dead&p=2");
    }

    #[test]
    fn long_texts_are_cut() {
        assert_eq!(cut(&"ä".repeat(200)), "ä".repeat(200));
        assert_eq!(cut(&"ä".repeat(201)), format!("{}…", "ä".repeat(200)));
    }
}
