//! The sharded bit set.

use std::ops::{Bound, Range, RangeBounds};

use redgrid_bits::BitSet;
use redgrid_core::Client;
use redgrid_core::object::ObjectError;

use crate::fan_out::{ByShard, group_by_shard};
use crate::layout::Kind;
use crate::methods::sharded_methods;
use crate::ones::ShardedOnes;
use crate::sharded::{Shard, Sharded, Shards};

/// A bit set whose indices are divided into ranges. Each range has its own key, so the set may have
/// more bits than a string of the server.
///
/// It is cheap to clone; clones are handles of the same set: create one and clone it. Without
/// stored values, all bits are clear. Shard `n` of `N` has the indices from `n × size / N` on,
/// rounded up to whole bytes. The size of a shard in bytes is an eighth of the highest index that
/// was ever written in this shard, counted from the shard's first index.
#[doc(alias = "RClusteredBitSet")]
pub struct ShardedBitSet {
    sharded: Sharded<BitSet>,
}

impl Shard for BitSet {
    type Options = ();

    fn kind((): &()) -> Kind {
        Kind::Bits
    }

    fn new(client: &Client, name: String, (): &()) -> Self {
        BitSet::new(client, name)
    }
}

sharded_methods!([] ShardedBitSet);

impl ShardedBitSet {
    /// Returns the bit set with this name. It uses the stored shard layout or, if there is none, 16
    /// shards of 2³² bits.
    ///
    /// No request is sent: an invalid name is reported by the first call. A name with a hash tag is
    /// invalid here.
    /// invalid here.
    pub fn new(client: &Client, name: impl AsRef<str>) -> Self {
        ShardedBitSet { sharded: Sharded::new(client, name, ()) }
    }

    /// Sets the total number of bits, up to 2³² for each shard.
    ///
    /// The indices are divided evenly among the shards. The default is the maximum size. With the
    /// default, low indices are all in the first shard.
    ///
    /// If another size is already stored, calls return
    /// [`Failure::InvalidArgument`](crate::Failure::InvalidArgument).
    pub fn with_size(mut self, bits: u64) -> Self {
        self.sharded.requested.size = Some(bits);
        self
    }

    /// Returns the total number of bits. All indices are lower than this number.
    ///
    /// # Errors
    ///
    /// [`ObjectError`] states what failed and whether anything may have changed.
    ///
    /// # Cancel safety
    ///
    /// Dropping the future changes nothing.
    pub async fn capacity(&self) -> Result<u64, ObjectError> {
        Ok(self.sharded.shards_to_read().await?.layout.size)
    }

    /// Returns whether a bit is set.
    ///
    /// # Errors
    ///
    /// [`ObjectError`] states what failed and whether anything may have changed.
    ///
    /// # Cancel safety
    ///
    /// Dropping the future changes nothing.
    pub async fn get(&self, index: u64) -> Result<bool, ObjectError> {
        let shards = self.sharded.shards_to_read().await?;
        let (shard, bit) = self.locate(&shards, index)?;
        shards.all[shard as usize].get(bit).await
    }

    /// Returns for each of these bits, in their order, whether it is set. The shards are read in
    /// parallel.
    ///
    /// # Errors
    ///
    /// [`ObjectError::Shards`] names the shards that could not be read.
    ///
    /// # Cancel safety
    ///
    /// Dropping the future changes nothing.
    #[doc(alias = "get")]
    pub async fn get_many(&self, indices: impl IntoIterator<Item = u64>) -> Result<Vec<bool>, ObjectError> {
        let shards = self.sharded.shards_to_read().await?;
        let bits = self.locate_all(&shards, indices)?;
        self.sharded.each(&shards, bits, |shard, bits| async move { shard.get_many(bits).await }).await
    }

    /// Sets or clears a bit. Returns whether it was set before.
    ///
    /// # Errors
    ///
    /// [`ObjectError`] states what failed and whether anything may have changed.
    ///
    /// # Cancel safety
    ///
    /// A request that was already sent is executed even if the future is dropped.
    #[doc(alias = "clear")]
    pub async fn set(&self, index: u64, bit: bool) -> Result<bool, ObjectError> {
        let shards = self.sharded.shards_to_change().await?;
        let (shard, index_in_shard) = self.locate(&shards, index)?;
        shards.all[shard as usize].set(index_in_shard, bit).await
    }

