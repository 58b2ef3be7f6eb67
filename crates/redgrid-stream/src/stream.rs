//! The stream, and what is asked of it as a whole.

use std::fmt;
use std::marker::PhantomData;

use bytes::Bytes;
use redgrid_codecs::{Codec, Decode};
use redgrid_core::name::companion;
use redgrid_core::object::{Object, ObjectError, Place, alone};
use redgrid_core::{Client, FromReply, Request};

use crate::add::Trim;
use crate::entry::{Entry, Raw};
use crate::error::{NO_KEY, StreamError};
use crate::group::Group;
use crate::id::EntryId;
use crate::info::{GroupInfo, StreamInfo, Told};

/// How many ids one call takes: a server does nothing else meanwhile.
const MOST_IDS: usize = 10_000;

/// The type, with the codecs of one that names none: there are some only with the feature `json`, so that what a stream stores never
/// depends on the features that others ask for.
macro_rules! stream {
    ([$($key:tt)*]) => {
        /// Entries in the order in which they were added, shared by all processes that reach the same server, and read by anybody or by
        /// [groups](Group). Redisson's `RStream` on the wire.
        ///
        /// Cheap to clone; clones are the same stream. The codecs of fields and of their values are part of the type: all who share a stream
        /// name the same. With the feature `json` they are `Json` where none is named. A stream stays when its last entry is removed.
        #[doc(alias = "RStream")]
        #[doc(alias = "RedissonStream")]
        pub struct Stream<K, V, KC $($key)*, VC = KC> {
            pub(crate) place: Place,
            pub(crate) keys: KC,
            pub(crate) values: VC,
            entries: PhantomData<fn() -> (K, V)>,
        }
    };
}

#[cfg(feature = "json")]
stream!([= redgrid_codecs::Json]);
#[cfg(not(feature = "json"))]
stream!([]);

impl<K, V, KC: Codec + Default, VC: Codec + Default> Stream<K, V, KC, VC> {
    /// The stream with this name. Making one asks nobody: an invalid name is told by the first call.
    pub fn new(client: &Client, name: impl AsRef<str>) -> Self {
        Stream { place: Place::new(client, name), keys: KC::default(), values: VC::default(), entries: PhantomData }
    }
}

impl<K, V, KC: Codec, VC: Codec> Stream<K, V, KC, VC> {
    /// The same name with other codecs for fields and for their values.
    pub fn with_codecs<A: Codec, B: Codec>(self, keys: A, values: B) -> Stream<K, V, A, B> {
        Stream { place: self.place, keys, values, entries: PhantomData }
    }

    /// What every object has: whether it is there, its lifetime, other names, its size in memory. Its groups go with it.
    pub fn object(&self) -> Object {
        self.place.object(alone)
    }

    /// A group of it. Making one asks nobody.
    pub fn group(&self, name: impl Into<String>) -> Group<K, V, KC, VC> {
        Group { stream: self.clone(), name: name.into() }
    }

    /// How many entries it has.
    ///
    /// # Errors
    ///
    /// [`ObjectError`] says what is true then.
    ///
    /// # Cancel safety
    ///
    /// Dropping it changes nothing.
    #[doc(alias = "size")]
    pub async fn len(&self) -> Result<u64, ObjectError> {
        self.place.read(self.place.command("XLEN")?).await
    }

    /// Whether it has none.
    ///
    /// # Errors
    ///
    /// As [`Stream::len`].
    ///
    /// # Cancel safety
    ///
    /// As [`Stream::len`].
    pub async fn is_empty(&self) -> Result<bool, ObjectError> {
        Ok(self.len().await? == 0)
    }

    /// The id of the last entry that was added, whether or not it is still there; `None` where there is no stream.
    ///
    /// # Errors
    ///
    /// [`ObjectError`] says what is true then.
    ///
    /// # Cancel safety
    ///
    /// Dropping it changes nothing.
    pub async fn last_id(&self) -> Result<Option<EntryId>, ObjectError> {
        let told: Option<Told> = self.inform("STREAM").await?;
        Ok(told.map(|told| told.last_id))
    }

    /// Its groups. A stream that is not there has none.
    ///
    /// # Errors
    ///
    /// [`ObjectError`] says what is true then.
    ///
    /// # Cancel safety
    ///
    /// Dropping it changes nothing.
    #[doc(alias = "listGroups")]
    pub async fn groups(&self) -> Result<Vec<GroupInfo>, ObjectError> {
        Ok(self.inform("GROUPS").await?.unwrap_or_default())
    }

