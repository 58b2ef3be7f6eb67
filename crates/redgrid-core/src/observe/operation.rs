//! The span of one user operation, and its metrics. If the features `metrics` and `tracing` are
//! both off, the future of an operation runs unchanged.

use super::caller::CallerSpan;
use super::count::Labels;
use crate::clock::{Clock, Instant};
use crate::failure::Failure;
use crate::lock::{AcquireError, ExtendError, HoldGuard, ReleaseError, Takeover};
use crate::name::Name;
use crate::permits::{self, Permit};

#[cfg(not(any(feature = "metrics", feature = "tracing")))]
pub(crate) use disabled::OpSpan;
#[cfg(any(feature = "metrics", feature = "tracing"))]
pub(crate) use enabled::OpSpan;

#[derive(Debug, Clone, Copy)]
#[cfg_attr(not(any(feature = "metrics", feature = "tracing")), allow(dead_code, reason = "for metrics and spans"))]
pub(crate) struct OpContext<'a> {
    pub(crate) labels: Labels,
    pub(crate) name: &'a Name,
}

pub(super) const ACQUIRED: &str = "acquired";
pub(super) const TIMED_OUT: &str = "timed_out";
pub(super) const UNKNOWN: &str = "unknown";

/// The result of an operation, for labels and spans.
pub(crate) trait Outcome {
    /// Returns the outcome as one word.
    fn outcome(&self) -> &'static str;

    /// Returns the fencing token of the grant, if there is one.
    #[cfg_attr(not(any(feature = "metrics", feature = "tracing")), allow(dead_code, reason = "for spans"))]
    fn token(&self) -> Option<u64> {
        None
    }

    /// Records in the grant, if there is one, the span of its caller.
    #[cfg_attr(not(any(feature = "metrics", feature = "tracing")), allow(dead_code, reason = "for spans"))]
    fn set_caller(&self, _: CallerSpan, _: Labels) {}
}

impl Outcome for Result<Option<HoldGuard>, AcquireError> {
    fn outcome(&self) -> &'static str {
        match self {
            Ok(Some(_)) => ACQUIRED,
            Ok(None) => "busy",
            Err(error) => error.outcome(),
        }
    }

    fn token(&self) -> Option<u64> {
        self.as_ref().ok()?.as_ref().map(|grant| grant.token().get())
    }

    fn set_caller(&self, caller: CallerSpan, _: Labels) {
        if let Ok(Some(grant)) = self {
            grant.set_caller(caller);
        }
    }
}

impl Outcome for Result<Takeover, AcquireError> {
    fn outcome(&self) -> &'static str {
        match self {
            Ok(Takeover::Done(_)) => ACQUIRED,
            Ok(Takeover::Free | Takeover::HeldByAnother) => "busy",
            Err(error) => error.outcome(),
        }
    }

    fn token(&self) -> Option<u64> {
        match self {
            Ok(Takeover::Done(grant)) => Some(grant.token().get()),
            _ => None,
        }
    }

    fn set_caller(&self, caller: CallerSpan, _: Labels) {
        if let Ok(Takeover::Done(grant)) = self {
            grant.set_caller(caller);
        }
    }
}

impl Outcome for Failure {
    fn outcome(&self) -> &'static str {
        match self {
            Failure::Unavailable { .. } => "unavailable",
            Failure::Unauthorized { .. } => "unauthorized",
            Failure::Refused { .. } => "refused",
            Failure::OutcomeUnknown { .. } => UNKNOWN,
            Failure::ShuttingDown { .. } => "shutting_down",
            Failure::InvalidName(_) | Failure::InvalidArgument { .. } => "invalid",
        }
    }
}

impl Outcome for AcquireError {
    fn outcome(&self) -> &'static str {
        match self {
            AcquireError::TimedOut { .. } => TIMED_OUT,
            AcquireError::NotDurable { .. } => "not_durable",
            AcquireError::Lost { .. } => "lost",
            AcquireError::AlreadyHeld { .. } => "already_held",
            AcquireError::WouldDeadlock { .. } => "would_deadlock",
            AcquireError::Failed(failure) => failure.outcome(),
        }
    }
}

impl Outcome for Result<Option<Permit>, permits::AcquireError> {
    fn outcome(&self) -> &'static str {
        use permits::AcquireError;
        match self {
            Ok(Some(_)) => ACQUIRED,
            Ok(None) => "busy",
            Err(AcquireError::TimedOut { .. }) => TIMED_OUT,
            Err(AcquireError::NotInitialised { .. }) => "not_initialised",
            Err(AcquireError::PermitsDiffer { .. }) => "permits_differ",
            Err(AcquireError::Closed { .. }) => "closed",
            Err(AcquireError::NotDurable { .. }) => "not_durable",
            Err(AcquireError::Failed(failure)) => failure.outcome(),
        }
    }

    fn set_caller(&self, caller: CallerSpan, labels: Labels) {
        if let Ok(Some(permit)) = self {
            permit.set_caller(caller, labels);
        }
    }
}

