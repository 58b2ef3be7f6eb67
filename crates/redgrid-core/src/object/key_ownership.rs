//! Finds the object to which a key belongs, and all keys that an object with a given name can have.
//! The type of the object need not be known.
//!
//! This module is used to delete objects by name, and to list objects. The module
//! [`layouts`](super::layouts) lists the keys of each type; this module contains the rules that
//! apply to all types.
//!
//! If the form of a key shows that it is not the name of an object, its object is derived from the
//! key alone ([`owner_of`]). Other keys are ambiguous: `{a}:timeout` may be a companion of `a`, or
//! another object. For such a key, [`possible_owner`] returns the possible object and a condition
//! to be checked on the server. [`COMPANION_SUFFIXES`] lists the suffixes of such companions.

use std::sync::LazyLock;

use bytes::Bytes;

use super::layouts::{ALL, CACHE_OPTIONS, LIST_MULTIMAP_ENDS, SET_MULTIMAP_ENDS};
use crate::name::{companion, suffixed, tagged};

/// The role of a key for its object. The role decides whether the key is deleted when the object is
/// deleted by name.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
// Not `#[non_exhaustive]`: only implementations of object types use it.
pub enum OnDelete {
    /// The key is a companion, and is deleted with the object.
    Delete,
    /// The key has a prefix and stores the object itself. The object stores nothing under its bare
    /// name.
    Primary,
    /// The key has a prefix. It stores the object itself if the key of the bare name is absent;
    /// otherwise it is a companion. An example is the capacity of a ring.
    PrimaryIfAlone,
    /// The key is not deleted with the object, because it protects against late requests. Examples
    /// are tokens, fences and stored replies. The key expires later, or never.
    Keep,
}

/// A prefix of keys. In these keys, the name of the object follows the prefix, in braces.
struct Prefix {
    text: String,
    on_delete: OnDelete,
    /// Whether an id can follow the name. After the id, there can be a number or a word.
    with_id: bool,
}

/// The prefixes of keys that are in no [layout](super::layouts). For each prefix: the role of its
/// keys, and whether an id can follow the name.
///
/// The key with the first prefix stores the saved total of an adder. Each of the other keys belongs
/// to a single client or to one round of an adder, is short-lived, or outlives its object.
const OTHER_PREFIXES: [(&str, OnDelete, bool); 13] = [
    ("redgrid_adder", OnDelete::Primary, false),
    ("redgrid_wait", OnDelete::Delete, false),
    ("redgrid_rate", OnDelete::Delete, true),
    ("redgrid_adder_round", OnDelete::Delete, true),
    ("redgrid_adder_saved", OnDelete::Keep, true),
    ("redgrid_once", OnDelete::Keep, true),
    ("redgrid_queue_back", OnDelete::Keep, true),
    ("redgrid_fence", OnDelete::Keep, true),
    ("redgrid_renamed", OnDelete::Keep, false),
    ("redisson_lock_token", OnDelete::Keep, false),
    ("redgrid_quorum_token", OnDelete::Keep, false),
    ("redisson_unlock_latch", OnDelete::Keep, true),
    ("redgrid_commit", OnDelete::Keep, false),
];

/// The key of a server's incarnation mark, without the namespace. The mark consists of the id of
/// the server's process, and of the time from which that process votes in a quorum. See `Quorum` in
/// `redgrid-locks`.
const SERVER_INCARNATION: &[u8] = b"redgrid_birth";

/// Maximum length of keys that are examined. Every key of redgrid is shorter, even the longest: a
/// companion of a companion, with a namespace, a name and ids.
const MAX_KEY_LEN: usize = 2_048;

