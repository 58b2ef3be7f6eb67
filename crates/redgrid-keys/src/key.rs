//! A key as it is found, and what names one.

use std::fmt;

use bytes::Bytes;
use redgrid_core::name::InvalidName;
use redgrid_core::object::belongings::{self, Fate};
use redgrid_core::{Client, Name};

/// A key on the server, as the name of the object to which it belongs: bytes, as there may be others than users of this library.
/// Names are without the client's namespace.
#[derive(Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Key {
    name: Bytes,
    wire: Bytes,
    role: Role,
}

/// What a key is to the object of its name.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Debug)]
pub(crate) enum Role {
    /// The object itself.
    Own,
    /// It goes with it.
    Goes,
    /// It outlives it.
    Stays,
}

impl Key {
    /// That of a key on the server; `None` where it is not under the namespace. `found` is the object to which it was found to belong,
    /// and what it is to that, where its shape does not tell.
    pub(crate) fn found(namespace: &str, wire: Bytes, found: Option<(Bytes, Role)>) -> Option<Key> {
        let (object, role) = match (found, belongings::belongs_to(&wire)) {
            (Some(found), _) => found,
            (None, Some((object, Fate::Is))) => (object, Role::Own),
            (None, Some((object, Fate::Goes | Fate::IsAlone))) => (object, Role::Goes),
            (None, Some((object, Fate::Stays))) => (object, Role::Stays),
            (None, None) => match in_braces(namespace, &wire) {
                Some(object) => (object, Role::Goes),
                None => (wire.clone(), Role::Own),
            },
        };
        let name = match namespace {
            "" => object,
            namespace => {
                object.strip_prefix(namespace.as_bytes())?.strip_prefix(b":").map(|name| object.slice_ref(name))?
            }
        };
        Some(Key { name, wire, role })
    }

    fn named(client: &Client, name: &Name) -> Key {
        Key { name: Bytes::copy_from_slice(name.as_str().as_bytes()), wire: client.key(name), role: Role::Own }
    }

    /// The name of the object, in bytes.
    pub fn as_bytes(&self) -> &[u8] {
        &self.name
    }

    /// The same as text, where it is text.
    pub fn as_str(&self) -> Option<&str> {
        std::str::from_utf8(&self.name).ok()
    }

    /// The same as a name for objects.
    ///
    /// # Errors
    ///
    /// [`InvalidName`] where it can not be one: others may have made it.
    pub fn name(&self) -> Result<Name, InvalidName> {
        Name::new(self.as_str().ok_or_else(|| InvalidName { name: self.to_string(), rule: "a name is UTF-8" })?)
    }

    /// The key as the server has it: with the namespace, and that of a companion where it is one.
    pub fn wire(&self) -> &Bytes {
        &self.wire
    }

    /// Whether it is beside an object that has a key of its own, as the queue of a fair lock.
    pub fn is_companion(&self) -> bool {
        self.role != Role::Own
    }

    /// Whether it outlives its object: fences, counters of tokens, what was answered.
    pub fn outlives(&self) -> bool {
        self.role == Role::Stays
    }

    /// The key that the object of the name has, or would have.
    pub(crate) fn object(&self, namespace: &str) -> Bytes {
        match namespace {
            "" => self.name.clone(),
            namespace => [namespace.as_bytes(), b":", &self.name].concat().into(),
        }
    }
}

/// The object in whose braces a key is: `{namespace:name}:…`. No name of the namespace begins with a brace, so the key is a companion,
/// whether its object is there or not.
fn in_braces(namespace: &str, wire: &Bytes) -> Option<Bytes> {
    let inner = wire.strip_prefix(b"{").filter(|_| !namespace.is_empty())?;
    inner.strip_prefix(namespace.as_bytes())?.strip_prefix(b":")?;
    Some(wire.slice_ref(&inner[..inner.iter().position(|byte| *byte == b'}')?]))
}

/// As text; bytes that are none are escaped.
impl fmt::Display for Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.as_str() {
            Some(text) => f.write_str(text),
            None => write!(f, "{}", self.name.escape_ascii()),
        }
    }
}

impl fmt::Debug for Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Key({self}")?;
        if self.role != Role::Own {
            write!(f, ", {}", self.wire.escape_ascii())?;
        }
        f.write_str(")")
    }
}

