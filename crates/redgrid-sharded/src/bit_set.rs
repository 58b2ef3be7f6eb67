//! The sharded bit set.

use std::fmt;
use std::ops::{Bound, Range, RangeBounds};

use redgrid_bits::BitSet;
use redgrid_core::Client;
use redgrid_core::object::ObjectError;

use crate::layout::{Kind, Layout};
use crate::object::ShardedObject;
use crate::ones::ShardedOnes;
use crate::spread::{ByPart, Part, Parts, Spread, by_part, in_order};

/// Bits by their indices, in ranges of which each is a key of its own: so there may be more than a string of the server has.
///
/// Cheap to clone; clones are the same set: make one and clone it. All bits are clear where nothing is stored. Part `n` of `N` has the indices
/// from `n × size / N` on, rounded up to whole bytes; each part takes an eighth of the highest of its own that was ever written, in bytes.
#[doc(alias = "RClusteredBitSet")]
#[derive(Clone)]
pub struct ShardedBitSet {
    spread: Spread<BitSet>,
}

impl Part for BitSet {
    type With = ();

    fn kind((): &()) -> Kind {
        Kind::Bits
    }

    fn new(client: &Client, name: String, (): &()) -> Self {
        BitSet::new(client, name)
    }
}

impl Layout {
    /// The part that has a bit, and which of its own it is.
    fn bit(&self, index: u64) -> (u32, u64) {
        ((index / self.bits_each()) as u32, index % self.bits_each())
    }

    /// The first index of a part.
    pub(crate) fn first_of(&self, part: u32) -> u64 {
        u64::from(part) * self.bits_each()
    }

    /// How many indices a part has: the last ones have fewer, or none.
    fn bits_of(&self, part: u32) -> u64 {
        self.size.saturating_sub(self.first_of(part)).min(self.bits_each())
    }

    /// A range by parts, each with the range of its own.
    fn ranges(&self, range: Range<u64>) -> Vec<(u32, Range<u64>)> {
        let mut all = Vec::new();
        let mut from = range.start;
        while from < range.end {
            let (part, start) = self.bit(from);
            let to = range.end.min(self.first_of(part) + self.bits_each());
            all.push((part, start..start + (to - from)));
            from = to;
        }
        all
    }
}

impl ShardedBitSet {
    /// The bit set with this name, divided as it is, or into 16 parts of 2³² bits where it is not yet. Making one asks nobody: an invalid name, which
    /// one with a hash tag is here, is told by the first call.
    pub fn new(client: &Client, name: impl AsRef<str>) -> Self {
        ShardedBitSet { spread: Spread::new(client, name, ()) }
    }

    /// Divided into so many parts, a power of two of up to 1,024. Where it is divided into another number already, calls end
    /// [`ObjectError::InvalidArgument`]: what is stored is not divided anew.
    pub fn with_shards(mut self, shards: u32) -> Self {
        self.spread.wish.shards = Some(shards);
        self
    }

    /// Of so many bits in all, up to 2³² for each part. The indices are divided evenly: without it, as many as there can be, and what has few
    /// indices, and low ones, is all in the first part.
    ///
    /// Where it has another size already, calls end [`ObjectError::InvalidArgument`].
    pub fn with_size(mut self, bits: u64) -> Self {
        self.spread.wish.size = Some(bits);
        self
    }

    /// What is asked of all parts alike: whether they are there, their lifetime, their deletion.
    pub fn object(&self) -> ShardedObject {
        ShardedObject::of(&self.spread)
    }

    /// How many bits it may have: indices are below it.
    ///
    /// # Errors
    ///
    /// [`ObjectError`] says what is true then.
    ///
    /// # Cancel safety
    ///
    /// Dropping it changes nothing.
    pub async fn capacity(&self) -> Result<u64, ObjectError> {
        Ok(self.spread.to_read().await?.layout.size)
    }

