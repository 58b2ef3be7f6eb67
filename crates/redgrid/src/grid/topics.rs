//! Topics.

use super::Grid;

impl Grid {
    /// Returns the topic with this name. Its messages go to all current subscribers, and are
    /// encoded as JSON. See [`Topic`](redgrid_topic::Topic).
    ///
    /// ```no_run
    /// # async fn example(grid: &redgrid::Grid) -> Result<(), Box<dyn std::error::Error>> {
    /// use redgrid::topic::SubscriptionError;
    ///
    /// let prices = grid.topic::<u64>("prices");
    /// let mut messages = prices.subscribe().await?; // receives messages from here on
    /// prices.publish(&17).await?;
    /// match messages.next().await {
    ///     Some(Ok(message)) => println!("{}: {}", message.channel, message.value),
    ///     Some(Err(SubscriptionError::Gap(_))) => println!("messages may be missing"),
    ///     other => println!("{other:?}"),
    /// }
    /// # Ok(()) }
    /// ```
    #[cfg(all(feature = "topic", feature = "json"))]
    #[doc(alias = "getTopic")]
    pub fn topic<T>(&self, name: impl AsRef<str>) -> redgrid_topic::Topic<T> {
        redgrid_topic::Topic::new(&self.client, name)
    }

    /// Returns the topic with this name. Its messages are encoded by `codec`. See
    /// [`Topic`](redgrid_topic::Topic).
    ///
    /// ```no_run
    /// # async fn example(grid: &redgrid::Grid) -> Result<(), Box<dyn std::error::Error>> {
    /// use redgrid::codecs::Text;
    ///
    /// let news = grid.topic_with::<String, _>("news", Text);
    /// news.publish(&"open".to_owned()).await?;
    /// # Ok(()) }
    /// ```
    #[cfg(feature = "topic")]
    pub fn topic_with<T, C: redgrid_codecs::Codec>(
        &self,
        name: impl AsRef<str>,
        codec: C,
    ) -> redgrid_topic::Topic<T, C> {
        redgrid_topic::Topic::<T, redgrid_codecs::Raw>::new(&self.client, name).with_codec(codec)
    }

    /// Returns a handle that subscribes to all topics with names that match `pattern`. Messages are
    /// encoded as JSON. See [`PatternTopic`](redgrid_topic::PatternTopic).
    ///
    /// ```no_run
    /// # async fn example(grid: &redgrid::Grid) -> Result<(), Box<dyn std::error::Error>> {
    /// let mut messages = grid.pattern_topic::<u64>("price:*").subscribe().await?;
    /// if let Some(Ok(message)) = messages.next().await {
    ///     println!("{}: {}", message.channel, message.value);
    /// }
    /// # Ok(()) }
    /// ```
    #[cfg(all(feature = "topic", feature = "json"))]
    #[doc(alias = "getPatternTopic")]
    pub fn pattern_topic<T>(&self, pattern: impl AsRef<str>) -> redgrid_topic::PatternTopic<T> {
        redgrid_topic::PatternTopic::new(&self.client, pattern)
    }

    /// Returns a handle that subscribes to all topics with names that match `pattern`. Messages are
    /// encoded by `codec`. See [`PatternTopic`](redgrid_topic::PatternTopic).
    ///
    /// ```no_run
    /// # async fn example(grid: &redgrid::Grid) -> Result<(), Box<dyn std::error::Error>> {
    /// use redgrid::codecs::Text;
    ///
    /// let mut messages = grid.pattern_topic_with::<String, _>("news:*", Text).subscribe().await?;
    /// # messages.next().await;
    /// # Ok(()) }
    /// ```
    #[cfg(feature = "topic")]
    pub fn pattern_topic_with<T, C: redgrid_codecs::Codec>(
        &self,
        pattern: impl AsRef<str>,
        codec: C,
    ) -> redgrid_topic::PatternTopic<T, C> {
        redgrid_topic::PatternTopic::<T, redgrid_codecs::Raw>::new(&self.client, pattern).with_codec(codec)
    }

