//! Operations that every object has: existence, lifetime, size, rename and copy.

mod cas_loop;
mod chunks;
mod clone_fields;
mod debug_fields;
mod default_codec;
mod dump;
mod error;
pub mod events;
mod expire;
mod into_future;
pub mod key_ownership;
pub mod layouts;
mod object_ref;
pub(crate) mod pages;
mod scan;
mod set_ttl;
mod transfer;
mod update_turns;
mod value_object;

use std::time::Duration;

use bytes::Bytes;
use redgrid_client::{BulkScript, Client, FromReply, Request};

pub use self::cas_loop::{CasLoop, CasReply, in_place};
pub use self::chunks::chunks;
pub use self::dump::{Dump, Restore};
pub use self::error::ObjectError;
pub use self::expire::{Expire, ExpireCondition, Expiry, Lifetime};
use self::layouts::none;
pub use self::object_ref::ObjectRef;
pub use self::scan::Scan;
pub use self::set_ttl::{SetTtl, millis};
pub use self::transfer::{Copy, Rename};
use crate::name::{InvalidName, Name};

static PERSIST: BulkScript = BulkScript::new("object/persist", include_str!("scripts/persist.lua"));
static LIFETIME: BulkScript = BulkScript::new("object/lifetime", include_str!("scripts/lifetime.lua"));

/// A function that derives all keys of an object from the key of its name. All of these keys are in
/// one slot.
///
/// The returned list begins with the primary keys: the object exists while at least one of them
/// exists. The companion keys follow. All keys are deleted and renamed together, and expire
/// together.
pub type Layout = fn(&[u8]) -> Vec<Bytes>;

/// Returns the key of an object's fence: the fence that has the same name.
///
/// The fence is renamed with the object, but not deleted with it, because it still has to reject
/// late writers.
pub fn fence(key: &[u8]) -> Vec<Bytes> {
    vec![crate::fence::key(key)]
}

/// Returns the keys of an object that has a single key.
pub fn alone(key: &[u8]) -> Vec<Bytes> {
    vec![Bytes::copy_from_slice(key)]
}

/// An object of any type, with the operations that all types have.
///
/// Buckets, maps, sets and other handles return it from `object()`. For any other object with one
/// key, use [`Object::new`].
///
/// The handle is cheap to clone. Its operations apply to all keys of the object, including the
/// companion keys of [`Object::with_layout`].
///
/// ```no_run
/// # async fn demo(client: &redgrid_core::Client) -> Result<(), Box<dyn std::error::Error>> {
/// use std::time::Duration;
/// use redgrid_core::object::{Lifetime, Object};
///
/// let greeting = Object::new(client, "greeting");
/// greeting.expire_in(Duration::from_secs(60)).await?;
/// if let Lifetime::Ends(left) = greeting.lifetime().await? {
///     println!("{left:?} left");
/// }
/// # Ok(()) }
/// ```
#[derive(Clone)]
#[doc(alias = "RObject")]
#[doc(alias = "RExpirable")]
pub struct Object(Result<Inner, ObjectError>);

#[derive(Clone)]
struct Inner {
    client: Client,
    name: Name,
    layout: Layout,
    renamed_with: Layout,
    /// Number of primary keys. They come first in `keys`.
    primary_keys: usize,
    keys: Vec<Bytes>,
}

impl Object {
    /// Returns the object with this name. It has a single key: the client's namespace followed by
    /// the name.
    pub fn new(client: &Client, name: impl AsRef<str>) -> Self {
        Object::with_layout(client, Name::of_key(name), alone)
    }

    /// Returns the object with this name. `layout` derives its keys, which may include companion
    /// keys. For authors of object types.
    pub fn with_layout(client: &Client, name: Result<Name, InvalidName>, layout: Layout) -> Self {
        Object(name.map(|name| Inner::of(client, name, layout, none)).map_err(Into::into))
    }

    /// Returns an object that answers each call with this error.
    ///
    /// Authors of object types use this function if a name is invalid: then the first call reports
    /// the error.
    pub fn unusable(why: impl Into<ObjectError>) -> Self {
        Object(Err(why.into()))
    }

    /// Returns the same object with additional keys, to be renamed and copied with it.
    ///
    /// These keys are not deleted with the object, and its lifetime does not apply to them. The key
    /// of the object's [`fence`] is an example.
    pub fn also_renames(self, renamed_with: Layout) -> Self {
        Object(self.0.map(|inner| Inner { renamed_with, ..inner }))
    }

