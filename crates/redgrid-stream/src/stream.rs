//! The stream, and requests about it as a whole.

use std::marker::PhantomData;

use bytes::Bytes;
use redgrid_codecs::{Codec, Decode};
use redgrid_core::name::companion;
use redgrid_core::object::{Object, ObjectError, ObjectRef, alone};
use redgrid_core::{Client, FromReply, Request};

use crate::add::Trim;
use crate::entry::{Entry, RawEntry};
use crate::error::{NO_KEY, StreamError};
use crate::group::Group;
use crate::id::EntryId;
use crate::info::{GroupInfo, RawStreamInfo, StreamInfo};

/// The maximum number of ids of one call. It is limited because the call blocks the server.
const MAX_IDS: usize = 10_000;

redgrid_core::default_codec! {
    /// A stream of entries in the order in which they were added, shared by all processes that
    /// reach the same server. On the wire it is Redisson's `RStream`.
    ///
    /// Any process can read the entries, directly or through [groups](Group). A handle is cheap to
    /// clone; clones refer to the same stream. The codecs of fields and of their values are part of
    /// the type, and all processes that share a stream must use the same ones. With the feature
    /// `json` the default is `Json`. A stream continues to exist when its last entry is removed.
    #[doc(alias = "RStream")]
    #[doc(alias = "RedissonStream")]
    pub struct Stream<K, V; KC, VC> {
        pub(crate) object_ref: ObjectRef,
        pub(crate) keys: KC,
        pub(crate) values: VC,
        entries: PhantomData<fn() -> (K, V)>,
    }
}

impl<K, V, KC: Codec + Default, VC: Codec + Default> Stream<K, V, KC, VC> {
    /// Returns the stream with this name.
    ///
    /// No request is sent: an invalid name is reported by the first call.
    pub fn new(client: &Client, name: impl AsRef<str>) -> Self {
        Stream {
            object_ref: ObjectRef::new(client, name),
            keys: KC::default(),
            values: VC::default(),
            entries: PhantomData,
        }
    }
}

impl<K, V, KC: Codec, VC: Codec> Stream<K, V, KC, VC> {
    /// Returns a handle of the same name with other codecs for fields and for their values.
    pub fn with_codecs<A: Codec, B: Codec>(self, keys: A, values: B) -> Stream<K, V, A, B> {
        Stream { object_ref: self.object_ref, keys, values, entries: PhantomData }
    }

    /// Returns the [`Object`] of this name: existence, lifetime, other names, memory size.
    ///
    /// Deleting the object also deletes its groups.
    pub fn object(&self) -> Object {
        self.object_ref.object(alone)
    }

    /// Returns a group of the stream. No request is sent.
    pub fn group(&self, name: impl Into<String>) -> Group<K, V, KC, VC> {
        Group { stream: self.clone(), name: name.into() }
    }

    /// Returns the number of entries.
    ///
    /// # Errors
    ///
    /// [`ObjectError`] states what failed and whether anything may have changed.
    ///
    /// # Cancel safety
    ///
    /// Dropping the future changes nothing.
    #[doc(alias = "size")]
    pub async fn len(&self) -> Result<u64, ObjectError> {
        self.object_ref.read(self.object_ref.command("XLEN")?).await
    }

    /// Returns whether the stream has no entries.
    ///
    /// # Errors and cancel safety
    ///
    /// As for [`Stream::len`].
    pub async fn is_empty(&self) -> Result<bool, ObjectError> {
        Ok(self.len().await? == 0)
    }

    /// Returns the id of the entry that was added last, even if it was removed; `None` if the
    /// stream does not exist.
    ///
    /// # Errors
    ///
    /// [`ObjectError`] states what failed and whether anything may have changed.
    ///
    /// # Cancel safety
    ///
    /// Dropping the future changes nothing.
    pub async fn last_id(&self) -> Result<Option<EntryId>, ObjectError> {
        let info: Option<RawStreamInfo> = self.xinfo("STREAM").await?;
        Ok(info.map(|info| info.last_id))
    }

    /// Returns the groups of the stream. A stream that does not exist has none.
    ///
    /// # Errors
    ///
    /// [`ObjectError`] states what failed and whether anything may have changed.
    ///
    /// # Cancel safety
    ///
    /// Dropping the future changes nothing.
    #[doc(alias = "listGroups")]
    pub async fn groups(&self) -> Result<Vec<GroupInfo>, ObjectError> {
        Ok(self.xinfo("GROUPS").await?.unwrap_or_default())
    }

