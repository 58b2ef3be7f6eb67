//! Operations on many buckets.

use std::collections::BTreeMap;
use std::marker::PhantomData;

use bytes::Bytes;
use futures_util::{StreamExt, TryStreamExt, stream};
use redgrid_codecs::{Codec, Decode, Encode};
use redgrid_core::author::ClientExt;
use redgrid_core::name::InvalidName;
use redgrid_core::object::ObjectError;
use redgrid_core::{Client, Code, FromReply, Name, Request, ServerError};

/// The maximum number of names in one command. It is limited because the command blocks the server.
const MAX_NAMES: usize = 500;

/// The approximate maximum size of one command. It is limited because the client and the server
/// hold the command in memory.
const MAX_BYTES: usize = 4 << 20;

/// The maximum number of commands in flight.
const MAX_IN_FLIGHT: usize = 16;

redgrid_core::default_codec! {
    /// Operations on many buckets of one type.
    ///
    /// On the wire it is Redisson's `RBuckets`.
    ///
    /// Methods that end in `_each` send one or more commands for each slot, with at most 500 names
    /// or about 4 MiB each. Other clients may see a part of their effect. After an error, only a
    /// part may have been executed. Names of a migrating slot are sent one by one.
    ///
    /// Methods that end in `_all` are one step. In a cluster, all of their names must share a
    /// slot (by a hash tag, like `{user:7}:name`). During a slot migration they wait until all
    /// names are on the same node, up to the call's time limit.
    #[doc(alias = "RBuckets")]
    pub struct Buckets<T; C> {
        client: Client,
        codec: C,
        value: PhantomData<fn() -> T>,
    }
}

impl<T, C: Codec + Default> Buckets<T, C> {
    /// Returns the buckets of a client.
    pub fn new(client: &Client) -> Self {
        Buckets { client: client.clone(), codec: C::default(), value: PhantomData }
    }
}

impl<T, C: Codec> Buckets<T, C> {
    /// Returns a handle with another codec.
    pub fn with_codec<D: Codec>(self, codec: D) -> Buckets<T, D> {
        Buckets { client: self.client, codec, value: PhantomData }
    }

    /// Deletes the buckets. Returns the number of those that existed.
    ///
    /// # Errors
    ///
    /// The [`ObjectError`] of one of the buckets; others may have been deleted.
    ///
    /// # Cancel safety
    ///
    /// A request that was already sent is executed even if the future is dropped.
    pub async fn delete_each<N: AsRef<str>>(&self, names: impl IntoIterator<Item = N>) -> Result<u64, ObjectError> {
        let chunks = self.chunks(names.into_iter().map(|name| (name, Bytes::new())))?;
        let counts = self.send_each::<u64>(chunks, |chunk| Request::command("DEL").keys(keys(chunk))).await?;
        Ok(counts.into_iter().map(|(_, count)| count).sum())
    }

    /// Groups the names by slot, and splits the groups into chunks. A name occurs once, with its
    /// value.
    fn chunks<N: AsRef<str>>(
        &self,
        names: impl Iterator<Item = (N, Bytes)>,
    ) -> Result<Vec<Vec<NamedValue>>, InvalidName> {
        let mut slots: BTreeMap<u16, BTreeMap<Bytes, NamedValue>> = BTreeMap::new();
        for (name, value) in names {
            let item = NamedValue::new(&self.client, name, value)?;
            slots.entry(self.client.slot(&item.key)).or_default().insert(item.key.clone(), item);
        }
        let mut chunks = Vec::new();
        for slot in slots.into_values() {
            let (mut chunk, mut bytes) = (Vec::new(), 0);
            for item in slot.into_values() {
                if chunk.len() == MAX_NAMES || bytes >= MAX_BYTES {
                    chunks.push(std::mem::take(&mut chunk));
                    bytes = 0;
                }
                bytes += item.key.len() + item.value.len();
                chunk.push(item);
            }
            chunks.push(chunk);
        }
        Ok(chunks)
    }

