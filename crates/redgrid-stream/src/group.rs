//! Groups: entries that are given out to consumers, and kept pending until they are acknowledged.

use std::fmt;
use std::future::IntoFuture;
use std::pin::Pin;
use std::time::Duration;

use redgrid_codecs::{Codec, Decode};
use redgrid_core::object::{ObjectError, Place};
use redgrid_core::{FromReply, Request, Script};

use crate::arrivals::looked;
use crate::create::{Create, Start};
use crate::entry::{Entry, OfOne, Raw};
use crate::error::StreamError;
use crate::id::EntryId;
use crate::info::ConsumerInfo;
use crate::read::PAGE;
use crate::stream::Stream;

static GIVE: Script<1> = Script::new("stream/give", include_str!("scripts/give.lua"));

/// A group of a stream, made by [`Stream::group`]: each entry is given to one of its consumers, and is pending until that
/// acknowledges it. [`Group::consumer`] is the way to consume one for most; the others are what servers have, one command each.
///
/// A call about a group that is not there ends [`StreamError::NoGroup`]; but [`Group::remove`] tells that it was not there, an
/// acknowledgement that nothing was pending.
///
/// Of entries that are given out, one that can not be decoded is [`StreamError::Undecodable`] in its place, and those beside it are told.
pub struct Group<K, V, KC, VC> {
    pub(crate) stream: Stream<K, V, KC, VC>,
    pub(crate) name: String,
}

impl<K, V, KC: Codec, VC: Codec> Group<K, V, KC, VC> {
    /// Its name.
    pub fn name(&self) -> &str {
        &self.name
    }

    pub(crate) fn place(&self) -> &Place {
        &self.stream.place
    }

    /// A command whose name is two words, about this group.
    pub(crate) fn about(&self, command: &'static str, second: &'static str) -> Result<Request, ObjectError> {
        let (_, key) = self.place().named()?;
        Ok(Request::subcommand(command, second).key(key.clone()).arg(self.name.clone()))
    }

    /// A command about this group.
    pub(crate) fn command(&self, command: &'static str) -> Result<Request, ObjectError> {
        Ok(self.place().command(command)?.arg(self.name.clone()))
    }

    pub(crate) async fn change<T: FromReply>(&self, request: Request) -> Result<T, StreamError> {
        self.told(self.place().change(request).await)
    }

    pub(crate) async fn ask<T: FromReply>(&self, request: Request) -> Result<T, StreamError> {
        self.told(self.place().ask(request).await)
    }

    fn told<T>(&self, told: Result<T, ObjectError>) -> Result<T, StreamError> {
        told.map_err(|error| StreamError::of_group(self.place(), &self.name, error))
    }

    /// Creates it when awaited, beginning with all entries that are there unless [`Create::from`] says otherwise.
    #[doc(alias = "createGroup")]
    pub fn create(&self) -> Create {
        let Group { stream, name } = self;
        let (place, group) = (stream.place.clone(), name.clone());
        Create { place, group, start: Start::End, makes: false, read: None }
    }

    /// Removes it with all that is pending; tells whether it was there.
    ///
    /// # Errors
    ///
    /// [`StreamError`] says what is true then.
    ///
    /// # Cancel safety
    ///
    /// What has left is carried out although nobody waits for it.
    #[doc(alias = "removeGroup")]
    pub async fn remove(&self) -> Result<bool, StreamError> {
        match self.change(self.about("XGROUP", "DESTROY")?).await {
            Err(StreamError::NoGroup { .. }) => Ok(false),
            told => told,
        }
    }

    /// Has it go on elsewhere. What is pending stays so; entries that it gives out again are pending for who gets them then. It is sent once: a
    /// copy that came later would undo what was done since.
    ///
    /// # Errors
    ///
    /// [`StreamError`] says what is true then.
    ///
    /// # Cancel safety
    ///
    /// What has left is carried out although nobody waits for it.
    #[doc(alias = "updateGroupMessageId")]
    pub async fn set_id(&self, start: Start) -> Result<(), StreamError> {
        self.change(self.about("XGROUP", "SETID")?.arg(start.written())).await
    }

    /// Makes a consumer known; tells whether it was not. Who reads for one makes it known, too.
    ///
    /// # Errors
    ///
    /// [`StreamError`] says what is true then.
    ///
    /// # Cancel safety
    ///
    /// What has left is carried out although nobody waits for it.
    #[doc(alias = "createConsumer")]
    pub async fn create_consumer(&self, consumer: impl Into<String>) -> Result<bool, StreamError> {
        self.change(self.about("XGROUP", "CREATECONSUMER")?.arg(consumer.into())).await
    }

    /// Removes a consumer with all that is pending for it, which nobody gets any more: claim it before. Tells how many entries those were.
    ///
    /// # Errors
    ///
    /// [`StreamError`] says what is true then.
    ///
    /// # Cancel safety
    ///
    /// What has left is carried out although nobody waits for it.
    #[doc(alias = "removeConsumer")]
    pub async fn remove_consumer(&self, consumer: impl Into<String>) -> Result<u64, StreamError> {
        self.change(self.about("XGROUP", "DELCONSUMER")?.arg(consumer.into())).await
    }

    /// The consumers it knows.
    ///
    /// # Errors
    ///
    /// [`StreamError`] says what is true then.
    ///
    /// # Cancel safety
    ///
    /// Dropping it changes nothing.
    #[doc(alias = "listConsumers")]
    pub async fn consumers(&self) -> Result<Vec<ConsumerInfo>, StreamError> {
        self.ask(self.about("XINFO", "CONSUMERS")?).await
    }

