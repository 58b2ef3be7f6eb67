//! Groups, which deliver entries to consumers and keep them pending until they are acknowledged.

use std::fmt;
use std::time::Duration;

use redgrid_codecs::{Codec, Decode};
use redgrid_core::into_future;
use redgrid_core::object::{ObjectError, ObjectRef};
use redgrid_core::{FromReply, Request, Script};

use crate::create::{Create, Start};
use crate::entry::{Entry, RawEntry, SingleStreamReply};
use crate::error::StreamError;
use crate::id::EntryId;
use crate::info::ConsumerInfo;
use crate::new_entries::poll_until_found;
use crate::read::PAGE;
use crate::stream::Stream;

static READ_GROUP: Script<1> = Script::new("stream/read_group", include_str!("scripts/read_group.lua"));

/// A consumer group of a stream; made by [`Stream::group`].
///
/// Each entry is delivered to one consumer of the group, and is pending until this consumer
/// acknowledges it. Most programs use [`Group::consumer`]. Each of the other methods is one command
/// of the server.
///
/// A call for a group that does not exist fails with [`StreamError::NoGroup`]. Exceptions:
/// [`Group::remove`] returns false, and an acknowledgement returns that no entry was pending.
///
/// If a delivered entry cannot be decoded, its position in the result contains
/// [`StreamError::Undecodable`]; the other entries are returned.
pub struct Group<K, V, KC, VC> {
    pub(crate) stream: Stream<K, V, KC, VC>,
    pub(crate) name: String,
}

impl<K, V, KC: Codec, VC: Codec> Group<K, V, KC, VC> {
    /// Returns the name of the group.
    pub fn name(&self) -> &str {
        &self.name
    }

    pub(crate) fn object_ref(&self) -> &ObjectRef {
        &self.stream.object_ref
    }

    /// Returns a command with a subcommand for this group.
    pub(crate) fn subcommand(&self, command: &'static str, subcommand: &'static str) -> Result<Request, ObjectError> {
        let (_, key) = self.object_ref().name_and_key()?;
        Ok(Request::subcommand(command, subcommand).key(key.clone()).arg(self.name.clone()))
    }

    /// Returns a command for this group.
    pub(crate) fn command(&self, command: &'static str) -> Result<Request, ObjectError> {
        Ok(self.object_ref().command(command)?.arg(self.name.clone()))
    }

    pub(crate) async fn change<T: FromReply>(&self, request: Request) -> Result<T, StreamError> {
        self.map_error(self.object_ref().change(request).await)
    }

    pub(crate) async fn query<T: FromReply>(&self, request: Request) -> Result<T, StreamError> {
        self.map_error(self.object_ref().read_primary(request).await)
    }

    fn map_error<T>(&self, result: Result<T, ObjectError>) -> Result<T, StreamError> {
        result.map_err(|error| StreamError::from_group_request(self.object_ref(), &self.name, error))
    }

    /// Creates the group when awaited.
    ///
    /// It starts with entries that are added later, unless [`Create::from`] or
    /// [`Create::from_start`] is called.
    #[doc(alias = "createGroup")]
    pub fn create(&self) -> Create {
        let Group { stream, name } = self;
        let (object_ref, group) = (stream.object_ref.clone(), name.clone());
        Create { object_ref, group, start: Start::End, make_stream: false, entries_read: None }
    }

    /// Removes the group with its pending entries, and returns whether it existed.
    ///
    /// # Errors
    ///
    /// [`StreamError`] states what failed and whether anything may have changed.
    ///
    /// # Cancel safety
    ///
    /// A request that was already sent is executed even if the future is dropped.
    #[doc(alias = "removeGroup")]
    pub async fn remove(&self) -> Result<bool, StreamError> {
        match self.change(self.subcommand("XGROUP", "DESTROY")?).await {
            Err(StreamError::NoGroup { .. }) => Ok(false),
            result => result,
        }
    }

    /// Moves the group to another position of the stream.
    ///
    /// Pending entries stay pending. Entries that are delivered again become pending for their new
    /// consumer. The request is sent once: a late copy would undo later changes.
    ///
    /// # Errors
    ///
    /// [`StreamError`] states what failed and whether anything may have changed.
    ///
    /// # Cancel safety
    ///
    /// A request that was already sent is executed even if the future is dropped.
    #[doc(alias = "updateGroupMessageId")]
    pub async fn set_id(&self, start: Start) -> Result<(), StreamError> {
        self.change(self.subcommand("XGROUP", "SETID")?.arg(start.to_arg())).await
    }

