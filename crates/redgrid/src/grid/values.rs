//! Single values, and the keys of all objects.

use super::Grid;

impl Grid {
    /// Returns the value with this name, encoded as JSON. See [`Bucket`](redgrid_bucket::Bucket).
    ///
    /// ```no_run
    /// # async fn example(grid: &redgrid::Grid) -> Result<(), Box<dyn std::error::Error>> {
    /// use std::time::Duration;
    ///
    /// let greeting = grid.bucket::<String>("greeting");
    /// greeting.set(&"hello".to_owned()).expires_in(Duration::from_secs(60)).await?;
    /// assert_eq!(greeting.get().await?.as_deref(), Some("hello"));
    /// # Ok(()) }
    /// ```
    #[cfg(all(feature = "bucket", feature = "json"))]
    #[doc(alias = "getBucket")]
    pub fn bucket<T>(&self, name: impl AsRef<str>) -> redgrid_bucket::Bucket<T> {
        redgrid_bucket::Bucket::new(&self.client, name)
    }

    /// Returns the value with this name, encoded by `codec`. See
    /// [`Bucket`](redgrid_bucket::Bucket).
    ///
    /// ```no_run
    /// # async fn example(grid: &redgrid::Grid) -> Result<(), Box<dyn std::error::Error>> {
    /// use redgrid::codecs::Text;
    ///
    /// let greeting = grid.bucket_with::<String, _>("greeting", Text);
    /// greeting.set(&"hello".to_owned()).await?;
    /// # Ok(()) }
    /// ```
    #[cfg(feature = "bucket")]
    pub fn bucket_with<T, C: redgrid_codecs::Codec>(
        &self,
        name: impl AsRef<str>,
        codec: C,
    ) -> redgrid_bucket::Bucket<T, C> {
        redgrid_bucket::Bucket::<T, redgrid_codecs::Raw>::new(&self.client, name).with_codec(codec)
    }

    /// Returns a handle that reads and writes many values in few requests. Values are encoded as
    /// JSON. See [`Buckets`](redgrid_bucket::Buckets).
    ///
    /// ```no_run
    /// # async fn example(grid: &redgrid::Grid) -> Result<(), Box<dyn std::error::Error>> {
    /// let stock = grid.buckets::<u32>();
    /// stock.set_each([("stock:1", &10), ("stock:2", &20)]).await?;
    /// println!("{:?}", stock.get_each(["stock:1", "stock:2"]).await?);
    /// # Ok(()) }
    /// ```
    #[cfg(all(feature = "bucket", feature = "json"))]
    #[doc(alias = "getBuckets")]
    pub fn buckets<T>(&self) -> redgrid_bucket::Buckets<T> {
        redgrid_bucket::Buckets::new(&self.client)
    }

    /// Returns a handle that reads and writes many values in few requests. Values are encoded by
    /// `codec`. See [`Buckets`](redgrid_bucket::Buckets).
    ///
    /// ```no_run
    /// # async fn example(grid: &redgrid::Grid) -> Result<(), Box<dyn std::error::Error>> {
    /// use redgrid::codecs::Long;
    ///
    /// let stock = grid.buckets_with::<i64, _>(Long);
    /// println!("{:?}", stock.get_each(["stock:1", "stock:2"]).await?);
    /// # Ok(()) }
    /// ```
    #[cfg(feature = "bucket")]
    pub fn buckets_with<T, C: redgrid_codecs::Codec>(&self, codec: C) -> redgrid_bucket::Buckets<T, C> {
        redgrid_bucket::Buckets::<T, redgrid_codecs::Raw>::new(&self.client).with_codec(codec)
    }

    /// Returns a handle that counts, streams and deletes all keys of the servers by object. See
    /// [`Keys`](redgrid_keys::Keys).
    ///
    /// ```no_run
    /// # async fn example(grid: &redgrid::Grid) -> Result<(), Box<dyn std::error::Error>> {
    /// let mut carts = grid.keys().objects().matching("cart:*");
    /// while let Some(cart) = carts.try_next().await? {
    ///     println!("{cart}");
    /// }
    /// # Ok(()) }
    /// ```
    #[cfg(feature = "keys")]
    #[doc(alias = "getKeys")]
    pub fn keys(&self) -> redgrid_keys::Keys {
        redgrid_keys::Keys::new(&self.client)
    }
}