    /// What XINFO tells, from the primary; `None` where there is no stream.
    async fn inform<T: FromReply>(&self, about: &'static str) -> Result<Option<T>, ObjectError> {
        let (_, key) = self.place.named()?;
        match self.place.ask(Request::subcommand("XINFO", about).key(key.clone())).await {
            Ok(told) => Ok(Some(told)),
            Err(error) if StreamError::words(&error).is_some_and(|words| words.contains(NO_KEY)) => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// Removes entries; tells how many were there. What groups have pending of them stays, without fields.
    ///
    /// # Errors
    ///
    /// [`ObjectError`] says what is true then; [`ObjectError::InvalidArgument`] of more than 10,000 ids.
    ///
    /// # Cancel safety
    ///
    /// What has left is carried out although nobody waits for it.
    #[doc(alias = "delete")]
    pub async fn remove(&self, ids: impl IntoIterator<Item = EntryId>) -> Result<u64, ObjectError> {
        let ids = self.ids(ids)?;
        if ids.is_empty() {
            return Ok(0);
        }
        self.place.change(ids.into_iter().fold(self.place.command("XDEL")?, Request::arg)).await
    }

    /// Removes the oldest entries until what is asked holds; tells how many were removed.
    ///
    /// # Errors
    ///
    /// [`ObjectError`] says what is true then.
    ///
    /// # Cancel safety
    ///
    /// What has left is carried out although nobody waits for it.
    #[doc(alias = "trimNonStrict")]
    pub async fn trim(&self, trim: Trim) -> Result<u64, ObjectError> {
        let request = trim.written(&self.place)?.into_iter().fold(self.place.command("XTRIM")?, Request::arg);
        self.place.change(request).await
    }

    /// Ids as they are sent.
    pub(crate) fn ids(&self, ids: impl IntoIterator<Item = EntryId>) -> Result<Vec<Bytes>, ObjectError> {
        let ids: Vec<_> = ids.into_iter().map(EntryId::bytes).collect();
        match ids.len() {
            0..=MOST_IDS => Ok(ids),
            len => Err(self.place.invalid("ids", format_args!("up to {MOST_IDS} at once"), len)),
        }
    }
}

/// Where it is told that entries were added to a stream.
pub(crate) fn channel(key: &[u8]) -> Bytes {
    companion("redgrid_stream__channel", key)
}

impl<K, V, KC: Decode<K>, VC: Decode<V>> Stream<K, V, KC, VC> {
    /// What the server knows of it as a whole; `None` where there is no stream.
    ///
    /// # Errors
    ///
    /// [`StreamError`]; [`StreamError::Undecodable`] where the first or the last entry is.
    ///
    /// # Cancel safety
    ///
    /// Dropping it changes nothing.
    #[doc(alias = "getInfo")]
    pub async fn info(&self) -> Result<Option<StreamInfo<K, V>>, StreamError> {
        let told: Option<Told> = self.inform("STREAM").await?;
        told.map(|told| told.read(|raw| self.one(raw))).transpose()
    }

    pub(crate) fn one(&self, raw: &Raw) -> Result<Entry<K, V>, StreamError> {
        raw.read(&self.place, &self.keys, &self.values)
    }

    pub(crate) fn all(&self, raws: &[Raw]) -> Result<Vec<Entry<K, V>>, StreamError> {
        self.each(raws).into_iter().collect()
    }

    /// Those that are still there, each by itself.
    pub(crate) fn each(&self, raws: &[Raw]) -> Vec<Result<Entry<K, V>, StreamError>> {
        raws.iter().filter(|raw| raw.fields.is_some()).map(|raw| self.one(raw)).collect()
    }
}

impl<K, V, KC: Clone, VC: Clone> Clone for Stream<K, V, KC, VC> {
    fn clone(&self) -> Self {
        let Stream { place, keys, values, .. } = self;
        Stream { place: place.clone(), keys: keys.clone(), values: values.clone(), entries: PhantomData }
    }
}

impl<K, V, KC: fmt::Debug, VC: fmt::Debug> fmt::Debug for Stream<K, V, KC, VC> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut shown = f.debug_struct("Stream");
        shown.field("name", &self.place.name()).field("keys", &self.keys).field("values", &self.values);
        shown.finish_non_exhaustive()
    }
}
