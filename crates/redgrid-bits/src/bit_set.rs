//! The bit set: single bits, several bits, and ranges.

use std::ops::{Bound, Range, RangeBounds};

use bytes::Bytes;
use redgrid_core::object::{Object, ObjectError, ObjectRef, alone};
use redgrid_core::{Client, IntoArg, Request, Script};

static FILL: Script<1> = Script::new("bits/fill", include_str!("scripts/fill.lua"));
static COUNT: Script<1> = Script::new("bits/count", include_str!("scripts/count.lua"));
static LENGTH: Script<1> = Script::new("bits/length", include_str!("scripts/length.lua"));
static NEXT: Script<1> = Script::new("bits/next", include_str!("scripts/next.lua"));

/// The maximum number of bits in a string of the server: 512 MiB.
pub(crate) const MAX_BITS: u64 = 1 << 32;

/// How many bits of a range are written at a time: a mebibyte, for which the server needs some
/// hundred microseconds.
const MAX_FILLED: u64 = 8 << 20;

/// The maximum number of indices in one command.
const MAX_INDICES: usize = 500;

/// A set of bits with the indices 0 to 2³² − 1, shared by all processes that reach the same server.
///
/// On the wire it is Redisson's `RBitSet`.
///
/// It is cheap to clone; clones are handles of the same set. Without a stored value, all bits are
/// clear. The size in bytes is an eighth of the highest index that was ever written.
#[doc(alias = "RBitSet")]
#[doc(alias = "RedissonBitSet")]
#[derive(Clone)]
pub struct BitSet {
    pub(crate) object_ref: ObjectRef,
}

impl BitSet {
    /// Returns the bit set with this name.
    ///
    /// No request is sent: an invalid name is reported by the first call.
    pub fn new(client: &Client, name: impl AsRef<str>) -> Self {
        BitSet { object_ref: ObjectRef::new(client, name) }
    }

    /// Returns the [`Object`] of this name: existence, lifetime, other names, memory size.
    pub fn object(&self) -> Object {
        self.object_ref.object(alone)
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
        self.object_ref.read(self.object_ref.command("GETBIT")?.arg(self.encode_index(index)?)).await
    }

    /// Returns for each of these bits, in their order, whether it is set. A request contains up to
    /// 500 bits.
    ///
    /// # Errors and cancel safety
    ///
    /// As for [`BitSet::get`].
    #[doc(alias = "get")]
    pub async fn get_many(&self, indices: impl IntoIterator<Item = u64>) -> Result<Vec<bool>, ObjectError> {
        let indices = self.encode_indices(indices)?;
        let mut found = Vec::with_capacity(indices.len());
        for chunk in indices.chunks(MAX_INDICES) {
            let request = self.object_ref.command("BITFIELD_RO")?;
            let request = chunk.iter().fold(request, |request, index| request.arg("GET").arg("u1").arg(index.clone()));
            found.extend(self.object_ref.read::<Vec<bool>>(request).await?);
        }
        Ok(found)
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
        let request = self.object_ref.command("SETBIT")?.arg(self.encode_index(index)?).int(bit.into());
        self.object_ref.change(request).await
    }

    /// Sets or clears these bits. A request contains up to 500 bits. Returns the number of changed
    /// bits.
    ///
    /// # Errors
    ///
    /// As for [`BitSet::set`]. If there are several requests, some bits may have been written.
    ///
    /// # Cancel safety
    ///
    /// As for [`BitSet::set`].
    #[doc(alias = "set")]
    pub async fn set_many(&self, indices: impl IntoIterator<Item = u64>, bit: bool) -> Result<u64, ObjectError> {
        let (indices, to) = (self.encode_indices(indices)?, if bit { "1" } else { "0" });
        let mut changed = 0;
        for chunk in indices.chunks(MAX_INDICES) {
            let request = self.object_ref.command("BITFIELD")?;
            let set = |request: Request, index: &Bytes| request.arg("SET").arg("u1").arg(index.clone()).arg(to);
            let previous_bits: Vec<bool> = self.object_ref.change(chunk.iter().fold(request, set)).await?;
            changed += previous_bits.into_iter().filter(|previous| *previous != bit).count() as u64;
        }
        Ok(changed)
    }

