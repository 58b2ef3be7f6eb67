//! Counting, where it happens. Without the feature `metrics` each of these is nothing.

#![cfg_attr(not(feature = "metrics"), allow(dead_code, reason = "what is counted of operations is not compiled then"))]

use std::time::Duration;

use super::Metric;
use crate::connection::Event;
use crate::hold::LostReason;

/// A node's connection has answered its handshake, for the first time or again.
pub(crate) fn connected(again: bool) {
    gauge(&super::CONNECTIONS_UP, None, 1.0);
    if again {
        add(&super::RECONNECTS, []);
    }
}

/// The same connection is lost.
pub(crate) fn disconnected() {
    gauge(&super::CONNECTIONS_UP, None, -1.0);
}

/// An interruption of subscriptions is over.
pub(crate) fn gap() {
    add(&super::GAPS, []);
}

/// Who serves what has changed.
pub(crate) fn topology_changed(event: &Event) {
    match event {
        Event::PrimaryChanged { .. } => add(&super::PRIMARY_CHANGES, []),
        _ => add(&super::TOPOLOGY_CHANGES, []),
    }
}

/// A request is under way.
pub(crate) fn waiting(kind: &'static str) {
    gauge(&super::WAITING, Some(kind), 1.0);
}

/// It has ended after `waited`.
pub(crate) fn waited(kind: &'static str, outcome: &'static str, waited: Duration) {
    gauge(&super::WAITING, Some(kind), -1.0);
    refused(kind, outcome, waited);
    match outcome {
        super::operation::ACQUIRED => add(&super::ACQUIRED, [kind]),
        super::operation::TIMED_OUT => add(&super::TIMED_OUT, [kind]),
        _ => {}
    }
}

/// A request has ended that never was under way.
pub(crate) fn refused(kind: &'static str, outcome: &'static str, waited: Duration) {
    record(&super::ACQUIRE_WAIT, [kind, outcome], waited);
}

/// A name was taken or freed by force.
pub(crate) fn forced(kind: &'static str) {
    add(&super::FORCED, [kind]);
}

/// A hold begins.
pub(crate) fn held(kind: &'static str) {
    gauge(&super::HELD, Some(kind), 1.0);
}

/// A hold ends after so long: released, lost, or (`None`) left to its lease.
pub(crate) fn ended(kind: &'static str, held: Duration, how: Option<Result<(), LostReason>>) {
    gauge(&super::HELD, Some(kind), -1.0);
    record(&super::HOLD, [kind], held);
    match how {
        Some(Ok(())) => add(&super::RELEASED, [kind]),
        Some(Err(reason)) => add(&super::LOST, [kind, reason.label()]),
        None => {}
    }
}

/// A hold ends that nobody took.
pub(crate) fn never_held(kind: &'static str) {
    gauge(&super::HELD, Some(kind), -1.0);
}

/// A renewal was not confirmed.
pub(crate) fn renewal_failed(kind: &'static str) {
    add(&super::RENEWALS_FAILED, [kind]);
}

/// A place of ours was thrown out of a queue although its process lives.
pub(crate) fn place_lost(kind: &'static str) {
    add(&super::PLACES_LOST, [kind]);
}

/// A hold passes on without asking the server.
pub(crate) fn handed_over(kind: &'static str) {
    add(&super::LOCAL_HANDOVERS, [kind]);
}

#[cfg(not(feature = "metrics"))]
use absent::{add, gauge, record};
#[cfg(feature = "metrics")]
use present::{add, gauge, record};

#[cfg(not(feature = "metrics"))]
mod absent {
    use super::{Duration, Metric};

    #[inline(always)]
    pub(super) fn add<const N: usize>(_: &'static Metric, _: [&'static str; N]) {}

    #[inline(always)]
    pub(super) fn gauge(_: &'static Metric, _: Option<&'static str>, _: f64) {}

    #[inline(always)]
    pub(super) fn record<const N: usize>(_: &'static Metric, _: [&'static str; N], _: Duration) {}
}

#[cfg(feature = "metrics")]
mod present {
    use std::collections::HashMap;
    use std::sync::{LazyLock, PoisonError, RwLock};

    use metrics::{Key, Label, Level, Metadata, Recorder, with_recorder};

    use super::{Duration, Metric};

    static METADATA: Metadata<'static> = Metadata::new("redgrid", Level::INFO, Some("redgrid"));

    /// A metric with the values of its labels.
    type Series = (&'static str, [&'static str; 2]);

    /// The keys that were used: one allocation for each series, not for each value. They are as many as there are kinds,
    /// outcomes and reasons.
    static KEYS: LazyLock<RwLock<HashMap<Series, Key>>> = LazyLock::new(RwLock::default);

    pub(super) fn add<const N: usize>(metric: &'static Metric, labels: [&'static str; N]) {
        with_key(metric, labels, |recorder, key| recorder.register_counter(key, &METADATA).increment(1));
    }

    pub(super) fn gauge(metric: &'static Metric, kind: Option<&'static str>, by: f64) {
        let change = |recorder: &dyn Recorder, key: &Key| recorder.register_gauge(key, &METADATA).increment(by);
        match kind {
            Some(kind) => with_key(metric, [kind], change),
            None => with_key(metric, [], change),
        }
    }

    pub(super) fn record<const N: usize>(metric: &'static Metric, labels: [&'static str; N], took: Duration) {
        with_key(metric, labels, |recorder, key| recorder.register_histogram(key, &METADATA).record(took));
    }

    fn with_key<const N: usize>(
        metric: &'static Metric,
        values: [&'static str; N],
        work: impl FnOnce(&dyn Recorder, &Key),
    ) {
        let mut series: Series = (metric.name, [""; 2]);
        series.1.iter_mut().zip(values).for_each(|(place, value)| *place = value);
        let known = KEYS.read().unwrap_or_else(PoisonError::into_inner);
        if let Some(key) = known.get(&series) {
            return with_recorder(|recorder| work(recorder, key));
        }
        drop(known);
        let labels: Vec<Label> =
            metric.labels.iter().zip(values).map(|(name, value)| Label::from_static_parts(name, value)).collect();
        let key = Key::from_parts(metric.name, labels);
        with_recorder(|recorder| work(recorder, &key));
        KEYS.write().unwrap_or_else(PoisonError::into_inner).insert(series, key);
    }
}
