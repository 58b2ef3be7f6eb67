//! The two layouts of a map cache: packed entries as in Redisson, and hash fields that the server
//! expires.

use bytes::Bytes;
use redgrid_core::name::companion;
use redgrid_core::object::{ObjectError, ObjectRef, alone, layouts};
use redgrid_core::{BulkScript, Request, TIMES_EXPECTED};

/// How a map cache stores its entries: [`Packed`] or [`Native`]. The trait is sealed.
pub trait Layout: sealed::Requests + Send + Sync + 'static {}

/// The layout of Redisson's `RMapCache`: lifetimes and idle times in keys of their own, on every
/// server.
#[derive(Debug, Clone, Copy)]
// Not `#[non_exhaustive]`: a marker, which has no values.
pub enum Packed {}

/// The layout of Redisson's `RMapCacheNative`: a plain hash. The server removes expired fields.
///
/// Requires Redis 7.4 or Valkey 9.
#[derive(Debug, Clone, Copy)]
// Not `#[non_exhaustive]`: a marker, which has no values.
pub enum Native {}

impl Layout for Packed {}
impl Layout for Native {}

/// Declares a script of a packed map, with `packed.lua` as its prelude.
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
packed!(TTL, "ttl");
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

/// The result of a read of keys, and whether the read counts as an access.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
// Not `#[non_exhaustive]`: only this crate can name it.
#[expect(unnameable_types, reason = "only the sealed `Layout` uses it")]
pub enum ReadKind {
    /// The values; counts as an access.
    Get,
    /// Whether the keys exist; counts as an access.
    Contains,
    /// The values, without changing anything.
    Peek,
}

/// The options of a put, the same for all of its entries.
#[derive(Debug, Clone)]
// Not `#[non_exhaustive]`: only this crate can name it.
#[expect(unnameable_types, reason = "only the sealed `Layout` uses it")]
pub struct PutOptions {
    /// The condition for each key: any, absent, present, or equal to `expected`.
    pub condition: &'static str,
    /// The value that the key must have for the condition `equal`.
    pub expected: Option<Bytes>,
    /// Whether the previous values are returned.
    pub return_previous: bool,
    pub lifetime: Bytes,
    pub idle: Bytes,
}

/// The event channels of a map; the scripts receive them as ARGV[2…5].
pub(crate) fn channels(key: &[u8]) -> [Bytes; 4] {
    ["created", "updated", "removed", "expired"].map(|event| companion(&format!("redisson_map_cache_{event}"), key))
}

/// Builds a call of a script on a packed map that writes the keys `written`.
pub(crate) fn packed<'a>(
    script: &'static BulkScript,
    object_ref: &ObjectRef,
    written: impl IntoIterator<Item = &'a Bytes>,
) -> Result<Request, ObjectError> {
    let key = object_ref.name_and_key()?.1;
    let leases = companion("redisson__map__lease", key);
    let leases = written.into_iter().map(|field| [&leases[..], b":", &field[..]].concat().into());
    let request = script.with(layouts::map_cache(key).into_iter().chain(leases)).publish_arg();
    Ok(channels(key).into_iter().fold(request, Request::arg))
}

fn native(script: &'static BulkScript, object_ref: &ObjectRef) -> Result<Request, ObjectError> {
    Ok(script.with([object_ref.name_and_key()?.1.clone()]))
}

/// Appends arguments to a request.
fn with_args(request: Request, args: &[Bytes]) -> Request {
    args.iter().cloned().fold(request, Request::arg)
}

#[expect(unnameable_types, reason = "seals `Layout`")]
pub(crate) mod sealed {
    use super::*;

