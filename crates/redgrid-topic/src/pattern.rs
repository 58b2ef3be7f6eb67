//! All topics of a pattern.

use std::marker::PhantomData;

use bytes::Bytes;
use redgrid_codecs::Codec;
use redgrid_core::object::{ObjectError, Place};
use redgrid_core::{ChannelSelector, Client};

use crate::handle::{handle, heard};

/// The type, with the codec of one that names none: there is one only with the feature `json`, so that what is published never depends on
/// the features that others ask for.
macro_rules! pattern {
    ($($codec:tt)*) => {
        /// What is published to all topics whose names are of a pattern, as `news:*`: `?` is one character, `*` any number, `[a-z]` one of some, and
        /// `\\` takes what follows as it is. Redisson's `RPatternTopic`. Topics are those within the client's namespace, and no
        /// [sharded](crate::ShardedTopic) ones, which servers do not have by pattern.
        ///
        /// A pattern keeps to the rules of a [`Name`](crate::Name). Patterns that one name may be of have a connection each at a node, of which
        /// `*` and `news:*` are two; those that begin differently share one. Notifications of keyspace events are not told by it: listen to
        /// [events](redgrid_core::object::events::Listen).
        ///
        /// Cheap to clone; clones are the same. It has no key: nothing of it is kept anywhere, and there is nothing to delete.
        #[doc(alias = "RPatternTopic")]
        #[doc(alias = "RedissonPatternTopic")]
        pub struct PatternTopic<T, C $($codec)*> {
            place: Place,
            codec: C,
            messages: PhantomData<fn() -> T>,
        }
    };
}

#[cfg(feature = "json")]
pattern!(= redgrid_codecs::Json);
#[cfg(not(feature = "json"))]
pattern!();

handle!(PatternTopic, "pattern");
heard!(PatternTopic);

impl<T, C: Codec + Default> PatternTopic<T, C> {
    /// The one of this pattern. Making one asks nobody: what can not be one is told by the first call.
    pub fn new(client: &Client, pattern: impl AsRef<str>) -> Self {
        PatternTopic { place: Place::new(client, pattern), codec: C::default(), messages: PhantomData }
    }
}

impl<T, C: Codec> PatternTopic<T, C> {
    /// Its pattern, without the client's namespace.
    ///
    /// # Errors
    ///
    /// [`ObjectError::InvalidName`].
    #[doc(alias = "getPatternNames")]
    pub fn pattern(&self) -> Result<&str, ObjectError> {
        Ok(self.place.named()?.0.as_str())
    }

    /// The names of topics of the pattern to which somebody is subscribed at the moment at any node, without the namespace, in order.
    ///
    /// # Errors
    ///
    /// [`ObjectError`] where a primary does not say.
    ///
    /// # Cancel safety
    ///
    /// Dropping it changes nothing.
    #[doc(alias = "getActiveTopics")]
    pub async fn active_topics(&self) -> Result<Vec<String>, ObjectError> {
        let name = self.place.named()?.0;
        let client = self.place.client();
        let found = client.channels_matching(&self.at_servers()?).await;
        let found = found.map_err(|source| ObjectError::of_read(name, source))?;
        let namespace = client.namespace().as_str();
        let before = if namespace.is_empty() { 0 } else { namespace.len() + 1 };
        let text = |channel: Bytes| String::from_utf8_lossy(&channel[before..]).into_owned();
        Ok(found.into_iter().map(text).collect())
    }

    fn channels(&self) -> Result<ChannelSelector, ObjectError> {
        Ok(ChannelSelector::Pattern(self.at_servers()?))
    }

    /// The pattern behind the namespace, which is taken as it is.
    fn at_servers(&self) -> Result<Bytes, ObjectError> {
        let (pattern, key) = self.place.named()?;
        let namespace = self.place.client().namespace().as_str();
        if namespace.is_empty() {
            return Ok(key.clone());
        }
        let mut text = String::with_capacity(key.len());
        for character in namespace.chars() {
            if "*?[]\\".contains(character) {
                text.push('\\');
            }
            text.push(character);
        }
        Ok(format!("{text}:{pattern}").into())
    }
}
