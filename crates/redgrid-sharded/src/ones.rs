//! A stream of the set bits of all shards.

use std::pin::Pin;
use std::task::{Context, Poll};

use futures_util::Stream;
use futures_util::stream::{BoxStream, StreamExt, TryStreamExt};
use redgrid_bits::BitSet;
use redgrid_core::object::ObjectError;

use crate::concat_streams::concat_streams;
use crate::sharded::Sharded;

/// A stream of the indices of the set bits, from low to high; returned by
/// [`ShardedBitSet::ones`](crate::ShardedBitSet::ones). A page of one shard is read when all
/// indices of the previous page were returned.
///
/// A bit that is set during the whole stream is returned exactly once. Bits that are set or cleared
/// meanwhile may be returned or not. If a shard fails, the stream returns its error and continues
/// with the next shard.
#[must_use = "streams do nothing unless polled"]
pub struct ShardedOnes(BoxStream<'static, Result<u64, ObjectError>>);

impl ShardedOnes {
    pub(crate) fn new(sharded: Sharded<BitSet>, from: u64) -> ShardedOnes {
        ShardedOnes(concat_streams(sharded, move |layout, number, shard| {
            let first = layout.first_index(number);
            // If the shard ends before `from`, the start is after its last bit, so no request is
            // sent.
            let from = match from.saturating_sub(first) {
                after if after >= layout.bits_per_shard() => u64::MAX,
                from => from,
            };
            shard.ones_from(from).map(move |bit| Ok(first + bit?))
        }))
    }

    /// Returns the next index; `None` at the end.
    ///
    /// # Errors
    ///
    /// [`ObjectError`] states what failed and whether anything may have changed.
    ///
    /// # Cancel safety
    ///
    /// Dropping the future loses nothing.
    pub async fn try_next(&mut self) -> Result<Option<u64>, ObjectError> {
        self.next().await.transpose()
    }

    /// Collects all indices.
    ///
    /// # Errors
    ///
    /// The first error.
    ///
    /// # Cancel safety
    ///
    /// Dropping the future changes nothing on the server.
    pub async fn try_collect<B: Default + Extend<u64>>(self) -> Result<B, ObjectError> {
        TryStreamExt::try_collect(self).await
    }
}

impl Stream for ShardedOnes {
    type Item = Result<u64, ObjectError>;

    fn poll_next(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        self.get_mut().0.poll_next_unpin(cx)
    }
}

redgrid_core::debug_fields!(ShardedOnes, |_it| );
