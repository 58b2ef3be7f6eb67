//! How entries are written: packed as Redisson's, or as fields that the server lets expire.

use bytes::Bytes;
use redgrid_core::name::companion;
use redgrid_core::object::{ObjectError, Place, alone, layouts};
use redgrid_core::{BulkScript, Request, TIMES_EXPECTED};

/// How a map cache writes its entries. [`Packed`] and [`Native`] are all there are.
pub trait Layout: sealed::Requests + Send + Sync + 'static {}

/// As Redisson's `RMapCache`: lifetimes and idle times beside the values, on every server.
#[derive(Debug, Clone, Copy)]
pub enum Packed {}

/// As Redisson's `RMapCacheNative`: a plain hash, of which the server takes out the fields that are over. Redis 7.4, Valkey 9.
#[derive(Debug, Clone, Copy)]
pub enum Native {}

impl Layout for Packed {}
impl Layout for Native {}

/// A script behind what all of a packed map begin with.
macro_rules! packed {
    ($name:ident, $script:literal) => {
        pub(crate) static $name: BulkScript = BulkScript::new(
            concat!("map_cache/", $script),
            concat!(include_str!("scripts/packed.lua"), include_str!(concat!("scripts/", $script, ".lua"))),
        );
    };
}

packed!(GET, "get");
packed!(PUT, "put");
packed!(REMOVE, "remove");
packed!(EXPIRE, "expire");
packed!(LEFT, "left");
packed!(SCAN, "scan");
packed!(LEN, "len");
packed!(LIMIT, "limit");
packed!(CLEAR, "clear");
packed!(LISTEN, "listen");

static NATIVE_PUT: BulkScript = BulkScript::new("map_cache/native_put", include_str!("scripts/native_put.lua"));
static NATIVE_REMOVE: BulkScript =
    BulkScript::new("map_cache/native_remove", include_str!("scripts/native_remove.lua"));
static NATIVE_EXPIRE: BulkScript =
    BulkScript::new("map_cache/native_expire", include_str!("scripts/native_expire.lua"));

/// What is asked of keys.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Asked {
    /// Their values, as a use of them.
    Use,
    /// Whether they are there, as a use of them.
    Has,
    /// Their values, changing nothing.
    Peek,
}

/// What is said of the entries that are put.
#[derive(Debug, Clone)]
pub struct Said {
    /// What must be so of a key: any, absent, present, or equal to this.
    pub condition: &'static str,
    /// What it is to be equal to.
    pub expected: Option<Bytes>,
    /// Whether it is to be told what it had.
    pub told: bool,
    pub lifetime: Bytes,
    pub idle: Bytes,
}

/// The channels of a map, as the scripts count them from 2.
pub(crate) fn channels(key: &[u8]) -> [Bytes; 4] {
    ["created", "updated", "removed", "expired"].map(|what| companion(&format!("redisson_map_cache_{what}"), key))
}

/// A script on a packed map, and the keys that it writes.
pub(crate) fn packed<'a>(
    script: &'static BulkScript,
    place: &Place,
    written: impl IntoIterator<Item = &'a Bytes>,
) -> Result<Request, ObjectError> {
    let key = place.named()?.1;
    let leases = companion("redisson__map__lease", key);
    let leases = written.into_iter().map(|field| [&leases[..], b":", &field[..]].concat().into());
    let request = script.with(layouts::map_cache(key).into_iter().chain(leases)).publish_here();
    Ok(channels(key).into_iter().fold(request, Request::arg))
}

fn native(script: &'static BulkScript, place: &Place) -> Result<Request, ObjectError> {
    Ok(script.with([place.named()?.1.clone()]))
}

/// With these behind.
fn and(request: Request, args: &[Bytes]) -> Request {
    args.iter().cloned().fold(request, Request::arg)
}

pub(crate) mod sealed {
    use super::*;

