//! The list of semaphores, latches, barriers, events and elections.

use maud::{Markup, html};
use redgrid_inspect::{HolderState, HolderView, SynchronizerState};

use super::Content;
use super::listed::{Column, Row, end, fill, frame as list_frame};
use super::locks::state as holder_state;
use crate::holder_state::State;
use crate::listed::{Detail, Group};
use crate::text::{encoded, name, number};
use crate::view::View;

const COLUMNS: [Column; 6] =
    [("Name", false), ("Kind", false), ("State", false), ("Waiting", true), ("Lease", false), ("Lifetime", false)];

pub(super) fn frame(content: &Content<'_>, view: &View) -> Markup {
    html! {
        (list_frame(content, view, Group::Synchronizers, "Semaphores, latches, barriers, events and elections", &COLUMNS))
        p.hint {
            "A semaphore is listed while permits are leased, or while somebody waits in its queue: otherwise it is a \
             plain number on the server."
        }
    }
}

pub(super) fn view(content: &Content<'_>, view: &mut View) -> Vec<String> {
    fill(content, view, Group::Synchronizers, COLUMNS.len(), |row| {
        let shown = html! {
            @if row.kind.is_lock() { a href={ "lock?name=" (encoded(row.name)) } { (name(row.name)) } }
            @else { (name(row.name)) }
        };
        (shown, cells(row))
    })
}

fn cells(row: &Row<'_>) -> Markup {
    let Detail::Synchronizer(view) = row.detail else { return html! {} };
    let lease = match &view.state {
        SynchronizerState::Semaphore { next_end, .. } => *next_end,
        SynchronizerState::Election { lease_left, .. } => *lease_left,
        _ => None,
    };
    html! {
        td.w { (view.kind.as_str()) }
        td { (state(&view.state)) }
        td.n { (waiting(&view.state).map_or_else(|| "–".to_owned(), number)) }
        td { @match lease { Some(left) => { (end(row, left)) } None => { "–" } } }
        td { @match view.lifetime { Some(left) => { (end(row, left)) } None => { "none" } } }
    }
}

/// Says what is stored of a synchronizer.
fn state(state: &SynchronizerState) -> Markup {
    html! {
        @match state {
            SynchronizerState::Semaphore { free, leased, .. } => {
                (free) " free" @if let Some(leased) = leased { ", " (number(*leased)) " leased" }
            }
            SynchronizerState::Latch { count, round } => {
                "count " (count) @if let Some(round) = round { ", round " (round) }
            }
            SynchronizerState::Barrier { round, parties, waiting } => {
                (waiting) " of " (parties) " parties are here, round " (round)
            }
            SynchronizerState::DoubleBarrier { session, parties, waiting, inside } => {
                (inside) " inside, " (waiting) " outside, of " (parties) " parties, session " (session)
            }
            SynchronizerState::Phaser { has_ended: true, phase, .. } => { "has ended after phase " (phase) }
            SynchronizerState::Phaser { phase, parties, arrived, .. } => {
                "phase " (phase) ", " (arrived) " of " (parties) " parties have arrived"
            }
            SynchronizerState::WaitQueue { has_permit, .. } => {
                @if *has_permit { "one notification is stored" } @else { "no notification is stored" }
            }
            SynchronizerState::Event { is_set, times } => {
                @if *is_set { "set" } @else { "not set" } ", " (number(*times)) " times so far"
            }
            SynchronizerState::Election { leader, term, .. } => {
                @match leader {
                    Some(leader) => { "leader " (shown_leader(leader)) }
                    None => { "no leader" }
                }
                @if let Some(term) = term { ", term " (term) }
            }
            _ => { "of another kind" }
        }
    }
}

fn shown_leader(leader: &HolderView) -> Markup {
    let shown = match leader.state {
        HolderState::Alive => State::Alive,
        HolderState::Silent => State::Silent,
        HolderState::Gone => State::Gone,
        HolderState::NotRedgrid => State::Foreign,
        _ => State::Unknown,
    };
    html! { span.id { (name(&leader.client)) } " " (holder_state(shown)) }
}

/// Returns the number of waiters, if it is known.
fn waiting(state: &SynchronizerState) -> Option<u64> {
    match state {
        SynchronizerState::Semaphore { queue_len, .. } => Some(*queue_len),
        SynchronizerState::Barrier { waiting, .. }
        | SynchronizerState::DoubleBarrier { waiting, .. }
        | SynchronizerState::WaitQueue { waiting, .. } => Some(*waiting),
        _ => None,
    }
}