    /// Sends a request for each chunk, several at a time. For a chunk of a migrating slot, it sends
    /// one request for each name.
    async fn send_each<R: FromReply + Send>(
        &self,
        chunks: Vec<Vec<NamedValue>>,
        request: impl Fn(&[NamedValue]) -> Request + Clone + Send,
    ) -> Result<Vec<(Vec<NamedValue>, R)>, ObjectError> {
        let replies = stream::iter(chunks).map(|chunk| {
            let (client, request) = (self.client.clone(), request.clone());
            async move {
                let first_request = request(&chunk);
                let is_read = first_request.is_idempotent();
                match client.run_same_slot(first_request).await {
                    Err(error) if error.code() == Some(Code::TryAgain) && chunk.len() > 1 => {
                        let mut replies = Vec::with_capacity(chunk.len());
                        for item in chunk {
                            let reply = client.run(request(std::slice::from_ref(&item))).await;
                            let reply = reply.map_err(|source| error_of(&item.name, is_read, source))?;
                            replies.push((vec![item], reply));
                        }
                        Ok::<_, ObjectError>(replies)
                    }
                    reply => {
                        let reply = reply.map_err(|source| error_of(&chunk[0].name, is_read, source))?;
                        Ok(vec![(chunk, reply)])
                    }
                }
            }
        });
        let replies: Vec<Vec<_>> = replies.buffer_unordered(MAX_IN_FLIGHT).try_collect().await?;
        Ok(replies.into_iter().flatten().collect())
    }
}

/// Converts the error of a request for several names to an error that names this one.
fn error_of(name: &Name, is_read: bool, source: ServerError) -> ObjectError {
    if is_read { ObjectError::of_read(name, source) } else { ObjectError::of(name, source) }
}

/// A name, its key, and the value to write, if any.
struct NamedValue {
    name: Name,
    key: Bytes,
    value: Bytes,
}

impl NamedValue {
    fn new(client: &Client, name: impl AsRef<str>, value: Bytes) -> Result<Self, InvalidName> {
        let name = Name::new(name)?;
        Ok(NamedValue { key: client.key(&name), name, value })
    }
}

impl<T, C: Decode<T>> Buckets<T, C> {
    /// Returns the values that exist, by name.
    ///
    /// Each command reads its values at one moment. An object of another type, like a list or a
    /// map, counts as absent, because the server does not report it here. For a single
    /// [`Bucket`](crate::Bucket) it is an error.
    ///
    /// # Errors
    ///
    /// The [`ObjectError`] of one of the buckets.
    ///
    /// # Cancel safety
    ///
    /// Dropping the future changes nothing.
    #[doc(alias = "get")]
    pub async fn get_each<N: AsRef<str>>(
        &self,
        names: impl IntoIterator<Item = N>,
    ) -> Result<BTreeMap<String, T>, ObjectError> {
        let chunks = self.chunks(names.into_iter().map(|name| (name, Bytes::new())))?;
        let found = self.send_each(chunks, |chunk| Request::command("MGET").keys(keys(chunk)).reads()).await?;
        let pairs =
            found.into_iter().flat_map(|(chunk, values): (_, Vec<Option<Bytes>>)| chunk.into_iter().zip(values));
        let existing = pairs.filter_map(|(item, bytes)| Some((item.name, bytes?)));
        let read = |(name, bytes): (Name, Bytes)| match self.codec.decode(&bytes) {
            Ok(value) => Ok((name.as_str().to_owned(), value)),
            Err(source) => Err(ObjectError::decode(&name, None, self.codec.name(), source)),
        };
        existing.map(read).collect()
    }
}

impl<T, C: Encode<T>> Buckets<T, C> {
    /// Sets the values, without lifetimes, slot by slot.
    ///
    /// # Errors
    ///
    /// The [`ObjectError`] of one of the buckets; others may have been set.
    ///
    /// # Cancel safety
    ///
    /// A request that was already sent is executed even if the future is dropped.
    #[doc(alias = "set")]
    pub async fn set_each<'a, N: AsRef<str>>(
        &self,
        values: impl IntoIterator<Item = (N, &'a T)>,
    ) -> Result<(), ObjectError>
    where
        T: 'a,
    {
        let chunks = self.chunks(self.encode_all(values)?.into_iter())?;
        self.send_each::<()>(chunks, |chunk| set_request("MSET", chunk)).await.map(drop)
    }

