//! Names of objects, the namespace, and the keys and channels of an object.
//!
//! The format is Redisson's. Besides its main key, an object can have companion keys:
//! `prefix:{key}` or `{key}:suffix`. The braces make all keys of an object share a slot. If the
//! main key has a hash tag itself, no braces are added.

use std::borrow::Cow;
use std::fmt;
use std::sync::Arc;

use bytes::Bytes;

use crate::connection::hash_tag;

/// Maximum length of a name in bytes, without the namespace. Redis allows 512 MiB, but such a name
/// would make logs unreadable.
const MAX_LEN: usize = 1024;

/// The validated name of an object, as the caller gave it. It is cheap to clone.
///
/// # Rules
///
/// A name has 1 to 1,024 bytes of UTF-8. Braces are allowed only as a complete hash tag: the first
/// `{` must be followed by at least one character and a `}`. (Redisson accepts `a{b` and `{}x`, but
/// in a cluster the release of a lock with such a name fails.)
///
/// A name that is only a hash tag, `{a}`, is rejected. In Redisson's format the names `{a}` and `a`
/// have the same companion keys. So two semaphores of these names would share their permits, and
/// two fair locks their queue. The name `{a}:lock` has the same slot as `{a}`, and its own
/// companion keys.
#[derive(Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Name(Arc<str>);

impl Name {
    /// Validates `name` by the rules of [`Name`].
    ///
    /// # Errors
    ///
    /// [`InvalidName`] names the rule that is broken.
    pub fn new(name: impl AsRef<str>) -> Result<Self, InvalidName> {
        let name = name.as_ref();
        if name.starts_with('{') && name.find('}') == Some(name.len() - 1) && name.len() > 2 {
            let rule = "it is only a hash tag, and would share its companion keys with the name inside the braces";
            return Err(InvalidName { name: name.chars().take(64).collect(), rule });
        }
        Name::of_key(name)
    }

    /// Validates the name of an object that has no companion keys. Unlike a name by [`Name::new`],
    /// it may be only a hash tag: `{a}`.
    ///
    /// # Errors
    ///
    /// [`InvalidName`] names the rule that is broken.
    pub fn of_key(name: impl AsRef<str>) -> Result<Self, InvalidName> {
        let name = name.as_ref();
        let invalid = |rule| Err(InvalidName { name: name.chars().take(64).collect(), rule });
        if name.is_empty() {
            return invalid("a name has at least one character");
        }
        if name.len() > MAX_LEN {
            return invalid("a name has at most 1024 bytes");
        }
        match (name.find('{'), name.find('}')) {
            (None, None) => {}
            (Some(open), _) => match name[open + 1..].find('}') {
                None => return invalid("a `{` begins a hash tag and needs its `}`"),
                Some(0) => return invalid("the hash tag between `{` and `}` has at least one character"),
                Some(_) => {}
            },
            (None, Some(_)) => return invalid("a `}` closes a hash tag and needs its `{`"),
        }
        Ok(Name(name.into()))
    }

    /// Returns the name as text.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl TryFrom<&str> for Name {
    type Error = InvalidName;

    fn try_from(name: &str) -> Result<Self, InvalidName> {
        Name::new(name)
    }
}