    /// Sets or clears all bits of a range. A request contains up to 8,388,608 bits, so others may
    /// see a part of the change.
    ///
    /// Clearing stops at the end of the stored bits and does not add any. Setting a range needs
    /// memory up to the end of the range.
    ///
    /// ```no_run
    /// # async fn demo(seats: &redgrid_bits::BitSet) -> Result<(), redgrid_bits::ObjectError> {
    /// seats.set_range(100..=149, true).await?;
    /// seats.set_range(1_000.., false).await?;
    /// # Ok(()) }
    /// ```
    ///
    /// # Errors
    ///
    /// As for [`BitSet::set`]. A part of a large range may have been written.
    ///
    /// # Cancel safety
    ///
    /// As for [`BitSet::set`].
    #[doc(alias = "set")]
    #[doc(alias = "clear")]
    pub async fn set_range(&self, range: impl RangeBounds<u64>, bit: bool) -> Result<(), ObjectError> {
        let Range { start, end } = self.checked_range(&range)?;
        let (_, key) = self.object_ref.name_and_key()?;
        let mut from = start;
        while from < end {
            // Each chunk ends at a byte boundary.
            let to = end.min((from / 8) * 8 + MAX_FILLED);
            let request = FILL.with([key.clone()]).arg(from.to_string()).arg(to.to_string()).int(bit.into());
            if !self.object_ref.change::<bool>(request).await? {
                break;
            }
            from = to;
        }
        Ok(())
    }

    /// Clears all bits, in one step. Returns whether a value was stored.
    ///
    /// # Errors and cancel safety
    ///
    /// As for [`BitSet::set`].
    pub async fn clear(&self) -> Result<bool, ObjectError> {
        self.object_ref.change(self.object_ref.command("DEL")?).await
    }

    /// Returns the number of set bits.
    ///
    /// # Errors and cancel safety
    ///
    /// As for [`BitSet::get`].
    #[doc(alias = "cardinality")]
    pub async fn count(&self) -> Result<u64, ObjectError> {
        self.object_ref.read(self.object_ref.command("BITCOUNT")?).await
    }

    /// Returns the number of set bits in a range.
    ///
    /// # Errors and cancel safety
    ///
    /// As for [`BitSet::get`].
    pub async fn count_in(&self, range: impl RangeBounds<u64>) -> Result<u64, ObjectError> {
        let Range { start, end } = self.checked_range(&range)?;
        let (_, key) = self.object_ref.name_and_key()?;
        if start == end {
            return Ok(0);
        }
        self.object_ref.read(COUNT.with([key.clone()]).arg(start.to_string()).arg(end.to_string())).await
    }

    /// Returns the index of the highest set bit plus one; 0 if no bit is set.
    ///
    /// # Errors and cancel safety
    ///
    /// As for [`BitSet::get`].
    #[doc(alias = "length")]
    pub async fn len(&self) -> Result<u64, ObjectError> {
        let (_, key) = self.object_ref.name_and_key()?;
        self.object_ref.read(LENGTH.with([key.clone()])).await
    }

    /// Returns whether no bit is set.
    ///
    /// # Errors and cancel safety
    ///
    /// As for [`BitSet::get`].
    pub async fn is_empty(&self) -> Result<bool, ObjectError> {
        Ok(self.object_ref.read::<i64>(self.object_ref.command("BITPOS")?.int(1)).await? < 0)
    }

    /// Returns the number of stored bits: 8 for each byte.
    ///
    /// # Errors and cancel safety
    ///
    /// As for [`BitSet::get`].
    pub async fn size(&self) -> Result<u64, ObjectError> {
        Ok(self.object_ref.read::<u64>(self.object_ref.command("STRLEN")?).await? * 8)
    }

