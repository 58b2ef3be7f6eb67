//! Stream entries: decoded, and as the server returns them.

use bytes::Bytes;
use redgrid_codecs::Decode;
use redgrid_core::object::ObjectRef;
use redgrid_core::{FromReply, Pairs, Reply, ServerError};

use crate::error::StreamError;
use crate::id::EntryId;

/// An entry of a stream: an id, and fields with values in the order in which they were added.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Entry<K, V> {
    /// The id of the entry.
    pub id: EntryId,
    /// The fields with their values. A field may occur more than once.
    pub fields: Vec<(K, V)>,
}

impl<K, V> Entry<K, V> {
    /// Returns the value of a field, the first if there are several.
    pub fn get<Q: ?Sized + PartialEq>(&self, field: &Q) -> Option<&V>
    where
        K: std::borrow::Borrow<Q>,
    {
        self.fields.iter().find(|(known, _)| known.borrow() == field).map(|(_, value)| value)
    }
}

/// An encoded entry as the server returns it.
///
/// `fields` is `None` for an entry that was removed from the stream and is still pending in a
/// group.
#[derive(Debug, Clone)]
pub(crate) struct RawEntry {
    pub(crate) id: EntryId,
    pub(crate) fields: Option<Vec<(Bytes, Bytes)>>,
}

impl RawEntry {
    /// Decodes the entry with these codecs.
    pub(crate) fn decode<K, V>(
        &self,
        object_ref: &ObjectRef,
        keys: &impl Decode<K>,
        values: &impl Decode<V>,
    ) -> Result<Entry<K, V>, StreamError> {
        let at = || Some(format!("entry {}", self.id));
        let decode_field = |(key, value): &(Bytes, Bytes)| {
            Ok((object_ref.decoded(keys, key, at)?, object_ref.decoded(values, value, at)?))
        };
        let fields: Result<_, _> = self.fields.iter().flatten().map(decode_field).collect();
        let fields = fields.map_err(|source| StreamError::Undecodable { id: self.id, source: Box::new(source) })?;
        Ok(Entry { id: self.id, fields })
    }
}

impl FromReply for RawEntry {
    fn from_reply(reply: Reply) -> Result<Self, ServerError> {
        let (id, fields): (EntryId, Option<Pairs>) = reply.into_typed()?;
        Ok(RawEntry { id, fields: fields.map(|fields| fields.0) })
    }
}

/// A list of entries; empty if the server returned no list.
#[derive(Debug)]
pub(crate) struct RawEntries(pub(crate) Vec<RawEntry>);

impl FromReply for RawEntries {
    fn from_reply(reply: Reply) -> Result<Self, ServerError> {
        // Redis 6.2 returns nil in place of removed entries.
        let entries: Option<Vec<Option<RawEntry>>> = reply.into_typed()?;
        Ok(RawEntries(entries.into_iter().flatten().flatten().collect()))
    }
}

/// The reply of XREAD or XREADGROUP for a single stream.
#[derive(Debug)]
pub(crate) struct SingleStreamReply(pub(crate) Vec<RawEntry>);

impl FromReply for SingleStreamReply {
    fn from_reply(reply: Reply) -> Result<Self, ServerError> {
        let streams: Option<Pairs<Bytes, RawEntries>> = reply.into_typed()?;
        let entries = streams.into_iter().flat_map(|streams| streams.0).flat_map(|(_, entries)| entries.0);
        Ok(SingleStreamReply(entries.collect()))
    }
}