/// The prefixes of all keys in docs/internals/keys.md.
static PREFIXES: LazyLock<Vec<Prefix>> = LazyLock::new(|| {
    let mut all: Vec<Prefix> = Vec::new();
    let others = OTHER_PREFIXES.iter().map(|(text, on_delete, with_id)| (format!("{text}:"), *on_delete, *with_id));
    let keys = ALL.iter().flat_map(|kind| (kind.keys)(b"x").into_iter().enumerate().map(|at| (at, kind.primary_keys)));
    let layouts = keys.filter_map(|((at, key), primary_keys)| {
        let text = std::str::from_utf8(&key).ok()?.strip_suffix("{x}").filter(|text| !text.is_empty())?.to_owned();
        let on_delete = match (at < primary_keys, primary_keys) {
            (true, 1) => OnDelete::Primary,
            (true, _) => OnDelete::PrimaryIfAlone,
            (false, _) => OnDelete::Delete,
        };
        Some((text, on_delete, false))
    });
    for (text, on_delete, with_id) in others.chain(layouts) {
        // If a companion is itself a lock, the keys of its queue have two prefixes. Such pairs are
        // not listed, because `owner_of` removes both prefixes, one after the other.
        if !text.trim_end_matches(':').contains(':') && !all.iter().any(|known| known.text == text) {
            all.push(Prefix { text, on_delete, with_id });
        }
    }
    all
});

/// Suffixes of companions whose keys are `{name}:<suffix>`.
///
/// `timeout` stores the leases of a semaphore, or the subscribers of a reliable topic. `value` and
/// `permits` store the available and the taken permits of a rate limiter. `allocation` stores the
/// block size of an id generator, and `config` the configuration of a Bloom filter. Such a key can
/// also be the name of another object. So the data types and the contents of this key and of the
/// key `name` decide whether this key is a companion.
pub const COMPANION_SUFFIXES: [&str; 5] = ["timeout", "value", "permits", "allocation", "config"];

/// Index of `config` in [`COMPANION_SUFFIXES`]. The key with this suffix stores the configuration
/// of a Bloom filter, and is the only key of an empty filter.
pub const FILTER_CONFIG: usize = 4;

/// Returns the keys that an object with this name can have. The [`primary_keys`] come first.
///
/// The list covers all types of objects, so most of its keys do not exist. The list omits three
/// groups: the [`suffixed_companions`], the keys that also contain an id, and the keys that outlive
/// the object.
pub fn owned_keys(key: &[u8]) -> Vec<Bytes> {
    let suffixed_companions = suffixed_companions(key);
    let all = ALL.iter().flat_map(|kind| (kind.keys)(key)).filter(|own| !suffixed_companions.contains(own));
    let more = OTHER_PREFIXES.iter().filter(|(_, on_delete, with_id)| *on_delete != OnDelete::Keep && !with_id);
    let mut own = primary_keys(key);
    for key in all.chain(more.map(|(prefix, ..)| companion(prefix, key))) {
        if !own.contains(&key) {
            own.push(key);
        }
    }
    own
}

/// Returns the primary keys that an object with this name can have. The key of the bare name comes
/// first; the object can also exist without it.
///
/// The object exists if one of these keys exists, or if the configuration of a Bloom filter exists
/// ([`FILTER_CONFIG`]).
pub fn primary_keys(key: &[u8]) -> Vec<Bytes> {
    let key_of = |prefix: &Prefix| [prefix.text.as_bytes(), &tagged(key)].concat().into();
    let is_primary = |prefix: &&Prefix| matches!(prefix.on_delete, OnDelete::Primary | OnDelete::PrimaryIfAlone);
    let primary_keys = PREFIXES.iter().filter(is_primary).map(key_of);
    [Bytes::copy_from_slice(key)].into_iter().chain(primary_keys).collect()
}

/// Returns the keys of an object's companions with [`COMPANION_SUFFIXES`], in the order of these
/// suffixes.
pub fn suffixed_companions(key: &[u8]) -> [Bytes; 5] {
    COMPANION_SUFFIXES.map(|suffix| suffixed(key, suffix))
}

