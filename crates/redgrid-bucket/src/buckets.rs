//! Many buckets at once.

use std::collections::BTreeMap;
use std::fmt;
use std::marker::PhantomData;

use bytes::Bytes;
use futures_util::{StreamExt, TryStreamExt, stream};
use redgrid_codecs::{Codec, Decode, Encode};
use redgrid_core::name::InvalidName;
use redgrid_core::object::ObjectError;
use redgrid_core::{Client, FromReply, Name, Request};

use crate::bucket::DefaultCodec;

/// How many names one command has at most: a server does nothing else meanwhile.
const AT_ONCE: usize = 500;

/// How many commands are under way at a time.
const UNDER_WAY: usize = 16;

/// Many buckets of one type at once. Redisson's `RBuckets` on the wire.
///
/// What ends in `_each` asks slot by slot, and at most 500 names at a time: others may see some of it done and some not, and after an
/// error it may be so. What ends in `_all` is one step, and so all names must share a slot in a cluster (a hash tag, `{user:7}:name`).
#[doc(alias = "RBuckets")]
pub struct Buckets<T, C = DefaultCodec> {
    client: Client,
    codec: C,
    value: PhantomData<fn() -> T>,
}

impl<T, C: Codec + Default> Buckets<T, C> {
    /// The buckets of a client.
    pub fn new(client: &Client) -> Self {
        Buckets::with_codec(client, C::default())
    }
}

impl<T, C: Codec> Buckets<T, C> {
    /// The same with a codec that has a state of its own.
    pub fn with_codec(client: &Client, codec: C) -> Self {
        Buckets { client: client.clone(), codec, value: PhantomData }
    }

    /// Deletes them; tells how many there were.
    ///
    /// # Errors
    ///
    /// [`ObjectError`] of one of them; others may be deleted.
    ///
    /// # Cancel safety
    ///
    /// What has left is carried out although nobody waits for it.
    pub async fn delete_each<N: AsRef<str>>(&self, names: impl IntoIterator<Item = N>) -> Result<u64, ObjectError> {
        let parts = self.parts(names.into_iter().map(|name| (name, ())))?;
        let counts = self.each::<_, u64>(parts, |part| Request::command("DEL").keys(keys(part))).await?;
        Ok(counts.into_iter().map(|(_, count)| count).sum())
    }

    /// Each name once, with what goes with it, by slot and in parts.
    fn parts<N: AsRef<str>, V>(&self, names: impl Iterator<Item = (N, V)>) -> Result<Vec<Vec<Placed<V>>>, InvalidName> {
        let mut slots: BTreeMap<u16, BTreeMap<Bytes, Placed<V>>> = BTreeMap::new();
        for (name, with) in names {
            let placed = Placed::new(&self.client, name, with)?;
            slots.entry(self.client.slot(&placed.key)).or_default().insert(placed.key.clone(), placed);
        }
        let mut parts = Vec::new();
        for slot in slots.into_values() {
            let mut placed = slot.into_values().peekable();
            while placed.peek().is_some() {
                parts.push(placed.by_ref().take(AT_ONCE).collect());
            }
        }
        Ok(parts)
    }

    /// Asks about each part, several at a time.
    async fn each<V: Send, R: FromReply + Send>(
        &self,
        parts: Vec<Vec<Placed<V>>>,
        request: impl Fn(&[Placed<V>]) -> Request,
    ) -> Result<Vec<(Vec<Placed<V>>, R)>, ObjectError> {
        let asked: Vec<_> = parts.into_iter().map(|part| (request(&part), part)).collect();
        let answers = stream::iter(asked).map(|(request, part)| {
            let client = self.client.clone();
            async move {
                let answer = run(&client, &part[0].name, request).await?;
                Ok((part, answer))
            }
        });
        answers.buffer_unordered(UNDER_WAY).try_collect().await
    }
}

/// Asks about what has this name, among others.
async fn run<R: FromReply>(client: &Client, name: &Name, request: Request) -> Result<R, ObjectError> {
    let reads = request.is_idempotent();
    client.run(request).await.map_err(|source| match reads {
        true => ObjectError::of_read(name, source),
        false => ObjectError::of(name, source),
    })
}

/// A name, its key, and what goes with it.
struct Placed<V> {
    name: Name,
    key: Bytes,
    with: V,
}

impl<V> Placed<V> {
    fn new(client: &Client, name: impl AsRef<str>, with: V) -> Result<Self, InvalidName> {
        let name = Name::new(name)?;
        Ok(Placed { key: client.key(&name), name, with })
    }
}

impl<T, C: Decode<T>> Buckets<T, C> {
    /// What they are: those that are there, by name. Each part is as it was at one moment.
    ///
    /// # Errors
    ///
    /// [`ObjectError`] of one of them.
    ///
    /// # Cancel safety
    ///
    /// Dropping it changes nothing.
    #[doc(alias = "get")]
    pub async fn get_each<N: AsRef<str>>(
        &self,
        names: impl IntoIterator<Item = N>,
    ) -> Result<BTreeMap<String, T>, ObjectError> {
        let parts = self.parts(names.into_iter().map(|name| (name, ())))?;
        let found = self.each(parts, |part| Request::command("MGET").keys(keys(part)).reads()).await?;
        let pairs = found.into_iter().flat_map(|(part, values): (_, Vec<Option<Bytes>>)| part.into_iter().zip(values));
        let there = pairs.filter_map(|(placed, bytes)| Some((placed.name, bytes?)));
        let read = |(name, bytes): (Name, Bytes)| match self.codec.decode(&bytes) {
            Ok(value) => Ok((name.as_str().to_owned(), value)),
            Err(source) => Err(ObjectError::decode(&name, None, self.codec.name(), source)),
        };
        there.map(read).collect()
    }
}

