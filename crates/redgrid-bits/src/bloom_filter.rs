//! The Bloom filter.

use std::marker::PhantomData;
use std::sync::{Arc, Mutex, PoisonError};

use bytes::Bytes;
use redgrid_codecs::{Codec, Encode, EncodesFor};
use redgrid_core::name::suffixed;
use redgrid_core::object::layouts::bloom_filter;
use redgrid_core::object::{CasLoop, Object, ObjectError, ObjectRef};
use redgrid_core::{Client, FromReply, Request, Script};

use crate::shape::{FilterConfig, MAX_SIZE, Shape};

static INIT: Script<1> = Script::new("bits/filter_init", include_str!("scripts/filter_init.lua"));
static ADD: Script<2> = Script::new("bits/filter_add", include_str!("scripts/filter_add.lua"));
static CONTAINS: Script<2> = Script::new("bits/filter_contains", include_str!("scripts/filter_contains.lua"));
static COUNT: Script<2> = Script::new("bits/filter_count", include_str!("scripts/filter_count.lua"));

/// The maximum number of bits that one script reads or sets, for which the server needs some
/// milliseconds. The bits of one element are never split.
const MAX_SCRIPT_BITS: u32 = 5_000;

/// Returns the key of the configuration.
fn config_key(key: &[u8]) -> Bytes {
    suffixed(key, "config")
}

redgrid_core::default_codec! {
    /// A probabilistic set: "not contained" is certain, and "contained" has a known error rate. It
    /// needs a few bits for each element.
    ///
    /// On the wire it is Redisson's `RBloomFilter`: clients of both find each other's elements if
    /// they use the same codec.
    ///
    /// It is cheap to clone; clones are handles of the same filter and share its cached size:
    /// create one and clone it. Elements cannot be removed.
    #[doc(alias = "RBloomFilter")]
    #[doc(alias = "RedissonBloomFilter")]
    pub struct BloomFilter<T; C> {
        object_ref: ObjectRef,
        codec: C,
        cached_shape: Arc<Mutex<Option<Shape>>>,
        elements: PhantomData<fn() -> T>,
    }
}

impl<T, C: Codec + Default> BloomFilter<T, C> {
    /// Returns the filter with this name.
    ///
    /// No request is sent: an invalid name is reported by the first call.
    pub fn new(client: &Client, name: impl AsRef<str>) -> Self {
        let object_ref = ObjectRef::new(client, name);
        BloomFilter { object_ref, codec: C::default(), cached_shape: Arc::default(), elements: PhantomData }
    }
}

impl<T, C: Codec> BloomFilter<T, C> {
    /// Returns a handle of the same name with another codec. Elements are equal if their encoded
    /// bytes are equal.
    pub fn with_codec<D: Codec>(self, codec: D) -> BloomFilter<T, D> {
        BloomFilter { object_ref: self.object_ref, codec, cached_shape: self.cached_shape, elements: PhantomData }
    }

    /// Returns the [`Object`] of both keys: existence, lifetime, other names, memory size. The
    /// object exists as soon as the filter is created.
    pub fn object(&self) -> Object {
        self.object_ref.object(bloom_filter).with_primary_keys(2)
    }

    /// Creates the filter, if there is none, and returns whether this call has created it.
    ///
    /// The filter has the smallest size for which the probability of a false positive is
    /// `false_probability` when it contains `expected_insertions` elements. This size is 4 to 6 %
    /// larger than that of Redisson, whose filters have a higher error rate than requested. The
    /// difference is larger for few elements or a small probability. Each side uses the size that
    /// the other has chosen.
    ///
    /// # Errors
    ///
    /// [`ObjectError`] states what failed and whether anything may have changed.
    /// [`Failure::InvalidArgument`](crate::Failure::InvalidArgument) for a probability that is not
    /// between 0 and 1, and for numbers that result in no bits or in more than 4,294,967,294 bits
    /// (512 MiB).
    ///
    /// # Cancel safety
    ///
    /// A request that was already sent is executed even if the future is dropped.
    #[doc(alias = "tryInit")]
    pub async fn try_init(&self, expected_insertions: u64, false_probability: f64) -> Result<bool, ObjectError> {
        self.try_init_as(&self.planned(expected_insertions, false_probability)?).await
    }

