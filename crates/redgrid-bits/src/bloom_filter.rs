//! The Bloom filter.

use std::borrow::Borrow;
use std::fmt;
use std::marker::PhantomData;
use std::sync::{Arc, Mutex, PoisonError};

use bytes::Bytes;
use redgrid_codecs::{Codec, Encode};
use redgrid_core::name::suffixed;
use redgrid_core::object::layouts::bloom_filter;
use redgrid_core::object::{Object, ObjectError, Place, Rounds};
use redgrid_core::{Client, FromReply, Request, Script};

use crate::shape::{FilterConfig, LARGEST, Shape};

static INIT: Script<1> = Script::new("bits/filter_init", include_str!("scripts/filter_init.lua"));
static ADD: Script<2> = Script::new("bits/filter_add", include_str!("scripts/filter_add.lua"));
static CONTAINS: Script<2> = Script::new("bits/filter_contains", include_str!("scripts/filter_contains.lua"));
static COUNT: Script<2> = Script::new("bits/filter_count", include_str!("scripts/filter_count.lua"));

/// How many bits one script looks at or sets, at most: some milliseconds of the server's time. One element is never divided.
const BITS_AT_ONCE: u32 = 5_000;

/// Where it is said what a filter is.
fn config_key(key: &[u8]) -> Bytes {
    suffixed(key, "config")
}

/// The type, with the codec of one that names none: there is one only with the feature `json`, so that which bits an element has never depends
/// on the features that others ask for.
macro_rules! bloom_filter {
    ($($codec:tt)*) => {
        /// A set that answers "not in it" for certain and "in it" with a known share of errors, in a few bits for each element. Redisson's
        /// `RBloomFilter` on the wire: both sides find what either adds, where they name the same codec.
        ///
        /// Cheap to clone; clones are the same filter, and share what they know of its size: make one and clone it. What is added can not
        /// be taken out.
        #[doc(alias = "RBloomFilter")]
        #[doc(alias = "RedissonBloomFilter")]
        pub struct BloomFilter<T, C $($codec)*> {
            place: Place,
            codec: C,
            known: Arc<Mutex<Option<Shape>>>,
            elements: PhantomData<fn() -> T>,
        }
    };
}

#[cfg(feature = "json")]
bloom_filter!(= redgrid_codecs::Json);
#[cfg(not(feature = "json"))]
bloom_filter!();

impl<T, C: Codec + Default> BloomFilter<T, C> {
    /// The filter with this name. Making one asks nobody: an invalid name is told by the first call.
    pub fn new(client: &Client, name: impl AsRef<str>) -> Self {
        let place = Place::new(client, name);
        BloomFilter { place, codec: C::default(), known: Arc::default(), elements: PhantomData }
    }
}

impl<T, C: Codec> BloomFilter<T, C> {
    /// The same name with another codec: elements are equal whose bytes are.
    pub fn with_codec<D: Codec>(self, codec: D) -> BloomFilter<T, D> {
        BloomFilter { place: self.place, codec, known: self.known, elements: PhantomData }
    }

    /// What every object has, of both keys: whether it exists (once it is made), its lifetime, other names, its size in memory.
    pub fn object(&self) -> Object {
        self.place.object(bloom_filter).and_faces(2)
    }

    /// Makes the filter, if there is none: of the fewest bits by which, when `expected_insertions` are in it, a share of
    /// `false_probability` of all others is found as well. Tells whether it did.
    ///
    /// It is 4 to 6 % larger than Redisson would make it, and more than that for few elements or a small share: Redisson's finds more than was asked
    /// for. Either side goes by what the other has made.
    ///
    /// # Errors
    ///
    /// [`ObjectError`] says what is true then. A share that is not between 0 and 1, and numbers by which it would have no bits or more than
    /// 4,294,967,294 (512 MiB), are [`ObjectError::InvalidArgument`].
    ///
    /// # Cancel safety
    ///
    /// What has left is carried out although nobody waits for it.
    #[doc(alias = "tryInit")]
    pub async fn try_init(&self, expected_insertions: u64, false_probability: f64) -> Result<bool, ObjectError> {
        self.try_init_as(&self.planned(expected_insertions, false_probability)?).await
    }