    /// Creates a consumer, and returns whether it did not exist.
    ///
    /// Reading for a consumer creates it, too.
    ///
    /// # Errors
    ///
    /// [`StreamError`] states what failed and whether anything may have changed.
    ///
    /// # Cancel safety
    ///
    /// A request that was already sent is executed even if the future is dropped.
    #[doc(alias = "createConsumer")]
    pub async fn create_consumer(&self, consumer: impl Into<String>) -> Result<bool, StreamError> {
        self.change(self.subcommand("XGROUP", "CREATECONSUMER")?.arg(consumer.into())).await
    }

    /// Removes a consumer, and returns the number of its pending entries.
    ///
    /// These entries are not delivered again, so claim them first.
    ///
    /// # Errors
    ///
    /// [`StreamError`] states what failed and whether anything may have changed.
    ///
    /// # Cancel safety
    ///
    /// A request that was already sent is executed even if the future is dropped.
    #[doc(alias = "removeConsumer")]
    pub async fn remove_consumer(&self, consumer: impl Into<String>) -> Result<u64, StreamError> {
        self.change(self.subcommand("XGROUP", "DELCONSUMER")?.arg(consumer.into())).await
    }

    /// Returns the consumers of the group.
    ///
    /// # Errors
    ///
    /// [`StreamError`] states what failed and whether anything may have changed.
    ///
    /// # Cancel safety
    ///
    /// Dropping the future changes nothing.
    #[doc(alias = "listConsumers")]
    pub async fn consumers(&self) -> Result<Vec<ConsumerInfo>, StreamError> {
        self.query(self.subcommand("XINFO", "CONSUMERS")?).await
    }

    /// Delivers new entries to a consumer, when awaited: entries that were not delivered yet.
    ///
    /// Up to 100 are delivered, unless [`ReadGroup::limit`] is set. The call returns at once,
    /// unless [`ReadGroup::timeout`] is set.
    ///
    /// The request is sent once, and delivers no entries if it arrives after the caller has stopped
    /// waiting. If its reply is lost, the call returns
    /// [`Failure::OutcomeUnknown`](crate::Failure::OutcomeUnknown). Entries that were delivered
    /// without reaching the caller are pending, and [`Group::read_pending`] returns them.
    #[doc(alias = "readGroup")]
    pub fn read(&self, consumer: impl Into<String>) -> ReadGroup<K, V, KC, VC> {
        ReadGroup { group: self.clone(), consumer: consumer.into(), limit: PAGE, no_ack: false, timeout: None }
    }

    /// Reads up to `limit` pending entries of a consumer after an id: entries that were delivered
    /// to it and that it has not acknowledged.
    ///
    /// This counts as a delivery. Entries that are no longer in the stream are left out; the result
    /// is empty if there are no others.
    ///
    /// # Errors
    ///
    /// [`StreamError`] states what failed and whether anything may have changed.
    ///
    /// # Cancel safety
    ///
    /// A request that was already sent is executed even if the future is dropped.
    #[doc(alias = "readGroup")]
    pub async fn read_pending(
        &self,
        consumer: impl Into<String>,
        after: EntryId,
        limit: u32,
    ) -> Result<Vec<Result<Entry<K, V>, StreamError>>, StreamError>
    where
        KC: Decode<K>,
        VC: Decode<V>,
    {
        let (consumer, limit, mut after) = (consumer.into(), limit.max(1), after);
        loop {
            let found = self.pending_after(&consumer, after, limit).await?;
            let entries = self.stream.decode_each(&found);
            match found.last() {
                // All entries of this page were removed; the next page may have others.
                Some(last) if entries.is_empty() && found.len() >= limit as usize => after = last.id,
                _ => return Ok(entries),
            }
        }
    }