    /// Creates the filter, if there is none, from a [plan](BloomFilter::planned) or from the
    /// [`config`](BloomFilter::config) of another filter. Returns whether this call has created it.
    ///
    /// For several equal filters, the size is computed only once; the computation takes some
    /// milliseconds.
    ///
    /// ```no_run
    /// # use redgrid_bits::{BloomFilter, ObjectError, codecs::Text};
    /// # async fn demo(days: &[BloomFilter<String, Text>]) -> Result<(), ObjectError> {
    /// let plan = days[0].planned(1_000_000, 0.01)?;
    /// for day in days {
    ///     day.try_init_as(&plan).await?;
    /// }
    /// # Ok(()) }
    /// ```
    ///
    /// # Errors
    ///
    /// [`ObjectError`] states what failed and whether anything may have changed.
    /// [`Failure::InvalidArgument`](crate::Failure::InvalidArgument) for an invalid configuration.
    ///
    /// # Cancel safety
    ///
    /// As for [`BloomFilter::try_init`].
    pub async fn try_init_as(&self, plan: &FilterConfig) -> Result<bool, ObjectError> {
        let Shape { size, hashes } = self.checked_shape(plan.size, plan.hash_iterations.into())?;
        let (_, key) = self.object_ref.name_and_key()?;
        let request = INIT.with([config_key(key)]).arg(size.to_string()).int(hashes.into());
        let request = request.arg(plan.expected_insertions.to_string()).arg(plan.false_probability.to_string());
        self.object_ref.change(request).await
    }

    /// Returns the configuration that [`BloomFilter::try_init`] would choose, without sending a
    /// request.
    ///
    /// # Errors
    ///
    /// [`Failure::InvalidArgument`](crate::Failure::InvalidArgument) as for `try_init`.
    pub fn planned(&self, expected_insertions: u64, false_probability: f64) -> Result<FilterConfig, ObjectError> {
        if !(false_probability > 0.0 && false_probability < 1.0) {
            return Err(self.object_ref.invalid("false probability", "more than 0 and less than 1", false_probability));
        }
        let config = FilterConfig::plan(expected_insertions, false_probability);
        if !(1..=MAX_SIZE).contains(&config.size) {
            let (got, expected) =
                (format!("{} of them", config.size), format_args!("numbers that make 1 to {MAX_SIZE} bits"));
            return Err(self.object_ref.invalid("size", expected, got));
        }
        Ok(config)
    }

    /// Returns the configuration of the filter; `None` if there is no filter.
    ///
    /// # Errors
    ///
    /// [`ObjectError`] states what failed and whether anything may have changed.
    ///
    /// # Cancel safety
    ///
    /// Dropping the future changes nothing.
    #[doc(alias = "getExpectedInsertions")]
    #[doc(alias = "getFalseProbability")]
    #[doc(alias = "getSize")]
    #[doc(alias = "getHashIterations")]
    pub async fn config(&self) -> Result<Option<FilterConfig>, ObjectError> {
        let (_, key) = self.object_ref.name_and_key()?;
        let names = ["size", "hashIterations", "expectedInsertions", "falseProbability"];
        let request = names.into_iter().fold(Request::command("HMGET").key(config_key(key)), Request::arg);
        let found: (Option<u64>, Option<u64>, Option<u64>, Option<f64>) = self.object_ref.read(request).await?;
        let (Some(size), Some(hashes), expected_insertions, false_probability) = found else { return Ok(None) };
        let Shape { size, hashes } = self.checked_shape(size, hashes)?;
        Ok(Some(FilterConfig {
            size,
            hash_iterations: hashes,
            expected_insertions: expected_insertions.unwrap_or_default(),
            false_probability: false_probability.unwrap_or_default(),
        }))
    }

    /// Estimates the number of different elements that were added; [`u64::MAX`] if all bits are
    /// set.
    ///
    /// # Errors
    ///
    /// [`ObjectError`] states what failed. [`ObjectError::Absent`] if there is no filter.
    ///
    /// # Cancel safety
    ///
    /// Dropping the future changes nothing.
    pub async fn count(&self) -> Result<u64, ObjectError> {
        let (_, key) = self.object_ref.name_and_key()?;
        let found = self.object_ref.read(COUNT.with([config_key(key), key.clone()])).await?;
        let (Some(size), Some(hashes), bits): (Option<u64>, Option<u64>, u64) = found else {
            return Err(self.absent_error());
        };
        Ok(self.checked_shape(size, hashes)?.elements(bits))
    }

    fn absent_error(&self) -> ObjectError {
        match self.object_ref.name_and_key() {
            Ok((name, _)) => ObjectError::Absent { name: name.clone() },
            Err(invalid) => invalid,
        }
    }

    fn checked_shape(&self, size: u64, hashes: u64) -> Result<Shape, ObjectError> {
        match u32::try_from(hashes) {
            Ok(hashes) if (1..=MAX_SCRIPT_BITS).contains(&hashes) && (1..=1 << 32).contains(&size) => {
                Ok(Shape { size, hashes })
            }
            _ => {
                let got = format_args!("{size} bits, with {hashes} for each element");
                Err(self.object_ref.invalid("configuration", "a filter of 1 to 4294967296 bits", got))
            }
        }
    }

    /// Returns the cached shape, or reads it from the primary.
    async fn shape(&self) -> Result<Shape, ObjectError> {
        let cached_shape = *self.cached_shape.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(shape) = cached_shape {
            return Ok(shape);
        }
        let (_, key) = self.object_ref.name_and_key()?;
        let request = Request::command("HMGET").key(config_key(key)).arg("size").arg("hashIterations");
        let found = self.object_ref.read_primary(request).await?;
        let (Some(size), Some(hashes)): (Option<u64>, Option<u64>) = found else { return Err(self.absent_error()) };
        let shape = self.checked_shape(size, hashes)?;
        self.cache_shape(Some(shape));
        Ok(shape)
    }

