//! Which object a key belongs to, and which keys may belong to a name of whose type nothing is known: what is behind deletion by
//! names and streams of objects. The keys of each type are in [`layouts`](super::layouts); here is what they have in common.
//!
//! What a key belongs to is read off the key itself, so only shapes that are no names of users' own count. What is beside an
//! object under a name that could be somebody's own (`{a}:timeout`) is in [`BESIDE`], and has to be looked at.

use std::sync::LazyLock;

use bytes::Bytes;

use super::layouts::{ALL, CACHE_OPTIONS, LIST_MULTIMAP_ENDS, SET_MULTIMAP_ENDS};
use crate::name::{companion, suffixed, tagged};

/// What becomes of a key when the object to which it belongs is deleted by its name.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Fate {
    /// It is deleted with it.
    Goes,
    /// It is the object itself: there is nothing under the plain name.
    Is,
    /// It is the object itself where nothing is under the plain name, and a companion otherwise: a ring's capacity.
    IsAlone,
    /// It is what protects from those who are late: tokens, fences, what was answered. It ends by itself, or is to stay.
    Stays,
}

/// What is in front of the braces.
struct Prefix {
    text: String,
    fate: Fate,
    /// An id may be behind the name, and a number or a word behind that.
    with_id: bool,
}

/// What no layout has: what single clients and rounds have for themselves, what is over within seconds, what outlives its object.
const BESIDES_LAYOUTS: [(&str, Fate, bool); 13] = [
    ("redgrid_adder", Fate::Is, false),
    ("redgrid_wait", Fate::Goes, false),
    ("redgrid_rate", Fate::Goes, true),
    ("redgrid_adder_round", Fate::Goes, true),
    ("redgrid_adder_saved", Fate::Stays, true),
    ("redgrid_once", Fate::Stays, true),
    ("redgrid_queue_back", Fate::Stays, true),
    ("redgrid_fence", Fate::Stays, true),
    ("redgrid_renamed", Fate::Stays, false),
    ("redisson_lock_token", Fate::Stays, false),
    ("redgrid_quorum_token", Fate::Stays, false),
    ("redisson_unlock_latch", Fate::Stays, true),
    ("redgrid_commit", Fate::Stays, false),
];

/// When the process of a server of a quorum began to vote.
const BIRTH: &[u8] = b"redgrid_birth";

/// Longer than a name behind a namespace in a companion of a companion, with ids: no key of ours is.
const LONGEST: usize = 2_048;

/// Every prefix of docs/keys.md.
static PREFIXES: LazyLock<Vec<Prefix>> = LazyLock::new(|| {
    let mut all: Vec<Prefix> = Vec::new();
    let besides = BESIDES_LAYOUTS.iter().map(|(text, fate, with_id)| (format!("{text}:"), *fate, *with_id));
    let keys = ALL.iter().flat_map(|kind| (kind.keys)(b"x").into_iter().enumerate().map(|at| (at, kind.faces)));
    let layouts = keys.filter_map(|((at, key), faces)| {
        let text = std::str::from_utf8(&key).ok()?.strip_suffix("{x}").filter(|text| !text.is_empty())?.to_owned();
        let fate = match (at < faces, faces) {
            (true, 1) => Fate::Is,
            (true, _) => Fate::IsAlone,
            (false, _) => Fate::Goes,
        };
        Some((text, fate, false))
    });
    for (text, fate, with_id) in besides.chain(layouts) {
        // The queue of what is a lock itself is found by its own prefix.
        if !text.trim_end_matches(':').contains(':') && !all.iter().any(|known| known.text == text) {
            all.push(Prefix { text, fate, with_id });
        }
    }
    all
});

/// What may be beside an object, behind its name: the leases of a semaphore; the free permits of a rate limiter, and those that
/// were taken; the size of a generator's blocks; the configuration of a Bloom filter. Another object may have that very name, so the
/// types of both are read before the key counts as a companion.
pub const BESIDE: [&str; 5] = ["timeout", "value", "permits", "allocation", "config"];

/// The place in [`BESIDE`] of the key by which an empty Bloom filter exists.
pub const FILTER_CONFIG: usize = 4;

/// The keys by which an object exists ([`faces`]), and after them all other keys that would belong to it: most of them are
/// absent.
pub fn belongings(key: &[u8]) -> Vec<Bytes> {
    let beside = beside(key);
    let all = ALL.iter().flat_map(|kind| (kind.keys)(key)).filter(|own| !beside.contains(own));
    let more = BESIDES_LAYOUTS.iter().filter(|(_, fate, with_id)| *fate != Fate::Stays && !with_id);
    let mut own = faces(key);
    for key in all.chain(more.map(|(prefix, ..)| companion(prefix, key))) {
        if !own.contains(&key) {
            own.push(key);
        }
    }
    own
}