    /// The requests.
    pub trait Requests {
        const NAME: &'static str;
        const KEYS: redgrid_core::object::Layout;
        /// The last time at which an entry may end, in milliseconds since 1970, and in words.
        const LATEST: (u128, &'static str);
        fn read(place: &Place, asked: Asked, fields: &[Bytes]) -> Result<Request, ObjectError>;
        fn put(place: &Place, said: &Said, entries: &[(Bytes, Bytes)]) -> Result<Request, ObjectError>;
        fn remove(place: &Place, told: bool, fields: &[Bytes], expected: Option<Bytes>)
        -> Result<Request, ObjectError>;
        fn expire(
            place: &Place,
            only_endless: bool,
            lifetime: &Bytes,
            idle: &Bytes,
            fields: &[Bytes],
        ) -> Result<Request, ObjectError>;
        fn left(place: &Place, fields: &[Bytes]) -> Result<Request, ObjectError>;
        fn scan(place: &Place, at: Bytes, page: u32, pattern: Option<Bytes>) -> Result<Request, ObjectError>;
        /// Whether an answer to [`Asked::Has`] tells that a key is there.
        fn is_there(told: &Bytes) -> bool;
        /// So many that are over are taken out, or nothing where the server does that.
        fn len(place: &Place, most: i64) -> Result<Option<Request>, ObjectError>;
        fn clear(place: &Place) -> Result<Request, ObjectError>;
    }
}

impl sealed::Requests for Packed {
    const NAME: &'static str = "MapCache";
    const KEYS: redgrid_core::object::Layout = layouts::map_cache;
    const LATEST: (u128, &'static str) = (u128::MAX, TIMES_EXPECTED);

    fn read(place: &Place, asked: Asked, fields: &[Bytes]) -> Result<Request, ObjectError> {
        let asked = match asked {
            Asked::Use => "use",
            Asked::Has => "has",
            Asked::Peek => "peek",
        };
        Ok(and(packed(&GET, place, [])?.arg(asked), fields))
    }

    fn put(place: &Place, said: &Said, entries: &[(Bytes, Bytes)]) -> Result<Request, ObjectError> {
        let request = packed(&PUT, place, entries.iter().map(|(field, _)| field))?.arg(said.condition);
        let request = request.int(said.told.into()).arg(said.lifetime.clone()).arg(said.idle.clone());
        Ok(with_entries(request, said, entries))
    }

    fn remove(place: &Place, told: bool, fields: &[Bytes], expected: Option<Bytes>) -> Result<Request, ObjectError> {
        Ok(removing(packed(&REMOVE, place, fields)?, told, fields, expected))
    }

    fn expire(
        place: &Place,
        only_endless: bool,
        lifetime: &Bytes,
        idle: &Bytes,
        fields: &[Bytes],
    ) -> Result<Request, ObjectError> {
        let request = packed(&EXPIRE, place, [])?.int(only_endless.into());
        Ok(and(request.arg(lifetime.clone()).arg(idle.clone()), fields))
    }

    fn left(place: &Place, fields: &[Bytes]) -> Result<Request, ObjectError> {
        Ok(and(packed(&LEFT, place, [])?, fields))
    }

    fn scan(place: &Place, at: Bytes, page: u32, pattern: Option<Bytes>) -> Result<Request, ObjectError> {
        Ok(packed(&SCAN, place, [])?.arg(at).int(page.into()).arg(pattern.unwrap_or_default()))
    }

    fn is_there(told: &Bytes) -> bool {
        &told[..] == b"1"
    }

    fn len(place: &Place, most: i64) -> Result<Option<Request>, ObjectError> {
        Ok(Some(packed(&LEN, place, [])?.int(most)))
    }

    fn clear(place: &Place) -> Result<Request, ObjectError> {
        packed(&CLEAR, place, [])
    }
}

impl sealed::Requests for Native {
    const NAME: &'static str = "NativeMapCache";
    const KEYS: redgrid_core::object::Layout = alone;
    // Redis keeps 46 bits.
    const LATEST: (u128, &'static str) =
        ((1 << 46) - 1, "a time between the year 1970 and November 4199, as servers know for fields");

    fn read(place: &Place, _: Asked, fields: &[Bytes]) -> Result<Request, ObjectError> {
        Ok(and(place.command("HMGET")?, fields).reads())
    }

    fn put(place: &Place, said: &Said, entries: &[(Bytes, Bytes)]) -> Result<Request, ObjectError> {
        let request = native(&NATIVE_PUT, place)?.arg(said.condition).int(said.told.into());
        Ok(with_entries(request.arg(said.lifetime.clone()), said, entries))
    }

    fn remove(place: &Place, told: bool, fields: &[Bytes], expected: Option<Bytes>) -> Result<Request, ObjectError> {
        Ok(removing(native(&NATIVE_REMOVE, place)?, told, fields, expected))
    }

    fn expire(
        place: &Place,
        only_endless: bool,
        lifetime: &Bytes,
        _: &Bytes,
        fields: &[Bytes],
    ) -> Result<Request, ObjectError> {
        let request = native(&NATIVE_EXPIRE, place)?.int(only_endless.into());
        Ok(and(request.arg(lifetime.clone()), fields))
    }

    fn left(place: &Place, fields: &[Bytes]) -> Result<Request, ObjectError> {
        let count = i64::try_from(fields.len()).unwrap_or(i64::MAX);
        Ok(and(place.command("HPTTL")?.arg("FIELDS").int(count), fields))
    }

    fn scan(place: &Place, at: Bytes, page: u32, pattern: Option<Bytes>) -> Result<Request, ObjectError> {
        let request = place.command("HSCAN")?.arg(at).arg("COUNT").int(page.into());
        Ok(pattern.into_iter().fold(request, |request, pattern| request.arg("MATCH").arg(pattern)))
    }

    fn is_there(_: &Bytes) -> bool {
        true
    }

    fn len(_: &Place, _: i64) -> Result<Option<Request>, ObjectError> {
        Ok(None)
    }

    fn clear(place: &Place) -> Result<Request, ObjectError> {
        place.command("UNLINK")
    }
}

fn with_entries(request: Request, said: &Said, entries: &[(Bytes, Bytes)]) -> Request {
    let entries = entries.iter().flat_map(|(field, value)| [field.clone(), value.clone()]);
    entries.chain(said.expected.clone()).fold(request, Request::arg)
}

fn removing(request: Request, told: bool, fields: &[Bytes], expected: Option<Bytes>) -> Request {
    let how = match (&expected, told) {
        (Some(_), _) => "equal",
        (None, true) => "1",
        (None, false) => "0",
    };
    expected.into_iter().fold(and(request.arg(how), fields), Request::arg)
}
