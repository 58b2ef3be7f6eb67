//! The sharded Bloom filter.

use bytes::Bytes;
use redgrid_bits::{BloomFilter, FilterConfig};
use redgrid_codecs::{Codec, Encode, EncodesFor, Raw};
use redgrid_core::Client;
use redgrid_core::object::ObjectError;

use crate::layout::{Kind, ShardLayout, ShardLayoutRequest};
use crate::methods::sharded_methods;
use crate::sharded::{Shard, Sharded, Shards};

/// The configuration of a sharded filter: its size, and the parameters for which it was planned.
#[derive(Debug, Clone, Copy, PartialEq)]
#[non_exhaustive]
pub struct ShardedFilterConfig {
    /// The number of shards.
    pub shards: u32,
    /// The number of bits of all shards together.
    pub size: u64,
    /// The number of elements for which the filter was planned.
    pub expected_insertions: u64,
    /// The probability of a false positive when the filter has the expected number of elements.
    pub false_probability: f64,
}

redgrid_core::default_codec! {
    /// A probabilistic set: "not contained" is certain, and "contained" has a known error rate.
    /// Each shard is a separate filter, so the whole may be larger than a string of the server.
    ///
    /// It is cheap to clone; clones are handles of the same filter and share its cached size:
    /// create one and clone it. Elements cannot be removed.
    #[doc(alias = "RClusteredBloomFilter")]
    pub struct ShardedBloomFilter<T; C: Codec> {
        sharded: Sharded<BloomFilter<T, C>>,
    }
}

impl<T, C: Codec> Shard for BloomFilter<T, C> {
    type Options = C;

    fn kind(_options: &C) -> Kind {
        Kind::Filter
    }

    fn new(client: &Client, name: String, options: &C) -> Self {
        BloomFilter::<T, Raw>::new(client, name).with_codec(options.clone())
    }
}

/// Returns the number of elements for which each shard is planned.
///
/// Elements are distributed randomly. The additional errors of a shard with more than the mean
/// number of elements exceed those that a shard with fewer elements saves. So each shard is planned
/// for a few more elements, which gives the whole filter the requested error rate.
///
/// Near the expected number, `p = exp(-a n)`, where `a` is `-ln p`. So the mean rate of shards with
/// about `μ ± √μ` elements is that of `μ + (a − 1) / 2` elements.
fn elements_per_shard(layout: &ShardLayout, elements: u64, probability: f64) -> u64 {
    let shards = f64::from(layout.shards);
    let margin = ((-probability.ln() - 1.0) / 2.0 * (1.0 - 1.0 / shards)).max(0.0);
    match elements {
        // A filter for zero elements is invalid, so zero must stay zero.
        0 => 0,
        elements => (elements as f64 / shards + margin).ceil() as u64,
    }
}

sharded_methods!([T, C: Codec] ShardedBloomFilter<T, C>, " (as soon as something is added)");

impl<T, C: Codec + Default> ShardedBloomFilter<T, C> {
    /// Returns the filter with this name.
    ///
    /// No request is sent: an invalid name is reported by the first call. A name with a hash tag is
    /// invalid here.
    pub fn new(client: &Client, name: impl AsRef<str>) -> Self {
        ShardedBloomFilter { sharded: Sharded::new(client, name, C::default()) }
    }
}

impl<T, C: Codec> ShardedBloomFilter<T, C> {
    /// Returns a handle of the same name with another codec. Elements are equal if their encoded
    /// bytes are equal.
    pub fn with_codec<D: Codec>(self, codec: D) -> ShardedBloomFilter<T, D> {
        ShardedBloomFilter { sharded: self.sharded.with_shard_type(codec) }
    }