/// The key of an object, and after it those of the types that may have nothing under the plain name: the object exists where
/// one of them does, or where a Bloom filter's configuration does ([`FILTER_CONFIG`]).
pub fn faces(key: &[u8]) -> Vec<Bytes> {
    let face = |prefix: &Prefix| [prefix.text.as_bytes(), &tagged(key)].concat().into();
    let faces = PREFIXES.iter().filter(|prefix| matches!(prefix.fate, Fate::Is | Fate::IsAlone)).map(face);
    [Bytes::copy_from_slice(key)].into_iter().chain(faces).collect()
}

/// What is [`BESIDE`] an object, if it is there.
pub fn beside(key: &[u8]) -> [Bytes; 5] {
    BESIDE.map(|suffix| suffixed(key, suffix))
}

/// The key of the object to which a key belongs by its shape, and what becomes of it; `None` where it is an object itself, or may be.
pub fn belongs_to(key: &[u8]) -> Option<(Bytes, Fate)> {
    if key.len() > LONGEST {
        return None;
    }
    if key.strip_suffix(BIRTH).is_some_and(|rest| rest.is_empty() || rest.ends_with(b":")) {
        return Some((Bytes::copy_from_slice(key), Fate::Stays));
    }
    let (object, fate) = once(key)?;
    // The queue of a companion that is a lock itself, or what was answered to a round: nothing is further away than that.
    let of_round = || by_id(&object).filter(|_| fate == Fate::Stays).map(|perhaps| (perhaps.object, fate));
    match once(&object).or_else(of_round) {
        Some((outer, _)) if fate == Fate::Stays => Some((outer, fate)),
        Some((outer, _)) => Some((outer, Fate::Goes)),
        None => Some((object, fate)),
    }
}

/// What a key may be, by a name that could be somebody's own: what is there has to be looked at.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Perhaps {
    /// The key of the object beside which it may be.
    pub object: Bytes,
    /// What tells whether it is.
    pub proof: Proof,
}

/// What tells whether a key belongs to an object.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Proof {
    /// What both are: it would be what is at this place of [`BESIDE`].
    Kinds(usize),
    /// This key is there.
    There(Bytes),
    /// The object is a multimap: the key would be the values of one of its keys.
    Multimap,
}

/// The object beside which this key may be.
pub fn may_be_beside(key: &[u8]) -> Option<Perhaps> {
    if key.len() > LONGEST {
        return None;
    }
    let named = |(at, suffix): (usize, &&str)| {
        let object = untagged(key.strip_suffix(suffix.as_bytes())?.strip_suffix(b":")?)?;
        Some(Perhaps { object, proof: Proof::Kinds(at) })
    };
    BESIDE.iter().enumerate().find_map(named).or_else(|| by_id(key)).or_else(|| by_hash(key))
}

/// The values of a key of a multimap: `{name}:<hash of the key>`.
fn by_hash(key: &[u8]) -> Option<Perhaps> {
    let (before, [hash]) = last_parts(key)?;
    Some(Perhaps { object: untagged(before).filter(|_| is_hash(hash))?, proof: Proof::Multimap })
}

/// Whether these bytes can be the hash of a multimap's key: 128 bits in base64 without padding.
pub fn is_hash(text: &[u8]) -> bool {
    text.len() == 22 && text.iter().all(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'+' | b'/'))
}

fn once(key: &[u8]) -> Option<(Bytes, Fate)> {
    by_prefix(key).or_else(|| of_reader(key)).or_else(|| by_word(key))
}

fn by_prefix(key: &[u8]) -> Option<(Bytes, Fate)> {
    let (known, rest) = PREFIXES.iter().find_map(|known| Some((known, key.strip_prefix(known.text.as_bytes())?)))?;
    let rest = if known.with_id { without_id(rest) } else { rest };
    Some((untagged(rest)?, known.fate))
}

/// A reader's lease: a shape that nobody gives a name.
fn of_reader(key: &[u8]) -> Option<(Bytes, Fate)> {
    let (before, [id, _, word, number]) = last_parts(key)?;
    let is_lease = is_id(id) && word == b"rwlock_timeout" && is_number(number);
    Some((untagged(before).filter(|_| is_lease)?, Fate::Goes))
}

/// What a cache is set to, and when keys of a multimap are over: words that nobody gives a name.
fn by_word(key: &[u8]) -> Option<(Bytes, Fate)> {
    let (before, [word]) = last_parts(key)?;
    let ours = [CACHE_OPTIONS, SET_MULTIMAP_ENDS, LIST_MULTIMAP_ENDS].iter().any(|own| own.as_bytes() == word);
    Some((untagged(before).filter(|_| ours)?, Fate::Goes))
}