impl<T, C: Encode<T>> Buckets<T, C> {
    /// Sets them, without lifetimes, slot by slot.
    ///
    /// # Errors
    ///
    /// [`ObjectError`] of one of them; others may be set.
    ///
    /// # Cancel safety
    ///
    /// What has left is carried out although nobody waits for it.
    #[doc(alias = "set")]
    pub async fn set_each<'a, N: AsRef<str>>(
        &self,
        values: impl IntoIterator<Item = (N, &'a T)>,
    ) -> Result<(), ObjectError>
    where
        T: 'a,
    {
        let parts = self.parts(self.written(values)?.into_iter())?;
        self.each::<_, ()>(parts, |part| setting("MSET", part)).await.map(drop)
    }

    /// Sets them, without lifetimes, in one step.
    ///
    /// # Errors
    ///
    /// [`ObjectError::InvalidArgument`] where they do not share a slot; else as the rest.
    ///
    /// # Cancel safety
    ///
    /// What has left is carried out although nobody waits for it.
    pub async fn set_all<'a, N: AsRef<str>>(
        &self,
        values: impl IntoIterator<Item = (N, &'a T)>,
    ) -> Result<(), ObjectError>
    where
        T: 'a,
    {
        let Some(part) = self.together(values)? else { return Ok(()) };
        run(&self.client, &part[0].name, setting("MSET", &part)).await
    }

    /// Sets them, without lifetimes, in one step if none of them is there; tells whether it did.
    ///
    /// # Errors
    ///
    /// [`ObjectError::InvalidArgument`] where they do not share a slot; else as the rest.
    ///
    /// # Cancel safety
    ///
    /// What has left is carried out although nobody waits for it.
    #[doc(alias = "trySet")]
    pub async fn try_set_all<'a, N: AsRef<str>>(
        &self,
        values: impl IntoIterator<Item = (N, &'a T)>,
    ) -> Result<bool, ObjectError>
    where
        T: 'a,
    {
        let Some(part) = self.together(values)? else { return Ok(true) };
        run(&self.client, &part[0].name, setting("MSETNX", &part)).await
    }

    fn written<'a, N: AsRef<str>>(
        &self,
        values: impl IntoIterator<Item = (N, &'a T)>,
    ) -> Result<Vec<(N, Bytes)>, ObjectError>
    where
        T: 'a,
    {
        let write = |(name, value): (N, &T)| match self.codec.encode(value) {
            Ok(bytes) => Ok((name, bytes)),
            Err(source) => Err(ObjectError::encode(&Name::new(name)?, self.codec.name(), source)),
        };
        values.into_iter().map(write).collect()
    }

    /// All of them, which are of one slot.
    fn together<'a, N: AsRef<str>>(
        &self,
        values: impl IntoIterator<Item = (N, &'a T)>,
    ) -> Result<Option<Vec<Placed<Bytes>>>, ObjectError>
    where
        T: 'a,
    {
        let mut all: BTreeMap<Bytes, Placed<Bytes>> = BTreeMap::new();
        for (name, bytes) in self.written(values)? {
            let placed = Placed::new(&self.client, name, bytes)?;
            let slot = |key: &Bytes| self.client.slot(key);
            if let Some((first, _)) = all.first_key_value().filter(|(first, _)| slot(first) != slot(&placed.key)) {
                return Err(ObjectError::InvalidArgument {
                    name: placed.name,
                    option: "names",
                    expected: format!("names that share a slot with `{}`", String::from_utf8_lossy(first)),
                    got: "one in another".into(),
                });
            }
            all.insert(placed.key.clone(), placed);
        }
        Ok((!all.is_empty()).then(|| all.into_values().collect()))
    }
}

/// The keys of a part.
fn keys<V>(part: &[Placed<V>]) -> impl Iterator<Item = Bytes> {
    part.iter().map(|placed| placed.key.clone())
}

/// Sets a part by one command, whose keys and values take turns: the first key decides where it goes.
fn setting(command: &'static str, part: &[Placed<Bytes>]) -> Request {
    let first = Request::command(command).key(part[0].key.clone()).arg(part[0].with.clone());
    part[1..].iter().fold(first, |request, placed| request.arg(placed.key.clone()).arg(placed.with.clone()))
}

impl<T, C: Clone> Clone for Buckets<T, C> {
    fn clone(&self) -> Self {
        Buckets { client: self.client.clone(), codec: self.codec.clone(), value: PhantomData }
    }
}

impl<T, C: fmt::Debug> fmt::Debug for Buckets<T, C> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Buckets").field("codec", &self.codec).finish_non_exhaustive()
    }
}