impl AsRef<str> for Name {
    fn as_ref(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for Name {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl fmt::Debug for Name {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(&self.0, f)
    }
}

/// A name that cannot be used, and the rule it breaks.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("invalid name `{name}`: {rule}")]
// Not `#[non_exhaustive]`: object crates construct it, too.
pub struct InvalidName {
    /// The first 64 characters of the name.
    pub name: String,
    /// The rule. The error message ends with this text.
    pub rule: &'static str,
}

/// The prefix of every key and channel of a client, as in `namespace:name`. It is empty by default.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Namespace(Arc<str>);

impl Namespace {
    /// Creates a namespace. It must not contain braces, and must have at most 256 bytes.
    ///
    /// # Errors
    ///
    /// [`InvalidName`] names the rule that is broken.
    pub fn new(namespace: impl AsRef<str>) -> Result<Self, InvalidName> {
        let text = namespace.as_ref();
        let invalid = |rule| Err(InvalidName { name: text.chars().take(64).collect(), rule });
        if text.contains(['{', '}']) {
            return invalid("a namespace has no braces");
        }
        if text.len() > 256 {
            return invalid("a namespace has at most 256 bytes");
        }
        Ok(Namespace(text.into()))
    }

    /// Returns the namespace as text, without the colon that follows it.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// Returns the key of an object: `namespace:name`, or only the name if the namespace is empty.
    pub fn key(&self, name: &Name) -> Bytes {
        if self.0.is_empty() {
            Bytes::copy_from_slice(name.0.as_bytes())
        } else {
            format!("{}:{}", self.0, name).into()
        }
    }

    /// Returns the common prefix of the clients' own channels. Each client has one such channel:
    /// there it receives notices of lost holds, and requests for a report.
    ///
    /// The prefix is `redgrid_client:{namespace:`, or `redgrid_client:{` if the namespace is empty.
    /// In a channel name, the client's id and a `}` follow it.
    pub fn notice_prefix(&self) -> String {
        if self.0.is_empty() { "redgrid_client:{".into() } else { format!("redgrid_client:{{{}:", self.0) }
    }
}

/// Returns the companion key or channel of `key` with `prefix`, in the slot of `key`.
///
/// This is Redisson's `prefixName`.
pub fn companion(prefix: &str, key: &[u8]) -> Bytes {
    [prefix.as_bytes(), b":", &tagged(key)].concat().into()
}

/// Returns a copy of a key, and its [`companion`]s with these prefixes, in one allocation.
///
/// A client stores these keys for each lock that it uses, so the number of allocations matters.
pub fn with_companions<const N: usize>(key: &[u8], prefixes: [&str; N]) -> (Bytes, [Bytes; N]) {
    let tagged = tagged(key);
    let capacity = prefixes.iter().map(|prefix| prefix.len() + 1 + tagged.len()).sum();
    let mut text = Vec::with_capacity(capacity);
    let ends = prefixes.map(|prefix| {
        [prefix.as_bytes(), b":", &tagged].iter().for_each(|part| text.extend_from_slice(part));
        text.len()
    });
    let text = Bytes::from(text);
    let mut start = 0;
    let companions = ends.map(|end| text.slice(std::mem::replace(&mut start, end)..end));
    // The first companion contains the key, after the prefix and a colon. If braces were added, a
    // `{` precedes the key.
    let key_bytes = match (prefixes.first(), tagged.len() - key.len()) {
        (Some(first), added) => text.slice(first.len() + 1 + added / 2..).slice(..key.len()),
        (None, _) => Bytes::copy_from_slice(key),
    };
    (key_bytes, companions)
}

/// Returns the companion key of `key` with `suffix`, in the slot of `key`.
///
/// This is Redisson's `suffixName`.
pub fn suffixed(key: &[u8], suffix: &str) -> Bytes {
    [&*tagged(key), b":", suffix.as_bytes()].concat().into()
}

/// Returns the key in braces, so that the whole key is a hash tag. A key that contains a `{` is
/// returned unchanged.
pub fn tagged(key: &[u8]) -> Cow<'_, [u8]> {
    if key.contains(&b'{') { Cow::Borrowed(key) } else { Cow::Owned([b"{", key, b"}"].concat()) }
}

/// Returns whether two keys have the same hash tag, and thus the same slot in every cluster. For a
/// key without a hash tag, the whole key is compared.
pub fn same_slot(one: &[u8], other: &[u8]) -> bool {
    hash_tag(one) == hash_tag(other)
}

/// Returns the slot that a key has in a cluster, 0 to 16,383.
///
/// If the key has a hash tag, the slot depends only on the tag. The slot is computed even if the
/// client does not use a cluster.
pub fn slot_of(key: &[u8]) -> u16 {
    crate::connection::slot_of(key)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn braces_form_a_complete_hash_tag_or_are_absent() {
        for good in ["a", "a{b}", "{a}b", "x{y}z{", "ключ", "a:b c"] {
            assert!(Name::new(good).is_ok(), "{good}");
        }
        for bad in ["", "a{b", "{}x", "x}", "}{a}x{"] {
            let result = Name::new(bad);
            // `}{a}x{` has a complete hash tag after a stray brace. Redis hashes the tag, so the
            // name is valid.
            assert_eq!(result.is_ok(), bad == "}{a}x{", "{bad}");
        }
        assert!(Name::new("x".repeat(1025)).is_err());
    }

    #[test]
    fn companions_are_named_as_redisson_names_them() {
        assert_eq!(companion("redisson_lock__channel", b"R"), "redisson_lock__channel:{R}");
        assert_eq!(companion("redisson_lock__channel", b"a{R}"), "redisson_lock__channel:a{R}");
        assert_eq!(suffixed(b"R", "timeout"), "{R}:timeout");
        assert_eq!(suffixed(b"a{R}", "timeout"), "a{R}:timeout");
        let prod = Namespace::new("prod").unwrap();
        assert_eq!(prod.key(&Name::new("R").unwrap()), "prod:R");
        assert_eq!(prod.notice_prefix(), "redgrid_client:{prod:");
    }

    #[test]
    fn keys_in_one_allocation_are_the_same() {
        for key in ["R", "a{R}", "{R}", "prod:R", "ключ"].map(str::as_bytes) {
            let (own, [one, other]) = with_companions(key, ["redisson_lock__channel", "redgrid_wait"]);
            assert_eq!(own, key);
            assert_eq!(one, companion("redisson_lock__channel", key));
            assert_eq!(other, companion("redgrid_wait", key));
            assert_eq!(with_companions(key, []).0, key);
        }
    }

    #[test]
    fn no_two_names_have_a_companion_in_common() {
        let names = ["a", "{a}:tag", "{a}:ta", "{a}b", "b{a}", "{a}{a}", "{a}:tag}", "a:tag", "{a}}", "x{a}"];
        let mut seen = std::collections::HashSet::new();
        for name in names {
            let key = Name::new(name).unwrap();
            let key = key.as_str().as_bytes();
            for companion in [companion("redgrid_latch", key), suffixed(key, "timeout")] {
                assert!(same_slot(&companion, key), "{name}");
                assert!(seen.insert(companion.clone()), "{name}: {companion:?}");
            }
        }
        let error = Name::new("{a}").unwrap_err();
        assert!(error.to_string().contains("only a hash tag"), "{error}");
        assert_eq!(Name::of_key("{a}").unwrap().as_str(), "{a}");
        assert!(Name::of_key("{}").is_err());
    }
}
