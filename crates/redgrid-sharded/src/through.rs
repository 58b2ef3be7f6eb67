//! One stream of those of all parts, one after another.

use futures_util::stream::{self, BoxStream, Stream, StreamExt};
use redgrid_core::object::ObjectError;

use crate::layout::Layout;
use crate::spread::{Part, Spread};

/// What all parts stream, in their order. Which they are is asked for by the first poll.
pub(crate) fn through<P, T, S>(
    spread: Spread<P>,
    of: impl Fn(Layout, u32, &P) -> S + Send + 'static,
) -> BoxStream<'static, Result<T, ObjectError>>
where
    P: Part + Send + Sync + 'static,
    P::With: Send + Sync,
    S: Stream<Item = Result<T, ObjectError>> + Send + 'static,
    T: Send + 'static,
{
    let begun = async move { spread.to_read().await };
    let all = stream::once(begun).flat_map(move |parts| match parts {
        Ok(parts) => {
            let all: Vec<S> = (0..).zip(&parts.all).map(|(number, part)| of(parts.layout, number, part)).collect();
            stream::iter(all).flatten().left_stream()
        }
        Err(error) => stream::iter([Err(error)]).right_stream(),
    });
    all.boxed()
}
