//! Single values, and the keys of all.

use super::Grid;

impl Grid {
    /// A value under a name, as JSON; [`Bucket::with_codec`](redgrid_bucket::Bucket::with_codec) has it another way. See
    /// [`Bucket`](redgrid_bucket::Bucket).
    #[cfg(all(feature = "bucket", feature = "json"))]
    #[doc(alias = "getBucket")]
    pub fn bucket<T>(&self, name: impl AsRef<str>) -> redgrid_bucket::Bucket<T> {
        redgrid_bucket::Bucket::new(&self.client, name)
    }

    /// A value under a name, as this codec writes it. See [`Bucket`](redgrid_bucket::Bucket).
    #[cfg(feature = "bucket")]
    pub fn bucket_with<T, C: redgrid_codecs::Codec>(
        &self,
        name: impl AsRef<str>,
        codec: C,
    ) -> redgrid_bucket::Bucket<T, C> {
        redgrid_bucket::Bucket::<T, redgrid_codecs::Raw>::new(&self.client, name).with_codec(codec)
    }

    /// Many values at once, as JSON. See [`Buckets`](redgrid_bucket::Buckets).
    #[cfg(all(feature = "bucket", feature = "json"))]
    #[doc(alias = "getBuckets")]
    pub fn buckets<T>(&self) -> redgrid_bucket::Buckets<T> {
        redgrid_bucket::Buckets::new(&self.client)
    }

    /// Many values at once, as this codec writes them. See [`Buckets`](redgrid_bucket::Buckets).
    #[cfg(feature = "bucket")]
    pub fn buckets_with<T, C: redgrid_codecs::Codec>(&self, codec: C) -> redgrid_bucket::Buckets<T, C> {
        redgrid_bucket::Buckets::<T, redgrid_codecs::Raw>::new(&self.client).with_codec(codec)
    }

    /// All keys of the servers: what there is, counted, streamed and deleted. See [`Keys`](redgrid_keys::Keys).
    #[cfg(feature = "keys")]
    #[doc(alias = "getKeys")]
    pub fn keys(&self) -> redgrid_keys::Keys {
        redgrid_keys::Keys::new(&self.client)
    }
}