    fn cache_shape(&self, shape: Option<Shape>) {
        *self.cached_shape.lock().unwrap_or_else(PoisonError::into_inner) = shape;
    }

    /// Sends the elements in chunks, with the shape of the filter. A chunk is sent again if the
    /// shape has changed meanwhile.
    async fn send_in_chunks<R: FromReply, A>(
        &self,
        script: &'static Script<2>,
        elements: &[Bytes],
        is_read: bool,
        mut accept: impl FnMut(R) -> Option<A>,
        mut on_reply: impl FnMut(A),
    ) -> Result<(), ObjectError> {
        let (name, key) = self.object_ref.name_and_key()?;
        let (mut rest, mut cas_loop) = (elements, CasLoop::new(self.object_ref.client(), name));
        // After a reply that the shape is different or that there is no filter, only the primary is
        // read.
        let mut from_replicas = true;
        while !rest.is_empty() {
            let shape = self.shape().await?;
            let (chunk, remaining) = rest.split_at(rest.len().min((MAX_SCRIPT_BITS / shape.hashes) as usize));
            let request = script.with([config_key(key), key.clone()]);
            let request = request.arg(shape.size.to_string()).int(shape.hashes.into());
            let indices = chunk.iter().flat_map(|element| shape.indices(element));
            let request = indices.fold(request, |request, index| request.arg(index.to_string()));
            let reply = match is_read {
                true if from_replicas => self.object_ref.read(request).await?,
                true => self.object_ref.read_primary(request).await?,
                false => self.object_ref.change(request).await?,
            };
            match accept(reply) {
                Some(reply) => {
                    on_reply(reply);
                    rest = remaining;
                    cas_loop = CasLoop::new(self.object_ref.client(), name);
                }
                None => {
                    self.cache_shape(None);
                    from_replicas = false;
                    cas_loop.lost().await?;
                }
            }
        }
        Ok(())
    }

    /// Encodes elements.
    fn encode_all<'a, Q: ?Sized + 'a>(
        &self,
        elements: impl IntoIterator<Item = &'a Q>,
    ) -> Result<Vec<Bytes>, ObjectError>
    where
        C: Encode<Q>,
    {
        self.object_ref.encoded_all(&self.codec, elements)
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
        Ok(self.add_many([element]).await? > 0)
    }

    /// Adds elements. A request contains as many elements as have 5,000 bits together. Returns the
    /// number of elements that were not contained.
    ///
    /// # Errors
    ///
    /// As for [`BloomFilter::add`]. Some of the elements may have been added.
    ///
    /// # Cancel safety
    ///
    /// As for [`BloomFilter::add`].
    #[doc(alias = "add")]
    pub async fn add_many<'a, Q: ?Sized + 'a>(
        &self,
        elements: impl IntoIterator<Item = &'a Q>,
    ) -> Result<u64, ObjectError>
    where
        C: EncodesFor<T, Q>,
    {
        let (elements, mut new) = (self.encode_all(elements)?, 0);
        self.send_in_chunks(&ADD, &elements, false, |reply: i64| u64::try_from(reply).ok(), |added| new += added)
            .await?;
        Ok(new)
    }

    /// Returns whether the filter contains an element. `false` is certain; `true` is subject to the
    /// error rate of the filter.
    ///
    /// If the client reads from replicas, `false` refers to the replica, which may lack the latest
    /// additions.
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
        Ok(self.contains_many([element]).await?.contains(&true))
    }

    /// Returns for each element, in their order, whether the filter contains it. A request contains
    /// as many elements as have 5,000 bits together.
    ///
    /// # Errors and cancel safety
    ///
    /// As for [`BloomFilter::contains`].
    #[doc(alias = "contains")]
    #[doc(alias = "exists")]
    pub async fn contains_many<'a, Q: ?Sized + 'a>(
        &self,
        elements: impl IntoIterator<Item = &'a Q>,
    ) -> Result<Vec<bool>, ObjectError>
    where
        C: EncodesFor<T, Q>,
    {
        let (elements, mut found) = (self.encode_all(elements)?, Vec::new());
        let accept = |reply: Bytes| (!reply.is_empty()).then_some(reply);
        self.send_in_chunks(&CONTAINS, &elements, true, accept, |reply| {
            found.extend(reply.iter().map(|one| *one == b'1'))
        })
        .await?;
        Ok(found)
    }
}

redgrid_core::clone_fields!([T, C: Clone] BloomFilter<T, C> { object_ref, codec, cached_shape, elements });

redgrid_core::debug_fields!([T, C: std::fmt::Debug] BloomFilter<T, C>, |it|
    name: it.object_ref.name(), codec: it.codec
);
