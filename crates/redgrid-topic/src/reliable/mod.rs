//! A topic that keeps its messages until every subscriber has dealt with them.

mod deliveries;
mod delivery;
mod id;
mod subscribe;
mod window;

use std::marker::PhantomData;

use bytes::Bytes;
use redgrid_codecs::{Codec, Encode};
use redgrid_core::name::{companion, suffixed};
use redgrid_core::object::{Object, ObjectError, Place, layouts};
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
static ENTER: Script<2> = script!("enter");
static ACKNOWLEDGE: Script<2> = script!("acknowledge");
static LEAVE: Script<2> = script!("leave");

/// The type, with the codec of one that names none: there is one only with the feature `json`, so that what is published never depends on
/// the features that others ask for.
macro_rules! reliable_topic {
    ($($codec:tt)*) => {
        /// Messages that each subscriber gets at least once, also one who is away for a while. Redisson's `RReliableTopic` on the wire: a stream
        /// with a group for each subscriber.
        ///
        /// A subscriber gets what is published while it is one: from when [`subscribe`](ReliableTopic::subscribe) is awaited until it
        /// [leaves](Deliveries::leave), or nobody has renewed it for its lease, 10 minutes unless set. A message is
        /// kept until all have acknowledged it and all before it; of Redisson's, until they have read it. What is published without any subscriber stays, for one that begins
        /// [at the beginning](SubscribeReliably::from_the_beginning), as Redisson's do.
        ///
        /// Cheap to clone; clones are the same.
        #[doc(alias = "RReliableTopic")]
        #[doc(alias = "RedissonReliableTopic")]
        pub struct ReliableTopic<T, C $($codec)*> {
            place: Place,
            codec: C,
            messages: PhantomData<fn() -> T>,
        }
    };
}

#[cfg(feature = "json")]
reliable_topic!(= redgrid_codecs::Json);
#[cfg(not(feature = "json"))]
reliable_topic!();

handle!(ReliableTopic, "name");

/// What became of a message that was published.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct Published {
    /// The id that the server gave it.
    pub id: MessageId,
    /// How many subscribers get it; among them may be some whose lease is over and who were not taken out yet.
    pub subscribers: u64,
}

impl<T, C: Codec + Default> ReliableTopic<T, C> {
    /// The one with this name. Making one asks nobody: an invalid name is told by the first call.
    pub fn new(client: &Client, name: impl AsRef<str>) -> Self {
        ReliableTopic { place: Place::new(client, name), codec: C::default(), messages: PhantomData }
    }
}

impl<T, C: Codec> ReliableTopic<T, C> {
    /// What every object has: whether it is there, its lifetime, other names, its size in memory. Deleted, it has no messages and no subscribers:
    /// those who listen are told a gap, and are subscribers again.
    pub fn object(&self) -> Object {
        self.place.object(layouts::reliable_topic)
    }

    /// Publishes a message. Sent once.
    ///
    /// # Errors
    ///
    /// [`ObjectError`] says what is true then: after `OutcomeUnknown` it may be published, or not.
    ///
    /// # Cancel safety
    ///
    /// What has left is published although nobody waits for it.
    pub async fn publish<Q: ?Sized>(&self, message: &Q) -> Result<Published, ObjectError>
    where
        C: Encode<Q>,
    {
        let message = self.place.encoded(&self.codec, message)?;
        let keys = keys(&self.place)?;
        let channel = channel(&keys);
        let request = PUBLISH.with(keys).arg(message).publish_here().arg(channel);
        let (id, subscribers): (String, u64) = self.place.change(request).await?;
        let name = self.place.named()?.0;
        let id = MessageId::read(&id).map_err(|source| ObjectError::of(name, source))?;
        Ok(Published { id, subscribers })
    }

    /// Becomes a subscriber when awaited, and gets what is published from then on.
    #[doc(alias = "addListener")]
    pub fn subscribe(&self) -> SubscribeReliably<T, C>
    where
        C: Clone,
    {
        SubscribeReliably::new(&self.place, self.codec.clone())
    }

    /// How many messages are kept: those that some subscriber has not acknowledged, and about as many as are dropped at a time.
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
        self.place.ask(self.place.command("XLEN")?).await
    }

    /// Whether none is.
    ///
    /// # Errors
    ///
    /// As [`ReliableTopic::len`].
    ///
    /// # Cancel safety
    ///
    /// Dropping it changes nothing.
    pub async fn is_empty(&self) -> Result<bool, ObjectError> {
        Ok(self.len().await? == 0)
    }

    /// How many subscribers it has, those of Redisson among them; also some whose lease is over and who were not taken out yet.
    ///
    /// # Errors
    ///
    /// As [`ReliableTopic::len`].
    ///
    /// # Cancel safety
    ///
    /// Dropping it changes nothing.
    #[doc(alias = "countSubscribers")]
    pub async fn count_subscribers(&self) -> Result<u64, ObjectError> {
        let [_, ends] = keys(&self.place)?;
        self.place.ask(Request::command("ZCARD").key(ends)).await
    }

    /// Has somebody be no subscriber any more, with all that it has not acknowledged; false where it was none. If it listens, it is told a gap,
    /// and is one again; one of Redisson's hears nothing any more, and is not told.
    ///
    /// # Errors
    ///
    /// [`ObjectError`] says what is true then.
    ///
    /// # Cancel safety
    ///
    /// What has left is carried out although nobody waits for it.
    #[doc(alias = "removeListener")]
    #[doc(alias = "removeAllListeners")]
    pub async fn remove_subscriber(&self, subscriber: impl AsRef<str>) -> Result<bool, ObjectError> {
        let subscriber = Bytes::copy_from_slice(subscriber.as_ref().as_bytes());
        self.place.change(LEAVE.with(keys(&self.place)?).arg(subscriber)).await
    }
}

/// The stream, and when subscribers end.
fn keys(place: &Place) -> Result<[Bytes; 2], ObjectError> {
    let key = place.named()?.1;
    Ok([key.clone(), suffixed(key, "timeout")])
}

/// What tells those of our own that there is a message.
fn channel(keys: &[Bytes; 2]) -> Bytes {
    companion("redgrid_reliable_topic__channel", &keys[0])
}
