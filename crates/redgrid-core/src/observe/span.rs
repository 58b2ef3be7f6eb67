//! The spans of operations. Without the feature `tracing` there are none.

#[cfg(not(feature = "tracing"))]
pub(super) use disabled::Span;
#[cfg(feature = "tracing")]
pub(super) use enabled::Span;

#[cfg(feature = "tracing")]
mod enabled {
    use std::time::Duration;

    use tracing::Instrument;
    use tracing::field::Empty;

    use super::super::operation::OpContext;

    /// The span of one operation. Empty if no subscriber wants it.
    pub(in super::super) struct Span(tracing::Span);

    macro_rules! span {
        ($name:literal, $context:ident $(, $more:ident)*) => {
            Span(tracing::info_span!(
                target: "redgrid",
                $name,
                name = %$context.name,
                kind = $context.kind,
                outcome = Empty,
                token = Empty,
                $($more = Empty,)*
            ))
        };
    }

    impl Span {
        pub(in super::super) fn acquire(context: OpContext<'_>) -> Span {
            span!("redgrid.acquire", context, waited)
        }

        pub(in super::super) fn release(context: OpContext<'_>) -> Span {
            span!("redgrid.release", context)
        }

        pub(in super::super) fn extend(context: OpContext<'_>) -> Span {
            span!("redgrid.extend", context)
        }

        pub(in super::super) fn steal(context: OpContext<'_>) -> Span {
            span!("redgrid.steal", context)
        }

        pub(in super::super) fn force_release(context: OpContext<'_>) -> Span {
            span!("redgrid.force_release", context)
        }

        pub(in super::super) fn instrument<F: Future>(&self, work: F) -> impl Future<Output = F::Output> + use<F> {
            work.instrument(self.0.clone())
        }

        pub(in super::super) fn outcome(&self, outcome: &'static str) {
            self.0.record("outcome", outcome);
        }

        /// Records the wait, in seconds.
        pub(in super::super) fn waited(&self, waited: Duration) {
            self.0.record("waited", waited.as_secs_f64());
        }

        pub(in super::super) fn token(&self, token: u64) {
            self.0.record("token", token);
        }
    }
}

#[cfg(not(feature = "tracing"))]
mod disabled {
    use std::time::Duration;

    use super::super::operation::OpContext;

    pub(in super::super) struct Span;

    impl Span {
        pub(in super::super) fn acquire(_: OpContext<'_>) -> Span {
            Span
        }

        pub(in super::super) fn release(_: OpContext<'_>) -> Span {
            Span
        }

        pub(in super::super) fn extend(_: OpContext<'_>) -> Span {
            Span
        }

        pub(in super::super) fn steal(_: OpContext<'_>) -> Span {
            Span
        }

        pub(in super::super) fn force_release(_: OpContext<'_>) -> Span {
            Span
        }

        pub(in super::super) fn instrument<F: Future>(&self, work: F) -> F {
            work
        }

        pub(in super::super) fn outcome(&self, _: &'static str) {}

        pub(in super::super) fn waited(&self, _: Duration) {}

        pub(in super::super) fn token(&self, _: u64) {}
    }
}
