//! The span of the caller that holds a lock or a permit, for the events `lost` and
//! `renewal failed`. Without the feature `tracing`, nothing is kept and nothing is emitted.

#[cfg(not(feature = "tracing"))]
pub(crate) use disabled::{CallerSpan, HoldSpan};
#[cfg(feature = "tracing")]
pub(crate) use enabled::{CallerSpan, HoldSpan};

#[cfg(feature = "tracing")]
mod enabled {
    use std::num::NonZeroU64;
    use std::sync::atomic::{AtomicU64, Ordering};

    use tracing::span::Id;
    use tracing::{Span, info};

    use crate::lock::LostReason;
    use crate::observe::OpContext;

    /// The span in which a caller received a hold, if a subscriber records that span.
    ///
    /// Only the id of the span is kept, so the span can end before the hold does. A handle of the
    /// span would keep it open as long as the hold. The subscriber does not know the id of an ended
    /// span, so an event after that has no span.
    #[derive(Debug, Clone, Copy, Default)]
    pub(crate) struct CallerSpan(Option<NonZeroU64>);

    impl CallerSpan {
        /// Returns the span in which the current task runs.
        pub(crate) fn current() -> CallerSpan {
            CallerSpan(Span::current().id().map(|id| id.into_non_zero_u64()))
        }

        pub(crate) fn is_recorded(self) -> bool {
            self.0.is_some()
        }

        /// Emits the event that a hold was lost. `token` is `None` for permits.
        pub(crate) fn lost(self, context: OpContext<'_>, token: Option<u64>, reason: LostReason) {
            let Some(id) = self.0 else { return };
            let OpContext { labels, name } = context;
            info!(
                target: "redgrid",
                parent: Id::from_non_zero_u64(id),
                name = %name,
                kind = labels.kind,
                family = labels.family,
                token,
                reason = reason.label(),
                "lost"
            );
        }

        /// Emits the event that a renewal was not confirmed. `token` is `None` for permits.
        pub(crate) fn renewal_failed(self, context: OpContext<'_>, token: Option<u64>) {
            let Some(id) = self.0 else { return };
            let OpContext { labels, name } = context;
            info!(
                target: "redgrid",
                parent: Id::from_non_zero_u64(id),
                name = %name,
                kind = labels.kind,
                family = labels.family,
                token,
                "renewal failed"
            );
        }
    }

    /// The span of the caller of a hold; 0 if there is none.
    #[derive(Default)]
    pub(crate) struct HoldSpan(AtomicU64);

    impl HoldSpan {
        /// Sets the span. The caller of a re-entry does not replace that of the first acquire.
        pub(crate) fn set(&self, span: CallerSpan) {
            let id = span.0.map_or(0, NonZeroU64::get);
            let _ = self.0.compare_exchange(0, id, Ordering::Relaxed, Ordering::Relaxed);
        }

        pub(crate) fn get(&self) -> CallerSpan {
            CallerSpan(NonZeroU64::new(self.0.load(Ordering::Relaxed)))
        }
    }
}

#[cfg(not(feature = "tracing"))]
#[allow(dead_code, reason = "without spans, no operation has a caller")]
mod disabled {
    use crate::lock::LostReason;
    use crate::observe::OpContext;

    #[derive(Debug, Clone, Copy, Default)]
    pub(crate) struct CallerSpan {}

    impl CallerSpan {
        #[inline(always)]
        pub(crate) fn current() -> CallerSpan {
            CallerSpan {}
        }

        #[inline(always)]
        pub(crate) fn is_recorded(self) -> bool {
            false
        }

        #[inline(always)]
        pub(crate) fn lost(self, _: OpContext<'_>, _token: Option<u64>, _: LostReason) {}

        #[inline(always)]
        pub(crate) fn renewal_failed(self, _: OpContext<'_>, _token: Option<u64>) {}
    }

    #[derive(Default)]
    pub(crate) struct HoldSpan {}

    impl HoldSpan {
        #[inline(always)]
        pub(crate) fn set(&self, _: CallerSpan) {}

        #[inline(always)]
        pub(crate) fn get(&self) -> CallerSpan {
            CallerSpan {}
        }
    }
}