    /// Returns the reply of XINFO from the primary; `None` if the stream does not exist.
    async fn xinfo<T: FromReply>(&self, subcommand: &'static str) -> Result<Option<T>, ObjectError> {
        let (_, key) = self.object_ref.name_and_key()?;
        match self.object_ref.read_primary(Request::subcommand("XINFO", subcommand).key(key.clone())).await {
            Ok(info) => Ok(Some(info)),
            Err(error) if StreamError::server_message(&error).is_some_and(|message| message.contains(NO_KEY)) => {
                Ok(None)
            }
            Err(error) => Err(error),
        }
    }

    /// Removes entries, and returns the number of those that existed.
    ///
    /// If an entry is pending in a group it stays pending, without fields.
    ///
    /// # Errors
    ///
    /// [`ObjectError`] states what failed and whether anything may have changed. It is
    /// [`Failure::InvalidArgument`](crate::Failure::InvalidArgument) for more than 10,000 ids.
    ///
    /// # Cancel safety
    ///
    /// A request that was already sent is executed even if the future is dropped.
    #[doc(alias = "delete")]
    pub async fn remove(&self, ids: impl IntoIterator<Item = EntryId>) -> Result<u64, ObjectError> {
        let ids = self.id_args(ids)?;
        if ids.is_empty() {
            return Ok(0);
        }
        self.object_ref.change(ids.into_iter().fold(self.object_ref.command("XDEL")?, Request::arg)).await
    }

    /// Removes the oldest entries until `trim` is satisfied, and returns the number of removed
    /// entries.
    ///
    /// # Errors
    ///
    /// [`ObjectError`] states what failed and whether anything may have changed.
    ///
    /// # Cancel safety
    ///
    /// A request that was already sent is executed even if the future is dropped.
    #[doc(alias = "trimNonStrict")]
    pub async fn trim(&self, trim: Trim) -> Result<u64, ObjectError> {
        let request = trim.to_args(&self.object_ref)?.into_iter().fold(self.object_ref.command("XTRIM")?, Request::arg);
        self.object_ref.change(request).await
    }

    /// Converts ids to arguments, and checks their number.
    pub(crate) fn id_args(&self, ids: impl IntoIterator<Item = EntryId>) -> Result<Vec<Bytes>, ObjectError> {
        let ids: Vec<_> = ids.into_iter().map(EntryId::to_bytes).collect();
        match ids.len() {
            0..=MAX_IDS => Ok(ids),
            len => Err(self.object_ref.invalid("ids", format_args!("up to {MAX_IDS} at once"), len)),
        }
    }
}

/// Returns the channel on which new entries of a stream are announced.
pub(crate) fn channel(key: &[u8]) -> Bytes {
    companion("redgrid_stream__channel", key)
}

impl<K, V, KC: Decode<K>, VC: Decode<V>> Stream<K, V, KC, VC> {
    /// Returns information about the stream; `None` if it does not exist.
    ///
    /// # Errors
    ///
    /// [`StreamError`]; it is [`StreamError::Undecodable`] if the first or the last entry cannot be
    /// decoded.
    ///
    /// # Cancel safety
    ///
    /// Dropping the future changes nothing.
    #[doc(alias = "getInfo")]
    pub async fn info(&self) -> Result<Option<StreamInfo<K, V>>, StreamError> {
        let info: Option<RawStreamInfo> = self.xinfo("STREAM").await?;
        info.map(|info| info.decode(|raw| self.decode_entry(raw))).transpose()
    }

    pub(crate) fn decode_entry(&self, raw: &RawEntry) -> Result<Entry<K, V>, StreamError> {
        raw.decode(&self.object_ref, &self.keys, &self.values)
    }

    /// Decodes the entries that still exist, and fails if one cannot be decoded.
    pub(crate) fn decode_all(&self, raws: &[RawEntry]) -> Result<Vec<Entry<K, V>>, StreamError> {
        self.decode_each(raws).into_iter().collect()
    }

    /// Decodes the entries that still exist, each with its own result.
    pub(crate) fn decode_each(&self, raws: &[RawEntry]) -> Vec<Result<Entry<K, V>, StreamError>> {
        raws.iter().filter(|raw| raw.fields.is_some()).map(|raw| self.decode_entry(raw)).collect()
    }
}

redgrid_core::clone_fields!([K, V, KC: Clone, VC: Clone] Stream<K, V, KC, VC> { object_ref, keys, values, entries });

redgrid_core::debug_fields!([K, V, KC: std::fmt::Debug, VC: std::fmt::Debug] Stream<K, V, KC, VC>, |it|
    name: it.object_ref.name(), keys: it.keys, values: it.values
);
