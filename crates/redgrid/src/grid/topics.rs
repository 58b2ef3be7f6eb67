//! Topics.

use super::Grid;

impl Grid {
    /// Messages to all who listen at the moment, as JSON; [`Topic::with_codec`](redgrid_topic::Topic::with_codec) has them another way. See [`Topic`](redgrid_topic::Topic).
    #[cfg(all(feature = "topic", feature = "json"))]
    #[doc(alias = "getTopic")]
    pub fn topic<T>(&self, name: impl AsRef<str>) -> redgrid_topic::Topic<T> {
        redgrid_topic::Topic::new(&self.client, name)
    }

    /// The same, as this codec writes them. See [`Topic`](redgrid_topic::Topic).
    #[cfg(feature = "topic")]
    pub fn topic_with<T, C: redgrid_codecs::Codec>(
        &self,
        name: impl AsRef<str>,
        codec: C,
    ) -> redgrid_topic::Topic<T, C> {
        redgrid_topic::Topic::<T, redgrid_codecs::Raw>::new(&self.client, name).with_codec(codec)
    }

    /// What is published to all topics of a pattern, as JSON; [`PatternTopic::with_codec`](redgrid_topic::PatternTopic::with_codec) has them another way. See [`PatternTopic`](redgrid_topic::PatternTopic).
    #[cfg(all(feature = "topic", feature = "json"))]
    #[doc(alias = "getPatternTopic")]
    pub fn pattern_topic<T>(&self, pattern: impl AsRef<str>) -> redgrid_topic::PatternTopic<T> {
        redgrid_topic::PatternTopic::new(&self.client, pattern)
    }

    /// The same, as this codec writes them. See [`PatternTopic`](redgrid_topic::PatternTopic).
    #[cfg(feature = "topic")]
    pub fn pattern_topic_with<T, C: redgrid_codecs::Codec>(
        &self,
        pattern: impl AsRef<str>,
        codec: C,
    ) -> redgrid_topic::PatternTopic<T, C> {
        redgrid_topic::PatternTopic::<T, redgrid_codecs::Raw>::new(&self.client, pattern).with_codec(codec)
    }

    /// Messages by sharded channels, as JSON; [`ShardedTopic::with_codec`](redgrid_topic::ShardedTopic::with_codec) has them another way. See [`ShardedTopic`](redgrid_topic::ShardedTopic).
    #[cfg(all(feature = "topic", feature = "json"))]
    #[doc(alias = "getShardedTopic")]
    pub fn sharded_topic<T>(&self, name: impl AsRef<str>) -> redgrid_topic::ShardedTopic<T> {
        redgrid_topic::ShardedTopic::new(&self.client, name)
    }

    /// The same, as this codec writes them. See [`ShardedTopic`](redgrid_topic::ShardedTopic).
    #[cfg(feature = "topic")]
    pub fn sharded_topic_with<T, C: redgrid_codecs::Codec>(
        &self,
        name: impl AsRef<str>,
        codec: C,
    ) -> redgrid_topic::ShardedTopic<T, C> {
        redgrid_topic::ShardedTopic::<T, redgrid_codecs::Raw>::new(&self.client, name).with_codec(codec)
    }

    /// Messages that every subscriber gets at least once, as JSON; [`ReliableTopic::with_codec`](redgrid_topic::ReliableTopic::with_codec) has them another way. See [`ReliableTopic`](redgrid_topic::ReliableTopic).
    #[cfg(all(feature = "topic", feature = "json"))]
    #[doc(alias = "getReliableTopic")]
    pub fn reliable_topic<T>(&self, name: impl AsRef<str>) -> redgrid_topic::ReliableTopic<T> {
        redgrid_topic::ReliableTopic::new(&self.client, name)
    }

    /// The same, as this codec writes them. See [`ReliableTopic`](redgrid_topic::ReliableTopic).
    #[cfg(feature = "topic")]
    pub fn reliable_topic_with<T, C: redgrid_codecs::Codec>(
        &self,
        name: impl AsRef<str>,
        codec: C,
    ) -> redgrid_topic::ReliableTopic<T, C> {
        redgrid_topic::ReliableTopic::<T, redgrid_codecs::Raw>::new(&self.client, name).with_codec(codec)
    }
}