/// Returns the object to which a key belongs, and the role of the key, if the form of the key shows
/// both. The role decides whether the key is deleted with the object.
///
/// Returns `None` if the key is, or may be, the name of an object.
pub fn owner_of(key: &[u8]) -> Option<(Bytes, OnDelete)> {
    if key.len() > MAX_KEY_LEN {
        return None;
    }
    if key.strip_suffix(SERVER_INCARNATION).is_some_and(|rest| rest.is_empty() || rest.ends_with(b":")) {
        return Some((Bytes::copy_from_slice(key), OnDelete::Keep));
    }
    let (object, on_delete) = by_shape(key)?;
    // `object` may itself be a companion of another object. In that case the other object is
    // returned. First example: `object` is the entry gate of a read-write lock, and `key` belongs
    // to the queue of this gate. Second example: `object` is a key of an adder's round, and `key`
    // stores a reply for that round.
    let of_round =
        || by_id(&object).filter(|_| on_delete == OnDelete::Keep).map(|candidate| (candidate.object, on_delete));
    match by_shape(&object).or_else(of_round) {
        Some((outer, _)) if on_delete == OnDelete::Keep => Some((outer, on_delete)),
        Some((outer, _)) => Some((outer, OnDelete::Delete)),
        None => Some((object, on_delete)),
    }
}

/// An object to which the examined key may belong. The examined key may instead be the name of
/// another object, so the `evidence` must be checked on the server.
#[derive(Debug, Clone, PartialEq, Eq)]
// Not `#[non_exhaustive]`: only implementations of object types use it.
pub struct MaybeOwned {
    /// The key of the object.
    pub object: Bytes,
    /// The condition under which the examined key belongs to the object.
    pub evidence: Evidence,
}

/// The condition under which an examined key belongs to an object.
#[derive(Debug, Clone, PartialEq, Eq)]
// Not `#[non_exhaustive]`: only implementations of object types use it.
pub enum Evidence {
    /// The object's key and the examined key must have certain data types and, for some types,
    /// certain contents. The required types and contents depend on the suffix with this index in
    /// [`COMPANION_SUFFIXES`].
    Types(usize),
    /// A third key must exist: the one in this variant.
    Exists(Bytes),
    /// The object must be a multimap. The examined key then stores the values of one multimap key.
    Multimap,
}

/// Returns the object to which this key may belong as a companion, and the condition to be checked.
pub fn possible_owner(key: &[u8]) -> Option<MaybeOwned> {
    if key.len() > MAX_KEY_LEN {
        return None;
    }
    let by_name = |(at, suffix): (usize, &&str)| {
        let object = untagged(key.strip_suffix(suffix.as_bytes())?.strip_suffix(b":")?)?;
        Some(MaybeOwned { object, evidence: Evidence::Types(at) })
    };
    COMPANION_SUFFIXES.iter().enumerate().find_map(by_name).or_else(|| by_id(key)).or_else(|| by_hash(key))
}

/// Recognizes a Redis key with the values of a multimap key: `{name}:<hash of the multimap key>`.
fn by_hash(key: &[u8]) -> Option<MaybeOwned> {
    let (before, [hash]) = last_segments(key)?;
    Some(MaybeOwned { object: untagged(before).filter(|_| is_hash(hash))?, evidence: Evidence::Multimap })
}

/// Returns whether these bytes can be the hash of a multimap key.
///
/// Such a hash is 128 bits in base64 without padding.
pub fn is_hash(text: &[u8]) -> bool {
    text.len() == 22 && text.iter().all(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'+' | b'/'))
}

fn by_shape(key: &[u8]) -> Option<(Bytes, OnDelete)> {
    by_prefix(key).or_else(|| reader_lease(key)).or_else(|| by_suffix(key))
}

fn by_prefix(key: &[u8]) -> Option<(Bytes, OnDelete)> {
    let (known, rest) = PREFIXES.iter().find_map(|known| Some((known, key.strip_prefix(known.text.as_bytes())?)))?;
    let rest = if known.with_id { strip_id(rest) } else { rest };
    Some((untagged(rest)?, known.on_delete))
}

