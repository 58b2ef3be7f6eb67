//! Many buckets at once.

use std::collections::BTreeMap;
use std::fmt;
use std::marker::PhantomData;

use bytes::Bytes;
use futures_util::{StreamExt, TryStreamExt, stream};
use redgrid_codecs::{Codec, Decode, Encode};
use redgrid_core::name::InvalidName;
use redgrid_core::object::ObjectError;
use redgrid_core::{Client, Code, FromReply, Name, Request, ServerError};

/// How many names one command has at most: a server does nothing else meanwhile.
const AT_ONCE: usize = 500;

/// How many bytes, about: what is sent at once is in memory here and there.
const BYTES_AT_ONCE: usize = 4 << 20;

/// How many commands are under way at a time.
const UNDER_WAY: usize = 16;

/// The type, with the codec of one that names none, as a bucket has it.
macro_rules! buckets {
    ($($default:tt)*) => {
        /// Many buckets of one type at once. Redisson's `RBuckets` on the wire.
        ///
        /// What ends in `_each` asks slot by slot, and at most 500 names or about 4 MiB at a time: others may see some of it done and some
        /// not, and after an error it may be so. Names of a slot that is moving are asked about one by one. What ends in `_all` is one step,
        /// and so all names must share a slot in a cluster (a hash tag, `{user:7}:name`); while that slot moves it waits until all are on
        /// one side, as long as a call may take.
        #[doc(alias = "RBuckets")]
        pub struct Buckets<T, C $($default)*> {
            client: Client,
            codec: C,
            value: PhantomData<fn() -> T>,
        }
    };
}

#[cfg(feature = "json")]
buckets!(= redgrid_codecs::Json);
#[cfg(not(feature = "json"))]
buckets!();

impl<T, C: Codec + Default> Buckets<T, C> {
    /// The buckets of a client.
    pub fn new(client: &Client) -> Self {
        Buckets { client: client.clone(), codec: C::default(), value: PhantomData }
    }
}

impl<T, C: Codec> Buckets<T, C> {
    /// The same with another codec.
    pub fn with_codec<D: Codec>(self, codec: D) -> Buckets<T, D> {
        Buckets { client: self.client, codec, value: PhantomData }
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
        let parts = self.parts(names.into_iter().map(|name| (name, Bytes::new())))?;
        let counts = self.each::<u64>(parts, |part| Request::command("DEL").keys(keys(part))).await?;
        Ok(counts.into_iter().map(|(_, count)| count).sum())
    }

    /// Each name once, with what goes with it, by slot and in parts.
    fn parts<N: AsRef<str>>(&self, names: impl Iterator<Item = (N, Bytes)>) -> Result<Vec<Vec<Placed>>, InvalidName> {
        let mut slots: BTreeMap<u16, BTreeMap<Bytes, Placed>> = BTreeMap::new();
        for (name, with) in names {
            let placed = Placed::new(&self.client, name, with)?;
            slots.entry(self.client.slot(&placed.key)).or_default().insert(placed.key.clone(), placed);
        }
        let mut parts = Vec::new();
        for slot in slots.into_values() {
            let (mut part, mut bytes) = (Vec::new(), 0);
            for placed in slot.into_values() {
                if part.len() == AT_ONCE || bytes >= BYTES_AT_ONCE {
                    parts.push(std::mem::take(&mut part));
                    bytes = 0;
                }
                bytes += placed.key.len() + placed.with.len();
                part.push(placed);
            }
            parts.push(part);
        }
        Ok(parts)
    }

    /// Asks about each part, several at a time; about a part of a moving slot name by name.
    async fn each<R: FromReply + Send>(
        &self,
        parts: Vec<Vec<Placed>>,
        request: impl Fn(&[Placed]) -> Request + Clone + Send,
    ) -> Result<Vec<(Vec<Placed>, R)>, ObjectError> {
        let answers = stream::iter(parts).map(|part| {
            let (client, request) = (self.client.clone(), request.clone());
            async move {
                let asked = request(&part);
                let reads = asked.is_idempotent();
                match client.run_undivided(asked).await {
                    Err(error) if error.code() == Some(Code::TryAgain) && part.len() > 1 => {
                        let mut answers = Vec::with_capacity(part.len());
                        for placed in part {
                            let answer = client.run(request(std::slice::from_ref(&placed))).await;
                            let answer = answer.map_err(|source| of(&placed.name, reads, source))?;
                            answers.push((vec![placed], answer));
                        }
                        Ok::<_, ObjectError>(answers)
                    }
                    answer => {
                        let answer = answer.map_err(|source| of(&part[0].name, reads, source))?;
                        Ok(vec![(part, answer)])
                    }
                }
            }
        });
        let answers: Vec<Vec<_>> = answers.buffer_unordered(UNDER_WAY).try_collect().await?;
        Ok(answers.into_iter().flatten().collect())
    }
}

/// What became of a request about what has this name, among others.
fn of(name: &Name, reads: bool, source: ServerError) -> ObjectError {
    match reads {
        true => ObjectError::of_read(name, source),
        false => ObjectError::of(name, source),
    }
}

/// A name, its key, and what goes with it.
struct Placed {
    name: Name,
    key: Bytes,
    with: Bytes,
}

impl Placed {
    fn new(client: &Client, name: impl AsRef<str>, with: Bytes) -> Result<Self, InvalidName> {
        let name = Name::new(name)?;
        Ok(Placed { key: client.key(&name), name, with })
    }
}

impl<T, C: Decode<T>> Buckets<T, C> {
    /// What they are: those that are there, by name. Each part is as it was at one moment. What is no value but a list or a map, say, is
    /// as absent: the server does not tell them apart here, as it does for a [`Bucket`](crate::Bucket).
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
        let parts = self.parts(names.into_iter().map(|name| (name, Bytes::new())))?;
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
        self.each::<()>(parts, |part| setting("MSET", part)).await.map(drop)
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
        self.client.run(setting("MSET", &part)).await.map_err(|source| ObjectError::of(&part[0].name, source))
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
        self.client.run(setting("MSETNX", &part)).await.map_err(|source| ObjectError::of(&part[0].name, source))
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
    ) -> Result<Option<Vec<Placed>>, ObjectError>
    where
        T: 'a,
    {
        let mut all: BTreeMap<Bytes, Placed> = BTreeMap::new();
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
fn keys(part: &[Placed]) -> impl Iterator<Item = Bytes> {
    part.iter().map(|placed| placed.key.clone())
}

/// Sets a part by one command, whose keys and values take turns: the first key decides where it goes.
fn setting(command: &'static str, part: &[Placed]) -> Request {
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
