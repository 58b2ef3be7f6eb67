//! The sharded Bloom filter.

use std::borrow::Borrow;
use std::fmt;

use bytes::Bytes;
use redgrid_bits::{BloomFilter, FilterConfig};
use redgrid_codecs::{Codec, Encode, Raw};
use redgrid_core::Client;
use redgrid_core::object::ObjectError;

use crate::layout::{Kind, Layout, Wish};
use crate::object::ShardedObject;
use crate::spread::{ByPart, Part, Parts, Spread, by_part, in_order};

/// What a sharded filter was made for, and what it is.
#[derive(Debug, Clone, Copy, PartialEq)]
#[non_exhaustive]
pub struct ShardedFilterConfig {
    /// Into how many parts it is divided.
    pub shards: u32,
    /// How many bits all parts have together.
    pub size: u64,
    /// How many elements it was made for.
    pub expected_insertions: u64,
    /// Which share of what is not in it is found all the same, when it has as many elements as were expected.
    pub false_probability: f64,
}

/// The type, with the codec of one that names none: there is one only with the feature `json`, so that which bits an element has never depends
/// on the features that others ask for.
macro_rules! sharded_bloom_filter {
    ($($codec:tt)*) => {
        /// A set that answers "not in it" for certain and "in it" with a known share of errors, of parts that are filters of their own: so it
        /// may be larger than a string of the server.
        ///
        /// Cheap to clone; clones are the same filter, and share what they know of its size: make one and clone it. What is added can not be
        /// taken out.
        #[doc(alias = "RClusteredBloomFilter")]
        pub struct ShardedBloomFilter<T, C: Codec $($codec)*> {
            spread: Spread<BloomFilter<T, C>>,
        }
    };
}

#[cfg(feature = "json")]
sharded_bloom_filter!(= redgrid_codecs::Json);
#[cfg(not(feature = "json"))]
sharded_bloom_filter!();

impl<T, C: Codec> Part for BloomFilter<T, C> {
    type With = C;

    fn kind(_with: &C) -> Kind {
        Kind::Filter
    }

    fn new(client: &Client, name: String, with: &C) -> Self {
        BloomFilter::<T, Raw>::new(client, name).with_codec(with.clone())
    }
}

/// For how many elements each part is made. Elements fall on parts by chance, and a part with more than its share finds more than one with less
/// finds less: by so much each is made a little larger that all together find what was asked for. With `p = exp(-a n)` near the expected number, the
/// mean over parts of about μ ± √μ elements is that of μ + (a − 1) / 2 of them, where a is -ln p.
fn each(layout: &Layout, elements: u64, share: f64) -> u64 {
    let parts = f64::from(layout.shards);
    let more = ((-share.ln() - 1.0) / 2.0 * (1.0 - 1.0 / parts)).max(0.0);
    match elements {
        // Of none there can be no filter.
        0 => 0,
        elements => (elements as f64 / parts + more).ceil() as u64,
    }
}

impl<T, C: Codec + Default> ShardedBloomFilter<T, C> {
    /// The filter with this name. Making one asks nobody: an invalid name, which one with a hash tag is here, is told by the first call.
    pub fn new(client: &Client, name: impl AsRef<str>) -> Self {
        ShardedBloomFilter { spread: Spread::new(client, name, C::default()) }
    }
}

impl<T, C: Codec> ShardedBloomFilter<T, C> {
    /// The same name with another codec: elements are equal whose bytes are.
    pub fn with_codec<D: Codec>(self, codec: D) -> ShardedBloomFilter<T, D> {
        ShardedBloomFilter { spread: self.spread.by(codec) }
    }

    /// Divided into so many parts, a power of two of up to 1,024; 16 where it is not said. Where it is divided into another number already, calls end
    /// [`ObjectError::InvalidArgument`]: what is stored is not divided anew.
    pub fn with_shards(mut self, shards: u32) -> Self {
        self.spread.wish.shards = Some(shards);
        self
    }

    /// What is asked of all parts alike: whether they are there (once something was added), their lifetime, their deletion.
    pub fn object(&self) -> ShardedObject {
        ShardedObject::of(&self.spread)
    }

