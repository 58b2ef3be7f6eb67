//! Keys on the servers, and names of objects.

use std::fmt;

use bytes::Bytes;
use redgrid_core::name::InvalidName;
use redgrid_core::object::key_ownership::{self, OnDelete};
use redgrid_core::{Client, Name};

/// A key on the server, and the name of the object to which it belongs.
///
/// The name does not contain the client's namespace. It consists of bytes, because other programs
/// may create keys that are not text.
#[derive(Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Key {
    name: Bytes,
    wire: Bytes,
    role: Role,
}

/// The role of a key for the object to which it belongs.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Debug)]
pub(crate) enum Role {
    /// The object itself.
    Object,
    /// A companion, which is deleted with the object.
    Companion,
    /// A key that outlives the object.
    Outliving,
}

impl Key {
    /// Returns the key that has these bytes on the server; `None` if it is not in the namespace.
    ///
    /// `owner` is the object to which the key belongs, and its role there. It is `None` if the
    /// bytes alone determine them.
    pub(crate) fn from_wire(namespace: &str, wire: Bytes, owner: Option<(Bytes, Role)>) -> Option<Key> {
        let (object, role) = match (owner, key_ownership::owner_of(&wire)) {
            (Some(owner), _) => owner,
            (None, Some((object, OnDelete::Primary))) => (object, Role::Object),
            (None, Some((object, OnDelete::Delete | OnDelete::PrimaryIfAlone))) => (object, Role::Companion),
            (None, Some((object, OnDelete::Keep))) => (object, Role::Outliving),
            (None, None) => match object_in_braces(namespace, &wire) {
                Some(object) => (object, Role::Companion),
                None => (wire.clone(), Role::Object),
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

    fn from_name(client: &Client, name: &Name) -> Key {
        Key { name: Bytes::copy_from_slice(name.as_str().as_bytes()), wire: client.key(name), role: Role::Object }
    }

    /// Returns the key of the object with this name, which consists of any bytes.
    ///
    /// Use it for names that other programs gave; [`Name`] has the rules for one's own.
    ///
    /// ```no_run
    /// # async fn demo(client: &redgrid_keys::Client) -> Result<(), Box<dyn std::error::Error>> {
    /// use redgrid_keys::{Key, Keys};
    ///
    /// Keys::new(client).unlink([Key::of_name_bytes(client, b"not UTF-8: \xff")]).await?;
    /// # Ok(()) }
    /// ```
    pub fn of_name_bytes(client: &Client, name: impl AsRef<[u8]>) -> Key {
        let name = Bytes::copy_from_slice(name.as_ref());
        let wire = wire_of(client.namespace().as_str(), &name);
        Key { name, wire, role: Role::Object }
    }

    /// Returns the name of the object, in bytes.
    pub fn as_bytes(&self) -> &[u8] {
        &self.name
    }

    /// Returns the name of the object as text; `None` if it is not UTF-8.
    pub fn as_str(&self) -> Option<&str> {
        std::str::from_utf8(&self.name).ok()
    }

    /// Returns the name of the object as a [`Name`].
    ///
    /// # Errors
    ///
    /// [`InvalidName`] if it is not a valid name, because another program created the key.
    pub fn name(&self) -> Result<Name, InvalidName> {
        Name::new(self.as_str().ok_or_else(|| InvalidName { name: self.to_string(), rule: "a name is UTF-8" })?)
    }

    /// Returns the key on the server, with the namespace. For a companion this is its own key.
    pub fn wire(&self) -> &Bytes {
        &self.wire
    }

    /// Returns whether the key is a companion of an object, such as the queue of a fair lock.
    pub fn is_companion(&self) -> bool {
        self.role != Role::Object
    }

    /// Returns whether the key outlives its object: fences, token counters, stored replies.
    pub fn outlives(&self) -> bool {
        self.role == Role::Outliving
    }

    /// Returns the key that the object of this name has, or would have.
    pub(crate) fn object_key(&self, namespace: &str) -> Bytes {
        wire_of(namespace, &self.name)
    }
}

/// Returns the key with this name in the namespace.
fn wire_of(namespace: &str, name: &Bytes) -> Bytes {
    match namespace {
        "" => name.clone(),
        namespace => [namespace.as_bytes(), b":", name].concat().into(),
    }
}

/// Returns the object in the braces of a key: `{namespace:name}:…`.
///
/// No name in the namespace begins with a brace, so the key is a companion, even if its object does
/// not exist.
fn object_in_braces(namespace: &str, wire: &Bytes) -> Option<Bytes> {
    let inner = wire.strip_prefix(b"{").filter(|_| !namespace.is_empty())?;
    inner.strip_prefix(namespace.as_bytes())?.strip_prefix(b":")?;
    Some(wire.slice_ref(&inner[..inner.iter().position(|byte| *byte == b'}')?]))
}

/// Writes the name; bytes of a name that is not UTF-8 are escaped.
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
        if self.role != Role::Object {
            write!(f, ", {}", self.wire.escape_ascii())?;
        }
        f.write_str(")")
    }
}

/// A value that names an object: text, a [`Name`], or a [`Key`] that was found.
///
/// The name of a [`Key`] may not be a valid [`Name`]. A companion names the object to which it
/// belongs. The trait is sealed.
pub trait ToKey: sealed::Sealed {
    /// Returns the key of the object, in the client's namespace.
    ///
    /// # Errors
    ///
    /// [`InvalidName`] if the name is invalid.
    fn to_key(&self, client: &Client) -> Result<Key, InvalidName>;
}

mod sealed {
    use redgrid_core::Name;