    /// Gives new entries to a consumer, when awaited: those that were given to nobody yet, 100 at the most unless [`ReadGroup::limit`]
    /// says so, and at once, unless [`ReadGroup::timeout`] says to wait for some.
    ///
    /// It is sent once, and a copy that comes later than its caller waits gives nothing. Where its answer is lost it ends
    /// [`ObjectError::OutcomeUnknown`]: what was given is pending, and [`Group::read_pending`] tells it. So it is where the future is dropped.
    #[doc(alias = "readGroup")]
    pub fn read(&self, consumer: impl Into<String>) -> ReadGroup<K, V, KC, VC> {
        ReadGroup { group: self.clone(), consumer: consumer.into(), limit: PAGE, no_ack: false, within: None }
    }

    /// What is pending for a consumer behind an id, so many at the most: what it was given, and has not acknowledged. It counts as given
    /// once more. What is not in the stream any more is left out; none is told where there is nothing else.
    ///
    /// # Errors
    ///
    /// [`StreamError`] says what is true then.
    ///
    /// # Cancel safety
    ///
    /// What has left is carried out although nobody waits for it.
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
            let found = self.pending_behind(&consumer, after, limit).await?;
            let entries = self.stream.each(&found);
            match found.last() {
                // All of the page are gone, and there may be others behind it.
                Some(last) if entries.is_empty() && found.len() >= limit as usize => after = last.id,
                _ => return Ok(entries),
            }
        }
    }

    /// A page of what is pending behind an id.
    pub(crate) async fn pending_behind(
        &self,
        consumer: &str,
        after: EntryId,
        limit: u32,
    ) -> Result<Vec<Raw>, StreamError> {
        let (_, key) = self.place().named()?;
        let request = Request::command("XREADGROUP").arg("GROUP").arg(self.name.clone()).arg(consumer.to_owned());
        let request = request.arg("COUNT").int(limit.max(1).into()).arg("STREAMS").key_here(key.clone());
        let found: OfOne = self.ask(request.arg(after.bytes())).await?;
        Ok(found.0)
    }

    /// Entries that are new.
    pub(crate) async fn given(&self, consumer: &str, limit: u32, no_ack: bool) -> Result<Vec<Raw>, StreamError> {
        let (_, key) = self.place().named()?;
        let request = GIVE.with([key.clone()]).not_after_here().arg(self.name.clone()).arg(consumer.to_owned());
        let request = request.arg("COUNT").int(limit.max(1).into());
        let request = if no_ack { request.arg("NOACK") } else { request };
        let found: OfOne = self.change(request.tells_time()).await?;
        Ok(found.0)
    }

    /// Acknowledges entries; tells how many were pending.
    ///
    /// # Errors
    ///
    /// [`ObjectError`] says what is true then; [`ObjectError::InvalidArgument`] of more than 10,000 ids.
    ///
    /// # Cancel safety
    ///
    /// What has left is carried out although nobody waits for it.
    pub async fn ack(&self, ids: impl IntoIterator<Item = EntryId>) -> Result<u64, ObjectError> {
        let ids = self.stream.ids(ids)?;
        if ids.is_empty() {
            return Ok(0);
        }
        self.place().change(ids.into_iter().fold(self.command("XACK")?, Request::arg)).await
    }
}

/// Gives new entries to a consumer when awaited; made by [`Group::read`].
#[must_use = "nothing is read until this is awaited"]
#[derive(Clone)]
#[doc(alias = "StreamReadGroupArgs")]
pub struct ReadGroup<K, V, KC, VC> {
    group: Group<K, V, KC, VC>,
    consumer: String,
    limit: u32,
    no_ack: bool,
    within: Option<Duration>,
}

impl<K, V, KC, VC> ReadGroup<K, V, KC, VC> {
    /// So many at the most, 1 or more; 100 unless set.
    #[doc(alias = "count")]
    pub fn limit(self, entries: u32) -> Self {
        ReadGroup { limit: entries, ..self }
    }

    /// They count as acknowledged when they are given: each comes once at the most, and is lost where the answer is, or the future is dropped.
    #[doc(alias = "noAck")]
    pub fn no_ack(self) -> Self {
        ReadGroup { no_ack: true, ..self }
    }

    /// Waits for an entry at most this long where there is none; then none is told. No connection waits meanwhile: who adds through this
    /// library tells of it, and what others add is found within a second.
    pub fn timeout(self, time: Duration) -> Self {
        ReadGroup { within: Some(time), ..self }
    }
}

impl<K: 'static, V: 'static, KC: Decode<K>, VC: Decode<V>> IntoFuture for ReadGroup<K, V, KC, VC> {
    type Output = Result<Vec<Result<Entry<K, V>, StreamError>>, StreamError>;
    type IntoFuture = Pin<Box<dyn Future<Output = Self::Output> + Send>>;

    /// # Cancel safety
    ///
    /// What was given is pending for the consumer, and told by [`Group::read_pending`]; but for what counts as acknowledged.
    fn into_future(self) -> Self::IntoFuture {
        Box::pin(async move {
            let ReadGroup { group, consumer, limit, no_ack, within } = self;
            let look = || group.given(&consumer, limit, no_ack);
            Ok(group.stream.each(&looked(group.place(), within, look).await?))
        })
    }
}

impl<K, V, KC: Clone, VC: Clone> Clone for Group<K, V, KC, VC> {
    fn clone(&self) -> Self {
        Group { stream: self.stream.clone(), name: self.name.clone() }
    }
}

impl<K, V, KC: fmt::Debug, VC: fmt::Debug> fmt::Debug for Group<K, V, KC, VC> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Group").field("stream", &self.stream).field("name", &self.name).finish()
    }
}
