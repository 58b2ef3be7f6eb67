//! Bit sets, filters, estimates, and positions on the globe.

use super::Grid;

impl Grid {
    /// Returns the bit set with this name. See [`BitSet`](redgrid_bits::BitSet).
    ///
    /// ```no_run
    /// # async fn example(grid: &redgrid::Grid) -> Result<(), Box<dyn std::error::Error>> {
    /// let seats = grid.bit_set("seats");
    /// if !seats.set(17, true).await? {
    ///     println!("seat 17 was free, and is taken now; {} are taken", seats.count().await?);
    /// }
    /// # Ok(()) }
    /// ```
    #[cfg(feature = "bits")]
    #[doc(alias = "getBitSet")]
    pub fn bit_set(&self, name: impl AsRef<str>) -> redgrid_bits::BitSet {
        redgrid_bits::BitSet::new(&self.client, name)
    }

    /// Returns the Bloom filter with this name. Its elements are encoded as JSON. See
    /// [`BloomFilter`](redgrid_bits::BloomFilter).
    ///
    /// ```no_run
    /// # async fn example(grid: &redgrid::Grid) -> Result<(), Box<dyn std::error::Error>> {
    /// let seen = grid.bloom_filter::<String>("seen");
    /// seen.try_init(1_000_000, 0.01).await?; // 1 % of new elements seem known
    /// if seen.add("https://example.org/").await? {
    ///     println!("not seen before");
    /// }
    /// # Ok(()) }
    /// ```
    #[cfg(all(feature = "bits", feature = "json"))]
    #[doc(alias = "getBloomFilter")]
    pub fn bloom_filter<T>(&self, name: impl AsRef<str>) -> redgrid_bits::BloomFilter<T> {
        redgrid_bits::BloomFilter::new(&self.client, name)
    }

    /// Returns the Bloom filter with this name. Its elements are encoded by `codec`. See
    /// [`BloomFilter`](redgrid_bits::BloomFilter).
    ///
    /// ```no_run
    /// # async fn example(grid: &redgrid::Grid) -> Result<(), Box<dyn std::error::Error>> {
    /// use redgrid::codecs::Text;
    ///
    /// let seen = grid.bloom_filter_with::<String, _>("seen", Text);
    /// seen.try_init(1_000_000, 0.01).await?;
    /// # Ok(()) }
    /// ```
    #[cfg(feature = "bits")]
    pub fn bloom_filter_with<T, C: redgrid_codecs::Codec>(
        &self,
        name: impl AsRef<str>,
        codec: C,
    ) -> redgrid_bits::BloomFilter<T, C> {
        redgrid_bits::BloomFilter::<T, redgrid_codecs::Raw>::new(&self.client, name).with_codec(codec)
    }

    /// Returns the HyperLogLog with this name, which estimates the number of different elements.
    /// Elements are encoded as JSON. See [`HyperLogLog`](redgrid_bits::HyperLogLog).
    ///
    /// ```no_run
    /// # async fn example(grid: &redgrid::Grid) -> Result<(), Box<dyn std::error::Error>> {
    /// let visitors = grid.hyper_log_log::<u64>("visitors");
    /// visitors.add(&42).await?;
    /// println!("about {} visitors", visitors.count().await?);
    /// # Ok(()) }
    /// ```
    #[cfg(all(feature = "bits", feature = "json"))]
    #[doc(alias = "getHyperLogLog")]
    pub fn hyper_log_log<T>(&self, name: impl AsRef<str>) -> redgrid_bits::HyperLogLog<T> {
        redgrid_bits::HyperLogLog::new(&self.client, name)
    }

    /// Returns the HyperLogLog with this name. Its elements are encoded by `codec`. See
    /// [`HyperLogLog`](redgrid_bits::HyperLogLog).
    ///
    /// ```no_run
    /// # async fn example(grid: &redgrid::Grid) -> Result<(), Box<dyn std::error::Error>> {
    /// use redgrid::codecs::Text;
    ///
    /// let visitors = grid.hyper_log_log_with::<String, _>("visitors", Text);
    /// visitors.add("ada").await?;
    /// # Ok(()) }
    /// ```
    #[cfg(feature = "bits")]
    pub fn hyper_log_log_with<T, C: redgrid_codecs::Codec>(
        &self,
        name: impl AsRef<str>,
        codec: C,
    ) -> redgrid_bits::HyperLogLog<T, C> {
        redgrid_bits::HyperLogLog::<T, redgrid_codecs::Raw>::new(&self.client, name).with_codec(codec)
    }

    /// Returns the geo object with this name: members with positions on the globe. Members are
    /// encoded as JSON. See [`Geo`](redgrid_geo::Geo).
    ///
    /// ```no_run
    /// # async fn example(grid: &redgrid::Grid) -> Result<(), Box<dyn std::error::Error>> {
    /// use redgrid::geo::{Distance, Position};
    ///
    /// let cities = grid.geo::<String>("cities");
    /// cities.add("Palermo", Position::new(13.361389, 38.115556)?).await?;
    /// let here = Position::new(15.0, 37.0)?;
    /// let near = cities.around(here).within(Distance::kilometers(300.0)).distances().await?;
    /// println!("{} cities within 300 km", near.len());
    /// # Ok(()) }
    /// ```
    #[cfg(all(feature = "geo", feature = "json"))]
    #[doc(alias = "getGeo")]
    pub fn geo<T>(&self, name: impl AsRef<str>) -> redgrid_geo::Geo<T> {
        redgrid_geo::Geo::new(&self.client, name)
    }

    /// Returns the geo object with this name. Its members are encoded by `codec`. See
    /// [`Geo`](redgrid_geo::Geo).
    ///
    /// ```no_run
    /// # async fn example(grid: &redgrid::Grid) -> Result<(), Box<dyn std::error::Error>> {
    /// use redgrid::codecs::Text;
    /// use redgrid::geo::Position;
    ///
    /// let cities = grid.geo_with::<String, _>("cities", Text);
    /// cities.add("Catania", Position::new(15.087269, 37.502669)?).await?;
    /// # Ok(()) }
    /// ```
    #[cfg(feature = "geo")]
    pub fn geo_with<T, C: redgrid_codecs::Codec>(&self, name: impl AsRef<str>, codec: C) -> redgrid_geo::Geo<T, C> {
        redgrid_geo::Geo::<T, redgrid_codecs::Raw>::new(&self.client, name).with_codec(codec)
    }
}
