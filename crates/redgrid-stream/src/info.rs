//! Server information about streams, groups and consumers.

use std::collections::HashMap;
use std::time::Duration;

use redgrid_core::{FromReply, Reply, ServerError};

use crate::entry::{Entry, RawEntry};
use crate::error::StreamError;
use crate::id::EntryId;

/// Information about a stream.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub struct StreamInfo<K, V> {
    /// The number of entries.
    pub len: u64,
    /// The number of groups.
    pub groups: u64,
    /// The id of the entry that was added last.
    pub last_id: EntryId,
    /// The largest id of a removed entry. Redis 7.0 or newer.
    pub max_removed_id: Option<EntryId>,
    /// The number of entries that were added since the creation of the stream. Redis 7.0 or newer.
    pub entries_added: Option<u64>,
    /// The first entry.
    pub first: Option<Entry<K, V>>,
    /// The last entry.
    pub last: Option<Entry<K, V>>,
    /// The number of radix tree nodes, which shows the memory usage.
    pub nodes: u64,
}

/// Information about a group of a stream.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
#[doc(alias = "StreamGroup")]
pub struct GroupInfo {
    /// The name of the group.
    pub name: String,
    /// The number of consumers.
    pub consumers: u64,
    /// The number of entries that were delivered and not acknowledged.
    pub pending: u64,
    /// The id of the last delivered entry.
    pub last_delivered: EntryId,
    /// The number of delivered entries, if the server knows it. Redis 7.0 or newer.
    pub entries_read: Option<u64>,
    /// The number of entries that are not delivered yet, if the server knows it. Redis 7.0 or
    /// newer.
    pub lag: Option<u64>,
}

/// Information about a consumer of a group.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
#[doc(alias = "StreamConsumer")]
pub struct ConsumerInfo {
    /// The name of the consumer.
    pub name: String,
    /// The number of entries that the consumer has received but not acknowledged.
    pub pending: u64,
    /// The time since the last request of the consumer.
    pub idle: Duration,
    /// The time since the last delivery to it; `None` if there was none. Redis 7.2 or newer.
    pub inactive: Option<Duration>,
}

/// A reply with named fields. Newer servers return more fields.
struct ReplyFields(HashMap<String, Reply>);

impl ReplyFields {
    fn parse(reply: Reply) -> Result<ReplyFields, ServerError> {
        reply.into_typed().map(ReplyFields)
    }

    /// Removes and converts a field. If the server did not return the field, nil is converted.
    fn take<T: FromReply>(&mut self, name: &str) -> Result<T, ServerError> {
        self.0.remove(name).unwrap_or(Reply::Nil).into_typed()
    }
}

/// The reply of XINFO STREAM, with encoded entries.
pub(crate) struct RawStreamInfo {
    info: StreamInfo<(), ()>,
    first: Option<RawEntry>,
    last: Option<RawEntry>,
    pub(crate) last_id: EntryId,
}

impl RawStreamInfo {
    /// Decodes the first and the last entry with `decode_entry`.
    pub(crate) fn decode<K, V>(
        self,
        decode_entry: impl Fn(&RawEntry) -> Result<Entry<K, V>, StreamError>,
    ) -> Result<StreamInfo<K, V>, StreamError> {
        let StreamInfo { len, groups, last_id, max_removed_id, entries_added, nodes, .. } = self.info;
        let first = self.first.as_ref().map(&decode_entry).transpose()?;
        let last = self.last.as_ref().map(&decode_entry).transpose()?;
        Ok(StreamInfo { len, groups, last_id, max_removed_id, entries_added, first, last, nodes })
    }
}

impl FromReply for RawStreamInfo {
    fn from_reply(reply: Reply) -> Result<Self, ServerError> {
        let mut fields = ReplyFields::parse(reply)?;
        let last_id = fields.take("last-generated-id")?;
        let info = StreamInfo {
            len: fields.take("length")?,
            groups: fields.take("groups")?,
            last_id,
            max_removed_id: fields.take("max-deleted-entry-id")?,
            entries_added: fields.take("entries-added")?,
            first: None,
            last: None,
            nodes: fields.take("radix-tree-nodes")?,
        };
        Ok(RawStreamInfo { info, first: fields.take("first-entry")?, last: fields.take("last-entry")?, last_id })
    }
}

impl FromReply for GroupInfo {
    fn from_reply(reply: Reply) -> Result<Self, ServerError> {
        let mut fields = ReplyFields::parse(reply)?;
        // The lag is negative if more entries count as delivered than were added.
        let lag: Option<i64> = fields.take("lag")?;
        Ok(GroupInfo {
            name: fields.take("name")?,
            consumers: fields.take("consumers")?,
            pending: fields.take("pending")?,
            last_delivered: fields.take("last-delivered-id")?,
            entries_read: fields.take("entries-read")?,
            lag: lag.and_then(|lag| u64::try_from(lag).ok()),
        })
    }
}

impl FromReply for ConsumerInfo {
    fn from_reply(reply: Reply) -> Result<Self, ServerError> {
        let mut fields = ReplyFields::parse(reply)?;
        let inactive: Option<i64> = fields.take("inactive")?;
        Ok(ConsumerInfo {
            name: fields.take("name")?,
            pending: fields.take("pending")?,
            idle: Duration::from_millis(fields.take("idle")?),
            // The server returns -1 if there was no delivery.
            inactive: inactive.and_then(|ms| u64::try_from(ms).ok()).map(Duration::from_millis),
        })
    }
}
