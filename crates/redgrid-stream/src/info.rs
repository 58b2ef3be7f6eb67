//! What servers know of streams, groups and consumers.

use std::collections::HashMap;
use std::time::Duration;

use redgrid_core::{FromReply, Reply, ServerError};

use crate::entry::{Entry, Raw};
use crate::error::StreamError;
use crate::id::EntryId;

/// A stream as a whole.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub struct StreamInfo<K, V> {
    /// How many entries it has.
    pub len: u64,
    /// How many groups.
    pub groups: u64,
    /// The id of the last entry that was added.
    pub last_id: EntryId,
    /// The largest id of those that were removed, from Redis 7.0 on.
    pub max_removed_id: Option<EntryId>,
    /// How many entries were ever added, from Redis 7.0 on.
    pub entries_added: Option<u64>,
    /// Its first entry.
    pub first: Option<Entry<K, V>>,
    /// Its last entry.
    pub last: Option<Entry<K, V>>,
    /// How many nodes the server keeps it in, for its size in memory.
    pub nodes: u64,
}

/// A group of a stream.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
#[doc(alias = "StreamGroup")]
pub struct GroupInfo {
    /// Its name.
    pub name: String,
    /// How many consumers it knows.
    pub consumers: u64,
    /// How many entries are given out and not acknowledged.
    pub pending: u64,
    /// The last entry that was given out.
    pub last_delivered: EntryId,
    /// How many entries were given out, from Redis 7.0 on where the server knows.
    pub entries_read: Option<u64>,
    /// How many entries are to be given out yet, from Redis 7.0 on where the server knows.
    pub lag: Option<u64>,
}

/// A consumer of a group.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
#[doc(alias = "StreamConsumer")]
pub struct ConsumerInfo {
    /// Its name.
    pub name: String,
    /// How many entries it has not acknowledged.
    pub pending: u64,
    /// Since when it has not asked for anything.
    pub idle: Duration,
    /// Since when nothing was given to it; from Redis 7.2 on, and `None` where that never was.
    pub inactive: Option<Duration>,
}

/// What is told by the names of its fields. Newer servers tell more.
struct Fields(HashMap<String, Reply>);

impl Fields {
    fn of(reply: Reply) -> Result<Fields, ServerError> {
        reply.into_typed().map(Fields)
    }

    /// What each server tells.
    fn take<T: FromReply>(&mut self, name: &str) -> Result<T, ServerError> {
        self.0.remove(name).unwrap_or(Reply::Nil).into_typed()
    }
}

/// A stream as a server tells of it.
pub(crate) struct Told {
    of: StreamInfo<(), ()>,
    first: Option<Raw>,
    last: Option<Raw>,
    pub(crate) last_id: EntryId,
}

impl Told {
    pub(crate) fn read<K, V>(
        self,
        one: impl Fn(&Raw) -> Result<Entry<K, V>, StreamError>,
    ) -> Result<StreamInfo<K, V>, StreamError> {
        let StreamInfo { len, groups, last_id, max_removed_id, entries_added, nodes, .. } = self.of;
        let (first, last) = (self.first.as_ref().map(&one).transpose()?, self.last.as_ref().map(&one).transpose()?);
        Ok(StreamInfo { len, groups, last_id, max_removed_id, entries_added, first, last, nodes })
    }
}

impl FromReply for Told {
    fn from_reply(reply: Reply) -> Result<Self, ServerError> {
        let mut fields = Fields::of(reply)?;
        let last_id = fields.take("last-generated-id")?;
        let of = StreamInfo {
            len: fields.take("length")?,
            groups: fields.take("groups")?,
            last_id,
            max_removed_id: fields.take("max-deleted-entry-id")?,
            entries_added: fields.take("entries-added")?,
            first: None,
            last: None,
            nodes: fields.take("radix-tree-nodes")?,
        };
        Ok(Told { of, first: fields.take("first-entry")?, last: fields.take("last-entry")?, last_id })
    }
}

impl FromReply for GroupInfo {
    fn from_reply(reply: Reply) -> Result<Self, ServerError> {
        let mut fields = Fields::of(reply)?;
        // Negative where more count as given out than were added.
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
        let mut fields = Fields::of(reply)?;
        let inactive: Option<i64> = fields.take("inactive")?;
        Ok(ConsumerInfo {
            name: fields.take("name")?,
            pending: fields.take("pending")?,
            idle: Duration::from_millis(fields.take("idle")?),
            // -1 where nothing was ever given to it.
            inactive: inactive.and_then(|ms| u64::try_from(ms).ok()).map(Duration::from_millis),
        })
    }
}