    /// Creates the filter, if there is none, and returns whether this call has created it.
    ///
    /// The filter has the smallest size for which the probability of a false positive is
    /// `false_probability` when it contains `expected_insertions` elements. The random distribution
    /// of elements over the shards is taken into account.
    ///
    /// The shard layout is stored in one step, and then each shard is created. If this call is
    /// interrupted, a missing shard is created by the first call that needs it.
    ///
    /// # Errors
    ///
    /// [`ObjectError`] states what failed and whether anything may have changed.
    /// [`Failure::InvalidArgument`](crate::Failure::InvalidArgument) for a probability that is not
    /// between 0 and 1, and for numbers that result in shards without bits or with more than
    /// 4,294,967,294 bits (512 MiB).
    ///
    /// [`ObjectError::Shards`] names the shards that could not be created. With
    /// [`Failure::InvalidArgument`](crate::Failure::InvalidArgument) it names shards that were
    /// created with other numbers: they belong to a filter that was deleted while it was in use. In
    /// this case delete the filter, and create it again.
    ///
    /// # Cancel safety
    ///
    /// A request that was already sent is executed even if the future is dropped.
    #[doc(alias = "tryInit")]
    pub async fn try_init(&self, expected_insertions: u64, false_probability: f64) -> Result<bool, ObjectError> {
        let requested =
            ShardLayoutRequest { filter: Some((expected_insertions, false_probability)), ..self.sharded.requested };
        let new_layout = self.sharded.requested_layout(requested)?;
        // Invalid numbers are refused before anything is stored.
        let first = &self.sharded.shards(new_layout).all[0];
        let plan = first
            .planned(elements_per_shard(&new_layout, expected_insertions, false_probability), false_probability)?;
        let (created, shards) = self.sharded.create_layout(requested).await?;
        let Some((elements, probability)) = shards.layout.filter else { return Ok(created) };
        let elements = elements_per_shard(&shards.layout, elements, probability);
        // The plan is computed once for all shards. It is computed again if other numbers were
        // already stored.
        let plan = if (plan.expected_insertions, plan.false_probability) == (elements, probability) {
            plan
        } else {
            first.planned(elements, probability)?
        };
        let create_shard = |shard: BloomFilter<T, C>, ()| async move {
            if shard.try_init_as(&plan).await? {
                return Ok(());
            }
            // The shard already exists. It belongs to this filter, or to an earlier one that was
            // deleted while clients used it. Only the planned numbers are compared; the shard keeps
            // its size.
            let planned_for = |config: &FilterConfig| (config.expected_insertions, config.false_probability);
            match shard.config().await?.filter(|other| planned_for(other) != (elements, probability)) {
                Some(other) => {
                    let expected = format_args!("a filter for {elements} elements and a probability of {probability}");
                    let got = format_args!(
                        "another filter, for {} elements and a probability of {}",
                        other.expected_insertions, other.false_probability
                    );
                    Err(self.sharded.object_ref.invalid("part", expected, got))
                }
                None => Ok(()),
            }
        };
        self.sharded.fan_out(&shards, shards.every_shard(), create_shard).await?;
        Ok(created)
    }

    /// Returns the configuration of the filter; `None` if there is no filter. All shards are read,
    /// because their sizes are added.
    ///
    /// # Errors
    ///
    /// [`ObjectError::Shards`] names the shards that could not be read.
    ///
    /// # Cancel safety
    ///
    /// Dropping the future changes nothing.
    #[doc(alias = "getExpectedInsertions")]
    #[doc(alias = "getFalseProbability")]
    #[doc(alias = "getSize")]
    pub async fn config(&self) -> Result<Option<ShardedFilterConfig>, ObjectError> {
        let Some(shards) = self.sharded.stored_shards().await? else { return Ok(None) };
        let Some((expected_insertions, false_probability)) = shards.layout.filter else { return Ok(None) };
        let size =
            |shard: BloomFilter<T, C>, ()| async move { Ok(shard.config().await?.map_or(0, |config| config.size)) };
        let size = self.sharded.fan_out_sum(&shards, shards.every_shard(), size).await?;
        let count = shards.layout.shards;
        Ok(Some(ShardedFilterConfig { shards: count, size, expected_insertions, false_probability }))
    }

    /// Estimates the number of different elements that were added; [`u64::MAX`] if all bits of a
    /// shard are set.
    ///
    /// # Errors
    ///
    /// [`ObjectError::Absent`] if there is no filter. [`ObjectError::Shards`] names the shards that
    /// could not be read.
    ///
    /// # Cancel safety
    ///
    /// Dropping the future changes nothing.
    pub async fn count(&self) -> Result<u64, ObjectError> {
        let shards = self.filter_shards().await?;
        let layout = shards.layout;
        let count = |shard: BloomFilter<T, C>, ()| async move {
            self.with_shard_created(&layout, &shard, || shard.count()).await
        };
        self.sharded.fan_out_sum(&shards, shards.every_shard(), count).await
    }

    /// Adds an element. Returns whether it was not contained. `true` means that the element is
    /// certainly new.
    ///
    /// `false` means that the element, or other elements with the same bits, were added earlier.
    ///
    /// # Errors
    ///
    /// [`ObjectError`] states what failed and whether anything may have changed.
    /// [`ObjectError::Absent`] if there is no filter. After an unknown outcome, the element may be
    /// added again.
    ///
    /// # Cancel safety
    ///
    /// A request that was already sent is executed even if the future is dropped.
    pub async fn add<Q: ?Sized>(&self, element: &Q) -> Result<bool, ObjectError>
    where
        C: EncodesFor<T, Q>,
    {
        let bytes = self.encode(element)?;
        let shards = self.filter_shards().await?;
        let shard = shards.shard_of(&bytes);
        self.with_shard_created(&shards.layout, &shard, || shard.add(element)).await
    }

