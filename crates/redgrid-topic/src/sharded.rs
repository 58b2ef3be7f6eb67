//! A topic on a sharded channel.

use std::marker::PhantomData;

use bytes::Bytes;
use redgrid_codecs::{Codec, Encode};
use redgrid_core::author::counts::{Direction, topic_messages};
use redgrid_core::object::{ObjectError, ObjectRef};
use redgrid_core::{ChannelSelector, Client, Pairs, Request};

use crate::handle::{handle, one_channel, subscribable};
use crate::subscription::SHARDED_REQUIREMENT;

redgrid_core::default_codec! {
    /// A topic that sends its messages to all current subscribers, on a sharded channel of Redis
    /// 7.0 or Valkey. On the wire it is Redisson's `RShardedTopic`.
    ///
    /// In a cluster only the nodes of its slot receive the messages, while the messages of a
    /// [`Topic`](crate::Topic) go to every node. A `Topic` with the same name is a different topic.
    ///
    /// A handle is cheap to clone; clones refer to the same topic. There is no key: the server
    /// stores nothing, and there is nothing to delete.
    #[doc(alias = "RShardedTopic")]
    #[doc(alias = "RedissonShardedTopic")]
    pub struct ShardedTopic<T; C> {
        object_ref: ObjectRef,
        codec: C,
        messages: PhantomData<fn() -> T>,
        family: &'static str,
    }
}

handle!(ShardedTopic, "name");
subscribable!(ShardedTopic);
one_channel!(ShardedTopic);

impl<T, C: Codec + Default> ShardedTopic<T, C> {
    /// Returns the topic with this name.
    ///
    /// No request is sent: an invalid name is reported by the first call.
    pub fn new(client: &Client, name: impl AsRef<str>) -> Self {
        ShardedTopic {
            object_ref: ObjectRef::new(client, name),
            codec: C::default(),
            messages: PhantomData,
            family: "",
        }
    }
}

impl<T, C: Codec> ShardedTopic<T, C> {
    /// Publishes a message, and returns the number of connections that received it at the primary
    /// of its slot. The request is sent once.
    ///
    /// # Errors
    ///
    /// [`ObjectError`] states what failed. After `OutcomeUnknown` the message may have been
    /// published. It is `Unsupported` if the servers do not have sharded channels.
    ///
    /// # Cancel safety
    ///
    /// A message that was already sent is published even if the future is dropped.
    pub async fn publish<Q: ?Sized>(&self, message: &Q) -> Result<u64, ObjectError>
    where
        C: Encode<Q>,
    {
        let message = self.object_ref.encoded(&self.codec, message)?;
        let published = self.object_ref.change(self.object_ref.command("SPUBLISH")?.arg(message)).await;
        let receivers = self.map_unsupported(published)?;
        topic_messages(self.family, Direction::Published, 1);
        Ok(receivers)
    }

    /// Returns the number of connections that are subscribed on the primary of its slot.
    ///
    /// A client of this library counts as one connection, however many subscriptions it has.
    ///
    /// # Errors
    ///
    /// [`ObjectError`] states what failed and whether anything may have changed.
    ///
    /// # Cancel safety
    ///
    /// Dropping the future changes nothing.
    #[doc(alias = "countSubscribers")]
    pub async fn count_subscribers(&self) -> Result<u64, ObjectError> {
        let channel = self.object_ref.name_and_key()?.1.clone();
        let request = Request::command("PUBSUB").arg("SHARDNUMSUB").key_arg(channel);
        let counts = self.map_unsupported(self.object_ref.read_primary::<Pairs<Bytes, u64>>(request).await)?;
        Ok(counts.0.into_iter().map(|(_, count)| count).sum())
    }

    fn channels(&self) -> Result<ChannelSelector, ObjectError> {
        Ok(ChannelSelector::Sharded(self.object_ref.name_and_key()?.1.clone()))
    }

    /// Converts the error of a server that does not support sharded channels.
    fn map_unsupported<V>(&self, result: Result<V, ObjectError>) -> Result<V, ObjectError> {
        result.map_err(|error| error.or_unsupported(SHARDED_REQUIREMENT))
    }
}
