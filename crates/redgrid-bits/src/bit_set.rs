//! The bit set: its bits one by one, many at once and in ranges.

use std::fmt;
use std::ops::{Bound, Range, RangeBounds};

use bytes::Bytes;
use redgrid_core::object::{Object, ObjectError, Place, alone};
use redgrid_core::{Client, Request, Script};

static FILL: Script<1> = Script::new("bits/fill", include_str!("scripts/fill.lua"));
static COUNT: Script<1> = Script::new("bits/count", include_str!("scripts/count.lua"));
static LENGTH: Script<1> = Script::new("bits/length", include_str!("scripts/length.lua"));
static NEXT: Script<1> = Script::new("bits/next", include_str!("scripts/next.lua"));

/// How many bits a string of the server has at most: 512 MiB.
pub(crate) const BITS: u64 = 1 << 32;

/// How many bits of a range are written at a time: those of a mebibyte, some hundred microseconds of the server's time.
const FILLED_AT_ONCE: u64 = 8 << 20;

/// How many bits are named in one command.
const NAMED_AT_ONCE: usize = 500;

/// Bits by their indices, 0 to 2³² − 1, shared by all processes that reach the same server. Redisson's `RBitSet` on the wire.
///
/// Cheap to clone; clones are the same set. All bits are clear where nothing is stored. It takes as many bytes as the highest bit that was ever
/// written needs: an eighth of its index.
#[doc(alias = "RBitSet")]
#[doc(alias = "RedissonBitSet")]
#[derive(Clone)]
pub struct BitSet {
    pub(crate) place: Place,
}

impl BitSet {
    /// The bit set with this name. Making one asks nobody: an invalid name is told by the first call.
    pub fn new(client: &Client, name: impl AsRef<str>) -> Self {
        BitSet { place: Place::new(client, name) }
    }

    /// What every object has: whether it is there, its lifetime, other names, its size in memory.
    pub fn object(&self) -> Object {
        self.place.object(alone)
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
        self.place.read(self.place.command("GETBIT")?.arg(self.index(index)?)).await
    }

    /// Whether each of these bits is set, in their order, 500 at a time.
    ///
    /// # Errors
    ///
    /// As [`BitSet::get`].
    ///
    /// # Cancel safety
    ///
    /// Dropping it changes nothing.
    #[doc(alias = "get")]
    pub async fn get_many(&self, indices: impl IntoIterator<Item = u64>) -> Result<Vec<bool>, ObjectError> {
        let indices = self.indices(indices)?;
        let mut found = Vec::with_capacity(indices.len());
        for part in indices.chunks(NAMED_AT_ONCE) {
            let request = self.place.command("BITFIELD_RO")?;
            let request = part.iter().fold(request, |request, index| request.arg("GET").arg("u1").arg(index.clone()));
            found.extend(self.place.read::<Vec<bool>>(request).await?);
        }
        Ok(found)
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
        let request = self.place.command("SETBIT")?.arg(self.index(index)?).int(bit.into());
        self.place.change(request).await
    }

    /// Sets or clears these bits, 500 at a time; tells how many are other than they were.
    ///
    /// # Errors
    ///
    /// As [`BitSet::set`]; of many some may be written.
    ///
    /// # Cancel safety
    ///
    /// As [`BitSet::set`].
    #[doc(alias = "set")]
    pub async fn set_many(&self, indices: impl IntoIterator<Item = u64>, bit: bool) -> Result<u64, ObjectError> {
        let (indices, to) = (self.indices(indices)?, if bit { "1" } else { "0" });
        let mut changed = 0;
        for part in indices.chunks(NAMED_AT_ONCE) {
            let request = self.place.command("BITFIELD")?;
            let set = |request: Request, index: &Bytes| request.arg("SET").arg("u1").arg(index.clone()).arg(to);
            let were: Vec<bool> = self.place.change(part.iter().fold(request, set)).await?;
            changed += were.into_iter().filter(|was| *was != bit).count() as u64;
        }
        Ok(changed)
    }

    /// Sets or clears all bits of a range, 8,388,608 at a time: others may see a part of it done.
    ///
    /// Clearing makes it no longer, and stops at its end; setting takes memory as long as the range's end.
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
    /// As [`BitSet::set`]; of a large range a part may be written.
    ///
    /// # Cancel safety
    ///
    /// As [`BitSet::set`].
    #[doc(alias = "set")]
    #[doc(alias = "clear")]
    pub async fn set_range(&self, range: impl RangeBounds<u64>, bit: bool) -> Result<(), ObjectError> {
        let Range { start, end } = self.range(&range)?;
        let (_, key) = self.place.named()?;
        let mut from = start;
        while from < end {
            // The parts end with a byte.
            let to = end.min((from / 8) * 8 + FILLED_AT_ONCE);
            let request = FILL.with([key.clone()]).arg(from.to_string()).arg(to.to_string()).int(bit.into());
            if !self.place.change::<bool>(request).await? {
                break;
            }
            from = to;
        }
        Ok(())
    }

    /// Clears all bits, in one step; tells whether anything was stored.
    ///
    /// # Errors
    ///
    /// As [`BitSet::set`].
    ///
    /// # Cancel safety
    ///
    /// As [`BitSet::set`].
    pub async fn clear(&self) -> Result<bool, ObjectError> {
        self.place.change(self.place.command("DEL")?).await
    }

    /// How many bits are set.
    ///
    /// # Errors
    ///
    /// As [`BitSet::get`].
    ///
    /// # Cancel safety
    ///
    /// Dropping it changes nothing.
    #[doc(alias = "cardinality")]
    pub async fn count(&self) -> Result<u64, ObjectError> {
        self.place.read(self.place.command("BITCOUNT")?).await
    }

