//! The shard layout of an object: the layout that a handle requests, and the layout that is stored
//! on the server.

use std::collections::HashMap;
use std::str::FromStr;

use bytes::Bytes;
use redgrid_core::object::{ObjectError, ObjectRef};
use redgrid_core::{Pairs, Request, Script};

use crate::tags::MAX_SHARDS;

pub(crate) static CREATE: Script<1> = Script::new("sharded/create_layout", include_str!("scripts/create_layout.lua"));

static DELETE: Script<1> = Script::new("sharded/delete_layout", include_str!("scripts/delete_layout.lua"));

/// The default number of shards.
const DEFAULT_SHARDS: u32 = 16;

/// The maximum number of bits in a shard, which is the limit of a string of the server.
const MAX_BITS: u64 = 1 << 32;

/// The type of a sharded object.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[cfg_attr(not(all(feature = "map", feature = "set", feature = "bits")), allow(dead_code))]
pub(crate) enum Kind {
    Map,
    Set,
    Bits,
    Filter,
}

impl Kind {
    fn as_str(self) -> &'static str {
        match self {
            Kind::Map => "map",
            Kind::Set => "set",
            Kind::Bits => "bits",
            Kind::Filter => "filter",
        }
    }
}

/// The shard layout that a handle requests.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(crate) struct ShardLayoutRequest {
    pub(crate) shards: Option<u32>,
    /// The total number of bits, for a bit set.
    pub(crate) size: Option<u64>,
    /// The number of elements and the false-positive probability, for a filter.
    pub(crate) filter: Option<(u64, f64)>,
}

/// A complete shard layout.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct ShardLayout {
    pub(crate) kind: Kind,
    pub(crate) shards: u32,
    /// The total number of bits, for a bit set; otherwise 0.
    pub(crate) size: u64,
    /// The number of elements and the false-positive probability, for a filter.
    pub(crate) filter: Option<(u64, f64)>,
}

impl ShardLayout {
    /// Returns the requested layout, if it is valid. Missing values are from the cached layout.
    pub(crate) fn requested(
        object_ref: &ObjectRef,
        kind: Kind,
        requested: ShardLayoutRequest,
        cached: Option<ShardLayout>,
    ) -> Result<ShardLayout, ObjectError> {
        let shards = requested.shards.or(cached.map(|cached| cached.shards)).unwrap_or(DEFAULT_SHARDS);
        if !(1..=MAX_SHARDS).contains(&shards) || !shards.is_power_of_two() {
            return Err(object_ref.invalid("shards", format_args!("a power of two, 1 to {MAX_SHARDS}"), shards));
        }
        let max_size = u64::from(shards) * MAX_BITS;
        let size = match kind {
            Kind::Bits => requested.size.or(cached.map(|cached| cached.size)).unwrap_or(max_size),
            _ => 0,
        };
        if kind == Kind::Bits && !(1..=max_size).contains(&size) {
            return Err(object_ref.invalid("size", format_args!("1 to {max_size} bits in {shards} shards"), size));
        }
        Ok(ShardLayout { kind, shards, size, filter: requested.filter.or(cached.and_then(|cached| cached.filter)) })
    }

    /// Builds the request that stores the layout if none is stored.
    pub(crate) fn create_request(&self, config: &Bytes) -> Request {
        let request = self.append_fields(CREATE.with([config.clone()]));
        match self.filter {
            Some((elements, probability)) => {
                let request = request.arg("expectedInsertions").arg(elements.to_string());
                request.arg("falseProbability").arg(probability.to_string())
            }
            None => request,
        }
    }

    /// Builds the request that deletes the stored layout if it is still equal to this one.
    pub(crate) fn delete_request(&self, config: &Bytes) -> Request {
        let request = self.append_fields(DELETE.with([config.clone()]));
        match self.filter {
            Some((elements, _)) => request.arg("expectedInsertions").arg(elements.to_string()),
            None => request,
        }
    }

    /// Appends the fields that determine the shards.
    fn append_fields(&self, request: Request) -> Request {
        let request = request.arg("kind").arg(self.kind.as_str()).arg("shards").arg(self.shards.to_string());
        match self.kind {
            Kind::Bits => request.arg("size").arg(self.size.to_string()),
            _ => request,
        }
    }

    /// Parses and checks the stored layout; `None` if there is none. The check is needed because
    /// any client may have written it.
    pub(crate) fn parse(
        object_ref: &ObjectRef,
        kind: Kind,
        fields: Pairs<Bytes, Bytes>,
    ) -> Result<Option<ShardLayout>, ObjectError> {
        if fields.0.is_empty() {
            return Ok(None);
        }
        let fields: HashMap<Bytes, Bytes> = fields.0.into_iter().collect();
        let text = |field: &str| fields.get(field.as_bytes()).map(|value| String::from_utf8_lossy(value).into_owned());
        let stored_kind = text("kind").unwrap_or_default();
        if stored_kind != kind.as_str() {
            let expected = format_args!("a sharded {}", kind.as_str());
            return Err(object_ref.invalid(
                "kind",
                expected,
                if stored_kind.is_empty() { "something else" } else { &stored_kind },
            ));
        }
        fn parsed<T: FromStr>(text: Option<String>) -> Option<T> {
            text?.parse().ok()
        }
        let shards = parsed(text("shards")).filter(|shards: &u32| shards.is_power_of_two() && *shards <= MAX_SHARDS);
        let size = if kind == Kind::Bits { parsed(text("size")) } else { Some(0) };
        let filter = parsed(text("expectedInsertions")).zip(parsed(text("falseProbability")));
        let layout = shards.zip(size).map(|(shards, size)| ShardLayout { kind, shards, size, filter });
        let is_valid = |layout: &ShardLayout| match kind {
            Kind::Bits => (1..=u64::from(layout.shards) * MAX_BITS).contains(&layout.size),
            Kind::Filter => layout
                .filter
                .is_some_and(|(elements, probability)| elements > 0 && probability > 0.0 && probability < 1.0),
            Kind::Map | Kind::Set => true,
        };
        match layout.filter(is_valid) {
            Some(layout) => Ok(Some(layout)),
            None => Err(object_ref.invalid("division", "a division stored by redgrid", format_args!("{fields:?}"))),
        }
    }