    /// Returns the same object with this number of primary keys. The object exists while at least
    /// one of them exists.
    ///
    /// Without this call, only the first key is a primary key. For authors of object types: see
    /// [`layouts::Kind::primary_keys`].
    pub fn with_primary_keys(self, primary_keys: usize) -> Self {
        Object(self.0.map(|inner| Inner { primary_keys: primary_keys.clamp(1, inner.keys.len()), ..inner }))
    }

    fn inner(&self) -> Result<&Inner, ObjectError> {
        self.0.as_ref().map_err(Clone::clone)
    }

    /// Returns the name, if it is valid.
    #[doc(alias = "getName")]
    pub fn name(&self) -> Option<&Name> {
        self.0.as_ref().ok().map(|inner| &inner.name)
    }

    /// Returns whether the object exists.
    ///
    /// # Errors
    ///
    /// [`ObjectError`] if the request fails.
    ///
    /// # Cancel safety
    ///
    /// Dropping the future changes nothing.
    #[doc(alias = "isExists")]
    pub async fn exists(&self) -> Result<bool, ObjectError> {
        let inner = self.inner()?;
        Ok(inner.read::<u64>(Request::command("EXISTS").keys(inner.primary_keys())).await? > 0)
    }

    /// Deletes the object with all its keys. Returns whether it existed.
    ///
    /// If the object is a lock or another synchronizer, the tasks that wait for it notice the
    /// deletion when they poll, within `poll_interval`.
    ///
    /// # Errors
    ///
    /// [`ObjectError`] says whether the object may have been deleted.
    ///
    /// # Cancel safety
    ///
    /// A request that was sent is executed even if the future is dropped.
    pub async fn delete(&self) -> Result<bool, ObjectError> {
        self.remove_with("DEL").await
    }

    /// Deletes the object; the server frees the memory in the background.
    ///
    /// Use it for large objects. Returns whether it existed.
    ///
    /// # Errors
    ///
    /// [`ObjectError`] says whether the object may have been deleted.
    ///
    /// # Cancel safety
    ///
    /// A request that was sent is executed even if the future is dropped.
    pub async fn unlink(&self) -> Result<bool, ObjectError> {
        self.remove_with("UNLINK").await
    }

    async fn remove_with(&self, command: &'static str) -> Result<bool, ObjectError> {
        let inner = self.inner()?;
        inner.change::<u64>(Request::command(command).keys(inner.keys.iter().cloned())).await.map(|count| count > 0)
    }

    /// Makes the server record that the object was used, as if it had been read. Returns whether
    /// the object exists.
    ///
    /// # Errors
    ///
    /// [`ObjectError`] if the request fails.
    ///
    /// # Cancel safety
    ///
    /// A request that was sent is executed even if the future is dropped.
    pub async fn touch(&self) -> Result<bool, ObjectError> {
        let inner = self.inner()?;
        let touched: u64 = inner.read(Request::command("TOUCH").keys(inner.keys.iter().cloned()).idempotent()).await?;
        Ok(touched > 0)
    }

    /// Returns the server's estimate of the object's memory in bytes, including all its keys;
    /// `None` if the object is absent.
    ///
    /// The call sends one command for each key.
    ///
    /// # Errors
    ///
    /// [`ObjectError`] if the request fails.
    ///
    /// # Cancel safety
    ///
    /// Dropping the future changes nothing.
    #[doc(alias = "sizeInMemory")]
    pub async fn memory(&self) -> Result<Option<u64>, ObjectError> {
        let inner = self.inner()?;
        let mut sum = None;
        for key in &inner.keys {
            let size: Option<u64> = inner.read(Request::subcommand("MEMORY", "USAGE").key(key.clone())).await?;
            sum = size.map(|size| sum.unwrap_or(0) + size).or(sum);
        }
        Ok(sum)
    }

    /// Returns the time since the last use of the object, in whole seconds; `None` if the object is
    /// absent.
    ///
    /// # Errors
    ///
    /// [`ObjectError`] if the request fails. A server with an `lfu` eviction policy refuses the
    /// request: it counts uses, but does not store when they happen.
    ///
    /// # Cancel safety
    ///
    /// Dropping the future changes nothing.
    #[doc(alias = "getIdleTime")]
    pub async fn idle(&self) -> Result<Option<Duration>, ObjectError> {
        Ok(self.object_info::<u64>("IDLETIME").await?.map(Duration::from_secs))
    }

