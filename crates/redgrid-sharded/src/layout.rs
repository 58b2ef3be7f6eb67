//! How an object is divided: what its makers wished, and what they agreed on.

use std::collections::HashMap;
use std::str::FromStr;

use bytes::Bytes;
use redgrid_core::object::{ObjectError, Place};
use redgrid_core::{Pairs, Request, Script};

use crate::tags::MOST;

pub(crate) static AGREE: Script<1> = Script::new("sharded/agree", include_str!("scripts/agree.lua"));

static FORGET: Script<1> = Script::new("sharded/forget", include_str!("scripts/forget.lua"));

/// How many parts an object has that says none.
const SHARDS: u32 = 16;

/// How many bits one part has at most: what a string of the server takes.
const BITS: u64 = 1 << 32;

/// A type of sharded objects.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[cfg_attr(not(all(feature = "map", feature = "set", feature = "bits")), allow(dead_code))]
pub(crate) enum Kind {
    Map,
    Set,
    Bits,
    Filter,
}

impl Kind {
    fn text(self) -> &'static str {
        match self {
            Kind::Map => "map",
            Kind::Set => "set",
            Kind::Bits => "bits",
            Kind::Filter => "filter",
        }
    }
}

/// What the maker of a handle asked for.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(crate) struct Wish {
    pub(crate) shards: Option<u32>,
    /// Bits in all, of a bit set.
    pub(crate) size: Option<u64>,
    /// Elements and share of errors, of a filter.
    pub(crate) filter: Option<(u64, f64)>,
}

/// What is agreed on.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Layout {
    pub(crate) kind: Kind,
    pub(crate) shards: u32,
    /// Bits in all, of a bit set; else 0.
    pub(crate) size: u64,
    /// Of a filter.
    pub(crate) filter: Option<(u64, f64)>,
}

impl Layout {
    /// What is wished, and else what was agreed on before, if it can be.
    pub(crate) fn wished(place: &Place, kind: Kind, wish: Wish, known: Option<Layout>) -> Result<Layout, ObjectError> {
        let shards = wish.shards.or(known.map(|known| known.shards)).unwrap_or(SHARDS);
        if !(1..=MOST).contains(&shards) || !shards.is_power_of_two() {
            return Err(place.invalid("shards", format_args!("a power of two, 1 to {MOST}"), shards));
        }
        let most = u64::from(shards) * BITS;
        let size = match kind {
            Kind::Bits => wish.size.or(known.map(|known| known.size)).unwrap_or(most),
            _ => 0,
        };
        if kind == Kind::Bits && !(1..=most).contains(&size) {
            return Err(place.invalid("size", format_args!("1 to {most} bits in {shards} shards"), size));
        }
        Ok(Layout { kind, shards, size, filter: wish.filter.or(known.and_then(|known| known.filter)) })
    }

    /// The agreement as it is stored, if there is none yet.
    pub(crate) fn agreeing(&self, config: &Bytes) -> Request {
        let request = self.divided(AGREE.with([config.clone()]));
        match self.filter {
            Some((elements, share)) => {
                let request = request.arg("expectedInsertions").arg(elements.to_string());
                request.arg("falseProbability").arg(share.to_string())
            }
            None => request,
        }
    }

    /// That it is forgotten, if what is stored is still this.
    pub(crate) fn forgetting(&self, config: &Bytes) -> Request {
        let request = self.divided(FORGET.with([config.clone()]));
        match self.filter {
            Some((elements, _)) => request.arg("expectedInsertions").arg(elements.to_string()),
            None => request,
        }
    }

    /// What says where its parts are.
    fn divided(&self, request: Request) -> Request {
        let request = request.arg("kind").arg(self.kind.text()).arg("shards").arg(self.shards.to_string());
        match self.kind {
            Kind::Bits => request.arg("size").arg(self.size.to_string()),
            _ => request,
        }
    }