    /// Checks that the layout is the requested one.
    pub(crate) fn checked(
        self,
        object_ref: &ObjectRef,
        requested: ShardLayoutRequest,
    ) -> Result<ShardLayout, ObjectError> {
        let differs = |wanted: Option<u64>, stored: u64| wanted.filter(|wanted| *wanted != stored);
        if let Some(other) = differs(requested.shards.map(u64::from), self.shards.into()) {
            return Err(object_ref.invalid("shards", format_args!("{}, as it was made with", self.shards), other));
        }
        if let Some(other) = differs(requested.size, self.size) {
            return Err(object_ref.invalid("size", format_args!("{}, as it was made with", self.size), other));
        }
        Ok(self)
    }

    /// Returns the shard of an encoded key, value or element.
    pub(crate) fn shard_of(&self, bytes: &[u8]) -> u32 {
        let [high, low] = redgrid_codecs::hash128(bytes);
        // Use the highest bits of both halves: a filter uses the remaining bits for its own
        // indices.
        ((high ^ low).checked_shr(64 - self.shards.trailing_zeros()).unwrap_or(0)) as u32
    }
}

/// The division of a bit set into shards.
#[cfg(feature = "bits")]
impl ShardLayout {
    /// Returns the number of bits in each shard of a bit set, a multiple of 8.
    pub(crate) fn bits_per_shard(&self) -> u64 {
        self.size.div_ceil(self.shards.into()).next_multiple_of(8)
    }

    /// Returns the shard of a bit, and its index in the shard.
    pub(crate) fn locate(&self, index: u64) -> (u32, u64) {
        ((index / self.bits_per_shard()) as u32, index % self.bits_per_shard())
    }

    /// Returns the first index of a shard.
    pub(crate) fn first_index(&self, shard: u32) -> u64 {
        u64::from(shard) * self.bits_per_shard()
    }

    /// Returns the number of indices of a shard. The last shards may have fewer indices, or none.
    pub(crate) fn bits_in(&self, shard: u32) -> u64 {
        self.size.saturating_sub(self.first_index(shard)).min(self.bits_per_shard())
    }

    /// Splits a range by shards, into ranges of indices within the shards.
    pub(crate) fn split_range(&self, range: std::ops::Range<u64>) -> Vec<(u32, std::ops::Range<u64>)> {
        let mut all = Vec::new();
        let mut from = range.start;
        while from < range.end {
            let (shard, start) = self.locate(from);
            let to = range.end.min(self.first_index(shard) + self.bits_per_shard());
            all.push((shard, start..start + (to - from)));
            from = to;
        }
        all
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// If keys moved to other shards, stored entries would not be found.
    #[test]
    fn the_shard_of_a_key_never_changes() {
        let layout = |shards: u32| ShardLayout { kind: Kind::Map, shards, size: 0, filter: None };
        let shards_of =
            |shards: u32| [&b"a"[..], b"b", b"\"order 42\"", b""].map(|bytes| layout(shards).shard_of(bytes));
        assert_eq!(shards_of(1), [0; 4]);
        assert_eq!(shards_of(16), [0, 1, 2, 0]);
        assert_eq!(shards_of(1024), [45, 66, 179, 21]);
    }

    #[test]
    fn shards_are_of_similar_size() {
        let layout = ShardLayout { kind: Kind::Map, shards: 64, size: 0, filter: None };
        let mut sizes = [0_u32; 64];
        (0..64_000_u32).for_each(|n| sizes[layout.shard_of(n.to_string().as_bytes()) as usize] += 1);
        assert!(sizes.iter().all(|size| (850..1150).contains(size)), "{sizes:?}");
    }

    #[test]
    #[cfg(feature = "bits")]
    fn each_bit_is_in_one_part() {
        let bits = |shards, size| ShardLayout { kind: Kind::Bits, shards, size, filter: None };
        let layout = bits(4, 100);
        assert_eq!(
            (layout.bits_per_shard(), layout.locate(31), layout.locate(32), layout.locate(99)),
            (32, (0, 31), (1, 0), (3, 3))
        );
        assert_eq!((0..4).map(|shard| layout.bits_in(shard)).collect::<Vec<_>>(), [32, 32, 32, 4]);
        assert_eq!(layout.split_range(30..70), [(0, 30..32), (1, 0..32), (2, 0..6)]);
        assert_eq!(layout.split_range(5..5), []);
        let few = bits(16, 10);
        assert_eq!((0..4).map(|shard| few.bits_in(shard)).collect::<Vec<_>>(), [8, 2, 0, 0]);
        let most = bits(1024, 1 << 42);
        assert_eq!((most.bits_per_shard(), most.locate((1 << 42) - 1)), (1 << 32, (1023, (1 << 32) - 1)));
    }
}