    #[expect(unnameable_types, reason = "seals `ToKey`")]
    pub trait Sealed {}

    impl Sealed for str {}
    impl Sealed for String {}
    impl Sealed for Name {}
    impl Sealed for super::Key {}
    impl<T: Sealed + ?Sized> Sealed for &T {}
}

impl ToKey for str {
    fn to_key(&self, client: &Client) -> Result<Key, InvalidName> {
        Name::new(self).map(|name| Key::from_name(client, &name))
    }
}

impl ToKey for String {
    fn to_key(&self, client: &Client) -> Result<Key, InvalidName> {
        self.as_str().to_key(client)
    }
}

impl ToKey for Name {
    fn to_key(&self, client: &Client) -> Result<Key, InvalidName> {
        Ok(Key::from_name(client, self))
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

/// The type of a value on the server.
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
    /// A type of a server module.
    Other,
}

impl Kind {
    pub(crate) fn from_type_name(name: &[u8]) -> Option<Kind> {
        Some(match name {
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

    /// Returns the server's name of the type; `None` for [`Kind::Other`].
    pub(crate) fn type_name(self) -> Option<&'static str> {
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
    fn names_have_no_namespace_and_companions_name_their_object() {
        let found =
            |namespace: &str, wire: &'static str| Key::from_wire(namespace, Bytes::from_static(wire.as_bytes()), None);
        let parsed = |namespace: &str, wire| found(namespace, wire).map(|key| (key.to_string(), key.is_companion()));
        let object = |name: &str| Some((name.to_owned(), false));
        let companion = |name: &str| Some((name.to_owned(), true));
        assert_eq!(parsed("", "a"), object("a"));
        assert_eq!(parsed("", "redisson_lock_queue:{a}"), companion("a"));
        assert_eq!(parsed("", "redgrid_barrier:{a}"), object("a"));
        assert_eq!(parsed("prod", "prod:a"), object("a"));
        assert_eq!(parsed("prod", "redisson_lock_queue:{prod:a}"), companion("a"));
        assert_eq!(parsed("prod", "redgrid_fence:prod:a{b}"), companion("a{b}"));
        for others in ["a", "production:a", "redisson_lock_queue:{a}", "prod", "other:prod:a"] {
            assert_eq!(parsed("prod", others), None, "{others}");
        }
        assert_eq!(parsed("prod", "{prod:a}:anything"), companion("a"));
        assert_eq!(parsed("", "{prod:a}:anything"), object("{prod:a}:anything"));
        assert!(found("", "redgrid_fence:{a}").unwrap().outlives());
        assert_eq!(found("prod", "redgrid_fence:{prod:a}").unwrap().object_key("prod"), "prod:a");
    }

    #[test]
    fn names_that_are_not_utf8_are_escaped() {
        let key = Key::from_wire("", Bytes::from_static(b"a\xff"), None).unwrap();
        assert_eq!((key.to_string().as_str(), key.as_str()), ("a\\xff", None));
        assert!(key.name().is_err());
    }
}
