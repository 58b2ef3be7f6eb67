//! A topic on a plain channel.

use std::marker::PhantomData;

use redgrid_codecs::{Codec, Encode};
use redgrid_core::author::ClientExt;
use redgrid_core::author::counts::{Direction, topic_messages};
use redgrid_core::object::{ObjectError, ObjectRef};
use redgrid_core::{ChannelSelector, Client};

use crate::handle::{handle, one_channel, subscribable};

redgrid_core::default_codec! {
    /// A topic that sends its messages to all current subscribers, in any process. On the wire it
    /// is Redisson's `RTopic`: the channel is its name.
    ///
    /// The server stores nothing. A subscriber that has lost its connection misses the messages
    /// published meanwhile, and receives a gap. Use a [`ReliableTopic`](crate::ReliableTopic)
    /// if no message may be missed.
    ///
    /// A handle is cheap to clone; clones refer to the same topic. There is no key: the server
    /// stores nothing, and there is nothing to delete.
    #[doc(alias = "RTopic")]
    #[doc(alias = "RedissonTopic")]
    pub struct Topic<T; C> {
        object_ref: ObjectRef,
        codec: C,
        messages: PhantomData<fn() -> T>,
        family: &'static str,
    }
}

handle!(Topic, "name");
subscribable!(Topic);
one_channel!(Topic);

impl<T, C: Codec + Default> Topic<T, C> {
    /// Returns the topic with this name.
    ///
    /// No request is sent: an invalid name is reported by the first call.
    pub fn new(client: &Client, name: impl AsRef<str>) -> Self {
        Topic { object_ref: ObjectRef::new(client, name), codec: C::default(), messages: PhantomData, family: "" }
    }
}

impl<T, C: Codec> Topic<T, C> {
    /// Publishes a message, and returns the number of connections that received it from the server
    /// that executed the request.
    ///
    /// In a cluster the other nodes forward it to their subscribers, which are not counted. The
    /// request is sent once.
    ///
    /// # Errors
    ///
    /// [`ObjectError`] states what failed. After `OutcomeUnknown` the message may have been
    /// published.
    ///
    /// # Cancel safety
    ///
    /// A message that was already sent is published even if the future is dropped.
    pub async fn publish<Q: ?Sized>(&self, message: &Q) -> Result<u64, ObjectError>
    where
        C: Encode<Q>,
    {
        let message = self.object_ref.encoded(&self.codec, message)?;
        let receivers = self.object_ref.change(self.object_ref.command("PUBLISH")?.arg(message)).await?;
        topic_messages(self.family, Direction::Published, 1);
        Ok(receivers)
    }

    /// Returns the number of connections that are subscribed on all primaries and on all reachable
    /// replicas.
    ///
    /// A client of this library counts as one connection, however many subscriptions it has.
    /// Subscriptions by pattern are not counted.
    ///
    /// # Errors
    ///
    /// [`ObjectError`] if a primary does not answer.
    ///
    /// # Cancel safety
    ///
    /// Dropping the future changes nothing.
    #[doc(alias = "countSubscribers")]
    pub async fn count_subscribers(&self) -> Result<u64, ObjectError> {
        let (name, channel) = self.object_ref.name_and_key()?;
        let count = self.object_ref.client().subscribers(channel).await;
        count.map_err(|source| ObjectError::of_read(name, source))
    }

    fn channels(&self) -> Result<ChannelSelector, ObjectError> {
        Ok(ChannelSelector::Plain(self.object_ref.name_and_key()?.1.clone()))
    }
}
