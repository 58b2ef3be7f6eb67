//! A topic by its name.

use std::fmt;
use std::marker::PhantomData;

use redgrid_codecs::{Codec, Decode, Encode};
use redgrid_core::object::{ObjectError, Place};
use redgrid_core::{Channels, Client};

use crate::subscription::Subscribe;

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

impl<T, C: Codec + Default> Topic<T, C> {
    /// The one with this name. Making one asks nobody: an invalid name is told by the first call.
    pub fn new(client: &Client, name: impl AsRef<str>) -> Self {
        Topic { place: Place::new(client, name), codec: C::default(), messages: PhantomData }
    }
}

impl<T, C: Codec> Topic<T, C> {
    /// The same name with another codec.
    pub fn with_codec<D: Codec>(self, codec: D) -> Topic<T, D> {
        Topic { place: self.place, codec, messages: PhantomData }
    }

    /// Its channel at the server: its name behind the client's namespace.
    ///
    /// # Errors
    ///
    /// [`ObjectError::InvalidName`].
    #[doc(alias = "getChannelNames")]
    pub fn channel(&self) -> Result<String, ObjectError> {
        Ok(String::from_utf8_lossy(self.place.named()?.1).into_owned())
    }

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

    /// Listens to what is published from when this is awaited. Behind each interruption a [`Gap`](crate::Gap) is told.
    #[doc(alias = "addListener")]
    pub fn subscribe(&self) -> Subscribe<T, C>
    where
        C: Decode<T> + Clone,
    {
        Subscribe::new(&self.place, self.channels(), self.codec.clone())
    }

    /// How many subscriptions to it this client has.
    ///
    /// # Errors
    ///
    /// [`ObjectError::InvalidName`].
    #[doc(alias = "countListeners")]
    pub fn count_listeners(&self) -> Result<usize, ObjectError> {
        Ok(self.place.client().feeds(&self.channels()?))
    }

    fn channels(&self) -> Result<Channels, ObjectError> {
        Ok(Channels::Plain(self.place.named()?.1.clone()))
    }
}

impl<T, C: Clone> Clone for Topic<T, C> {
    fn clone(&self) -> Self {
        Topic { place: self.place.clone(), codec: self.codec.clone(), messages: PhantomData }
    }
}

impl<T, C: fmt::Debug> fmt::Debug for Topic<T, C> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Topic").field("name", &self.place.name()).field("codec", &self.codec).finish_non_exhaustive()
    }
}
