//! The list of reliable topics, streams and caches.

use std::cmp::Reverse;

use maud::{Markup, html};
use redgrid_inspect::{CacheEnds, GroupView, MAX_GROUPS, MapCacheView, StreamView};

use super::Content;
use super::listed::{Column, Row, end, fill, frame as list_frame};
use crate::listed::{Detail, Group};
use crate::text::{ago, count, name, number, visible, whole_seconds};
use crate::view::View;

const COLUMNS: [Column; 7] = [
    ("Name", false),
    ("Kind", false),
    ("Entries", true),
    ("State", false),
    ("Newest entry", false),
    ("Lifetime", false),
    ("Groups", false),
];

/// Groups of a stream that are shown.
const MOST_GROUPS: usize = 20;

/// The earliest and the latest time that an id of an entry may contain, from the time of the
/// reading. Programs may choose ids that are no times.
const EARLIEST_MS: u64 = 1_000_000_000_000;
const LATEST_AFTER_MS: u64 = 60_000;

pub(super) fn frame(content: &Content<'_>, view: &View) -> Markup {
    html! {
        (list_frame(content, view, Group::Streams, "Reliable topics, streams, and caches with lifetimes", &COLUMNS))
        p.hint {
            "Pending: delivered and not acknowledged. Behind: not delivered yet. A topic without subscribers is listed \
             as a stream. A cache whose entries have no lifetimes is a map. Plain topics store nothing, so they are \
             not listed. Entries are not shown."
        }
    }
}

pub(super) fn view(content: &Content<'_>, view: &mut View) -> Vec<String> {
    fill(content, view, Group::Streams, COLUMNS.len(), |row| (name(row.name), cells(row)))
}

fn cells(row: &Row<'_>) -> Markup {
    match row.detail {
        Detail::Stream(stream) => of_stream(row, stream),
        Detail::MapCache(cache) => of_cache(row, cache),
        _ => html! {},
    }
}

fn of_stream(row: &Row<'_>, stream: &StreamView) -> Markup {
    html! {
        td.w { (row.kind.as_str()) }
        td.n { (number(stream.len)) }
        td { (stream_state(stream)) }
        td { @if stream.last_id == "0-0" { "none yet" } @else { (entry(&stream.last_id, row.read_at)) } }
        td { @match stream.lifetime { Some(left) => { (end(row, left)) } None => { "none" } } }
        td {
            @match &stream.groups {
                Some(groups) if groups.is_empty() => { "–" }
                Some(groups) => {
                    details {
                        summary { "Show" }
                        (group_list(stream, groups, row.read_at))
                    }
                }
                None => { "not read" }
            }
        }
    }
}

fn stream_state(stream: &StreamView) -> Markup {
    html! {
        @if let Some(subscribers) = stream.subscribers {
            (counted(subscribers.registered, "subscriber"))
            @if subscribers.expired > 0 { ", " (number(subscribers.expired)) " of them without a lease" }
        } @else {
            (counted(stream.group_count, "group"))
        }
        @match &stream.groups {
            None => { ", more than the " (MAX_GROUPS) " that are read" }
            Some(groups) if groups.is_empty() => {}
            Some(groups) => {
                ", " (number(groups.iter().map(|group| group.pending).fold(0, u64::saturating_add))) " pending"
                @match most_behind(stream, groups) {
                    (Some(0) | None, false) => { ", none is behind" }
                    (Some(most), false) => { ", up to " (number(most)) " behind" }
                    (Some(most), true) if most > 0 => { ", " (number(most)) " or more behind" }
                    _ => { ", how far behind is not known" }
                }
            }
        }
    }
}

/// Returns the number of entries that a group has not received; `None` if it is not known.
fn behind(stream: &StreamView, group: &GroupView) -> Option<u64> {
    group.lag.or_else(|| (group.delivered_id == stream.last_id).then_some(0))
}

/// Returns the largest known number, and whether that of a group is not known.
fn most_behind(stream: &StreamView, groups: &[GroupView]) -> (Option<u64>, bool) {
    let all = || groups.iter().map(|group| behind(stream, group));
    (all().flatten().max(), all().any(|behind| behind.is_none()))
}

fn group_list(stream: &StreamView, groups: &[GroupView], read_at: u64) -> Markup {
    let mut sorted: Vec<&GroupView> = groups.iter().collect();
    // Groups that may be far behind come first.
    sorted.sort_by_key(|group| Reverse((behind(stream, group).unwrap_or(u64::MAX), group.pending)));
    html! {
        ul {
            @for group in sorted.iter().take(MOST_GROUPS) {
                li {
                    (name(&group.name)) ": " (number(group.pending)) " pending, "
                    @match behind(stream, group) {
                        Some(behind) => { (number(behind)) " behind" }
                        None => { "how far behind is not known" }
                    }
                    @if stream.subscribers.is_none() { ", " (counted(group.consumers, "consumer")) }
                    ", last "
                    @if group.delivered_id == "0-0" { "none" } @else { (entry(&group.delivered_id, read_at)) }
                }
            }
            @if groups.len() > MOST_GROUPS { li { "and " (number((groups.len() - MOST_GROUPS) as u64)) " more" } }
        }
    }
}

/// Shows when an entry was added, or its id if that is no time.
fn entry(id: &str, read_at: u64) -> Markup {
    let ms = id.split('-').next().and_then(|ms| ms.parse::<u64>().ok());
    let latest = read_at.saturating_add(LATEST_AFTER_MS);
    html! {
        @match ms.filter(|ms| (EARLIEST_MS..=latest).contains(ms)) {
            Some(ms) => { (ago(whole_seconds(ms))) }
            None => { span.id { (visible(id)) } }
        }
    }
}

fn of_cache(row: &Row<'_>, cache: &MapCacheView) -> Markup {
    html! {
        td.w { (row.kind.as_str()) }
        td.n { (number(cache.len)) }
        td {
            (ends(&cache.lifetimes)) " with a lifetime"
            @if cache.idle_times.entries > 0 { "; " (ends(&cache.idle_times)) " with an idle time" }
            @if let Some(limit) = &cache.limit {
                "; at most " (number(limit.entries)) " (" (name(&limit.mode)) ")"
            }
        }
        td { "–" }
        td { @match cache.lifetime { Some(left) => { (end(row, left)) } None => { "none" } } }
        td { "–" }
    }
}

fn ends(ends: &CacheEnds) -> Markup {
    html! {
        (number(ends.entries))
        @if ends.over > 0 { ", " (number(ends.over)) " of them over," }
    }
}

fn counted(n: u64, noun: &str) -> String {
    count(usize::try_from(n).unwrap_or(usize::MAX), noun)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ids_are_times_only_if_they_may_be() {
        let now = 1_700_000_000_000;
        let shown = |id: &str| entry(id, now).into_string();
        assert!(shown("1699999999999-3").contains("data-ago=\"1699999999000\""));
        for id in ["7-0", "0-1", "1700000061000-0", "18446744073709551615-1", "<b>", "", "-"] {
            let shown = shown(id);
            assert!(!shown.contains("<time") && !shown.contains("<b>"), "{shown}");
        }
    }
}