    /// Returns the index of the first set bit, from `from` on.
    ///
    /// # Errors and cancel safety
    ///
    /// As for [`BitSet::get`].
    #[doc(alias = "nextSetBit")]
    pub async fn next_set(&self, from: u64) -> Result<Option<u64>, ObjectError> {
        self.next(from, true).await
    }

    /// Returns the index of the first clear bit, from `from` on; `None` if all bits up to the
    /// highest possible index are set.
    ///
    /// # Errors and cancel safety
    ///
    /// As for [`BitSet::get`].
    #[doc(alias = "nextClearBit")]
    pub async fn next_clear(&self, from: u64) -> Result<Option<u64>, ObjectError> {
        self.next(from, false).await
    }

    async fn next(&self, from: u64, bit: bool) -> Result<Option<u64>, ObjectError> {
        let from = self.encode_index(from)?;
        let (_, key) = self.object_ref.name_and_key()?;
        let found: i64 = self.object_ref.read(NEXT.with([key.clone()]).arg(from).int(bit.into())).await?;
        Ok(u64::try_from(found).ok().filter(|found| *found < MAX_BITS))
    }

    /// Returns the stored bytes, in one reply. Bit 0 is the highest bit of the first byte.
    ///
    /// # Errors and cancel safety
    ///
    /// As for [`BitSet::get`].
    #[doc(alias = "toByteArray")]
    #[doc(alias = "asBitSet")]
    pub async fn to_bytes(&self) -> Result<Bytes, ObjectError> {
        Ok(self.object_ref.read::<Option<Bytes>>(self.object_ref.command("GET")?).await?.unwrap_or_default())
    }

    /// Replaces the set by these bytes, in the format of [`BitSet::to_bytes`], in one step. This
    /// removes the lifetime.
    ///
    /// # Errors and cancel safety
    ///
    /// As for [`BitSet::set`].
    #[doc(alias = "set")]
    pub async fn replace(&self, bytes: impl IntoArg) -> Result<(), ObjectError> {
        self.object_ref.change(self.object_ref.command("SET")?.arg(bytes.into_arg())).await
    }

    fn encode_index(&self, index: u64) -> Result<Bytes, ObjectError> {
        if index < MAX_BITS {
            Ok(index.to_string().into())
        } else {
            Err(self.object_ref.invalid("index", "0 to 4294967295", index))
        }
    }

    fn encode_indices(&self, indices: impl IntoIterator<Item = u64>) -> Result<Vec<Bytes>, ObjectError> {
        indices.into_iter().map(|index| self.encode_index(index)).collect()
    }

    fn checked_range(&self, range: &impl RangeBounds<u64>) -> Result<Range<u64>, ObjectError> {
        let start = match range.start_bound() {
            Bound::Included(start) => Some(*start),
            Bound::Excluded(before) => before.checked_add(1),
            Bound::Unbounded => Some(0),
        };
        let end = match range.end_bound() {
            Bound::Included(last) => last.checked_add(1),
            Bound::Excluded(end) => Some(*end),
            Bound::Unbounded => Some(MAX_BITS),
        };
        match (start, end) {
            (Some(start), Some(end)) if start <= end && end <= MAX_BITS => Ok(start..end),
            _ => {
                let got = format!("{} to {}", describe_bound(range.start_bound()), describe_bound(range.end_bound()));
                Err(self.object_ref.invalid(
                    "range",
                    "a range within 0 to 4294967295 that does not end before it begins",
                    got,
                ))
            }
        }
    }
}

/// Describes a bound of a range in an error.
fn describe_bound(bound: Bound<&u64>) -> String {
    match bound {
        Bound::Included(at) => at.to_string(),
        Bound::Excluded(at) => format!("{at} (excluded)"),
        Bound::Unbounded => "unbounded".to_owned(),
    }
}

redgrid_core::debug_fields!(BitSet, |it| name: it.object_ref.name());