    /// Makes the filter, if there is none: of the fewest bits by which, when `expected_insertions` are in it, a share of
    /// `false_probability` of all others is found as well, with as many elements in each part as chance gives it. Tells whether it did.
    ///
    /// What it is for is said in one step, and then each part is made: one that is missing, as this call was cut short, is made by whoever needs it.
    ///
    /// # Errors
    ///
    /// [`ObjectError`] says what is true then. A share that is not between 0 and 1, and numbers by which a part would have no bits or more than
    /// 4,294,967,294 (512 MiB), are [`ObjectError::InvalidArgument`]. [`ObjectError::Shards`] names the parts that could not be made, and those that
    /// were made for other numbers, which is [`ObjectError::InvalidArgument`]: of a filter that was deleted while somebody used it. Delete it then, and make it
    /// anew.
    ///
    /// # Cancel safety
    ///
    /// What has left is carried out although nobody waits for it.
    #[doc(alias = "tryInit")]
    pub async fn try_init(&self, expected_insertions: u64, false_probability: f64) -> Result<bool, ObjectError> {
        let wish = Wish { filter: Some((expected_insertions, false_probability)), ..self.spread.wish };
        let wished = self.spread.wished(wish)?;
        // What can not be is to be refused before anything is said.
        let first = &self.spread.parts(wished).all[0];
        let plan = first.planned(each(&wished, expected_insertions, false_probability), false_probability)?;
        let (said, parts) = self.spread.agree(wish).await?;
        let Some((elements, share)) = parts.layout.filter else { return Ok(said) };
        let elements = each(&parts.layout, elements, share);
        // Reckoned once for all parts; once more where others had said other numbers before.
        let plan = match (plan.expected_insertions, plan.false_probability) == (elements, share) {
            true => plan,
            false => first.planned(elements, share)?,
        };
        let make = |part: BloomFilter<T, C>, ()| async move {
            if part.try_init_as(&plan).await? {
                return Ok(());
            }
            // It was there, of this filter or of one that was deleted while somebody used it.
            // By what it was made for: each goes by the size that was chosen then.
            let made_for = |config: &FilterConfig| (config.expected_insertions, config.false_probability);
            match part.config().await?.filter(|is| made_for(is) != (elements, share)) {
                Some(is) => {
                    let expected = format_args!("one for {elements} elements and a share of {share}");
                    let got = format_args!(
                        "one of another filter, for {} and {}",
                        is.expected_insertions, is.false_probability
                    );
                    Err(self.spread.place.invalid("part", expected, got))
                }
                None => Ok(()),
            }
        };
        self.spread.each(&parts, parts.every(), make).await?;
        Ok(said)
    }

    /// What the filter was made for, and what it is; `None` where there is none. All parts are asked for their sizes.
    ///
    /// # Errors
    ///
    /// [`ObjectError::Shards`] names the parts that could not be asked.
    ///
    /// # Cancel safety
    ///
    /// Dropping it changes nothing.
    #[doc(alias = "getExpectedInsertions")]
    #[doc(alias = "getFalseProbability")]
    #[doc(alias = "getSize")]
    pub async fn config(&self) -> Result<Option<ShardedFilterConfig>, ObjectError> {
        let Some(parts) = self.spread.agreed().await? else { return Ok(None) };
        let Some((expected_insertions, false_probability)) = parts.layout.filter else { return Ok(None) };
        let size =
            |part: BloomFilter<T, C>, ()| async move { Ok(part.config().await?.map_or(0, |config| config.size)) };
        let size = self.spread.sum(&parts, parts.every(), size).await?;
        let shards = parts.layout.shards;
        Ok(Some(ShardedFilterConfig { shards, size, expected_insertions, false_probability }))
    }

    /// About how many different elements were added; [`u64::MAX`] where all bits of a part are set.
    ///
    /// # Errors
    ///
    /// [`ObjectError::Absent`] where there is no filter, [`ObjectError::Shards`] names the parts that could not be asked.
    ///
    /// # Cancel safety
    ///
    /// Dropping it changes nothing.
    pub async fn count(&self) -> Result<u64, ObjectError> {
        let parts = self.filter().await?;
        let layout = parts.layout;
        let count =
            |part: BloomFilter<T, C>, ()| async move { self.made(&layout, &part, async || part.count().await).await };
        self.spread.sum(&parts, parts.every(), count).await
    }

    /// Adds an element; tells whether it was not in it: then it is new for certain. `false` is that it, or others with the same bits, were
    /// added before.
    ///
    /// # Errors
    ///
    /// [`ObjectError`] says what is true then; [`ObjectError::Absent`] where there is no filter. What ended unknown may be added again.
    ///
    /// # Cancel safety
    ///
    /// What has left is carried out although nobody waits for it.
    pub async fn add<Q: ?Sized>(&self, element: &Q) -> Result<bool, ObjectError>
    where
        T: Borrow<Q>,
        C: Encode<Q>,
    {
        let bytes = self.encoded(element)?;
        let parts = self.filter().await?;
        let part = parts.of(&bytes);
        self.made(&parts.layout, &part, async || part.add(element).await).await
    }

    /// Adds many: the parts that have them are asked at the same time, each for as many at a time as have 5,000 bits together. Tells how many were
    /// not in it.
    ///
    /// # Errors
    ///
    /// [`ObjectError::Absent`] where there is no filter, [`ObjectError::Shards`] names the parts to which some may not be added.
    ///
    /// # Cancel safety
    ///
    /// As [`ShardedBloomFilter::add`].
    #[doc(alias = "add")]
    pub async fn add_many<'a, Q: ?Sized + 'a>(
        &self,
        elements: impl IntoIterator<Item = &'a Q>,
    ) -> Result<u64, ObjectError>
    where
        T: Borrow<Q>,
        C: Encode<Q>,
    {
        let parts = self.filter().await?;
        let (elements, layout) = (self.divided(&parts, elements)?, parts.layout);
        let add = |part: BloomFilter<T, C>, elements: Vec<(usize, &'a Q)>| async move {
            self.made(&layout, &part, async || part.add_many(elements.iter().map(|(_, element)| *element)).await).await
        };
        self.spread.sum(&parts, elements, add).await
    }