    /// The same by what was [planned](BloomFilter::planned) before, or is the [`config`](BloomFilter::config) of another filter: of several
    /// that are alike the size is reckoned once, which takes some milliseconds.
    ///
    /// ```no_run
    /// # async fn demo(days: &[redgrid_bits::BloomFilter<String, redgrid_bits::codecs::Text>]) -> Result<(), redgrid_bits::ObjectError> {
    /// let plan = days[0].planned(1_000_000, 0.01)?;
    /// for day in days {
    ///     day.try_init_as(&plan).await?;
    /// }
    /// # Ok(()) }
    /// ```
    ///
    /// # Errors
    ///
    /// [`ObjectError`] says what is true then; a filter that can not be is [`ObjectError::InvalidArgument`].
    ///
    /// # Cancel safety
    ///
    /// As [`BloomFilter::try_init`].
    pub async fn try_init_as(&self, plan: &FilterConfig) -> Result<bool, ObjectError> {
        let Shape { size, hashes } = self.shape_of(plan.size, plan.hash_iterations.into())?;
        let (_, key) = self.place.named()?;
        let request = INIT.with([config_key(key)]).arg(size.to_string()).int(hashes.into());
        let request = request.arg(plan.expected_insertions.to_string()).arg(plan.false_probability.to_string());
        self.place.change(request).await
    }

    /// What [`BloomFilter::try_init`] would make of these numbers. Asks nobody.
    ///
    /// # Errors
    ///
    /// [`ObjectError::InvalidArgument`] of numbers that `try_init` refuses.
    pub fn planned(&self, expected_insertions: u64, false_probability: f64) -> Result<FilterConfig, ObjectError> {
        if !(false_probability > 0.0 && false_probability < 1.0) {
            return Err(self.place.invalid("false probability", "more than 0 and less than 1", false_probability));
        }
        let config = FilterConfig::of(expected_insertions, false_probability);
        if !(1..=LARGEST).contains(&config.size) {
            let (got, expected) =
                (format!("{} of them", config.size), format_args!("numbers that make 1 to {LARGEST} bits"));
            return Err(self.place.invalid("size", expected, got));
        }
        Ok(config)
    }

    /// What the filter was made for, and what it is; `None` where there is none.
    ///
    /// # Errors
    ///
    /// [`ObjectError`] says what is true then.
    ///
    /// # Cancel safety
    ///
    /// Dropping it changes nothing.
    #[doc(alias = "getExpectedInsertions")]
    #[doc(alias = "getFalseProbability")]
    #[doc(alias = "getSize")]
    #[doc(alias = "getHashIterations")]
    pub async fn config(&self) -> Result<Option<FilterConfig>, ObjectError> {
        let (_, key) = self.place.named()?;
        let names = ["size", "hashIterations", "expectedInsertions", "falseProbability"];
        let request = names.into_iter().fold(Request::command("HMGET").key(config_key(key)), Request::arg);
        let found: (Option<u64>, Option<u64>, Option<u64>, Option<f64>) = self.place.read(request).await?;
        let (Some(size), Some(hashes), expected_insertions, false_probability) = found else { return Ok(None) };
        let Shape { size, hashes } = self.shape_of(size, hashes)?;
        Ok(Some(FilterConfig {
            size,
            hash_iterations: hashes,
            expected_insertions: expected_insertions.unwrap_or_default(),
            false_probability: false_probability.unwrap_or_default(),
        }))
    }

    /// About how many different elements were added; [`u64::MAX`] where all bits are set.
    ///
    /// # Errors
    ///
    /// [`ObjectError`] says what is true then; [`ObjectError::Absent`] where there is no filter.
    ///
    /// # Cancel safety
    ///
    /// Dropping it changes nothing.
    pub async fn count(&self) -> Result<u64, ObjectError> {
        let (_, key) = self.place.named()?;
        let found = self.place.read(COUNT.with([config_key(key), key.clone()])).await?;
        let (Some(size), Some(hashes), bits): (Option<u64>, Option<u64>, u64) = found else {
            return Err(self.absent());
        };
        Ok(self.shape_of(size, hashes)?.elements(bits))
    }

    fn absent(&self) -> ObjectError {
        match self.place.named() {
            Ok((name, _)) => ObjectError::Absent { name: name.clone() },
            Err(invalid) => invalid,
        }
    }

    fn shape_of(&self, size: u64, hashes: u64) -> Result<Shape, ObjectError> {
        match u32::try_from(hashes) {
            Ok(hashes) if (1..=BITS_AT_ONCE).contains(&hashes) && (1..=1 << 32).contains(&size) => {
                Ok(Shape { size, hashes })
            }
            _ => {
                let got = format_args!("{size} bits, and {hashes} of each element");
                Err(self.place.invalid("configuration", "a filter of 1 to 4294967296 bits", got))
            }
        }
    }

