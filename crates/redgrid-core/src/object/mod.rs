//! What every object has, whatever it is: whether it is there, how long it lives, how large it is, and names it may get.

pub mod belongings;
mod error;
pub mod events;
mod expire;
pub mod layouts;
mod lives;
mod pages;
mod parts;
mod place;
mod rounds;
mod scan;
mod transfer;

use std::fmt;
use std::time::Duration;

use bytes::Bytes;

pub use self::error::ObjectError;
pub use self::expire::{Ending, Expire, Lifetime, NewEnding};
use self::layouts::none;
pub use self::lives::{Lives, millis};
pub use self::pages::{Asking, Paged, Pages};
pub use self::parts::parts;
pub use self::place::Place;
pub use self::rounds::{Compared, Rounds, in_place};
pub use self::scan::Scan;
pub use self::transfer::{Copy, Dump, Rename, Restore};
use crate::connection::{Client, FromReply, Request};
use crate::name::{InvalidName, Name};
use crate::script::BulkScript;

static PERSIST: BulkScript = BulkScript::new("object/persist", include_str!("scripts/persist.lua"));
static LIFETIME: BulkScript = BulkScript::new("object/lifetime", include_str!("scripts/lifetime.lua"));

/// The keys of an object by the key of its name, all of one slot: first those by which it exists, then its companions. They
/// are deleted, renamed and expire together.
pub type Layout = fn(&[u8]) -> Vec<Bytes>;

/// Of what is written under a fence: the fence goes with it to another name. It outlives the object, as it refuses those who are
/// late to write it.
pub fn fence(key: &[u8]) -> Vec<Bytes> {
    vec![crate::fence::key(key)]
}

/// What an object of one key has: nothing else.
pub fn alone(key: &[u8]) -> Vec<Bytes> {
    vec![Bytes::copy_from_slice(key)]
}

/// An object under its name, of whatever kind: what all of them can. Buckets, maps and sets give it as `object()`; what is under any
/// other name of one key, [`Object::new`] does.
///
/// Cheap to clone. What has companions goes with them: see [`Object::with_layout`].
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
    along: Layout,
    /// How many leading keys it exists by.
    faces: usize,
    keys: Vec<Bytes>,
}

impl Object {
    /// What is stored under one key, the name behind the client's namespace.
    pub fn new(client: &Client, name: impl AsRef<str>) -> Self {
        Object::with_layout(client, Name::of_key(name), alone)
    }

    /// An object with companions: for types of objects.
    pub fn with_layout(client: &Client, name: Result<Name, InvalidName>, layout: Layout) -> Self {
        Object(name.map(|name| Inner::of(client, name, layout, none)).map_err(Into::into))
    }

    /// What can be none: each call tells why. For types of objects, which keep a name that can not be one until somebody asks.
    pub fn unusable(why: impl Into<ObjectError>) -> Self {
        Object(Err(why.into()))
    }

    /// The same with more keys that go along when it is renamed or copied, and else have lives of their own, as its [`fence`].
    pub fn and_along(self, along: Layout) -> Self {
        Object(self.0.map(|inner| Inner { along, ..inner }))
    }

    /// The same object, which exists where any of its first `faces` keys does; without this call, where the first does. For
    /// types of objects: see [`layouts::Kind::faces`].
    pub fn and_faces(self, faces: usize) -> Self {
        Object(self.0.map(|inner| Inner { faces: faces.clamp(1, inner.keys.len()), ..inner }))
    }

    fn inner(&self) -> Result<&Inner, ObjectError> {
        self.0.as_ref().map_err(Clone::clone)
    }

    /// The name, where it can be one.
    #[doc(alias = "getName")]
    pub fn name(&self) -> Option<&Name> {
        self.0.as_ref().ok().map(|inner| &inner.name)
    }

    /// Whether it exists.
    ///
    /// # Errors
    ///
    /// [`ObjectError`] says what is true then.
    ///
    /// # Cancel safety
    ///
    /// Dropping it changes nothing.
    #[doc(alias = "isExists")]
    pub async fn exists(&self) -> Result<bool, ObjectError> {
        let inner = self.inner()?;
        Ok(inner.read::<u64>(Request::command("EXISTS").keys(inner.faces())).await? > 0)
    }

    /// Deletes it with all that belongs to it; tells whether it was there.
    ///
    /// Who waits on a synchronizer finds out when it looks for itself, within `poll_interval`.
    ///
    /// # Errors
    ///
    /// [`ObjectError`] says what is true then.
    ///
    /// # Cancel safety
    ///
    /// What has left is carried out although nobody waits for it.
    pub async fn delete(&self) -> Result<bool, ObjectError> {
        self.removed("DEL").await
    }

    /// The same, and the server frees the memory in the background: for large ones.
    ///
    /// # Errors
    ///
    /// [`ObjectError`] says what is true then.
    ///
    /// # Cancel safety
    ///
    /// What has left is carried out although nobody waits for it.
    pub async fn unlink(&self) -> Result<bool, ObjectError> {
        self.removed("UNLINK").await
    }

    async fn removed(&self, command: &'static str) -> Result<bool, ObjectError> {
        let inner = self.inner()?;
        inner.change::<u64>(Request::command(command).keys(inner.keys.iter().cloned())).await.map(|count| count > 0)
    }