impl Outcome for Result<(), ReleaseError> {
    fn outcome(&self) -> &'static str {
        match self {
            Ok(()) => "released",
            Err(ReleaseError::Lost { .. }) => "lost",
            Err(ReleaseError::OutcomeUnknown { .. }) => "unknown",
            Err(ReleaseError::Refused { .. }) => "refused",
        }
    }
}

impl Outcome for Result<(), ExtendError> {
    fn outcome(&self) -> &'static str {
        match self {
            Ok(()) => "extended",
            Err(ExtendError::Lost { .. }) => "lost",
            Err(ExtendError::NotExtended { .. }) => "not_extended",
            Err(ExtendError::OutcomeUnknown { .. }) => "unknown",
            Err(ExtendError::NotDurable { .. }) => "not_durable",
            Err(ExtendError::InvalidArgument { .. }) => "invalid",
        }
    }
}

#[cfg(not(any(feature = "metrics", feature = "tracing")))]
mod disabled {
    use super::{Clock, Instant, OpContext};

    pub(crate) struct OpSpan;

    impl OpSpan {
        #[inline(always)]
        pub(crate) fn acquire(_: OpContext<'_>, _: &Clock, _entered: Instant) -> OpSpan {
            OpSpan
        }

        #[inline(always)]
        pub(crate) fn is_recorded(&self) -> bool {
            false
        }

        #[inline(always)]
        pub(crate) fn record_holder(_client: &str) {}

        #[inline(always)]
        pub(crate) fn release(_: OpContext<'_>, _token: u64) -> OpSpan {
            OpSpan
        }

        #[inline(always)]
        pub(crate) fn extend(_: OpContext<'_>, _token: u64) -> OpSpan {
            OpSpan
        }

        #[inline(always)]
        pub(crate) fn force(_: OpContext<'_>, _releases: bool) -> OpSpan {
            OpSpan
        }

        #[inline(always)]
        pub(crate) fn instrument<F>(self, work: F) -> F {
            work
        }
    }
}

#[cfg(any(feature = "metrics", feature = "tracing"))]
mod enabled {
    use super::super::count;
    use super::super::span::Span;
    use super::{ACQUIRED, CallerSpan, Clock, Instant, Labels, OpContext, Outcome};

    /// An operation in progress. Its outcome is recorded on drop, so a cancelled operation is
    /// recorded, too.
    pub(crate) struct OpSpan {
        kind: OpKind,
        span: Span,
        outcome: &'static str,
    }

    enum OpKind {
        Acquire { labels: Labels, clock: Clock, entered: Instant },
        Force { labels: Labels },
        Change,
    }

    impl OpSpan {
        pub(crate) fn acquire(context: OpContext<'_>, clock: &Clock, entered: Instant) -> OpSpan {
            count::waiting(context.labels);
            let kind = OpKind::Acquire { labels: context.labels, clock: clock.clone(), entered };
            OpSpan::begin(kind, Span::acquire(context))
        }

        /// Returns whether a subscriber records the span.
        pub(crate) fn is_recorded(&self) -> bool {
            self.span.is_recorded()
        }

        /// Records in the span of the current acquire which client it waits for.
        pub(crate) fn record_holder(client: &str) {
            Span::current().waited_for(client);
        }

        pub(crate) fn release(context: OpContext<'_>, token: u64) -> OpSpan {
            let span = Span::release(context);
            span.token(token);
            OpSpan::begin(OpKind::Change, span)
        }

        pub(crate) fn extend(context: OpContext<'_>, token: u64) -> OpSpan {
            let span = Span::extend(context);
            span.token(token);
            OpSpan::begin(OpKind::Change, span)
        }

        pub(crate) fn force(context: OpContext<'_>, releases: bool) -> OpSpan {
            let span = if releases { Span::force_release(context) } else { Span::steal(context) };
            OpSpan::begin(OpKind::Force { labels: context.labels }, span)
        }

        fn begin(kind: OpKind, span: Span) -> OpSpan {
            OpSpan { kind, span, outcome: "cancelled" }
        }

        pub(crate) async fn instrument<T, E, F>(mut self, work: F) -> Result<T, E>
        where
            F: Future<Output = Result<T, E>>,
            Result<T, E>: Outcome,
        {
            let done = self.span.instrument(work).await;
            self.outcome = done.outcome();
            if done.is_err() {
                self.span.error(self.outcome);
            }
            if let Some(token) = done.token() {
                self.span.token(token);
            }
            if let OpKind::Acquire { labels, .. } | OpKind::Force { labels } = self.kind
                && self.is_recorded()
            {
                done.set_caller(CallerSpan::current(), labels);
            }
            done
        }
    }

    impl Drop for OpSpan {
        fn drop(&mut self) {
            self.span.outcome(self.outcome);
            match &self.kind {
                OpKind::Acquire { labels, clock, entered } => {
                    let waited = clock.now().since(*entered);
                    self.span.waited(waited);
                    count::waited(*labels, self.outcome, waited);
                }
                OpKind::Force { labels } if self.outcome == ACQUIRED => count::forced(*labels),
                OpKind::Force { .. } | OpKind::Change => {}
            }
        }
    }
}
