//! One operation of a user: its span, and what is counted of it. With neither feature its future passes through as it is.

use crate::clock::{Clock, Instant};
use crate::failure::Failure;
use crate::lock::{AcquireError, ExtendError, HoldGuard, ReleaseError};
use crate::name::Name;
use crate::permits::{self, Permit};

#[cfg(not(any(feature = "metrics", feature = "tracing")))]
pub(crate) use absent::Observed;
#[cfg(any(feature = "metrics", feature = "tracing"))]
pub(crate) use present::Observed;

/// What an operation is about.
#[derive(Debug, Clone, Copy)]
#[cfg_attr(
    not(all(feature = "metrics", feature = "tracing")),
    allow(dead_code, reason = "only metrics want the kind alone, only spans the name")
)]
pub(crate) struct About<'a> {
    pub(crate) kind: &'static str,
    pub(crate) name: &'a Name,
}

pub(super) const ACQUIRED: &str = "acquired";
pub(super) const TIMED_OUT: &str = "timed_out";
pub(super) const UNKNOWN: &str = "unknown";

/// How an operation ended, for labels and spans.
pub(crate) trait Done {
    /// In a word.
    fn outcome(&self) -> &'static str;

    /// What was granted.
    #[cfg_attr(not(any(feature = "metrics", feature = "tracing")), allow(dead_code, reason = "for spans"))]
    fn token(&self) -> Option<u64> {
        None
    }
}

impl Done for Result<Option<HoldGuard>, AcquireError> {
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
}

impl Done for Failure {
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

impl Done for AcquireError {
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

impl Done for Result<Option<Permit>, permits::AcquireError> {
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
}

impl Done for Result<(), ReleaseError> {
    fn outcome(&self) -> &'static str {
        match self {
            Ok(()) => "released",
            Err(ReleaseError::Lost { .. }) => "lost",
            Err(ReleaseError::OutcomeUnknown { .. }) => "unknown",
            Err(ReleaseError::Refused { .. }) => "refused",
        }
    }
}

impl Done for Result<(), ExtendError> {
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
mod absent {
    use super::{About, Clock, Instant};

    pub(crate) struct Observed;

    impl Observed {
        #[inline(always)]
        pub(crate) fn acquire(_: About<'_>, _: &Clock, _entered: Instant) -> Observed {
            Observed
        }

        #[inline(always)]
        pub(crate) fn release(_: About<'_>, _token: u64) -> Observed {
            Observed
        }

        #[inline(always)]
        pub(crate) fn extend(_: About<'_>, _token: u64) -> Observed {
            Observed
        }

        #[inline(always)]
        pub(crate) fn force(_: About<'_>, _releases: bool) -> Observed {
            Observed
        }

        #[inline(always)]
        pub(crate) fn around<F>(self, work: F) -> F {
            work
        }
    }
}

#[cfg(any(feature = "metrics", feature = "tracing"))]
mod present {
    use super::super::count;
    use super::super::span::Span;
    use super::{ACQUIRED, About, Clock, Done, Instant};

    /// An operation that is under way. What became of it is told when this is dropped, so also when its caller leaves.
    pub(crate) struct Observed {
        what: What,
        span: Span,
        outcome: &'static str,
    }

    enum What {
        Acquire { kind: &'static str, clock: Clock, entered: Instant },
        Force { kind: &'static str },
        Change,
    }

    impl Observed {
        pub(crate) fn acquire(about: About<'_>, clock: &Clock, entered: Instant) -> Observed {
            count::waiting(about.kind);
            let what = What::Acquire { kind: about.kind, clock: clock.clone(), entered };
            Observed::begin(what, Span::acquire(about))
        }

        pub(crate) fn release(about: About<'_>, token: u64) -> Observed {
            let span = Span::release(about);
            span.token(token);
            Observed::begin(What::Change, span)
        }

        pub(crate) fn extend(about: About<'_>, token: u64) -> Observed {
            let span = Span::extend(about);
            span.token(token);
            Observed::begin(What::Change, span)
        }

        pub(crate) fn force(about: About<'_>, releases: bool) -> Observed {
            let span = if releases { Span::force_release(about) } else { Span::steal(about) };
            Observed::begin(What::Force { kind: about.kind }, span)
        }

        fn begin(what: What, span: Span) -> Observed {
            Observed { what, span, outcome: "cancelled" }
        }

        pub(crate) async fn around<F: Future<Output: Done>>(mut self, work: F) -> F::Output {
            let done = self.span.around(work).await;
            self.outcome = done.outcome();
            if let Some(token) = done.token() {
                self.span.token(token);
            }
            done
        }
    }

    impl Drop for Observed {
        fn drop(&mut self) {
            self.span.outcome(self.outcome);
            match &self.what {
                What::Acquire { kind, clock, entered } => {
                    let waited = clock.now().since(*entered);
                    self.span.waited(waited);
                    count::waited(kind, self.outcome, waited);
                }
                What::Force { kind } if self.outcome == ACQUIRED => count::forced(kind),
                What::Force { .. } | What::Change => {}
            }
        }
    }
}