    /// The requests of a layout.
    pub trait Requests {
        const NAME: &'static str;
        const KEYS: redgrid_core::object::Layout;
        /// The latest expiry of an entry, in milliseconds since 1970, and its description for
        /// errors.
        const LATEST: (u128, &'static str);
        fn read(object_ref: &ObjectRef, kind: ReadKind, fields: &[Bytes]) -> Result<Request, ObjectError>;
        fn put(
            object_ref: &ObjectRef,
            options: &PutOptions,
            entries: &[(Bytes, Bytes)],
        ) -> Result<Request, ObjectError>;
        fn remove(
            object_ref: &ObjectRef,
            return_previous: bool,
            fields: &[Bytes],
            expected: Option<Bytes>,
        ) -> Result<Request, ObjectError>;
        fn expire(
            object_ref: &ObjectRef,
            only_if_no_expiry: bool,
            lifetime: &Bytes,
            idle: &Bytes,
            fields: &[Bytes],
        ) -> Result<Request, ObjectError>;
        fn remaining_lifetimes(object_ref: &ObjectRef, fields: &[Bytes]) -> Result<Request, ObjectError>;
        fn scan(
            object_ref: &ObjectRef,
            cursor: Bytes,
            page: u32,
            pattern: Option<Bytes>,
        ) -> Result<Request, ObjectError>;
        /// Returns whether a reply to [`ReadKind::Contains`] means that the key exists.
        fn is_present(reply: &Bytes) -> bool;
        /// Builds the request that counts entries and removes up to `most` expired ones; `None` if
        /// the server removes them.
        fn len(object_ref: &ObjectRef, most: i64) -> Result<Option<Request>, ObjectError>;
        fn clear(object_ref: &ObjectRef) -> Result<Request, ObjectError>;
    }
}

impl sealed::Requests for Packed {
    const NAME: &'static str = "MapCache";
    const KEYS: redgrid_core::object::Layout = layouts::map_cache;
    const LATEST: (u128, &'static str) = (u128::MAX, TIMES_EXPECTED);

    fn read(object_ref: &ObjectRef, kind: ReadKind, fields: &[Bytes]) -> Result<Request, ObjectError> {
        let kind = match kind {
            ReadKind::Get => "use",
            ReadKind::Contains => "has",
            ReadKind::Peek => "peek",
        };
        Ok(with_args(packed(&GET, object_ref, [])?.arg(kind), fields))
    }

    fn put(object_ref: &ObjectRef, options: &PutOptions, entries: &[(Bytes, Bytes)]) -> Result<Request, ObjectError> {
        let request = packed(&PUT, object_ref, entries.iter().map(|(field, _)| field))?.arg(options.condition);
        let request =
            request.int(options.return_previous.into()).arg(options.lifetime.clone()).arg(options.idle.clone());
        Ok(with_entries(request, options, entries))
    }

    fn remove(
        object_ref: &ObjectRef,
        return_previous: bool,
        fields: &[Bytes],
        expected: Option<Bytes>,
    ) -> Result<Request, ObjectError> {
        Ok(with_removal(packed(&REMOVE, object_ref, fields)?, return_previous, fields, expected))
    }

    fn expire(
        object_ref: &ObjectRef,
        only_if_no_expiry: bool,
        lifetime: &Bytes,
        idle: &Bytes,
        fields: &[Bytes],
    ) -> Result<Request, ObjectError> {
        let request = packed(&EXPIRE, object_ref, [])?.int(only_if_no_expiry.into());
        Ok(with_args(request.arg(lifetime.clone()).arg(idle.clone()), fields))
    }

    fn remaining_lifetimes(object_ref: &ObjectRef, fields: &[Bytes]) -> Result<Request, ObjectError> {
        Ok(with_args(packed(&TTL, object_ref, [])?, fields))
    }

    fn scan(object_ref: &ObjectRef, cursor: Bytes, page: u32, pattern: Option<Bytes>) -> Result<Request, ObjectError> {
        Ok(packed(&SCAN, object_ref, [])?.arg(cursor).int(page.into()).arg(pattern.unwrap_or_default()))
    }

    fn is_present(reply: &Bytes) -> bool {
        &reply[..] == b"1"
    }

    fn len(object_ref: &ObjectRef, most: i64) -> Result<Option<Request>, ObjectError> {
        Ok(Some(packed(&LEN, object_ref, [])?.int(most)))
    }

    fn clear(object_ref: &ObjectRef) -> Result<Request, ObjectError> {
        packed(&CLEAR, object_ref, [])
    }
}

impl sealed::Requests for Native {
    const NAME: &'static str = "NativeMapCache";
    const KEYS: redgrid_core::object::Layout = alone;
    // Redis stores expiry times of fields in 46 bits.
    const LATEST: (u128, &'static str) =
        ((1 << 46) - 1, "a time between the year 1970 and November 4199, the limit of servers for fields");

    fn read(object_ref: &ObjectRef, _: ReadKind, fields: &[Bytes]) -> Result<Request, ObjectError> {
        Ok(with_args(object_ref.command("HMGET")?, fields).reads())
    }

    fn put(object_ref: &ObjectRef, options: &PutOptions, entries: &[(Bytes, Bytes)]) -> Result<Request, ObjectError> {
        let request = native(&NATIVE_PUT, object_ref)?.arg(options.condition).int(options.return_previous.into());
        Ok(with_entries(request.arg(options.lifetime.clone()), options, entries))
    }

    fn remove(
        object_ref: &ObjectRef,
        return_previous: bool,
        fields: &[Bytes],
        expected: Option<Bytes>,
    ) -> Result<Request, ObjectError> {
        Ok(with_removal(native(&NATIVE_REMOVE, object_ref)?, return_previous, fields, expected))
    }

    fn expire(
        object_ref: &ObjectRef,
        only_if_no_expiry: bool,
        lifetime: &Bytes,
        _: &Bytes,
        fields: &[Bytes],
    ) -> Result<Request, ObjectError> {
        let request = native(&NATIVE_EXPIRE, object_ref)?.int(only_if_no_expiry.into());
        Ok(with_args(request.arg(lifetime.clone()), fields))
    }

    fn remaining_lifetimes(object_ref: &ObjectRef, fields: &[Bytes]) -> Result<Request, ObjectError> {
        let count = i64::try_from(fields.len()).unwrap_or(i64::MAX);
        Ok(with_args(object_ref.command("HPTTL")?.arg("FIELDS").int(count), fields))
    }

    fn scan(object_ref: &ObjectRef, cursor: Bytes, page: u32, pattern: Option<Bytes>) -> Result<Request, ObjectError> {
        let request = object_ref.command("HSCAN")?.arg(cursor).arg("COUNT").int(page.into());
        Ok(pattern.into_iter().fold(request, |request, pattern| request.arg("MATCH").arg(pattern)))
    }

    fn is_present(_: &Bytes) -> bool {
        true
    }

    fn len(_: &ObjectRef, _: i64) -> Result<Option<Request>, ObjectError> {
        Ok(None)
    }

    fn clear(object_ref: &ObjectRef) -> Result<Request, ObjectError> {
        object_ref.command("UNLINK")
    }
}

fn with_entries(request: Request, options: &PutOptions, entries: &[(Bytes, Bytes)]) -> Request {
    let entries = entries.iter().flat_map(|(field, value)| [field.clone(), value.clone()]);
    entries.chain(options.expected.clone()).fold(request, Request::arg)
}

fn with_removal(request: Request, return_previous: bool, fields: &[Bytes], expected: Option<Bytes>) -> Request {
    let mode = match (&expected, return_previous) {
        (Some(_), _) => "equal",
        (None, true) => "1",
        (None, false) => "0",
    };
    expected.into_iter().fold(with_args(request.arg(mode), fields), Request::arg)
}