    /// Sets or clears these bits, on their shards in parallel. Returns the number of changed bits.
    ///
    /// # Errors
    ///
    /// [`ObjectError::Shards`] names the shards in which some bits may not have been written.
    ///
    /// # Cancel safety
    ///
    /// As for [`ShardedBitSet::set`].
    #[doc(alias = "set")]
    pub async fn set_many(&self, indices: impl IntoIterator<Item = u64>, bit: bool) -> Result<u64, ObjectError> {
        let shards = self.sharded.shards_to_change().await?;
        let bits = self.locate_all(&shards, indices)?;
        let call = |shard: BitSet, (_, bits): (Vec<usize>, Vec<u64>)| async move { shard.set_many(bits, bit).await };
        self.sharded.fan_out_sum(&shards, bits, call).await
    }

    /// Sets or clears all bits of a range, on its shards in parallel. A request contains up to
    /// 8,388,608 bits.
    ///
    /// # Errors
    ///
    /// [`ObjectError::Shards`] names the shards in which the range may be missing or incomplete.
    ///
    /// # Cancel safety
    ///
    /// As for [`ShardedBitSet::set`].
    #[doc(alias = "set")]
    #[doc(alias = "clear")]
    pub async fn set_range(&self, range: impl RangeBounds<u64>, bit: bool) -> Result<(), ObjectError> {
        let shards = self.sharded.shards_to_change().await?;
        let ranges = shards.layout.split_range(self.checked_range(&shards, &range)?);
        let call = |shard: BitSet, range: Range<u64>| async move { shard.set_range(range, bit).await };
        self.sharded.fan_out(&shards, ranges, call).await.map(drop)
    }

    /// Clears all bits, each shard in one step. Returns whether any shard existed. The shard layout
    /// is kept.
    ///
    /// # Errors
    ///
    /// [`ObjectError::Shards`] names the shards that may be unchanged.
    ///
    /// # Cancel safety
    ///
    /// As for [`ShardedBitSet::set`].
    pub async fn clear(&self) -> Result<bool, ObjectError> {
        self.sharded.change_all(|shard| async move { shard.clear().await }).await
    }

    /// Returns the number of set bits. The shards are counted at different moments.
    ///
    /// # Errors
    ///
    /// [`ObjectError::Shards`] names the shards that could not be read.
    ///
    /// # Cancel safety
    ///
    /// Dropping the future changes nothing.
    #[doc(alias = "cardinality")]
    pub async fn count(&self) -> Result<u64, ObjectError> {
        self.sharded.sum(|shard| async move { shard.count().await }).await
    }

    /// Returns the number of set bits in a range. Only the shards of the range are read.
    ///
    /// # Errors and cancel safety
    ///
    /// As for [`ShardedBitSet::count`].
    pub async fn count_in(&self, range: impl RangeBounds<u64>) -> Result<u64, ObjectError> {
        let shards = self.sharded.shards_to_read().await?;
        let ranges = shards.layout.split_range(self.checked_range(&shards, &range)?);
        let call = |shard: BitSet, range: Range<u64>| async move { shard.count_in(range).await };
        self.sharded.fan_out_sum(&shards, ranges, call).await
    }

    /// Returns the index of the highest set bit plus one; 0 if no bit is set.
    ///
    /// # Errors and cancel safety
    ///
    /// As for [`ShardedBitSet::count`].
    #[doc(alias = "length")]
    pub async fn len(&self) -> Result<u64, ObjectError> {
        let shards = self.sharded.shards_to_read().await?;
        let results =
            self.sharded.fan_out(&shards, shards.every_shard(), |shard, ()| async move { shard.len().await }).await?;
        let last = results.into_iter().rev().find(|(_, len)| *len > 0);
        Ok(last.map_or(0, |(shard, len)| shards.layout.first_index(shard) + len))
    }

    /// Returns whether no bit is set.
    ///
    /// # Errors
    ///
    /// [`ObjectError::Shards`] if the shards that replied have no set bits, but others failed.
    ///
    /// # Cancel safety
    ///
    /// Dropping the future changes nothing.
    pub async fn is_empty(&self) -> Result<bool, ObjectError> {
        Ok(!self.sharded.any(|shard| async move { Ok(!shard.is_empty().await?) }).await?)
    }