    /// Reads a page of the pending entries after an id.
    pub(crate) async fn pending_after(
        &self,
        consumer: &str,
        after: EntryId,
        limit: u32,
    ) -> Result<Vec<RawEntry>, StreamError> {
        let (_, key) = self.object_ref().name_and_key()?;
        let request = Request::command("XREADGROUP").arg("GROUP").arg(self.name.clone()).arg(consumer.to_owned());
        let request = request.arg("COUNT").int(limit.max(1).into()).arg("STREAMS").key_arg(key.clone());
        let found: SingleStreamReply = self.query(request.arg(after.to_bytes())).await?;
        Ok(found.0)
    }

    /// Reads new entries, and delivers them to the consumer.
    pub(crate) async fn read_new(
        &self,
        consumer: &str,
        limit: u32,
        no_ack: bool,
    ) -> Result<Vec<RawEntry>, StreamError> {
        let (_, key) = self.object_ref().name_and_key()?;
        let request = READ_GROUP.with([key.clone()]).deadline_arg().arg(self.name.clone()).arg(consumer.to_owned());
        let request = request.arg("COUNT").int(limit.max(1).into());
        let request = if no_ack { request.arg("NOACK") } else { request };
        let found: SingleStreamReply = self.change(request.late_reply_has_time()).await?;
        Ok(found.0)
    }

    /// Acknowledges entries, and returns how many were pending.
    ///
    /// # Errors
    ///
    /// [`ObjectError`] states what failed and whether anything may have changed. It is
    /// [`Failure::InvalidArgument`](crate::Failure::InvalidArgument) for more than 10,000 ids.
    ///
    /// # Cancel safety
    ///
    /// A request that was already sent is executed even if the future is dropped.
    pub async fn ack(&self, ids: impl IntoIterator<Item = EntryId>) -> Result<u64, ObjectError> {
        let ids = self.stream.id_args(ids)?;
        if ids.is_empty() {
            return Ok(0);
        }
        self.object_ref().change(ids.into_iter().fold(self.command("XACK")?, Request::arg)).await
    }
}

/// Delivers new entries to a consumer when awaited; made by [`Group::read`].
#[must_use = "does nothing until awaited"]
#[derive(Clone)]
#[doc(alias = "StreamReadGroupArgs")]
pub struct ReadGroup<K, V, KC, VC> {
    group: Group<K, V, KC, VC>,
    consumer: String,
    limit: u32,
    no_ack: bool,
    timeout: Option<Duration>,
}

impl<K, V, KC, VC> ReadGroup<K, V, KC, VC> {
    /// Limits the number of entries, 1 or more. The default is 100.
    #[doc(alias = "count")]
    pub fn limit(self, entries: u32) -> Self {
        ReadGroup { limit: entries, ..self }
    }

    /// Makes the entries count as acknowledged on delivery.
    ///
    /// With this option each entry is delivered at most once. It is lost if the reply is lost or
    /// the future is dropped.
    #[doc(alias = "noAck")]
    pub fn no_ack(self) -> Self {
        ReadGroup { no_ack: true, ..self }
    }

    /// Waits up to this long for an entry if there is none, and then returns no entries.
    ///
    /// No connection is blocked while the call waits. An entry that is added through this library
    /// wakes the call; entries that others add are found within a second.
    pub fn timeout(self, time: Duration) -> Self {
        ReadGroup { timeout: Some(time), ..self }
    }
}

into_future!(
    /// # Cancel safety
    ///
    /// Entries that were delivered are pending for the consumer, and [`Group::read_pending`]
    /// returns them. With [`ReadGroup::no_ack`] they are lost.
    [K: 'static, V: 'static, KC: Decode<K>, VC: Decode<V>] ReadGroup<K, V, KC, VC>
        => Result<Vec<Result<Entry<K, V>, StreamError>>, StreamError>,
    |this| async move {
        let ReadGroup { group, consumer, limit, no_ack, timeout } = this;
        let poll = || group.read_new(&consumer, limit, no_ack);
        Ok(group.stream.decode_each(&poll_until_found(group.object_ref(), timeout, poll).await?))
    }
);

redgrid_core::clone_fields!([K, V, KC: Clone, VC: Clone] Group<K, V, KC, VC> { stream, name });

impl<K, V, KC: fmt::Debug, VC: fmt::Debug> fmt::Debug for Group<K, V, KC, VC> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Group").field("stream", &self.stream).field("name", &self.name).finish()
    }
}
