//! Lists and streams.

use super::Grid;

impl Grid {
    /// Returns the list with this name. Its elements are encoded as JSON. See
    /// [`List`](redgrid_list::List).
    ///
    /// ```no_run
    /// # async fn example(grid: &redgrid::Grid) -> Result<(), Box<dyn std::error::Error>> {
    /// let songs = grid.list::<String>("playlist");
    /// songs.push("first").await?;
    /// println!("next: {:?}", songs.range(..3).await?);
    /// # Ok(()) }
    /// ```
    #[cfg(all(feature = "list", feature = "json"))]
    #[doc(alias = "getList")]
    pub fn list<T>(&self, name: impl AsRef<str>) -> redgrid_list::List<T> {
        redgrid_list::List::new(&self.client, name)
    }

    /// Returns the list with this name. Its elements are encoded by `codec`. See
    /// [`List`](redgrid_list::List).
    ///
    /// ```no_run
    /// # async fn example(grid: &redgrid::Grid) -> Result<(), Box<dyn std::error::Error>> {
    /// use redgrid::codecs::Long;
    ///
    /// let scores = grid.list_with::<i64, _>("scores", Long);
    /// scores.push_many(&[20, 70, 10]).await?;
    /// let best = scores.sort().descending().limit(0, 1).await?; // the server sorts
    /// # Ok(()) }
    /// ```
    #[cfg(feature = "list")]
    pub fn list_with<T, C: redgrid_codecs::Codec>(&self, name: impl AsRef<str>, codec: C) -> redgrid_list::List<T, C> {
        redgrid_list::List::<T, redgrid_codecs::Raw>::new(&self.client, name).with_codec(codec)
    }

    /// Returns the stream with this name: entries in the order in which they were added, for
    /// readers and consumer groups. Fields and values are encoded as JSON. See
    /// [`Stream`](redgrid_stream::Stream).
    ///
    /// ```no_run
    /// # async fn example(grid: &redgrid::Grid) -> Result<(), Box<dyn std::error::Error>> {
    /// use redgrid::stream::Start;
    ///
    /// let orders = grid.stream::<String, u64>("orders");
    /// orders.add("book", &2).await?;
    ///
    /// let consumer = orders.group("shipping").consumer("one");
    /// let mut deliveries = consumer.create_if_missing(Start::Beginning);
    /// while let Some(delivery) = deliveries.try_next().await? {
    ///     println!("{:?}", delivery.get("book"));
    ///     delivery.ack().await?;
    /// }
    /// # Ok(()) }
    /// ```
    #[cfg(all(feature = "stream", feature = "json"))]
    #[doc(alias = "getStream")]
    pub fn stream<K, V>(&self, name: impl AsRef<str>) -> redgrid_stream::Stream<K, V> {
        redgrid_stream::Stream::new(&self.client, name)
    }

    /// Returns the stream with this name. Its fields and values are encoded by the codecs. See
    /// [`Stream`](redgrid_stream::Stream).
    ///
    /// ```no_run
    /// # async fn example(grid: &redgrid::Grid) -> Result<(), Box<dyn std::error::Error>> {
    /// use redgrid::codecs::Text;
    ///
    /// let log = grid.stream_with::<String, String, _, _>("log", Text, Text);
    /// log.add("message", &"started".to_owned()).await?;
    /// # Ok(()) }
    /// ```
    #[cfg(feature = "stream")]
    pub fn stream_with<K, V, KC: redgrid_codecs::Codec, VC: redgrid_codecs::Codec>(
        &self,
        name: impl AsRef<str>,
        keys: KC,
        values: VC,
    ) -> redgrid_stream::Stream<K, V, KC, VC> {
        redgrid_stream::Stream::<K, V, redgrid_codecs::Raw>::new(&self.client, name).with_codecs(keys, values)
    }
}