    /// Whether a bit is set.
    ///
    /// # Errors
    ///
    /// [`ObjectError`] says what is true then.
    ///
    /// # Cancel safety
    ///
    /// Dropping it changes nothing.
    pub async fn get(&self, index: u64) -> Result<bool, ObjectError> {
        let parts = self.spread.to_read().await?;
        let (part, bit) = self.bit(&parts, index)?;
        parts.all[part as usize].get(bit).await
    }

    /// Whether each of these bits is set, in their order: the parts that have them are asked at the same time.
    ///
    /// # Errors
    ///
    /// [`ObjectError::Shards`] names the parts that could not be asked.
    ///
    /// # Cancel safety
    ///
    /// Dropping it changes nothing.
    #[doc(alias = "get")]
    pub async fn get_many(&self, indices: impl IntoIterator<Item = u64>) -> Result<Vec<bool>, ObjectError> {
        let parts = self.spread.to_read().await?;
        let bits = self.bits(&parts, indices)?;
        let ask = |part: BitSet, bits: Vec<(usize, u64)>| async move {
            let found = part.get_many(bits.iter().map(|(_, bit)| *bit)).await?;
            Ok(bits.into_iter().map(|(at, _)| at).zip(found).collect())
        };
        Ok(in_order(self.spread.each(&parts, bits, ask).await?))
    }

    /// Sets or clears a bit; tells whether it was set.
    ///
    /// # Errors
    ///
    /// [`ObjectError`] says what is true then.
    ///
    /// # Cancel safety
    ///
    /// What has left is carried out although nobody waits for it.
    #[doc(alias = "clear")]
    pub async fn set(&self, index: u64, bit: bool) -> Result<bool, ObjectError> {
        let parts = self.spread.to_change().await?;
        let (part, at) = self.bit(&parts, index)?;
        parts.all[part as usize].set(at, bit).await
    }

    /// Sets or clears these bits: the parts that have them are asked at the same time. Tells how many are other than they were.
    ///
    /// # Errors
    ///
    /// [`ObjectError::Shards`] names the parts of which some may not be written.
    ///
    /// # Cancel safety
    ///
    /// As [`ShardedBitSet::set`].
    #[doc(alias = "set")]
    pub async fn set_many(&self, indices: impl IntoIterator<Item = u64>, bit: bool) -> Result<u64, ObjectError> {
        let parts = self.spread.to_change().await?;
        let bits = self.bits(&parts, indices)?;
        let ask = |part: BitSet, bits: Vec<(usize, u64)>| async move {
            part.set_many(bits.into_iter().map(|(_, bit)| bit), bit).await
        };
        self.spread.sum(&parts, bits, ask).await
    }

    /// Sets or clears all bits of a range: the parts that have some are asked at the same time, each for 8,388,608 of its bits at a time.
    ///
    /// # Errors
    ///
    /// [`ObjectError::Shards`] names the parts that may not be written, or not all of what they have of the range.
    ///
    /// # Cancel safety
    ///
    /// As [`ShardedBitSet::set`].
    #[doc(alias = "set")]
    #[doc(alias = "clear")]
    pub async fn set_range(&self, range: impl RangeBounds<u64>, bit: bool) -> Result<(), ObjectError> {
        let parts = self.spread.to_change().await?;
        let ranges = parts.layout.ranges(self.range(&parts, &range)?);
        let ask = |part: BitSet, range: Range<u64>| async move { part.set_range(range, bit).await };
        self.spread.each(&parts, ranges, ask).await.map(drop)
    }

    /// Clears all bits, each part's in one step; tells whether anything was stored. It stays divided as it is.
    ///
    /// # Errors
    ///
    /// [`ObjectError::Shards`] names the parts that may be as they were.
    ///
    /// # Cancel safety
    ///
    /// As [`ShardedBitSet::set`].
    pub async fn clear(&self) -> Result<bool, ObjectError> {
        let (parts, _) = self.spread.to_end().await?;
        let told = self.spread.each(&parts, parts.every(), |part, ()| async move { part.clear().await }).await?;
        Ok(told.into_iter().any(|(_, was_there)| was_there))
    }

