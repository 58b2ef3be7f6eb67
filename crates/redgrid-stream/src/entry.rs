//! Entries, as they are and as servers tell them.

use bytes::Bytes;
use redgrid_codecs::Decode;
use redgrid_core::object::Place;
use redgrid_core::{FromReply, Pairs, Reply, ServerError};

use crate::error::StreamError;
use crate::id::EntryId;

/// What was added to a stream: an id, and fields with values in the order in which they were given.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Entry<K, V> {
    /// Its id.
    pub id: EntryId,
    /// Its fields. A field may be there more than once.
    pub fields: Vec<(K, V)>,
}

impl<K, V> Entry<K, V> {
    /// The value of a field, the first where there are several.
    pub fn get<Q: ?Sized + PartialEq>(&self, field: &Q) -> Option<&V>
    where
        K: std::borrow::Borrow<Q>,
    {
        self.fields.iter().find(|(known, _)| known.borrow() == field).map(|(_, value)| value)
    }
}

/// An entry as the server has it. Of one that was removed a group may still know the id.
#[derive(Debug, Clone)]
pub(crate) struct Raw {
    pub(crate) id: EntryId,
    pub(crate) fields: Option<Vec<(Bytes, Bytes)>>,
}

impl Raw {
    /// As these codecs read it.
    pub(crate) fn read<K, V>(
        &self,
        place: &Place,
        keys: &impl Decode<K>,
        values: &impl Decode<V>,
    ) -> Result<Entry<K, V>, StreamError> {
        let at = || Some(format!("entry {}", self.id));
        let one =
            |(key, value): &(Bytes, Bytes)| Ok((place.decoded(keys, key, at)?, place.decoded(values, value, at)?));
        let fields: Result<_, _> = self.fields.iter().flatten().map(one).collect();
        let fields = fields.map_err(|source| StreamError::Undecodable { id: self.id, source })?;
        Ok(Entry { id: self.id, fields })
    }
}

impl FromReply for Raw {
    fn from_reply(reply: Reply) -> Result<Self, ServerError> {
        let (id, fields): (EntryId, Option<Pairs>) = reply.into_typed()?;
        Ok(Raw { id, fields: fields.map(|fields| fields.0) })
    }
}

/// A list of entries; none where there is no list.
#[derive(Debug)]
pub(crate) struct Raws(pub(crate) Vec<Raw>);

impl FromReply for Raws {
    fn from_reply(reply: Reply) -> Result<Self, ServerError> {
        // Redis 6.2 has holes where entries were removed.
        let entries: Option<Vec<Option<Raw>>> = reply.into_typed()?;
        Ok(Raws(entries.into_iter().flatten().flatten().collect()))
    }
}

/// What XREAD and XREADGROUP answer about one stream.
#[derive(Debug)]
pub(crate) struct OfOne(pub(crate) Vec<Raw>);

impl FromReply for OfOne {
    fn from_reply(reply: Reply) -> Result<Self, ServerError> {
        let streams: Option<Pairs<Bytes, Raws>> = reply.into_typed()?;
        Ok(OfOne(streams.into_iter().flat_map(|streams| streams.0).flat_map(|(_, entries)| entries.0).collect()))
    }
}