    /// Returns how often the object was used, as a logarithmic count of the server; `None` if the
    /// object is absent.
    ///
    /// # Errors
    ///
    /// [`ObjectError`] if the request fails. A server without an `lfu` eviction policy refuses the
    /// request.
    ///
    /// # Cancel safety
    ///
    /// Dropping the future changes nothing.
    #[doc(alias = "getAccessFrequency")]
    pub async fn frequency(&self) -> Result<Option<u64>, ObjectError> {
        self.object_info("FREQ").await
    }

    /// Returns the number of references that the server has to the object's value; `None` if the
    /// object is absent.
    ///
    /// # Errors
    ///
    /// [`ObjectError`] if the request fails.
    ///
    /// # Cancel safety
    ///
    /// Dropping the future changes nothing.
    #[doc(alias = "getReferenceCount")]
    pub async fn reference_count(&self) -> Result<Option<u64>, ObjectError> {
        self.object_info("REFCOUNT").await
    }

    /// Returns the server's encoding of the object, such as `listpack` or `hashtable`; `None` if
    /// the object is absent.
    ///
    /// # Errors
    ///
    /// [`ObjectError`] if the request fails.
    ///
    /// # Cancel safety
    ///
    /// Dropping the future changes nothing.
    #[doc(alias = "getInternalEncoding")]
    pub async fn encoding(&self) -> Result<Option<String>, ObjectError> {
        self.object_info("ENCODING").await
    }

    async fn object_info<T: FromReply>(&self, field: &'static str) -> Result<Option<T>, ObjectError> {
        let inner = self.inner()?;
        for key in inner.primary_keys() {
            let found: Option<T> = inner.read(Request::subcommand("OBJECT", field).key(key)).await?;
            if found.is_some() {
                return Ok(found);
            }
        }
        Ok(None)
    }

    /// Returns the remaining lifetime of the object.
    ///
    /// # Errors
    ///
    /// [`ObjectError`] if the request fails.
    ///
    /// # Cancel safety
    ///
    /// Dropping the future changes nothing.
    #[doc(alias = "remainTimeToLive")]
    #[doc(alias = "getExpireTime")]
    pub async fn lifetime(&self) -> Result<Lifetime, ObjectError> {
        let inner = self.inner()?;
        let request = match inner.primary_keys {
            1 => Request::command("PTTL").key(inner.keys[0].clone()),
            _ => LIFETIME.with(inner.primary_keys()),
        };
        inner.read(request).await.map(Lifetime::of)
    }

    /// Removes the lifetime of the object, so that the object does not expire. Returns whether it
    /// had a lifetime.
    ///
    /// # Errors
    ///
    /// [`ObjectError`] says whether the lifetime may have been removed.
    ///
    /// # Cancel safety
    ///
    /// A request that was sent is executed even if the future is dropped.
    #[doc(alias = "clearExpire")]
    pub async fn persist(&self) -> Result<bool, ObjectError> {
        let inner = self.inner()?;
        inner.change(PERSIST.with(inner.keys.iter().cloned()).int(inner.primary_key_count())).await
    }
}

impl Inner {
    fn of(client: &Client, name: Name, layout: Layout, renamed_with: Layout) -> Inner {
        let keys = layout(&client.key(&name));
        Inner { client: client.clone(), name, layout, renamed_with, primary_keys: 1, keys }
    }

    /// Returns the primary keys of the object. The object exists while at least one of them exists.
    fn primary_keys(&self) -> impl Iterator<Item = Bytes> {
        self.keys.iter().take(self.primary_keys).cloned()
    }

    /// Returns the number of primary keys, for use as a script argument.
    fn primary_key_count(&self) -> i64 {
        i64::try_from(self.primary_keys).unwrap_or(i64::MAX)
    }

    /// Returns the keys of the object, followed by the additional keys that are renamed with it.
    fn all_keys(&self) -> Vec<Bytes> {
        self.keys.iter().cloned().chain((self.renamed_with)(&self.keys[0])).collect()
    }

    /// Sends a read-only request to the primary, so that the reply reflects all earlier writes.
    async fn read<T: FromReply>(&self, request: Request) -> Result<T, ObjectError> {
        let reply = self.client.run(request.idempotent()).await;
        reply.map_err(|source| ObjectError::of_read(&self.name, source))
    }

    async fn change<T: FromReply>(&self, request: Request) -> Result<T, ObjectError> {
        self.client.run(request).await.map_err(|source| ObjectError::of(&self.name, source))
    }
}

crate::debug_fields!(Object, |it| name: it.0.as_ref().map(|inner| &inner.name));
