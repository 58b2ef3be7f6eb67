//! A topic by its name.

use std::marker::PhantomData;

use redgrid_codecs::{Codec, Encode};
use redgrid_core::object::{ObjectError, Place};
use redgrid_core::{ChannelSelector, Client};

use crate::handle::{handle, heard, one_channel};

/// The type, with the codec of one that names none: there is one only with the feature `json`, so that what is published never depends on
/// the features that others ask for.
macro_rules! topic {
    ($($codec:tt)*) => {
        /// Messages to all who listen at the moment, in whatever process. Redisson's `RTopic` on the wire: the channel is its name.
        ///
        /// A server keeps nothing: who does not listen, or has lost the connection, misses what is published meanwhile, and is told that by a
        /// gap. Who must miss nothing takes a [`ReliableTopic`](crate::ReliableTopic).
        ///
        /// Cheap to clone; clones are the same. It has no key: nothing of it is kept anywhere, and there is nothing to delete.
        #[doc(alias = "RTopic")]
        #[doc(alias = "RedissonTopic")]
        pub struct Topic<T, C $($codec)*> {
            place: Place,
            codec: C,
            messages: PhantomData<fn() -> T>,
        }
    };
}

#[cfg(feature = "json")]
topic!(= redgrid_codecs::Json);
#[cfg(not(feature = "json"))]
topic!();

handle!(Topic, "name");
heard!(Topic);
one_channel!(Topic);

impl<T, C: Codec + Default> Topic<T, C> {
    /// The one with this name. Making one asks nobody: an invalid name is told by the first call.
    pub fn new(client: &Client, name: impl AsRef<str>) -> Self {
        Topic { place: Place::new(client, name), codec: C::default(), messages: PhantomData }
    }
}

impl<T, C: Codec> Topic<T, C> {
    /// Publishes a message, and tells how many connections it was handed to by the server that took it. In a cluster the other nodes pass it
    /// on to those who listen there, whom nobody counts. Sent once.
    ///
    /// # Errors
    ///
    /// [`ObjectError`] says what is true then: after `OutcomeUnknown` it may be published, or not.
    ///
    /// # Cancel safety
    ///
    /// What has left is published although nobody waits for it.
    pub async fn publish<Q: ?Sized>(&self, message: &Q) -> Result<u64, ObjectError>
    where
        C: Encode<Q>,
    {
        let message = self.place.encoded(&self.codec, message)?;
        self.place.change(self.place.command("PUBLISH")?.arg(message)).await
    }

    /// How many connections are subscribed to it, at all nodes: primaries, and replicas that can be asked. A client of ours is one of them,
    /// however many subscriptions it has. Who listens by a pattern is not counted.
    ///
    /// # Errors
    ///
    /// [`ObjectError`] where a primary does not say.
    ///
    /// # Cancel safety
    ///
    /// Dropping it changes nothing.
    #[doc(alias = "countSubscribers")]
    pub async fn count_subscribers(&self) -> Result<u64, ObjectError> {
        let (name, channel) = self.place.named()?;
        let count = self.place.client().subscribers(channel).await;
        count.map_err(|source| ObjectError::of_read(name, source))
    }

    fn channels(&self) -> Result<ChannelSelector, ObjectError> {
        Ok(ChannelSelector::Plain(self.place.named()?.1.clone()))
    }
}