    /// How many bits of a range are set.
    ///
    /// # Errors
    ///
    /// As [`BitSet::get`].
    ///
    /// # Cancel safety
    ///
    /// Dropping it changes nothing.
    pub async fn count_in(&self, range: impl RangeBounds<u64>) -> Result<u64, ObjectError> {
        let Range { start, end } = self.range(&range)?;
        let (_, key) = self.place.named()?;
        if start == end {
            return Ok(0);
        }
        self.place.read(COUNT.with([key.clone()]).arg(start.to_string()).arg(end.to_string())).await
    }

    /// The highest bit that is set, and one; 0 where none is.
    ///
    /// # Errors
    ///
    /// As [`BitSet::get`].
    ///
    /// # Cancel safety
    ///
    /// Dropping it changes nothing.
    #[doc(alias = "length")]
    pub async fn len(&self) -> Result<u64, ObjectError> {
        let (_, key) = self.place.named()?;
        self.place.read(LENGTH.with([key.clone()])).await
    }

    /// Whether no bit is set.
    ///
    /// # Errors
    ///
    /// As [`BitSet::get`].
    ///
    /// # Cancel safety
    ///
    /// Dropping it changes nothing.
    pub async fn is_empty(&self) -> Result<bool, ObjectError> {
        Ok(self.place.read::<i64>(self.place.command("BITPOS")?.int(1)).await? < 0)
    }

    /// How many bits there is room for as it is stored: 8 for each byte.
    ///
    /// # Errors
    ///
    /// As [`BitSet::get`].
    ///
    /// # Cancel safety
    ///
    /// Dropping it changes nothing.
    pub async fn size(&self) -> Result<u64, ObjectError> {
        Ok(self.place.read::<u64>(self.place.command("STRLEN")?).await? * 8)
    }

    /// The first bit that is set, from `from` on.
    ///
    /// # Errors
    ///
    /// As [`BitSet::get`].
    ///
    /// # Cancel safety
    ///
    /// Dropping it changes nothing.
    #[doc(alias = "nextSetBit")]
    pub async fn next_set(&self, from: u64) -> Result<Option<u64>, ObjectError> {
        self.next(from, true).await
    }

    /// The first bit that is clear, from `from` on; `None` where all are set up to the last there can be.
    ///
    /// # Errors
    ///
    /// As [`BitSet::get`].
    ///
    /// # Cancel safety
    ///
    /// Dropping it changes nothing.
    #[doc(alias = "nextClearBit")]
    pub async fn next_clear(&self, from: u64) -> Result<Option<u64>, ObjectError> {
        self.next(from, false).await
    }

    async fn next(&self, from: u64, bit: bool) -> Result<Option<u64>, ObjectError> {
        let from = self.index(from)?;
        let (_, key) = self.place.named()?;
        let found: i64 = self.place.read(NEXT.with([key.clone()]).arg(from).int(bit.into())).await?;
        Ok(u64::try_from(found).ok().filter(|found| *found < BITS))
    }

    /// As it is stored, all of it in one answer: bit 0 is the highest of the first byte.
    ///
    /// # Errors
    ///
    /// As [`BitSet::get`].
    ///
    /// # Cancel safety
    ///
    /// Dropping it changes nothing.
    #[doc(alias = "toByteArray")]
    #[doc(alias = "asBitSet")]
    pub async fn to_bytes(&self) -> Result<Bytes, ObjectError> {
        Ok(self.place.read::<Option<Bytes>>(self.place.command("GET")?).await?.unwrap_or_default())
    }

    /// Replaces it by these bytes, as [`BitSet::to_bytes`] tells them, in one step. It has no lifetime then.
    ///
    /// # Errors
    ///
    /// As [`BitSet::set`].
    ///
    /// # Cancel safety
    ///
    /// As [`BitSet::set`].
    #[doc(alias = "set")]
    pub async fn replace(&self, bytes: impl Into<Bytes>) -> Result<(), ObjectError> {
        self.place.change(self.place.command("SET")?.arg(bytes)).await
    }

    fn index(&self, index: u64) -> Result<Bytes, ObjectError> {
        match index < BITS {
            true => Ok(index.to_string().into()),
            false => Err(self.place.invalid("index", "0 to 4294967295", index)),
        }
    }

    fn indices(&self, indices: impl IntoIterator<Item = u64>) -> Result<Vec<Bytes>, ObjectError> {
        indices.into_iter().map(|index| self.index(index)).collect()
    }

    fn range(&self, range: &impl RangeBounds<u64>) -> Result<Range<u64>, ObjectError> {
        let start = match range.start_bound() {
            Bound::Included(start) => Some(*start),
            Bound::Excluded(before) => before.checked_add(1),
            Bound::Unbounded => Some(0),
        };
        let end = match range.end_bound() {
            Bound::Included(last) => last.checked_add(1),
            Bound::Excluded(end) => Some(*end),
            Bound::Unbounded => Some(BITS),
        };
        match (start, end) {
            (Some(start), Some(end)) if start <= end && end <= BITS => Ok(start..end),
            _ => {
                let got = format!("{} to {}", show(range.start_bound()), show(range.end_bound()));
                Err(self.place.invalid("range", "one within 0 to 4294967295 whose end is not before its start", got))
            }
        }
    }
}

/// A bound of a range in an error.
fn show(bound: Bound<&u64>) -> String {
    match bound {
        Bound::Included(at) => at.to_string(),
        Bound::Excluded(at) => format!("{at} (excluded)"),
        Bound::Unbounded => "unbounded".to_owned(),
    }
}

impl fmt::Debug for BitSet {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("BitSet").field("name", &self.place.name()).finish_non_exhaustive()
    }
}