    /// How many bits are set: the sum of what each part says, not all at one moment.
    ///
    /// # Errors
    ///
    /// [`ObjectError::Shards`] names the parts that could not be asked.
    ///
    /// # Cancel safety
    ///
    /// Dropping it changes nothing.
    #[doc(alias = "cardinality")]
    pub async fn count(&self) -> Result<u64, ObjectError> {
        let parts = self.spread.to_read().await?;
        self.spread.sum(&parts, parts.every(), |part, ()| async move { part.count().await }).await
    }

    /// How many bits of a range are set: the parts that have some of it are asked.
    ///
    /// # Errors
    ///
    /// As [`ShardedBitSet::count`].
    ///
    /// # Cancel safety
    ///
    /// Dropping it changes nothing.
    pub async fn count_in(&self, range: impl RangeBounds<u64>) -> Result<u64, ObjectError> {
        let parts = self.spread.to_read().await?;
        let ranges = parts.layout.ranges(self.range(&parts, &range)?);
        let ask = |part: BitSet, range: Range<u64>| async move { part.count_in(range).await };
        self.spread.sum(&parts, ranges, ask).await
    }

    /// The highest bit that is set, and one; 0 where none is.
    ///
    /// # Errors
    ///
    /// As [`ShardedBitSet::count`].
    ///
    /// # Cancel safety
    ///
    /// Dropping it changes nothing.
    #[doc(alias = "length")]
    pub async fn len(&self) -> Result<u64, ObjectError> {
        let parts = self.spread.to_read().await?;
        let told = self.spread.each(&parts, parts.every(), |part, ()| async move { part.len().await }).await?;
        let last = told.into_iter().rev().find(|(_, len)| *len > 0);
        Ok(last.map_or(0, |(part, len)| parts.layout.first_of(part) + len))
    }

    /// Whether no bit is set.
    ///
    /// # Errors
    ///
    /// [`ObjectError::Shards`] where those that answered have none, and some did not.
    ///
    /// # Cancel safety
    ///
    /// Dropping it changes nothing.
    pub async fn is_empty(&self) -> Result<bool, ObjectError> {
        let parts = self.spread.to_read().await?;
        Ok(!self.spread.any(&parts, |part, ()| async move { Ok(!part.is_empty().await?) }).await?)
    }

    /// How many bits there is room for as it is stored: 8 for each byte of each part.
    ///
    /// # Errors
    ///
    /// As [`ShardedBitSet::count`].
    ///
    /// # Cancel safety
    ///
    /// Dropping it changes nothing.
    pub async fn size(&self) -> Result<u64, ObjectError> {
        let parts = self.spread.to_read().await?;
        self.spread.sum(&parts, parts.every(), |part, ()| async move { part.size().await }).await
    }

    /// The first bit that is set, from `from` on: its part is asked, and then those behind it, all at the same time.
    ///
    /// # Errors
    ///
    /// As [`ShardedBitSet::count`].
    ///
    /// # Cancel safety
    ///
    /// Dropping it changes nothing.
    #[doc(alias = "nextSetBit")]
    pub async fn next_set(&self, from: u64) -> Result<Option<u64>, ObjectError> {
        self.next(from, |part, from| async move { part.next_set(from).await }).await
    }

    /// The first bit that is clear, from `from` on, as [`ShardedBitSet::next_set`]; `None` where all are set up to the last there can be.
    ///
    /// # Errors
    ///
    /// As [`ShardedBitSet::count`].
    ///
    /// # Cancel safety
    ///
    /// Dropping it changes nothing.
    #[doc(alias = "nextClearBit")]
    pub async fn next_clear(&self, from: u64) -> Result<Option<u64>, ObjectError> {
        self.next(from, |part, from| async move { part.next_clear(from).await }).await
    }

