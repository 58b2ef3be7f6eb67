//! A stream that concatenates the streams of all shards.

use futures_util::stream::{self, BoxStream, Stream, StreamExt};
use redgrid_core::object::ObjectError;

use crate::layout::ShardLayout;
use crate::sharded::{Shard, Sharded};

/// Returns a stream of the items of all shards, in the order of the shards. Its first poll reads
/// the shard layout.
pub(crate) fn concat_streams<P, T, S>(
    sharded: Sharded<P>,
    open: impl Fn(ShardLayout, u32, &P) -> S + Send + 'static,
) -> BoxStream<'static, Result<T, ObjectError>>
where
    P: Shard + Send + Sync + 'static,
    P::Options: Send + Sync,
    S: Stream<Item = Result<T, ObjectError>> + Send + 'static,
    T: Send + 'static,
{
    let load = async move { sharded.shards_to_read().await };
    let all = stream::once(load).flat_map(move |shards| match shards {
        Ok(shards) => {
            let streams: Vec<S> =
                (0..).zip(&shards.all).map(|(number, shard)| open(shards.layout, number, shard)).collect();
            stream::iter(streams).flatten().left_stream()
        }
        Err(error) => stream::iter([Err(error)]).right_stream(),
    });
    all.boxed()
}