    /// What is known of it, or else what the primary says.
    async fn shape(&self) -> Result<Shape, ObjectError> {
        let known = *self.known.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(shape) = known {
            return Ok(shape);
        }
        let (_, key) = self.place.named()?;
        let request = Request::command("HMGET").key(config_key(key)).arg("size").arg("hashIterations");
        let found = self.place.ask(request).await?;
        let (Some(size), Some(hashes)): (Option<u64>, Option<u64>) = found else { return Err(self.absent()) };
        let shape = self.shape_of(size, hashes)?;
        self.know(Some(shape));
        Ok(shape)
    }

    fn know(&self, shape: Option<Shape>) {
        *self.known.lock().unwrap_or_else(PoisonError::into_inner) = shape;
    }

    /// Asks about elements in parts, by the size that the filter has; about a part anew where that was changed meanwhile.
    async fn in_parts<R: FromReply, A>(
        &self,
        script: &'static Script<2>,
        elements: &[Bytes],
        reads: bool,
        mut take: impl FnMut(R) -> Option<A>,
        mut with: impl FnMut(A),
    ) -> Result<(), ObjectError> {
        let (name, key) = self.place.named()?;
        let (mut rest, mut rounds) = (elements, Rounds::of(self.place.client(), name));
        // Where a replica knows of another filter, or of none, the primary is asked.
        let mut from_replicas = true;
        while !rest.is_empty() {
            let shape = self.shape().await?;
            let (part, behind) = rest.split_at(rest.len().min((BITS_AT_ONCE / shape.hashes) as usize));
            let request = script.with([config_key(key), key.clone()]);
            let request = request.arg(shape.size.to_string()).int(shape.hashes.into());
            let indices = part.iter().flat_map(|element| shape.indices(element));
            let request = indices.fold(request, |request, index| request.arg(index.to_string()));
            let answer = match reads {
                true if from_replicas => self.place.read(request).await?,
                true => self.place.ask(request).await?,
                false => self.place.change(request).await?,
            };
            match take(answer) {
                Some(answer) => {
                    with(answer);
                    rest = behind;
                    rounds = Rounds::of(self.place.client(), name);
                }
                None => {
                    self.know(None);
                    from_replicas = false;
                    rounds.lost().await?;
                }
            }
        }
        Ok(())
    }

    /// Elements as the codec writes them.
    fn encoded<'a, Q: ?Sized + 'a>(&self, elements: impl IntoIterator<Item = &'a Q>) -> Result<Vec<Bytes>, ObjectError>
    where
        C: Encode<Q>,
    {
        self.place.encoded_all(&self.codec, elements)
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
        Ok(self.add_many([element]).await? > 0)
    }

    /// Adds many, as many at a time as have 5,000 bits together; tells how many were not in it.
    ///
    /// # Errors
    ///
    /// As [`BloomFilter::add`]; some may be added.
    ///
    /// # Cancel safety
    ///
    /// As [`BloomFilter::add`].
    #[doc(alias = "add")]
    pub async fn add_many<'a, Q: ?Sized + 'a>(
        &self,
        elements: impl IntoIterator<Item = &'a Q>,
    ) -> Result<u64, ObjectError>
    where
        T: Borrow<Q>,
        C: Encode<Q>,
    {
        let (elements, mut new) = (self.encoded(elements)?, 0);
        self.in_parts(&ADD, &elements, false, |told: i64| u64::try_from(told).ok(), |added| new += added).await?;
        Ok(new)
    }

    /// Whether an element is in it: `false` for certain, `true` but for the share of errors that it was made with. Where the client reads from
    /// replicas, `false` is about what the replica has: it may lack what was added just before.
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
        Ok(self.contains_many([element]).await?.contains(&true))
    }

    /// Whether each of these is in it, in their order; as many at a time as have 5,000 bits together.
    ///
    /// # Errors
    ///
    /// As [`BloomFilter::contains`].
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
        let (elements, mut found) = (self.encoded(elements)?, Vec::new());
        let take = |told: Bytes| (!told.is_empty()).then_some(told);
        self.in_parts(&CONTAINS, &elements, true, take, |told| found.extend(told.iter().map(|one| *one == b'1')))
            .await?;
        Ok(found)
    }
}

impl<T, C: Clone> Clone for BloomFilter<T, C> {
    fn clone(&self) -> Self {
        let (place, known) = (self.place.clone(), Arc::clone(&self.known));
        BloomFilter { place, codec: self.codec.clone(), known, elements: PhantomData }
    }
}

impl<T, C: fmt::Debug> fmt::Debug for BloomFilter<T, C> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut shown = f.debug_struct("BloomFilter");
        shown.field("name", &self.place.name()).field("codec", &self.codec).finish_non_exhaustive()
    }
}