    /// Whether an element is in it: `false` for certain, `true` but for the share of errors that it was made with.
    ///
    /// # Errors
    ///
    /// [`ObjectError`] says what is true then; [`ObjectError::Absent`] where there is no filter.
    ///
    /// # Cancel safety
    ///
    /// Dropping it changes nothing.
    pub async fn contains<Q: ?Sized>(&self, element: &Q) -> Result<bool, ObjectError>
    where
        T: Borrow<Q>,
        C: Encode<Q>,
    {
        let bytes = self.encoded(element)?;
        let parts = self.filter().await?;
        let part = parts.of(&bytes);
        self.made(&parts.layout, &part, async || part.contains(element).await).await
    }

    /// Whether each of these is in it, in their order: the parts that would have them are asked at the same time.
    ///
    /// # Errors
    ///
    /// [`ObjectError::Absent`] where there is no filter, [`ObjectError::Shards`] names the parts that could not be asked.
    ///
    /// # Cancel safety
    ///
    /// Dropping it changes nothing.
    #[doc(alias = "contains")]
    #[doc(alias = "exists")]
    pub async fn contains_many<'a, Q: ?Sized + 'a>(
        &self,
        elements: impl IntoIterator<Item = &'a Q>,
    ) -> Result<Vec<bool>, ObjectError>
    where
        T: Borrow<Q>,
        C: Encode<Q>,
    {
        let parts = self.filter().await?;
        let (elements, layout) = (self.divided(&parts, elements)?, parts.layout);
        let ask = |part: BloomFilter<T, C>, elements: Vec<(usize, &'a Q)>| async move {
            let found = async || part.contains_many(elements.iter().map(|(_, element)| *element)).await;
            let found = self.made(&layout, &part, found).await?;
            Ok(elements.iter().map(|(at, _)| *at).zip(found).collect())
        };
        Ok(in_order(self.spread.each(&parts, elements, ask).await?))
    }

    fn encoded<Q: ?Sized>(&self, element: &Q) -> Result<Bytes, ObjectError>
    where
        C: Encode<Q>,
    {
        self.spread.place.encoded(&self.spread.with, element)
    }

    /// Elements by the parts that have them.
    fn divided<'a, Q: ?Sized + 'a>(
        &self,
        parts: &Parts<BloomFilter<T, C>>,
        elements: impl IntoIterator<Item = &'a Q>,
    ) -> Result<ByPart<&'a Q>, ObjectError>
    where
        C: Encode<Q>,
    {
        let part = |element: &'a Q| Ok((parts.layout.part_of(&self.encoded(element)?), element));
        Ok(by_part(elements.into_iter().map(part).collect::<Result<Vec<_>, ObjectError>>()?))
    }

    /// The parts of the filter, if there is one.
    async fn filter(&self) -> Result<std::sync::Arc<Parts<BloomFilter<T, C>>>, ObjectError> {
        let parts = self.spread.to_read().await?;
        match parts.layout.filter {
            Some(_) => Ok(parts),
            None => Err(self.absent()?),
        }
    }

    fn absent(&self) -> Result<ObjectError, ObjectError> {
        Ok(ObjectError::Absent { name: self.spread.place.named()?.0.clone() })
    }

    /// Asks a part, which is made if the filter is there and it is not.
    async fn made<R>(
        &self,
        layout: &Layout,
        part: &BloomFilter<T, C>,
        ask: impl AsyncFn() -> Result<R, ObjectError>,
    ) -> Result<R, ObjectError> {
        match ask().await {
            Err(ObjectError::Absent { .. }) => {}
            told => return told,
        }
        // The server's word: it may be deleted.
        let now = self.spread.agreed().await?.map(|parts| parts.layout);
        match now.and_then(|now| now.filter).filter(|_| now == Some(*layout)) {
            Some((elements, share)) => {
                part.try_init(each(layout, elements, share), share).await?;
                ask().await
            }
            None => Err(self.absent()?),
        }
    }
}

impl<T, C: Codec> Clone for ShardedBloomFilter<T, C> {
    fn clone(&self) -> Self {
        ShardedBloomFilter { spread: self.spread.clone() }
    }
}

impl<T, C: Codec> fmt::Debug for ShardedBloomFilter<T, C> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut shown = f.debug_struct("ShardedBloomFilter");
        shown.field("name", &self.spread.place.name()).field("codec", &self.spread.with).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_are_made_for_a_little_more_than_their_share() {
        let layout = |shards| Layout { kind: Kind::Filter, shards, size: 0, filter: None };
        assert_eq!(each(&layout(1), 1000, 0.01), 1000);
        assert_eq!(each(&layout(16), 1600, 0.01), 102);
        assert_eq!(each(&layout(16), 1600, 0.9), 100);
        assert_eq!(each(&layout(1024), 1 << 40, 0.01), (1 << 30) + 2);
    }
}