/// Recognizes the lease of a reader: `{name}:<id>:<number>:rwlock_timeout:<number>`. Users do not
/// name their objects like this.
fn reader_lease(key: &[u8]) -> Option<(Bytes, OnDelete)> {
    let (before, [id, _, segment, number]) = last_segments(key)?;
    let is_number = !number.is_empty() && number.iter().all(u8::is_ascii_digit);
    let is_lease = is_id(id) && segment == b"rwlock_timeout" && is_number;
    Some((untagged(before).filter(|_| is_lease)?, OnDelete::Delete))
}

/// Recognizes the options of a map cache and the lifetimes of multimap keys by their suffixes.
/// Users do not give such suffixes to names.
fn by_suffix(key: &[u8]) -> Option<(Bytes, OnDelete)> {
    let (before, [segment]) = last_segments(key)?;
    let is_known =
        [CACHE_OPTIONS, SET_MULTIMAP_ENDS, LIST_MULTIMAP_ENDS].iter().any(|known| known.as_bytes() == segment);
    Some((untagged(before).filter(|_| is_known)?, OnDelete::Delete))
}

/// Recognizes keys with an id: a rate limiter's keys for the permits of one client, and the keys of
/// one round of an adder.
fn by_id(key: &[u8]) -> Option<MaybeOwned> {
    let (before, [first, last]) = last_segments(key)?;
    let index_of = |segment: &[u8]| COMPANION_SUFFIXES.iter().position(|suffix| suffix.as_bytes() == segment);
    match (first, last) {
        (b"value" | b"permits", id) if is_id(id) => {
            Some(MaybeOwned { object: untagged(before)?, evidence: Evidence::Types(index_of(first)?) })
        }
        (id, b"counter" | b"semaphore") if is_id(id) => {
            let object = untagged(before)?;
            let round = [&companion("redgrid_adder_round", &object)[..], b":", id].concat();
            Some(MaybeOwned { object, evidence: Evidence::Exists(round.into()) })
        }
        _ => None,
    }
}

/// Splits a key at its last `N` colons. Returns the text before these colons, and the `N` segments
/// after them.
fn last_segments<const N: usize>(key: &[u8]) -> Option<(&[u8], [&[u8]; N])> {
    let mut segments = [&b""[..]; N];
    let mut before = key;
    for segment in segments.iter_mut().rev() {
        let colon = before.iter().rposition(|byte| *byte == b':')?;
        (before, *segment) = (&before[..colon], &before[colon + 1..]);
    }
    Some((before, segments))
}

/// Removes an id from the end of a text, together with the number or word that may follow the id.
fn strip_id(rest: &[u8]) -> &[u8] {
    let id_last = last_segments::<1>(rest).filter(|(_, [id])| is_id(id)).map(|(before, _)| before);
    let id_before_last = || last_segments::<2>(rest).filter(|(_, [id, _])| is_id(id)).map(|(before, _)| before);
    id_last.or_else(id_before_last).unwrap_or(rest)
}

/// Returns whether `part` is a UUID, or 16 bytes in hex.
fn is_id(part: &[u8]) -> bool {
    let is_hex = |part: &[u8]| part.iter().all(|byte| byte.is_ascii_hexdigit() && !byte.is_ascii_uppercase());
    match part.len() {
        32 => is_hex(part),
        36 => {
            let mut segments = part.split(|byte| *byte == b'-');
            [8, 4, 4, 4, 12].iter().all(|len| segments.next().is_some_and(|part| part.len() == *len && is_hex(part)))
        }
        _ => false,
    }
}

/// Reverses [`tagged`]. Returns the text within the braces, or the whole text if the name has a
/// hash tag of its own; `None` if there is no `{`.
fn untagged(tagged: &[u8]) -> Option<Bytes> {
    let inner = tagged.strip_prefix(b"{").and_then(|rest| rest.strip_suffix(b"}"));
    match inner {
        Some(inner) if !inner.is_empty() && !inner.iter().any(|byte| matches!(byte, b'{' | b'}')) => {
            Some(Bytes::copy_from_slice(inner))
        }
        _ => tagged.contains(&b'{').then(|| Bytes::copy_from_slice(tagged)),
    }
}

#[cfg(test)]
mod tests;
