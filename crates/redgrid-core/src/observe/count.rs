//! Counters, gauges and histograms of locks. Without the feature `metrics`, the functions of this
//! module do nothing.

#![cfg_attr(not(feature = "metrics"), allow(dead_code, reason = "what is counted of operations is not compiled then"))]

use std::time::Duration;

#[cfg(not(feature = "metrics"))]
use super::disabled::{add, add_many, begin, gauge, record};
#[cfg(feature = "metrics")]
pub(super) use super::series::register;
#[cfg(feature = "metrics")]
use super::series::{add, add_many, begin, gauge, record};
use super::table;
use crate::lock::LostReason;

/// The labels that all metrics of a lock or semaphore have.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Labels {
    pub(crate) kind: &'static str,
    /// The group to which the program assigned the object; empty by default.
    pub(crate) family: &'static str,
}

/// The kind of elections. Their holds are also counted as leaders.
const ELECTION: &str = "election";

pub(crate) fn waiting(of: Labels) {
    gauge(&table::WAITING, [of.kind, of.family], 1.0);
    if of.kind == ELECTION {
        begin(&table::LEADER_CHANGES, of.family);
    }
}

/// Records that an acquire has ended after `waited`.
pub(crate) fn waited(of: Labels, outcome: &'static str, waited: Duration) {
    gauge(&table::WAITING, [of.kind, of.family], -1.0);
    refused(of, outcome, waited);
    match outcome {
        super::operation::ACQUIRED => add(&table::ACQUIRED, [of.kind, of.family]),
        super::operation::TIMED_OUT => add(&table::TIMED_OUT, [of.kind, of.family]),
        _ => {}
    }
}

/// Records an acquire that was rejected before it counted as waiting.
pub(crate) fn refused(of: Labels, outcome: &'static str, waited: Duration) {
    record(&table::ACQUIRE_WAIT, [of.kind, of.family, outcome], waited);
}

/// Records that a name was taken over or released by force.
pub(crate) fn forced(of: Labels) {
    add(&table::FORCED, [of.kind, of.family]);
}

pub(crate) fn held(of: Labels) {
    gauge(&table::HELD, [of.kind, of.family], 1.0);
    if of.kind == ELECTION {
        gauge(&table::LEADER, [of.family], 1.0);
        add(&table::LEADER_CHANGES, [of.family]);
    }
}

/// Records the end of a hold that lasted for `held`. `how` says whether the hold was released or
/// lost. It is `None` if the guard was forgotten: the lock then stays taken until its lease ends.
pub(crate) fn ended(of: Labels, held: Duration, how: Option<Result<(), LostReason>>) {
    never_held(of);
    record(&table::HOLD, [of.kind, of.family], held);
    match how {
        Some(Ok(())) => add(&table::RELEASED, [of.kind, of.family]),
        Some(Err(reason)) => add(&table::LOST, [of.kind, of.family, reason.label()]),
        None => {}
    }
}

/// Records the end of a hold that was never accepted by a caller.
pub(crate) fn never_held(of: Labels) {
    gauge(&table::HELD, [of.kind, of.family], -1.0);
    if of.kind == ELECTION {
        gauge(&table::LEADER, [of.family], -1.0);
    }
}

/// Records that a guard of a semaphore holds `permits` permits.
pub(crate) fn permits_held(of: Labels, permits: u64) {
    gauge(&table::HELD, [of.kind, of.family], permits as f64);
}

/// Records the end of permits that were held for `held`, as [`ended`] does for locks.
pub(crate) fn permits_ended(of: Labels, permits: u64, held: Duration, how: Option<Result<(), LostReason>>) {
    permits_never_held(of, permits);
    record(&table::HOLD, [of.kind, of.family], held);
    match how {
        Some(Ok(())) => add_many(&table::RELEASED, [of.kind, of.family], permits),
        Some(Err(reason)) => add_many(&table::LOST, [of.kind, of.family, reason.label()], permits),
        None => {}
    }
}

/// Records that permits are no longer held under these labels.
pub(crate) fn permits_never_held(of: Labels, permits: u64) {
    gauge(&table::HELD, [of.kind, of.family], -(permits as f64));
}

pub(crate) fn renewal_failed(of: Labels) {
    add(&table::RENEWALS_FAILED, [of.kind, of.family]);
}

/// Records that a renewal of a hold is overdue. Call it once until the renewal is confirmed.
pub(crate) fn renewal_overdue(of: Labels) {
    add(&table::RENEWALS_OVERDUE, [of.kind, of.family]);
}

/// Records that a renewal was confirmed `lag` after it was due.
pub(crate) fn renewed(of: Labels, lag: Duration) {
    record(&table::RENEWAL_LAG, [of.kind, of.family], lag);
}

/// Records that the server removed a queue position of this process although the process lives.
pub(crate) fn position_lost(of: Labels) {
    add(&table::POSITIONS_LOST, [of.kind, of.family]);
}

/// Records that a hold was handed over without a request.
pub(crate) fn handed_over(of: Labels) {
    add(&table::LOCAL_HANDOVERS, [of.kind, of.family]);
}

/// Reports the counter of refused writes of a family as 0.
pub(crate) fn fence_family(family: &'static str) {
    begin(&table::FENCE_REFUSED, family);
}

/// Records that a write with an old token was refused.
pub(crate) fn fence_refused(family: &'static str) {
    add(&table::FENCE_REFUSED, [family]);
}

/// Records that a timer of the client ran late by `late`. Short delays are not recorded: every
/// timer has them.
pub(crate) fn stalled(late: Duration) {
    if late >= SHORTEST_STALL {
        record(&table::STALL, [], late);
    }
}

const SHORTEST_STALL: Duration = Duration::from_millis(10);