/// What names an object: text, a [`Name`], or a [`Key`] that was found, which may be no name. A companion names the object to which it
/// belongs.
pub trait ToKey {
    /// The object's name, behind the client's namespace.
    ///
    /// # Errors
    ///
    /// [`InvalidName`] where it breaks the rules of names.
    fn to_key(&self, client: &Client) -> Result<Key, InvalidName>;
}

impl ToKey for str {
    fn to_key(&self, client: &Client) -> Result<Key, InvalidName> {
        Name::new(self).map(|name| Key::named(client, &name))
    }
}

impl ToKey for String {
    fn to_key(&self, client: &Client) -> Result<Key, InvalidName> {
        self.as_str().to_key(client)
    }
}

impl ToKey for Name {
    fn to_key(&self, client: &Client) -> Result<Key, InvalidName> {
        Ok(Key::named(client, self))
    }
}

impl ToKey for Key {
    fn to_key(&self, _: &Client) -> Result<Key, InvalidName> {
        Ok(self.clone())
    }
}

impl<T: ToKey + ?Sized> ToKey for &T {
    fn to_key(&self, client: &Client) -> Result<Key, InvalidName> {
        (**self).to_key(client)
    }
}

/// What the server has under a key.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
#[doc(alias = "RType")]
pub enum Kind {
    /// Buckets, numbers, semaphores, latches.
    String,
    /// Lists, queues.
    List,
    /// Sets.
    Set,
    /// Sorted sets.
    SortedSet,
    /// Maps, locks, rate limiters, barriers.
    Hash,
    /// Streams.
    Stream,
    /// A type that a module of the server has.
    Other,
}

impl Kind {
    pub(crate) fn of(word: &[u8]) -> Option<Kind> {
        Some(match word {
            b"none" => return None,
            b"string" => Kind::String,
            b"list" => Kind::List,
            b"set" => Kind::Set,
            b"zset" => Kind::SortedSet,
            b"hash" => Kind::Hash,
            b"stream" => Kind::Stream,
            _ => Kind::Other,
        })
    }

    /// The server's word, where it has one.
    pub(crate) fn word(self) -> Option<&'static str> {
        Some(match self {
            Kind::String => "string",
            Kind::List => "list",
            Kind::Set => "set",
            Kind::SortedSet => "zset",
            Kind::Hash => "hash",
            Kind::Stream => "stream",
            Kind::Other => return None,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_is_without_the_namespace_and_a_companion_leads_to_it() {
        let found =
            |namespace: &str, wire: &'static str| Key::found(namespace, Bytes::from_static(wire.as_bytes()), None);
        let told = |namespace: &str, wire| found(namespace, wire).map(|key| (key.to_string(), key.is_companion()));
        let own = |name: &str| Some((name.to_owned(), false));
        let beside = |name: &str| Some((name.to_owned(), true));
        assert_eq!(told("", "a"), own("a"));
        assert_eq!(told("", "redisson_lock_queue:{a}"), beside("a"));
        assert_eq!(told("", "redgrid_barrier:{a}"), own("a"));
        assert_eq!(told("prod", "prod:a"), own("a"));
        assert_eq!(told("prod", "redisson_lock_queue:{prod:a}"), beside("a"));
        assert_eq!(told("prod", "redgrid_fence:prod:a{b}"), beside("a{b}"));
        for others in ["a", "production:a", "redisson_lock_queue:{a}", "prod", "other:prod:a"] {
            assert_eq!(told("prod", others), None, "{others}");
        }
        assert_eq!(told("prod", "{prod:a}:anything"), beside("a"));
        assert_eq!(told("", "{prod:a}:anything"), own("{prod:a}:anything"));
        assert!(found("", "redgrid_fence:{a}").unwrap().outlives());
        assert_eq!(found("prod", "redgrid_fence:{prod:a}").unwrap().object("prod"), "prod:a");
    }

    #[test]
    fn bytes_that_are_no_text_are_shown_escaped() {
        let key = Key::found("", Bytes::from_static(b"a\xff"), None).unwrap();
        assert_eq!((key.to_string().as_str(), key.as_str()), ("a\\xff", None));
        assert!(key.name().is_err());
    }
}