    /// Adds elements, to their shards in parallel. A request contains as many elements as have
    /// 5,000 bits together. Returns the number of elements that were not contained.
    ///
    /// # Errors
    ///
    /// [`ObjectError::Absent`] if there is no filter. [`ObjectError::Shards`] names the shards to
    /// which some elements may not have been added.
    ///
    /// # Cancel safety
    ///
    /// As for [`ShardedBloomFilter::add`].
    #[doc(alias = "add")]
    pub async fn add_many<'a, Q: ?Sized + 'a>(
        &self,
        elements: impl IntoIterator<Item = &'a Q>,
    ) -> Result<u64, ObjectError>
    where
        C: EncodesFor<T, Q>,
    {
        let shards = self.filter_shards().await?;
        let (elements, layout) = (shards.group(elements, |element| self.encode(*element))?, shards.layout);
        let add = |shard: BloomFilter<T, C>, (_, elements): (Vec<usize>, Vec<&'a Q>)| async move {
            self.with_shard_created(&layout, &shard, || shard.add_many(elements.iter().copied())).await
        };
        self.sharded.fan_out_sum(&shards, elements, add).await
    }

    /// Returns whether the filter contains an element. `false` is certain; `true` is subject to the
    /// error rate of the filter.
    ///
    /// # Errors
    ///
    /// [`ObjectError`] states what failed. [`ObjectError::Absent`] if there is no filter.
    ///
    /// # Cancel safety
    ///
    /// Dropping the future changes nothing.
    pub async fn contains<Q: ?Sized>(&self, element: &Q) -> Result<bool, ObjectError>
    where
        C: EncodesFor<T, Q>,
    {
        let bytes = self.encode(element)?;
        let shards = self.filter_shards().await?;
        let shard = shards.shard_of(&bytes);
        self.with_shard_created(&shards.layout, &shard, || shard.contains(element)).await
    }

    /// Returns for each element, in their order, whether the filter contains it. The shards are
    /// read in parallel.
    ///
    /// # Errors
    ///
    /// [`ObjectError::Absent`] if there is no filter. [`ObjectError::Shards`] names the shards that
    /// could not be read.
    ///
    /// # Cancel safety
    ///
    /// Dropping the future changes nothing.
    #[doc(alias = "contains")]
    #[doc(alias = "exists")]
    pub async fn contains_many<'a, Q: ?Sized + 'a>(
        &self,
        elements: impl IntoIterator<Item = &'a Q>,
    ) -> Result<Vec<bool>, ObjectError>
    where
        C: EncodesFor<T, Q>,
    {
        let shards = self.filter_shards().await?;
        let (elements, layout) = (shards.group(elements, |element| self.encode(*element))?, shards.layout);
        let call = |shard: BloomFilter<T, C>, elements: Vec<&'a Q>| async move {
            let found = || shard.contains_many(elements.iter().copied());
            self.with_shard_created(&layout, &shard, found).await
        };
        self.sharded.each(&shards, elements, call).await
    }

    fn encode<Q: ?Sized>(&self, element: &Q) -> Result<Bytes, ObjectError>
    where
        C: Encode<Q>,
    {
        self.sharded.object_ref.encoded(&self.sharded.options, element)
    }

    /// Returns the shards of the filter, if it exists.
    async fn filter_shards(&self) -> Result<std::sync::Arc<Shards<BloomFilter<T, C>>>, ObjectError> {
        let shards = self.sharded.shards_to_read().await?;
        match shards.layout.filter {
            Some(_) => Ok(shards),
            None => Err(self.absent_error()?),
        }
    }

    fn absent_error(&self) -> Result<ObjectError, ObjectError> {
        Ok(ObjectError::Absent { name: self.sharded.object_ref.name_and_key()?.0.clone() })
    }

    /// Runs a call on a shard. Creates the shard if it is missing and the filter exists.
    ///
    /// It does not take an `AsyncFn`, because the futures of its callers would not be `Send`.
    async fn with_shard_created<R, F>(
        &self,
        layout: &ShardLayout,
        shard: &BloomFilter<T, C>,
        call: impl Fn() -> F,
    ) -> Result<R, ObjectError>
    where
        F: Future<Output = Result<R, ObjectError>>,
    {
        match call().await {
            Err(ObjectError::Absent { .. }) => {}
            result => return result,
        }
        // The layout is read from the server, because the filter may have been deleted.
        let stored = self.sharded.stored_shards().await?.map(|shards| shards.layout);
        match stored.and_then(|stored| stored.filter).filter(|_| stored == Some(*layout)) {
            Some((elements, probability)) => {
                shard.try_init(elements_per_shard(layout, elements, probability), probability).await?;
                call().await
            }
            None => Err(self.absent_error()?),
        }
    }
}

redgrid_core::debug_fields!([T, C: Codec] ShardedBloomFilter<T, C>, |it|
    name: it.sharded.object_ref.name(), codec: it.sharded.options
);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shards_are_planned_for_slightly_more_than_their_share() {
        let layout = |shards| ShardLayout { kind: Kind::Filter, shards, size: 0, filter: None };
        assert_eq!(elements_per_shard(&layout(1), 1000, 0.01), 1000);
        assert_eq!(elements_per_shard(&layout(16), 1600, 0.01), 102);
        assert_eq!(elements_per_shard(&layout(16), 1600, 0.9), 100);
        assert_eq!(elements_per_shard(&layout(1024), 1 << 40, 0.01), (1 << 30) + 2);
    }
}
