//! The bits that are set, as a stream over all parts.

use std::fmt;
use std::pin::Pin;
use std::task::{Context, Poll};

use futures_util::Stream;
use futures_util::stream::{BoxStream, StreamExt, TryStreamExt};
use redgrid_bits::BitSet;
use redgrid_core::object::ObjectError;

use crate::spread::Spread;
use crate::through::through;

/// The indices of the bits that are set, from low to high; made by [`ShardedBitSet::ones`](crate::ShardedBitSet::ones). A page of one part is asked for
/// when the one before has been taken.
///
/// What is set from beginning to end comes exactly once; what is set or cleared meanwhile may come or not. Where a part can not be asked that is an
/// error about it, and the stream goes on with the next part.
#[must_use = "a stream asks nobody until it is polled"]
pub struct ShardedOnes(BoxStream<'static, Result<u64, ObjectError>>);

impl ShardedOnes {
    pub(crate) fn of(spread: Spread<BitSet>, from: u64) -> ShardedOnes {
        ShardedOnes(through(spread, move |layout, number, part| {
            let first = layout.first_of(number);
            // Behind its last bit where the part is before `from`: then it asks nobody.
            let from = match from.saturating_sub(first) {
                behind if behind >= layout.bits_each() => u64::MAX,
                from => from,
            };
            part.ones_from(from).map(move |bit| Ok(first + bit?))
        }))
    }

    /// The next one; `None` at the end.
    ///
    /// # Errors
    ///
    /// [`ObjectError`] says what is true then.
    ///
    /// # Cancel safety
    ///
    /// Nothing is lost.
    pub async fn try_next(&mut self) -> Result<Option<u64>, ObjectError> {
        self.next().await.transpose()
    }

    /// All of them.
    ///
    /// # Errors
    ///
    /// The first one.
    ///
    /// # Cancel safety
    ///
    /// Dropping it changes nothing on the server.
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

impl fmt::Debug for ShardedOnes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ShardedOnes").finish_non_exhaustive()
    }
}
