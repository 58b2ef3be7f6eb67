//! A topic that keeps its messages until every subscriber has acknowledged them.

mod deliveries;
mod delivery;
mod id;
mod subscribe;
mod subscriber;
mod window;

use std::marker::PhantomData;

use bytes::Bytes;
use redgrid_codecs::{Codec, Encode};
use redgrid_core::author::counts::{Direction, topic_messages};
use redgrid_core::name::{companion, suffixed};
use redgrid_core::object::{Object, ObjectError, ObjectRef, layouts};
use redgrid_core::{Client, Request, Script};

pub use self::deliveries::Deliveries;
pub use self::delivery::Delivery;
pub use self::id::MessageId;
pub use self::subscribe::SubscribeReliably;
use crate::handle::handle;

macro_rules! script {
    ($name:literal) => {
        Script::new(
            concat!("reliable_topic/", $name),
            concat!(include_str!("../scripts/groups.lua"), include_str!(concat!("../scripts/", $name, ".lua"))),
        )
    };
}

static PUBLISH: Script<2> = Script::new("reliable_topic/publish", include_str!("../scripts/publish.lua"));
static READ: Script<2> = Script::new("reliable_topic/read", include_str!("../scripts/read.lua"));
static REGISTER: Script<2> = script!("register");
static ACKNOWLEDGE: Script<2> = script!("acknowledge");
static LEAVE: Script<2> = script!("leave");

redgrid_core::default_codec! {
    /// A topic that delivers its messages to each subscriber at least once, even if the subscriber
    /// is disconnected for a while. On the wire it is Redisson's `RReliableTopic`: a stream with a
    /// group for each subscriber.
    ///
    /// A subscriber receives the messages that are published while it is registered. The
    /// registration begins when [`subscribe`](ReliableTopic::subscribe) is awaited. It ends when
    /// the subscriber [leaves](Deliveries::leave), or when its lease ends without a renewal. The
    /// default lease is 10 minutes.
    ///
    /// A message is kept until all subscribers have acknowledged it and all messages before it.
    /// Subscribers of Redisson acknowledge by reading. Messages published without any
    /// subscriber are kept for one that starts [at the
    /// beginning](SubscribeReliably::from_the_beginning), as Redisson's subscribers do.
    ///
    /// A handle is cheap to clone; clones refer to the same topic.
    #[doc(alias = "RReliableTopic")]
    #[doc(alias = "RedissonReliableTopic")]
    pub struct ReliableTopic<T; C> {
        object_ref: ObjectRef,
        codec: C,
        messages: PhantomData<fn() -> T>,
        family: &'static str,
    }
}

handle!(ReliableTopic, "name");

/// The result of publishing a message.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct Published {
    /// The id that the server assigned to the message.
    pub id: MessageId,
    /// The number of subscribers that receive the message. It may include subscribers whose lease
    /// has ended but that were not removed yet.
    pub subscribers: u64,
}

impl<T, C: Codec + Default> ReliableTopic<T, C> {
    /// Returns the topic with this name.
    ///
    /// No request is sent: an invalid name is reported by the first call.
    pub fn new(client: &Client, name: impl AsRef<str>) -> Self {
        let object_ref = ObjectRef::new(client, name);
        ReliableTopic { object_ref, codec: C::default(), messages: PhantomData, family: "" }
    }
}

impl<T, C: Codec> ReliableTopic<T, C> {
    /// Returns the [`Object`] of this name: existence, lifetime, other names, memory size.
    ///
    /// Deleting the object deletes its messages and subscribers. Active subscribers then receive a
    /// gap and are registered again.
    pub fn object(&self) -> Object {
        self.object_ref.object(layouts::reliable_topic)
    }

    /// Publishes a message. The request is sent once.
    ///
    /// # Errors
    ///
    /// [`ObjectError`] states what failed. After `OutcomeUnknown` the message may have been
    /// published.
    ///
    /// # Cancel safety
    ///
    /// A message that was already sent is published even if the future is dropped.
    pub async fn publish<Q: ?Sized>(&self, message: &Q) -> Result<Published, ObjectError>
    where
        C: Encode<Q>,
    {
        let message = self.object_ref.encoded(&self.codec, message)?;
        let keys = keys(&self.object_ref)?;
        let channel = channel(&keys);
        let request = PUBLISH.with(keys).arg(message).publish_arg().arg(channel);
        let (id, subscribers): (String, u64) = self.object_ref.change(request).await?;
        let name = self.object_ref.name_and_key()?.0;
        let id = MessageId::parse(&id).map_err(|source| ObjectError::of(name, source))?;
        topic_messages(self.family, Direction::Published, 1);
        Ok(Published { id, subscribers })
    }

    /// Registers a subscriber when awaited. The subscriber receives the messages that are published
    /// after that.
    #[doc(alias = "addListener")]
    pub fn subscribe(&self) -> SubscribeReliably<T, C>
    where
        C: Clone,
    {
        SubscribeReliably::new(&self.object_ref, self.codec.clone(), self.family)
    }

    /// Returns the number of kept messages.
    ///
    /// These are the messages that at least one subscriber has not acknowledged, and acknowledged
    /// messages that are not removed yet: about as many as one removal step removes.
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
        self.object_ref.read_primary(self.object_ref.command("XLEN")?).await
    }

    /// Returns whether no messages are kept.
    ///
    /// # Errors and cancel safety
    ///
    /// As for [`ReliableTopic::len`].
    pub async fn is_empty(&self) -> Result<bool, ObjectError> {
        Ok(self.len().await? == 0)
    }

    /// Returns the number of subscribers, including those of Redisson.
    ///
    /// It may include subscribers whose lease has ended but that were not removed yet.
    ///
    /// # Errors and cancel safety
    ///
    /// As for [`ReliableTopic::len`].
    #[doc(alias = "countSubscribers")]
    pub async fn count_subscribers(&self) -> Result<u64, ObjectError> {
        let [_, leases] = keys(&self.object_ref)?;
        self.object_ref.read_primary(Request::command("ZCARD").key(leases)).await
    }

    /// Removes a subscriber with its unacknowledged messages, and returns whether it existed.
    ///
    /// If it is active, it receives a gap and is registered again. A subscriber of Redisson
    /// receives no more messages, and is not notified.
    ///
    /// # Errors
    ///
    /// [`ObjectError`] states what failed and whether anything may have changed.
    ///
    /// # Cancel safety
    ///
    /// A request that was already sent is executed even if the future is dropped.
    #[doc(alias = "removeListener")]
    #[doc(alias = "removeAllListeners")]
    pub async fn remove_subscriber(&self, subscriber: impl AsRef<str>) -> Result<bool, ObjectError> {
        let subscriber = Bytes::copy_from_slice(subscriber.as_ref().as_bytes());
        self.object_ref.change(LEAVE.with(keys(&self.object_ref)?).arg(subscriber)).await
    }
}

/// Returns the keys of the stream and of the subscribers' leases.
fn keys(object_ref: &ObjectRef) -> Result<[Bytes; 2], ObjectError> {
    let key = object_ref.name_and_key()?.1;
    Ok([key.clone(), suffixed(key, "timeout")])
}

/// Returns the channel on which new messages are announced to subscribers of this library.
fn channel(keys: &[Bytes; 2]) -> Bytes {
    companion("redgrid_reliable_topic__channel", &keys[0])
}
