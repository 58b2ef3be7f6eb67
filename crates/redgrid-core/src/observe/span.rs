//! The spans of operations. Without the feature `tracing` there are none.

#[cfg(not(feature = "tracing"))]
pub(super) use absent::Span;
#[cfg(feature = "tracing")]
pub(super) use present::Span;

#[cfg(feature = "tracing")]
mod present {
    use std::time::Duration;

    use tracing::Instrument;
    use tracing::field::Empty;

    use super::super::operation::About;

    /// One operation. Where no subscriber wants it, nothing is made of it.
    pub(in super::super) struct Span(tracing::Span);

    macro_rules! span {
        ($name:literal, $about:ident $(, $more:ident)*) => {
            Span(tracing::info_span!(
                target: "redgrid",
                $name,
                name = %$about.name,
                kind = $about.kind,
                outcome = Empty,
                token = Empty,
                $($more = Empty,)*
            ))
        };
    }

    impl Span {
        pub(in super::super) fn acquire(about: About<'_>) -> Span {
            span!("redgrid.acquire", about, waited)
        }

        pub(in super::super) fn release(about: About<'_>) -> Span {
            span!("redgrid.release", about)
        }

        pub(in super::super) fn extend(about: About<'_>) -> Span {
            span!("redgrid.extend", about)
        }

        pub(in super::super) fn steal(about: About<'_>) -> Span {
            span!("redgrid.steal", about)
        }

        pub(in super::super) fn force_release(about: About<'_>) -> Span {
            span!("redgrid.force_release", about)
        }

        pub(in super::super) fn around<F: Future>(&self, work: F) -> impl Future<Output = F::Output> + use<F> {
            work.instrument(self.0.clone())
        }

        pub(in super::super) fn outcome(&self, outcome: &'static str) {
            self.0.record("outcome", outcome);
        }

        /// In seconds.
        pub(in super::super) fn waited(&self, waited: Duration) {
            self.0.record("waited", waited.as_secs_f64());
        }

        pub(in super::super) fn token(&self, token: u64) {
            self.0.record("token", token);
        }
    }
}

#[cfg(not(feature = "tracing"))]
mod absent {
    use std::time::Duration;

    use super::super::operation::About;

    pub(in super::super) struct Span;

    impl Span {
        pub(in super::super) fn acquire(_: About<'_>) -> Span {
            Span
        }

        pub(in super::super) fn release(_: About<'_>) -> Span {
            Span
        }

        pub(in super::super) fn extend(_: About<'_>) -> Span {
            Span
        }

        pub(in super::super) fn steal(_: About<'_>) -> Span {
            Span
        }

        pub(in super::super) fn force_release(_: About<'_>) -> Span {
            Span
        }

        pub(in super::super) fn around<F: Future>(&self, work: F) -> F {
            work
        }

        pub(in super::super) fn outcome(&self, _: &'static str) {}

        pub(in super::super) fn waited(&self, _: Duration) {}

        pub(in super::super) fn token(&self, _: u64) {}
    }
}