    /// Returns the number of stored bits: 8 for each byte of each shard.
    ///
    /// # Errors and cancel safety
    ///
    /// As for [`ShardedBitSet::count`].
    pub async fn size(&self) -> Result<u64, ObjectError> {
        self.sharded.sum(|shard| async move { shard.size().await }).await
    }

    /// Returns the index of the first set bit, from `from` on. The shard of `from` is read first,
    /// and then all later shards in parallel.
    ///
    /// # Errors and cancel safety
    ///
    /// As for [`ShardedBitSet::count`].
    #[doc(alias = "nextSetBit")]
    pub async fn next_set(&self, from: u64) -> Result<Option<u64>, ObjectError> {
        self.next(from, |shard, from| async move { shard.next_set(from).await }).await
    }

    /// Returns the index of the first clear bit, from `from` on, as [`ShardedBitSet::next_set`];
    /// `None` if all bits up to the highest possible index are set.
    ///
    /// # Errors and cancel safety
    ///
    /// As for [`ShardedBitSet::count`].
    #[doc(alias = "nextClearBit")]
    pub async fn next_clear(&self, from: u64) -> Result<Option<u64>, ObjectError> {
        self.next(from, |shard, from| async move { shard.next_clear(from).await }).await
    }

    async fn next<F>(&self, from: u64, call: impl Fn(BitSet, u64) -> F) -> Result<Option<u64>, ObjectError>
    where
        F: Future<Output = Result<Option<u64>, ObjectError>>,
    {
        let shards = self.sharded.shards_to_read().await?;
        let (shard, from) = self.locate(&shards, from)?;
        let layout = shards.layout;
        // A bit beyond the end of a shard is not part of it: its index belongs to the next shard.
        let to_index = |shard: u32, found: Option<u64>| {
            found.filter(|bit| *bit < layout.bits_in(shard)).map(|bit| layout.first_index(shard) + bit)
        };
        if let Some(found) = to_index(shard, call(shards.all[shard as usize].clone(), from).await?) {
            return Ok(Some(found));
        }
        let later = (shard + 1..layout.shards).map(|shard| (shard, 0));
        let mut failed = Vec::new();
        for (shard, result) in self.sharded.fan_out_collect(&shards, later, call).await {
            match result.map(|found| to_index(shard, found)) {
                // The results of later shards do not matter.
                Ok(Some(found)) if failed.is_empty() => return Ok(Some(found)),
                Ok(_) => {}
                Err(error) => failed.push((shard, error)),
            }
        }
        ObjectError::of_shards(self.sharded.object_ref.name_and_key()?.0, failed).map_or(Ok(None), Err)
    }

    /// Returns a stream of the set bits, from low to high.
    #[doc(alias = "stream")]
    pub fn ones(&self) -> ShardedOnes {
        ShardedOnes::new(self.sharded.clone(), 0)
    }

    /// Returns a stream of the set bits, starting at this index.
    pub fn ones_from(&self, from: u64) -> ShardedOnes {
        ShardedOnes::new(self.sharded.clone(), from)
    }

    fn locate(&self, shards: &Shards<BitSet>, index: u64) -> Result<(u32, u64), ObjectError> {
        if index < shards.layout.size {
            Ok(shards.layout.locate(index))
        } else {
            Err(self.sharded.object_ref.invalid("index", format_args!("0 to {}", shards.layout.size - 1), index))
        }
    }

    /// Groups bits by shard.
    fn locate_all(
        &self,
        shards: &Shards<BitSet>,
        indices: impl IntoIterator<Item = u64>,
    ) -> Result<ByShard<u64>, ObjectError> {
        let all: Result<Vec<_>, _> = indices.into_iter().map(|index| self.locate(shards, index)).collect();
        Ok(group_by_shard(all?))
    }

    fn checked_range(&self, shards: &Shards<BitSet>, range: &impl RangeBounds<u64>) -> Result<Range<u64>, ObjectError> {
        let size = shards.layout.size;
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
                let expected = format_args!("a range within 0 to {} that does not end before it begins", size - 1);
                let got = format!("{:?} to {:?}", range.start_bound(), range.end_bound());
                Err(self.sharded.object_ref.invalid("range", expected, got))
            }
        }
    }
}

redgrid_core::debug_fields!(ShardedBitSet, |it| name: it.sharded.object_ref.name());
