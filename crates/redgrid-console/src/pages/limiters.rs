//! The list of rate limiters.

use maud::{Markup, html};

use super::Content;
use super::listed::{Column, Row, end, fill, frame as list_frame};
use crate::listed::{Detail, Group};
use crate::text::{duration, name, number};
use crate::view::View;

const COLUMNS: [Column; 6] = [
    ("Name", false),
    ("Rate", false),
    ("Free now", true),
    ("Next free", false),
    ("Entries in the log", true),
    ("Lifetime", false),
];

pub(super) fn frame(content: &Content<'_>, view: &View) -> Markup {
    html! {
        (list_frame(content, view, Group::Limiters, "Rate limiters with a sliding log", &COLUMNS))
        p.hint { "A GcraLimiter does not store its rate, so it is not listed." }
    }
}

pub(super) fn view(content: &Content<'_>, view: &mut View) -> Vec<String> {
    fill(content, view, Group::Limiters, COLUMNS.len(), |row| (name(row.name), cells(row)))
}

fn cells(row: &Row<'_>) -> Markup {
    let Detail::Limiter(limiter) = row.detail else { return html! {} };
    html! {
        td {
            (number(limiter.rate)) " in " (duration(limiter.interval))
            @if limiter.is_per_client { ", for each client" }
        }
        td.n { (limiter.free.map_or_else(|| "not known".to_owned(), number)) }
        td { @match limiter.next_free_in { Some(left) => { (end(row, left)) } None => { "–" } } }
        td.n { (limiter.log_len.map_or_else(|| "–".to_owned(), number)) }
        td { @match limiter.lifetime { Some(left) => { (end(row, left)) } None => { "none" } } }
    }
}