/// A client's permits, and a round of an adder.
fn by_id(key: &[u8]) -> Option<Perhaps> {
    let (before, [one, other]) = last_parts(key)?;
    let kinds = |word: &[u8]| BESIDE.iter().position(|suffix| suffix.as_bytes() == word);
    match (one, other) {
        (b"value" | b"permits", id) if is_id(id) => {
            Some(Perhaps { object: untagged(before)?, proof: Proof::Kinds(kinds(one)?) })
        }
        (id, b"counter" | b"semaphore") if is_id(id) => {
            let object = untagged(before)?;
            let round = [&companion("redgrid_adder_round", &object)[..], b":", id].concat();
            Some(Perhaps { object, proof: Proof::There(round.into()) })
        }
        _ => None,
    }
}

/// The last parts between colons, and what is before them.
fn last_parts<const N: usize>(key: &[u8]) -> Option<(&[u8], [&[u8]; N])> {
    let mut parts = [&b""[..]; N];
    let mut before = key;
    for part in parts.iter_mut().rev() {
        let colon = before.iter().rposition(|byte| *byte == b':')?;
        (before, *part) = (&before[..colon], &before[colon + 1..]);
    }
    Some((before, parts))
}

/// Without an id at its end, and a number or a word behind that.
fn without_id(rest: &[u8]) -> &[u8] {
    let one = last_parts::<1>(rest).filter(|(_, [id])| is_id(id)).map(|(before, _)| before);
    let two = || last_parts::<2>(rest).filter(|(_, [id, _])| is_id(id)).map(|(before, _)| before);
    one.or_else(two).unwrap_or(rest)
}

/// A UUID, or 16 bytes in hex.
fn is_id(part: &[u8]) -> bool {
    let is_hex = |part: &[u8]| part.iter().all(|byte| byte.is_ascii_hexdigit() && !byte.is_ascii_uppercase());
    match part.len() {
        32 => is_hex(part),
        36 => {
            let mut parts = part.split(|byte| *byte == b'-');
            [8, 4, 4, 4, 12].iter().all(|len| parts.next().is_some_and(|part| part.len() == *len && is_hex(part)))
        }
        _ => false,
    }
}

fn is_number(part: &[u8]) -> bool {
    !part.is_empty() && part.iter().all(u8::is_ascii_digit)
}

/// The key that became its own hash tag, or has one.
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
mod tests {
    use super::*;
    use crate::name::same_slot;

    const CLIENT: &str = "b8a8d7c6-0f4e-4a7b-9a53-2d7e7a1c9f00";
    const ROUND: &str = "0123456789abcdef0123456789abcdef";

    fn of(key: &str) -> Option<(String, Fate)> {
        belongs_to(key.as_bytes()).map(|(object, fate)| (String::from_utf8(object.to_vec()).unwrap(), fate))
    }

    #[test]
    fn what_belongs_to_a_name_leads_back_to_it() {
        for name in ["a", "orders:42", "a{b}", "{a}b", "prod:a", "x:{y}:z"] {
            let beside_all = beside(name.as_bytes());
            for own in ALL.iter().flat_map(|kind| (kind.keys)(name.as_bytes())) {
                assert!(belongings(name.as_bytes()).contains(&own) != beside_all.contains(&own), "{own:?}");
            }
            let all = belongings(name.as_bytes());
            assert_eq!(all[0], name);
            for key in &all[1..] {
                let (object, fate) = belongs_to(key).unwrap();
                assert_eq!((&object[..], fate != Fate::Stays), (name.as_bytes(), true), "{key:?}");
                assert!(same_slot(key, name.as_bytes()), "{key:?}");
            }
            assert_eq!(belongs_to(name.as_bytes()), None);
            for key in beside(name.as_bytes()) {
                assert_eq!((belongs_to(&key), may_be_beside(&key).unwrap().object), (None, name.into()), "{key:?}");
            }
            assert!(faces(name.as_bytes()).iter().all(|face| all.contains(face)));
        }
    }