    /// What is stored, which may be anybody's; `None` where nothing is.
    pub(crate) fn stored(
        place: &Place,
        kind: Kind,
        fields: Pairs<Bytes, Bytes>,
    ) -> Result<Option<Layout>, ObjectError> {
        if fields.0.is_empty() {
            return Ok(None);
        }
        let fields: HashMap<Bytes, Bytes> = fields.0.into_iter().collect();
        let text = |field: &str| fields.get(field.as_bytes()).map(|value| String::from_utf8_lossy(value).into_owned());
        let is = text("kind").unwrap_or_default();
        if is != kind.text() {
            let expected = format_args!("a sharded {}", kind.text());
            return Err(place.invalid("kind", expected, if is.is_empty() { "something else" } else { &is }));
        }
        fn number<T: FromStr>(text: Option<String>) -> Option<T> {
            text?.parse().ok()
        }
        let shards = number(text("shards")).filter(|shards: &u32| shards.is_power_of_two() && *shards <= MOST);
        let size = if kind == Kind::Bits { number(text("size")) } else { Some(0) };
        let filter = number(text("expectedInsertions")).zip(number(text("falseProbability")));
        let layout = shards.zip(size).map(|(shards, size)| Layout { kind, shards, size, filter });
        let can_be = |layout: &Layout| match kind {
            Kind::Bits => (1..=u64::from(layout.shards) * BITS).contains(&layout.size),
            Kind::Filter => layout.filter.is_some_and(|(elements, share)| elements > 0 && share > 0.0 && share < 1.0),
            Kind::Map | Kind::Set => true,
        };
        match layout.filter(can_be) {
            Some(layout) => Ok(Some(layout)),
            None => Err(place.invalid("division", "one that redgrid has stored", format_args!("{fields:?}"))),
        }
    }

    /// Whether it is what was wished.
    pub(crate) fn fits(self, place: &Place, wish: Wish) -> Result<Layout, ObjectError> {
        let differs = |wished: Option<u64>, is: u64| wished.filter(|wished| *wished != is);
        if let Some(wished) = differs(wish.shards.map(u64::from), self.shards.into()) {
            return Err(place.invalid("shards", format_args!("{}, as it was made with", self.shards), wished));
        }
        if let Some(wished) = differs(wish.size, self.size) {
            return Err(place.invalid("size", format_args!("{}, as it was made with", self.size), wished));
        }
        Ok(self)
    }

    /// How many bits each part of a bit set has: whole bytes.
    #[cfg(feature = "bits")]
    pub(crate) fn bits_each(&self) -> u64 {
        self.size.div_ceil(self.shards.into()).next_multiple_of(8)
    }

    /// The part of what has these bytes.
    pub(crate) fn part_of(&self, bytes: &[u8]) -> u32 {
        let [high, low] = redgrid_codecs::hash128(bytes);
        // The highest bits of both halves: a filter takes the rest of each for its own bits.
        ((high ^ low).checked_shr(64 - self.shards.trailing_zeros()).unwrap_or(0)) as u32
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Another part would be another place: what is stored would not be found.
    #[test]
    fn a_part_never_changes() {
        let of = |shards: u32| Layout { kind: Kind::Map, shards, size: 0, filter: None };
        let parts = |shards: u32| [&b"a"[..], b"b", b"\"order 42\"", b""].map(|bytes| of(shards).part_of(bytes));
        assert_eq!(parts(1), [0; 4]);
        assert_eq!(parts(16), [0, 1, 2, 0]);
        assert_eq!(parts(1024), [45, 66, 179, 21]);
    }

    #[test]
    fn parts_are_about_as_large_as_each_other() {
        let layout = Layout { kind: Kind::Map, shards: 64, size: 0, filter: None };
        let mut has = [0_u32; 64];
        (0..64_000_u32).for_each(|n| has[layout.part_of(n.to_string().as_bytes()) as usize] += 1);
        assert!(has.iter().all(|has| (850..1150).contains(has)), "{has:?}");
    }
}