    /// Sets the values, without lifetimes, in one step.
    ///
    /// # Errors
    ///
    /// [`Failure::InvalidArgument`](crate::Failure::InvalidArgument) if the names are in different
    /// slots. Otherwise [`ObjectError`] states what failed and whether anything may have changed.
    ///
    /// # Cancel safety
    ///
    /// A request that was already sent is executed even if the future is dropped.
    pub async fn set_all<'a, N: AsRef<str>>(
        &self,
        values: impl IntoIterator<Item = (N, &'a T)>,
    ) -> Result<(), ObjectError>
    where
        T: 'a,
    {
        let Some(chunk) = self.encode_same_slot(values)? else { return Ok(()) };
        self.client.run(set_request("MSET", &chunk)).await.map_err(|source| ObjectError::of(&chunk[0].name, source))
    }

    /// Sets the values, without lifetimes, in one step, if none of the buckets exists. Returns
    /// whether they were set.
    ///
    /// # Errors
    ///
    /// [`Failure::InvalidArgument`](crate::Failure::InvalidArgument) if the names are in different
    /// slots. Otherwise [`ObjectError`] states what failed and whether anything may have changed.
    ///
    /// # Cancel safety
    ///
    /// A request that was already sent is executed even if the future is dropped.
    #[doc(alias = "trySet")]
    pub async fn try_set_all<'a, N: AsRef<str>>(
        &self,
        values: impl IntoIterator<Item = (N, &'a T)>,
    ) -> Result<bool, ObjectError>
    where
        T: 'a,
    {
        let Some(chunk) = self.encode_same_slot(values)? else { return Ok(true) };
        self.client.run(set_request("MSETNX", &chunk)).await.map_err(|source| ObjectError::of(&chunk[0].name, source))
    }

    fn encode_all<'a, N: AsRef<str>>(
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

    /// Encodes the values and checks that all names share a slot.
    fn encode_same_slot<'a, N: AsRef<str>>(
        &self,
        values: impl IntoIterator<Item = (N, &'a T)>,
    ) -> Result<Option<Vec<NamedValue>>, ObjectError>
    where
        T: 'a,
    {
        let mut all: BTreeMap<Bytes, NamedValue> = BTreeMap::new();
        for (name, bytes) in self.encode_all(values)? {
            let item = NamedValue::new(&self.client, name, bytes)?;
            let slot = |key: &Bytes| self.client.slot(key);
            if let Some((first, _)) = all.first_key_value().filter(|(first, _)| slot(first) != slot(&item.key)) {
                return Err(ObjectError::invalid_argument(
                    &item.name,
                    "names",
                    format!("names in the slot of `{}`", String::from_utf8_lossy(first)),
                    "a name in another slot",
                ));
            }
            all.insert(item.key.clone(), item);
        }
        Ok((!all.is_empty()).then(|| all.into_values().collect()))
    }
}

/// Returns the keys of a chunk.
fn keys(chunk: &[NamedValue]) -> impl Iterator<Item = Bytes> {
    chunk.iter().map(|item| item.key.clone())
}

/// Builds a command that sets a chunk. Keys and values alternate; the first key determines the
/// node.
fn set_request(command: &'static str, chunk: &[NamedValue]) -> Request {
    let first = Request::command(command).key(chunk[0].key.clone()).arg(chunk[0].value.clone());
    chunk[1..].iter().fold(first, |request, item| request.arg(item.key.clone()).arg(item.value.clone()))
}

redgrid_core::clone_fields!([T, C: Clone] Buckets<T, C> { client, codec, value });

redgrid_core::debug_fields!([T, C: std::fmt::Debug] Buckets<T, C>, |it| codec: it.codec);