    async fn next<F>(&self, from: u64, ask: impl Fn(BitSet, u64) -> F) -> Result<Option<u64>, ObjectError>
    where
        F: Future<Output = Result<Option<u64>, ObjectError>>,
    {
        let parts = self.spread.to_read().await?;
        let (part, from) = self.bit(&parts, from)?;
        let layout = parts.layout;
        // What is behind the end of a part is another's.
        let own = |part: u32, found: Option<u64>| {
            found.filter(|bit| *bit < layout.bits_of(part)).map(|bit| layout.first_of(part) + bit)
        };
        if let Some(found) = own(part, ask(parts.all[part as usize].clone(), from).await?) {
            return Ok(Some(found));
        }
        let behind = (part + 1..layout.shards).map(|part| (part, 0));
        let mut failed = Vec::new();
        for (part, told) in self.spread.settled(&parts, behind, ask).await {
            match told.map(|found| own(part, found)) {
                // Whatever became of those behind it.
                Ok(Some(found)) if failed.is_empty() => return Ok(Some(found)),
                Ok(_) => {}
                Err(error) => failed.push((part, error)),
            }
        }
        ObjectError::of_shards(self.spread.place.named()?.0, failed).map_or(Ok(None), Err)
    }

    /// The bits that are set, as a stream, from low to high.
    #[doc(alias = "stream")]
    pub fn ones(&self) -> ShardedOnes {
        ShardedOnes::of(self.spread.clone(), 0)
    }

    /// The same from this bit on.
    pub fn ones_from(&self, from: u64) -> ShardedOnes {
        ShardedOnes::of(self.spread.clone(), from)
    }

    fn bit(&self, parts: &Parts<BitSet>, index: u64) -> Result<(u32, u64), ObjectError> {
        match index < parts.layout.size {
            true => Ok(parts.layout.bit(index)),
            false => Err(self.spread.place.invalid("index", format_args!("0 to {}", parts.layout.size - 1), index)),
        }
    }

    /// Bits by the parts that have them.
    fn bits(&self, parts: &Parts<BitSet>, indices: impl IntoIterator<Item = u64>) -> Result<ByPart<u64>, ObjectError> {
        let all: Result<Vec<_>, _> = indices.into_iter().map(|index| self.bit(parts, index)).collect();
        Ok(by_part(all?))
    }

    fn range(&self, parts: &Parts<BitSet>, range: &impl RangeBounds<u64>) -> Result<Range<u64>, ObjectError> {
        let size = parts.layout.size;
        let start = match range.start_bound() {
            Bound::Included(start) => Some(*start),
            Bound::Excluded(before) => before.checked_add(1),
            Bound::Unbounded => Some(0),
        };
        let end = match range.end_bound() {
            Bound::Included(last) => last.checked_add(1),
            Bound::Excluded(end) => Some(*end),
            Bound::Unbounded => Some(size),
        };
        match (start, end) {
            (Some(start), Some(end)) if start <= end && end <= size => Ok(start..end),
            _ => {
                let expected = format_args!("one within 0 to {} whose end is not before its start", size - 1);
                let got = format!("{:?} to {:?}", range.start_bound(), range.end_bound());
                Err(self.spread.place.invalid("range", expected, got))
            }
        }
    }
}

impl fmt::Debug for ShardedBitSet {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ShardedBitSet").field("name", &self.spread.place.name()).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(shards: u32, size: u64) -> Layout {
        Layout { kind: Kind::Bits, shards, size, filter: None }
    }

    #[test]
    fn each_bit_is_in_one_part() {
        let layout = of(4, 100);
        assert_eq!((layout.bits_each(), layout.bit(31), layout.bit(32), layout.bit(99)), (32, (0, 31), (1, 0), (3, 3)));
        assert_eq!((0..4).map(|part| layout.bits_of(part)).collect::<Vec<_>>(), [32, 32, 32, 4]);
        assert_eq!(layout.ranges(30..70), [(0, 30..32), (1, 0..32), (2, 0..6)]);
        assert_eq!(layout.ranges(5..5), []);
        let few = of(16, 10);
        assert_eq!((0..4).map(|part| few.bits_of(part)).collect::<Vec<_>>(), [8, 2, 0, 0]);
        let most = of(1024, 1 << 42);
        assert_eq!((most.bits_each(), most.bit((1 << 42) - 1)), (1 << 32, (1023, (1 << 32) - 1)));
    }
}