    /// Returns the topic with this name on a sharded channel: Redis 7.0 or newer, or Valkey. In a
    /// cluster only the nodes of its slot receive its messages. Messages are encoded as JSON. See
    /// [`ShardedTopic`](redgrid_topic::ShardedTopic).
    ///
    /// ```no_run
    /// # async fn example(grid: &redgrid::Grid) -> Result<(), Box<dyn std::error::Error>> {
    /// let room = grid.sharded_topic::<String>("room:rust");
    /// let mut messages = room.subscribe().await?;
    /// room.publish(&"hello".to_owned()).await?;
    /// # messages.next().await;
    /// # Ok(()) }
    /// ```
    #[cfg(all(feature = "topic", feature = "json"))]
    #[doc(alias = "getShardedTopic")]
    pub fn sharded_topic<T>(&self, name: impl AsRef<str>) -> redgrid_topic::ShardedTopic<T> {
        redgrid_topic::ShardedTopic::new(&self.client, name)
    }

    /// Returns the topic with this name on a sharded channel. Its messages are encoded by `codec`.
    /// See [`ShardedTopic`](redgrid_topic::ShardedTopic).
    ///
    /// ```no_run
    /// # async fn example(grid: &redgrid::Grid) -> Result<(), Box<dyn std::error::Error>> {
    /// use redgrid::codecs::Text;
    ///
    /// let room = grid.sharded_topic_with::<String, _>("room:rust", Text);
    /// room.publish(&"hello".to_owned()).await?;
    /// # Ok(()) }
    /// ```
    #[cfg(feature = "topic")]
    pub fn sharded_topic_with<T, C: redgrid_codecs::Codec>(
        &self,
        name: impl AsRef<str>,
        codec: C,
    ) -> redgrid_topic::ShardedTopic<T, C> {
        redgrid_topic::ShardedTopic::<T, redgrid_codecs::Raw>::new(&self.client, name).with_codec(codec)
    }

    /// Returns the topic with this name. Each subscriber receives its messages at least once.
    /// Messages are encoded as JSON. See [`ReliableTopic`](redgrid_topic::ReliableTopic).
    ///
    /// ```no_run
    /// # async fn example(grid: &redgrid::Grid) -> Result<(), Box<dyn std::error::Error>> {
    /// let orders = grid.reliable_topic::<String>("orders");
    /// let mut mail = orders.subscribe().as_subscriber("mail").await?; // resumes as `mail`
    /// if let Some(Ok(delivery)) = mail.next().await {
    ///     println!("{:?}", delivery.message());
    ///     delivery.ack().await?;
    /// }
    /// # Ok(()) }
    /// ```
    #[cfg(all(feature = "topic", feature = "json"))]
    #[doc(alias = "getReliableTopic")]
    pub fn reliable_topic<T>(&self, name: impl AsRef<str>) -> redgrid_topic::ReliableTopic<T> {
        redgrid_topic::ReliableTopic::new(&self.client, name)
    }

    /// Returns the topic with this name. Each subscriber receives its messages at least once.
    /// Messages are encoded by `codec`. See [`ReliableTopic`](redgrid_topic::ReliableTopic).
    ///
    /// ```no_run
    /// # async fn example(grid: &redgrid::Grid) -> Result<(), Box<dyn std::error::Error>> {
    /// use redgrid::codecs::Text;
    ///
    /// let orders = grid.reliable_topic_with::<String, _>("orders", Text);
    /// orders.publish("order 42").await?;
    /// # Ok(()) }
    /// ```
    #[cfg(feature = "topic")]
    pub fn reliable_topic_with<T, C: redgrid_codecs::Codec>(
        &self,
        name: impl AsRef<str>,
        codec: C,
    ) -> redgrid_topic::ReliableTopic<T, C> {
        redgrid_topic::ReliableTopic::<T, redgrid_codecs::Raw>::new(&self.client, name).with_codec(codec)
    }
}
