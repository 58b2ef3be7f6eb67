//! Bits, estimates and places on the globe.

use super::Grid;

impl Grid {
    /// Bits by their indices. See [`BitSet`](redgrid_bits::BitSet).
    #[cfg(feature = "bits")]
    #[doc(alias = "getBitSet")]
    pub fn bit_set(&self, name: impl AsRef<str>) -> redgrid_bits::BitSet {
        redgrid_bits::BitSet::new(&self.client, name)
    }

    /// What was seen before, in a few bits each, as JSON; [`BloomFilter::with_codec`](redgrid_bits::BloomFilter::with_codec) has it another
    /// way. See [`BloomFilter`](redgrid_bits::BloomFilter).
    #[cfg(all(feature = "bits", feature = "json"))]
    #[doc(alias = "getBloomFilter")]
    pub fn bloom_filter<T>(&self, name: impl AsRef<str>) -> redgrid_bits::BloomFilter<T> {
        redgrid_bits::BloomFilter::new(&self.client, name)
    }

    /// The same, as this codec writes it. See [`BloomFilter`](redgrid_bits::BloomFilter).
    #[cfg(feature = "bits")]
    pub fn bloom_filter_with<T, C: redgrid_codecs::Codec>(
        &self,
        name: impl AsRef<str>,
        codec: C,
    ) -> redgrid_bits::BloomFilter<T, C> {
        redgrid_bits::BloomFilter::<T, redgrid_codecs::Raw>::new(&self.client, name).with_codec(codec)
    }

    /// How many different ones there were, about, as JSON; [`HyperLogLog::with_codec`](redgrid_bits::HyperLogLog::with_codec) has it another
    /// way. See [`HyperLogLog`](redgrid_bits::HyperLogLog).
    #[cfg(all(feature = "bits", feature = "json"))]
    #[doc(alias = "getHyperLogLog")]
    pub fn hyper_log_log<T>(&self, name: impl AsRef<str>) -> redgrid_bits::HyperLogLog<T> {
        redgrid_bits::HyperLogLog::new(&self.client, name)
    }

    /// The same, as this codec writes it. See [`HyperLogLog`](redgrid_bits::HyperLogLog).
    #[cfg(feature = "bits")]
    pub fn hyper_log_log_with<T, C: redgrid_codecs::Codec>(
        &self,
        name: impl AsRef<str>,
        codec: C,
    ) -> redgrid_bits::HyperLogLog<T, C> {
        redgrid_bits::HyperLogLog::<T, redgrid_codecs::Raw>::new(&self.client, name).with_codec(codec)
    }

    /// Members with places on the globe, as JSON; [`Geo::with_codec`](redgrid_geo::Geo::with_codec) has them another way. See
    /// [`Geo`](redgrid_geo::Geo).
    #[cfg(all(feature = "geo", feature = "json"))]
    #[doc(alias = "getGeo")]
    pub fn geo<T>(&self, name: impl AsRef<str>) -> redgrid_geo::Geo<T> {
        redgrid_geo::Geo::new(&self.client, name)
    }

    /// The same, as this codec writes them. See [`Geo`](redgrid_geo::Geo).
    #[cfg(feature = "geo")]
    pub fn geo_with<T, C: redgrid_codecs::Codec>(&self, name: impl AsRef<str>, codec: C) -> redgrid_geo::Geo<T, C> {
        redgrid_geo::Geo::<T, redgrid_codecs::Raw>::new(&self.client, name).with_codec(codec)
    }
}
