//! A topic by its name, in its slot.

use std::marker::PhantomData;

use bytes::Bytes;
use redgrid_codecs::{Codec, Encode};
use redgrid_core::object::{ObjectError, Place};
use redgrid_core::{ChannelSelector, Client, Pairs, Request};

use crate::handle::{handle, heard, one_channel};
use crate::subscription::SHARDED;

/// The type, with the codec of one that names none: there is one only with the feature `json`, so that what is published never depends on
/// the features that others ask for.
macro_rules! sharded {
    ($($codec:tt)*) => {
        /// Messages to all who listen at the moment, by the sharded channels of Redis 7.0 and Valkey: in a cluster only the nodes of its slot have
        /// them, where those of a [`Topic`](crate::Topic) go to every node. Redisson's `RShardedTopic` on the wire. It is another one than the
        /// `Topic` of its name.
        ///
        /// Cheap to clone; clones are the same. It has no key: nothing of it is kept anywhere, and there is nothing to delete.
        #[doc(alias = "RShardedTopic")]
        #[doc(alias = "RedissonShardedTopic")]
        pub struct ShardedTopic<T, C $($codec)*> {
            place: Place,
            codec: C,
            messages: PhantomData<fn() -> T>,
        }
    };
}

#[cfg(feature = "json")]
sharded!(= redgrid_codecs::Json);
#[cfg(not(feature = "json"))]
sharded!();

handle!(ShardedTopic, "name");
heard!(ShardedTopic);
one_channel!(ShardedTopic);

impl<T, C: Codec + Default> ShardedTopic<T, C> {
    /// The one with this name. Making one asks nobody: an invalid name is told by the first call.
    pub fn new(client: &Client, name: impl AsRef<str>) -> Self {
        ShardedTopic { place: Place::new(client, name), codec: C::default(), messages: PhantomData }
    }
}

impl<T, C: Codec> ShardedTopic<T, C> {
    /// Publishes a message, and tells how many connections it was handed to by the primary of its slot. Sent once.
    ///
    /// # Errors
    ///
    /// [`ObjectError`] says what is true then: after `OutcomeUnknown` it may be published, or not. `Unsupported` where servers do not have
    /// sharded channels.
    ///
    /// # Cancel safety
    ///
    /// What has left is published although nobody waits for it.
    pub async fn publish<Q: ?Sized>(&self, message: &Q) -> Result<u64, ObjectError>
    where
        C: Encode<Q>,
    {
        let message = self.place.encoded(&self.codec, message)?;
        self.understood(self.place.change(self.place.command("SPUBLISH")?.arg(message)).await)
    }

    /// How many connections are subscribed to it at the primary of its slot. A client of ours is one of them, however many subscriptions it has.
    ///
    /// # Errors
    ///
    /// [`ObjectError`] says what is true then.
    ///
    /// # Cancel safety
    ///
    /// Dropping it changes nothing.
    #[doc(alias = "countSubscribers")]
    pub async fn count_subscribers(&self) -> Result<u64, ObjectError> {
        let channel = self.place.named()?.1.clone();
        let request = Request::command("PUBSUB").arg("SHARDNUMSUB").key_here(channel);
        let told = self.understood(self.place.ask::<Pairs<Bytes, u64>>(request).await)?;
        Ok(told.0.into_iter().map(|(_, count)| count).sum())
    }

    fn channels(&self) -> Result<ChannelSelector, ObjectError> {
        Ok(ChannelSelector::Sharded(self.place.named()?.1.clone()))
    }

    /// What a server that knows no sharded channels says is told as that.
    fn understood<V>(&self, answer: Result<V, ObjectError>) -> Result<V, ObjectError> {
        answer.map_err(|error| error.or_unsupported(SHARDED))
    }
}
