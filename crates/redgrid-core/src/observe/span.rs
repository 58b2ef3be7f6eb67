//! The spans of operations. Without the feature `tracing` they are disabled.

use std::time::Duration;

use tracing::field::Empty;

use super::operation::OpContext;

/// The span of one operation. The span is empty if no subscriber of `tracing` records it.
pub(super) struct Span(tracing::Span);

macro_rules! span {
    ($name:literal, $context:ident $(, $more:ident)*) => {
        Span(if cfg!(feature = "tracing") {
            tracing::info_span!(
                target: "redgrid",
                $name,
                "otel.kind" = "client",
                name = %$context.name,
                kind = $context.labels.kind,
                family = $context.labels.family,
                outcome = Empty,
                "error.type" = Empty,
                token = Empty,
                $($more = Empty,)*
            )
        } else {
            tracing::Span::none()
        })
    };
}

impl Span {
    pub(super) fn acquire(context: OpContext<'_>) -> Span {
        span!("redgrid.acquire", context, waited, waited_for)
    }

    pub(super) fn release(context: OpContext<'_>) -> Span {
        span!("redgrid.release", context)
    }

    pub(super) fn extend(context: OpContext<'_>) -> Span {
        span!("redgrid.extend", context)
    }

    pub(super) fn steal(context: OpContext<'_>) -> Span {
        span!("redgrid.steal", context)
    }

    pub(super) fn force_release(context: OpContext<'_>) -> Span {
        span!("redgrid.force_release", context)
    }

    #[cfg(feature = "tracing")]
    pub(super) fn instrument<F: Future>(&self, work: F) -> impl Future<Output = F::Output> + use<F> {
        tracing::Instrument::instrument(work, self.0.clone())
    }

    #[cfg(not(feature = "tracing"))]
    pub(super) fn instrument<F: Future>(&self, work: F) -> F {
        work
    }

    pub(super) fn outcome(&self, outcome: &'static str) {
        self.0.record("outcome", outcome);
    }

    /// Records the outcome of an operation that has failed, under the name that OpenTelemetry has
    /// for it.
    pub(super) fn error(&self, outcome: &'static str) {
        self.0.record("error.type", outcome);
    }

    /// Records the wait, in seconds.
    pub(super) fn waited(&self, waited: Duration) {
        self.0.record("waited", waited.as_secs_f64());
    }

    /// Returns the span in which the current task runs.
    pub(super) fn current() -> Span {
        Span(if cfg!(feature = "tracing") { tracing::Span::current() } else { tracing::Span::none() })
    }

    /// Returns whether a subscriber records this span.
    pub(super) fn is_recorded(&self) -> bool {
        !self.0.is_disabled()
    }

    /// Records the id of the client that held the lock during the wait.
    pub(super) fn waited_for(&self, client: &str) {
        self.0.record("waited_for", client);
    }

    pub(super) fn token(&self, token: u64) {
        self.0.record("token", token);
    }
}