    /// Has the server take it for just used; tells whether it is there.
    ///
    /// # Errors
    ///
    /// [`ObjectError`] says what is true then.
    ///
    /// # Cancel safety
    ///
    /// What has left is carried out although nobody waits for it.
    pub async fn touch(&self) -> Result<bool, ObjectError> {
        let inner = self.inner()?;
        let touched: u64 = inner.read(Request::command("TOUCH").keys(inner.keys.iter().cloned()).idempotent()).await?;
        Ok(touched > 0)
    }

    /// How many bytes of the server's memory it takes with all that belongs to it, by the server's estimate; `None` where it is not
    /// there. One command for each of its keys.
    ///
    /// # Errors
    ///
    /// [`ObjectError`] says what is true then.
    ///
    /// # Cancel safety
    ///
    /// Dropping it changes nothing.
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

    /// How long nobody has used it, in whole seconds; `None` where it is not there.
    ///
    /// # Errors
    ///
    /// [`ObjectError`] says what is true then; a server that counts uses instead refuses.
    ///
    /// # Cancel safety
    ///
    /// Dropping it changes nothing.
    #[doc(alias = "getIdleTime")]
    pub async fn idle(&self) -> Result<Option<Duration>, ObjectError> {
        Ok(self.about::<u64>("IDLETIME").await?.map(Duration::from_secs))
    }

    /// How often it is used, as the server counts logarithmically; `None` where it is not there.
    ///
    /// # Errors
    ///
    /// [`ObjectError`] says what is true then; a server without a policy of the kind `lfu` refuses.
    ///
    /// # Cancel safety
    ///
    /// Dropping it changes nothing.
    #[doc(alias = "getAccessFrequency")]
    pub async fn frequency(&self) -> Result<Option<u64>, ObjectError> {
        self.about("FREQ").await
    }

    /// How many references the server has to its value; `None` where it is not there.
    ///
    /// # Errors
    ///
    /// [`ObjectError`] says what is true then.
    ///
    /// # Cancel safety
    ///
    /// Dropping it changes nothing.
    #[doc(alias = "getReferenceCount")]
    pub async fn reference_count(&self) -> Result<Option<u64>, ObjectError> {
        self.about("REFCOUNT").await
    }

    /// How the server stores it, as `listpack` or `hashtable`; `None` where it is not there.
    ///
    /// # Errors
    ///
    /// [`ObjectError`] says what is true then.
    ///
    /// # Cancel safety
    ///
    /// Dropping it changes nothing.
    #[doc(alias = "getInternalEncoding")]
    pub async fn encoding(&self) -> Result<Option<String>, ObjectError> {
        self.about("ENCODING").await
    }

    async fn about<T: FromReply>(&self, what: &'static str) -> Result<Option<T>, ObjectError> {
        let inner = self.inner()?;
        for face in inner.faces() {
            let found: Option<T> = inner.read(Request::subcommand("OBJECT", what).key(face)).await?;
            if found.is_some() {
                return Ok(found);
            }
        }
        Ok(None)
    }

    /// How long it lives.
    ///
    /// # Errors
    ///
    /// [`ObjectError`] says what is true then.
    ///
    /// # Cancel safety
    ///
    /// Dropping it changes nothing.
    #[doc(alias = "remainTimeToLive")]
    #[doc(alias = "getExpireTime")]
    pub async fn lifetime(&self) -> Result<Lifetime, ObjectError> {
        let inner = self.inner()?;
        let request = match inner.faces {
            1 => Request::command("PTTL").key(inner.keys[0].clone()),
            _ => LIFETIME.with(inner.faces()),
        };
        inner.read(request).await.map(Lifetime::of)
    }

    /// Has it live on without an end; tells whether it had one.
    ///
    /// # Errors
    ///
    /// [`ObjectError`] says what is true then.
    ///
    /// # Cancel safety
    ///
    /// What has left is carried out although nobody waits for it.
    #[doc(alias = "clearExpire")]
    pub async fn persist(&self) -> Result<bool, ObjectError> {
        let inner = self.inner()?;
        inner.change(PERSIST.with(inner.keys.iter().cloned()).int(inner.count_of_faces())).await
    }
}

impl Inner {
    fn of(client: &Client, name: Name, layout: Layout, along: Layout) -> Inner {
        let keys = layout(&client.key(&name));
        Inner { client: client.clone(), name, layout, along, faces: 1, keys }
    }

    /// The keys by which it exists.
    fn faces(&self) -> impl Iterator<Item = Bytes> {
        self.keys.iter().take(self.faces).cloned()
    }

    /// Their number, as scripts take it.
    fn count_of_faces(&self) -> i64 {
        i64::try_from(self.faces).unwrap_or(i64::MAX)
    }

    /// Its keys, and what goes along with them to another name.
    fn all_keys(&self) -> Vec<Bytes> {
        self.keys.iter().cloned().chain((self.along)(&self.keys[0])).collect()
    }

    /// Asks the primary: what was just written is seen.
    async fn read<T: FromReply>(&self, request: Request) -> Result<T, ObjectError> {
        let answer = self.client.run(request.idempotent()).await;
        answer.map_err(|source| ObjectError::of_read(&self.name, source))
    }

    async fn change<T: FromReply>(&self, request: Request) -> Result<T, ObjectError> {
        self.client.run(request).await.map_err(|source| ObjectError::of(&self.name, source))
    }
}

impl fmt::Debug for Object {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Object").field("name", &self.0.as_ref().map(|inner| &inner.name)).finish_non_exhaustive()
    }
}