    #[test]
    fn ids_behind_a_name_are_no_part_of_it() {
        let goes = |name: &str| Some((name.to_owned(), Fate::Goes));
        let stays = |name: &str| Some((name.to_owned(), Fate::Stays));
        assert_eq!(of(&format!("{{R}}:{CLIENT}:7:rwlock_timeout:1")), goes("R"));
        assert_eq!(of(&format!("a{{R}}:{CLIENT}:7:rwlock_timeout:1")), goes("a{R}"));
        assert_eq!(of(&format!("redgrid_rate:{{R}}:{CLIENT}")), goes("R"));
        assert_eq!(of(&format!("redgrid_adder_round:{{R}}:{ROUND}")), goes("R"));
        assert_eq!(of(&format!("redgrid_once:{{R}}:{CLIENT}")), stays("R"));
        assert_eq!(of(&format!("redgrid_once:{{R}}:{ROUND}:counter:{CLIENT}")), stays("R"));
        assert_eq!(of(&format!("redgrid_once:redgrid_queue_back:{{R}}:{CLIENT}:{CLIENT}")), stays("R"));
        assert_eq!(of(&format!("redgrid_fence:{{R}}:{CLIENT}:12")), stays("R"));
        assert_eq!(of("redgrid_fence:{R}"), stays("R"));
        assert_eq!(of("redisson_lock_token:{prod:R}"), stays("prod:R"));
        for latch in ["a", "{a}:tag", "{a}b", "x{a}:tag"] {
            let round = String::from_utf8(companion("redgrid_latch", latch.as_bytes()).to_vec()).unwrap();
            assert_eq!(of(&round), goes(latch));
        }
        assert_eq!(of("redisson_lock_queue:redgrid_rw_line:{R}"), goes("R"));
        assert_eq!(of("redgrid_barrier:{R}"), Some(("R".to_owned(), Fate::Is)));
        assert_eq!(of("redisson_rb:{R}"), Some(("R".to_owned(), Fate::IsAlone)));
    }

    #[test]
    fn what_has_an_id_and_could_be_somebodys_own_is_to_be_looked_at() {
        let perhaps = |key: String| {
            assert_eq!(of(&key), None, "{key}");
            may_be_beside(key.as_bytes()).map(|perhaps| (perhaps.object, perhaps.proof))
        };
        assert_eq!(perhaps(format!("{{R}}:value:{CLIENT}")), Some(("R".into(), Proof::Kinds(1))));
        assert_eq!(perhaps(format!("a{{R}}:permits:{CLIENT}")), Some(("a{R}".into(), Proof::Kinds(2))));
        let round = Proof::There(format!("redgrid_adder_round:{{R}}:{ROUND}").into());
        for word in ["counter", "semaphore"] {
            assert_eq!(perhaps(format!("{{R}}:{ROUND}:{word}")), Some(("R".into(), round.clone())));
        }
        assert_eq!(perhaps(format!("a:value:{CLIENT}")), None);
        let values = perhaps("{R}:V7p3tUdzrwY3/qsccaFtGw".into());
        assert_eq!(values, Some(("R".into(), Proof::Multimap)));
        assert_eq!(perhaps("{R}:V7p3tUdzrwY3/qsccaFtG".into()), None);
        // Who waits for a lock of that name is in its own queue.
        let lock = format!("{{R}}:{CLIENT}:semaphore");
        assert_eq!(of(&format!("redisson_lock_queue:{lock}")), Some((lock, Fate::Goes)));
    }

    #[test]
    fn a_list_s_cursor_goes_with_it_and_the_birth_of_a_server_stays() {
        assert_eq!(of("__redisson_list_cursor_{a:b}"), Some(("a:b".to_owned(), Fate::Goes)));
        assert_eq!(of("__redisson_list_cursor_a"), None);
        assert_eq!(of("{a:b}:redisson_options"), Some(("a:b".to_owned(), Fate::Goes)));
        assert_eq!(of("a:redisson_options"), None);
        assert_eq!(of("{a:b}:redisson_set_multimap_ttl"), Some(("a:b".to_owned(), Fate::Goes)));
        for birth in ["redgrid_birth", "prod:redgrid_birth"] {
            assert_eq!(of(birth), Some((birth.to_owned(), Fate::Stays)));
        }
        assert_eq!(of("my_redgrid_birth"), None);
    }

    #[test]
    fn a_key_that_nobody_of_us_made_is_read_at_no_cost() {
        // Each level would have a copy of the rest.
        let nested = "redgrid_wait:".repeat(10_000) + "{a}";
        assert_eq!((of(&nested), may_be_beside(nested.as_bytes())), (None, None));
        let some = "redgrid_wait:".repeat(100) + "{a}";
        assert_eq!(of(&some), Some(("redgrid_wait:".repeat(98) + "{a}", Fate::Goes)));
        let colons = ":".repeat(1 << 20) + "{a}:value";
        assert_eq!((of(&colons), may_be_beside(colons.as_bytes())), (None, None));
    }

    #[test]
    fn names_of_users_are_nobodys_companions() {
        for name in ["redgrid_fair:a", "redgrid_unheard:{a}", "a:timeout", "{a}:timeout", "{a}:b:value", "a{", "", ":"]
        {
            assert_eq!(of(name), None, "{name}");
        }
        assert_eq!(may_be_beside(b"a:timeout"), None);
        assert_eq!(may_be_beside(b"timeout"), None);
    }
}
