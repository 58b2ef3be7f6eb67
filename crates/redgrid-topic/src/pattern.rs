//! All topics with names that match a pattern.

use std::marker::PhantomData;

use bytes::Bytes;
use redgrid_codecs::Codec;
use redgrid_core::author::ClientExt;
use redgrid_core::object::{ObjectError, ObjectRef};
use redgrid_core::{ChannelSelector, Client};

use crate::handle::{handle, subscribable};

redgrid_core::default_codec! {
    /// The messages of all topics with names that match a pattern, such as `news:*`. It corresponds
    /// to Redisson's `RPatternTopic`.
    ///
    /// `?` matches one character, `*` any number of characters, and `[a-z]` one of a set; `\\`
    /// escapes the character after it. Only topics in the client's namespace match.
    /// [Sharded](crate::ShardedTopic) topics do not: servers have no patterns for them.
    ///
    /// A pattern must be a valid [`Name`](crate::Name). All patterns of a client share one
    /// connection per node. Notifications of keyspace events are not received: use
    /// [events](redgrid_core::object::events::Listen).
    ///
    /// A handle is cheap to clone; clones refer to the same topic. There is no key: the server
    /// stores nothing, and there is nothing to delete.
    #[doc(alias = "RPatternTopic")]
    #[doc(alias = "RedissonPatternTopic")]
    pub struct PatternTopic<T; C> {
        object_ref: ObjectRef,
        codec: C,
        messages: PhantomData<fn() -> T>,
        family: &'static str,
    }
}

handle!(PatternTopic, "pattern");
subscribable!(PatternTopic);

impl<T, C: Codec + Default> PatternTopic<T, C> {
    /// Returns the topic of this pattern.
    ///
    /// No request is sent: an invalid pattern is reported by the first call.
    pub fn new(client: &Client, pattern: impl AsRef<str>) -> Self {
        PatternTopic {
            object_ref: ObjectRef::new(client, pattern),
            codec: C::default(),
            messages: PhantomData,
            family: "",
        }
    }
}

impl<T, C: Codec> PatternTopic<T, C> {
    /// Returns the pattern, without the client's namespace.
    ///
    /// # Errors
    ///
    /// [`Failure::InvalidName`](crate::Failure::InvalidName).
    #[doc(alias = "getPatternNames")]
    pub fn pattern(&self) -> Result<&str, ObjectError> {
        Ok(self.object_ref.name_and_key()?.0.as_str())
    }

    /// Returns the sorted names, without the namespace, of matching topics that have subscribers on
    /// any node.
    ///
    /// # Errors
    ///
    /// [`ObjectError`] if a primary does not answer.
    ///
    /// # Cancel safety
    ///
    /// Dropping the future changes nothing.
    #[doc(alias = "getActiveTopics")]
    pub async fn active_topics(&self) -> Result<Vec<String>, ObjectError> {
        let name = self.object_ref.name_and_key()?.0;
        let client = self.object_ref.client();
        let found = client.channels_matching(&self.server_pattern()?).await;
        let found = found.map_err(|source| ObjectError::of_read(name, source))?;
        let namespace = client.namespace().as_str();
        let prefix_len = if namespace.is_empty() { 0 } else { namespace.len() + 1 };
        let topic_name = |channel: Bytes| String::from_utf8_lossy(&channel[prefix_len..]).into_owned();
        Ok(found.into_iter().map(topic_name).collect())
    }

    fn channels(&self) -> Result<ChannelSelector, ObjectError> {
        Ok(ChannelSelector::Pattern(self.server_pattern()?))
    }

    /// Returns the pattern prefixed with the escaped namespace.
    fn server_pattern(&self) -> Result<Bytes, ObjectError> {
        let (pattern, key) = self.object_ref.name_and_key()?;
        let namespace = self.object_ref.client().namespace().as_str();
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
