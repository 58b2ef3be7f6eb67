//! A set whose values have lifetimes.

use std::borrow::Borrow;
use std::fmt;
use std::future::IntoFuture;
use std::marker::PhantomData;
use std::pin::Pin;
use std::time::{Duration, SystemTime};

use bytes::Bytes;
use redgrid_codecs::{Codec, Decode, Encode};
use redgrid_core::object::{Lifetime, Lives, Object, ObjectError, Place, Scan, alone, parts};
use redgrid_core::{Client, Request, Script};

use crate::layout::{Packed, sealed::Requests};
use crate::put::lifetime;

static INSERT: Script<1> = Script::new("set_cache/insert", include_str!("scripts/set_insert.lua"));
static FIND: Script<1> = Script::new("set_cache/find", include_str!("scripts/set_find.lua"));
static REMOVE: Script<1> = Script::new("set_cache/remove", include_str!("scripts/set_remove.lua"));
static LEN: Script<1> = Script::new("set_cache/len", include_str!("scripts/set_len.lua"));
static SCAN: Script<1> = Script::new("set_cache/scan", include_str!("scripts/set_scan.lua"));

/// When a value without a lifetime is over: Redisson's number for it.
const NEVER: i64 = 92_233_720_368_547_758;

/// From here on an end is none: Redisson's are its number less the time at which the value was added.
const AS_GOOD_AS_NEVER: i64 = NEVER / 2;

/// The type, with the codec of one that names none: there is one only with the feature `json`, so that what a set stores never
/// depends on the features that others ask for.
macro_rules! set_cache {
    ($($default:tt)*) => {
        /// Values of type `T`, each once, in no order and for its time, shared by all processes that reach the same server. Redisson's `RSetCache` on the
        /// wire: a sorted set of values by when they are over.
        ///
        /// Cheap to clone; clones are the same set. The codec `C` is part of the type: all who share a set name the same one. With the
        /// feature `json` it is `Json` where none is named. The server's clock decides what is over.
        #[doc(alias = "RSetCache")]
        #[doc(alias = "RedissonSetCache")]
        pub struct SetCache<T, C $($default)*> {
            place: Place,
            codec: C,
            values: PhantomData<fn() -> T>,
        }
    };
}

#[cfg(feature = "json")]
set_cache!(= redgrid_codecs::Json);
#[cfg(not(feature = "json"))]
set_cache!();

impl<T, C: Codec + Default> SetCache<T, C> {
    /// The set with this name. Making one asks nobody: an invalid name is told by the first call.
    pub fn new(client: &Client, name: impl AsRef<str>) -> Self {
        SetCache { place: Place::new(client, name), codec: C::default(), values: PhantomData }
    }
}

impl<T, C: Codec> SetCache<T, C> {
    /// The same name with another codec.
    pub fn with_codec<D: Codec>(self, codec: D) -> SetCache<T, D> {
        SetCache { place: self.place, codec, values: PhantomData }
    }

    /// What every object has: whether it is there, its lifetime, other names, its size in memory. It is there also while all of its values are over.
    pub fn object(&self) -> Object {
        self.place.object(alone)
    }

    /// How many values it has that are not over.
    ///
    /// # Errors
    ///
    /// [`ObjectError`] says what is true then.
    ///
    /// # Cancel safety
    ///
    /// Dropping it changes nothing.
    #[doc(alias = "size")]
    pub async fn len(&self) -> Result<u64, ObjectError> {
        self.place.ask(self.script(&LEN)?).await
    }

    /// Whether it has none.
    ///
    /// # Errors
    ///
    /// As [`SetCache::len`].
    ///
    /// # Cancel safety
    ///
    /// As [`SetCache::len`].
    #[doc(alias = "isEmpty")]
    pub async fn is_empty(&self) -> Result<bool, ObjectError> {
        Ok(self.len().await? == 0)
    }

    /// Removes all values, in one step; tells whether there were any, those that were over among them.
    ///
    /// # Errors
    ///
    /// [`ObjectError`] says what is true then.
    ///
    /// # Cancel safety
    ///
    /// What has left is carried out although nobody waits for it.
    pub async fn clear(&self) -> Result<bool, ObjectError> {
        self.place.change(self.place.command("DEL")?).await
    }

    /// Inserts a value, with the lifetime that is said, else none; tells whether it is new. What is in gets the new lifetime.
    ///
    /// # Errors
    ///
    /// [`ObjectError`] says what is true then.
    ///
    /// # Cancel safety
    ///
    /// What has left is carried out although nobody waits for it.
    #[doc(alias = "add")]
    pub fn insert<Q: ?Sized>(&self, value: &Q) -> SetInsert<bool>
    where
        T: Borrow<Q>,
        C: Encode<Q>,
    {
        self.inserting([value], "any", false, |(new, _)| new > 0)
    }

    /// Inserts a value if it is not in; tells whether it did.
    ///
    /// # Errors
    ///
    /// As [`SetCache::insert`].
    ///
    /// # Cancel safety
    ///
    /// As [`SetCache::insert`].
    #[doc(alias = "addIfAbsent")]
    pub fn insert_if_absent<Q: ?Sized>(&self, value: &Q) -> SetInsert<bool>
    where
        T: Borrow<Q>,
        C: Encode<Q>,
    {
        self.inserting([value], "absent", false, |(new, _)| new > 0)
    }

    /// Gives a value another lifetime if it is in; tells whether it did.
    ///
    /// # Errors
    ///
    /// As [`SetCache::insert`].
    ///
    /// # Cancel safety
    ///
    /// As [`SetCache::insert`].
    #[doc(alias = "addIfExists")]
    pub fn expire<Q: ?Sized>(&self, value: &Q) -> SetInsert<bool>
    where
        T: Borrow<Q>,
        C: Encode<Q>,
    {
        self.inserting([value], "present", false, |(_, done)| done > 0)
    }

    /// The same if it is in and ends sooner than with the new one.
    ///
    /// # Errors
    ///
    /// As [`SetCache::insert`].
    ///
    /// # Cancel safety
    ///
    /// As [`SetCache::insert`].
    #[doc(alias = "addIfGreater")]
    pub fn prolong<Q: ?Sized>(&self, value: &Q) -> SetInsert<bool>
    where
        T: Borrow<Q>,
        C: Encode<Q>,
    {
        self.inserting([value], "sooner", false, |(_, done)| done > 0)
    }

    /// The same if it is in and ends later than with the new one.
    ///
    /// # Errors
    ///
    /// As [`SetCache::insert`].
    ///
    /// # Cancel safety
    ///
    /// As [`SetCache::insert`].
    #[doc(alias = "addIfLess")]
    pub fn shorten<Q: ?Sized>(&self, value: &Q) -> SetInsert<bool>
    where
        T: Borrow<Q>,
        C: Encode<Q>,
    {
        self.inserting([value], "later", false, |(_, done)| done > 0)
    }

    /// Inserts values, 500 of them or about 4 MiB at a time; tells how many are new. After an error some may be in.
    ///
    /// # Errors
    ///
    /// As [`SetCache::insert`].
    ///
    /// # Cancel safety
    ///
    /// As [`SetCache::insert`].
    #[doc(alias = "addAll")]
    #[doc(alias = "addAllCounted")]
    pub fn insert_many<'a, Q: ?Sized + 'a>(&self, values: impl IntoIterator<Item = &'a Q>) -> SetInsert<u64>
    where
        T: Borrow<Q>,
        C: Encode<Q>,
    {
        self.inserting(values, "any", false, |(new, _)| new)
    }

    /// Inserts all of these, up to 500 of about 4 MiB, if none of them is in; tells whether it did.
    ///
    /// # Errors
    ///
    /// As [`SetCache::insert`]; [`ObjectError::InvalidArgument`] of more.
    ///
    /// # Cancel safety
    ///
    /// As [`SetCache::insert`].
    #[doc(alias = "tryAdd")]
    pub fn try_insert_all<'a, Q: ?Sized + 'a>(&self, values: impl IntoIterator<Item = &'a Q>) -> SetInsert<bool>
    where
        T: Borrow<Q>,
        C: Encode<Q>,
    {
        self.inserting(values, "absent", true, |(new, _)| new > 0)
    }

    /// Whether a value is in, and not over.
    ///
    /// # Errors
    ///
    /// As [`SetCache::len`].
    ///
    /// # Cancel safety
    ///
    /// As [`SetCache::len`].
    pub async fn contains<Q: ?Sized>(&self, value: &Q) -> Result<bool, ObjectError>
    where
        T: Borrow<Q>,
        C: Encode<Q>,
    {
        Ok(self.contains_many([value]).await?.into_iter().any(|is_in| is_in))
    }

    /// Which of these are in, and not over, in their order; 500 of them at a time.
    ///
    /// # Errors
    ///
    /// As [`SetCache::len`].
    ///
    /// # Cancel safety
    ///
    /// As [`SetCache::len`].
    #[doc(alias = "containsEach")]
    #[doc(alias = "containsAll")]
    pub async fn contains_many<'a, Q: ?Sized + 'a>(
        &self,
        values: impl IntoIterator<Item = &'a Q>,
    ) -> Result<Vec<bool>, ObjectError>
    where
        T: Borrow<Q>,
        C: Encode<Q>,
    {
        let (values, mut all) = (self.encoded(values)?, Vec::new());
        for part in parts(&values, Bytes::len) {
            let left = self.left(part).await?;
            all.extend(left.into_iter().map(|left| left > 0));
        }
        Ok(all)
    }

    /// How long a value is in.
    ///
    /// # Errors
    ///
    /// As [`SetCache::len`].
    ///
    /// # Cancel safety
    ///
    /// As [`SetCache::len`].
    pub async fn lifetime<Q: ?Sized>(&self, value: &Q) -> Result<Lifetime, ObjectError>
    where
        T: Borrow<Q>,
        C: Encode<Q>,
    {
        let left = self.left(&self.encoded([value])?).await?.pop().unwrap_or(-2);
        Ok(Lifetime::of(if left >= AS_GOOD_AS_NEVER { -1 } else { left }))
    }

    /// Removes a value; tells whether it was in, and not over.
    ///
    /// # Errors
    ///
    /// As [`SetCache::insert`].
    ///
    /// # Cancel safety
    ///
    /// As [`SetCache::insert`].
    pub async fn remove<Q: ?Sized>(&self, value: &Q) -> Result<bool, ObjectError>
    where
        T: Borrow<Q>,
        C: Encode<Q>,
    {
        Ok(self.remove_many([value]).await? > 0)
    }

    /// Removes values, 500 of them or about 4 MiB at a time; tells how many were in, and not over. After an error some may be removed.
    ///
    /// # Errors
    ///
    /// As [`SetCache::insert`].
    ///
    /// # Cancel safety
    ///
    /// As [`SetCache::insert`].
    #[doc(alias = "removeAll")]
    #[doc(alias = "removeAllCounted")]
    pub async fn remove_many<'a, Q: ?Sized + 'a>(
        &self,
        values: impl IntoIterator<Item = &'a Q>,
    ) -> Result<u64, ObjectError>
    where
        T: Borrow<Q>,
        C: Encode<Q>,
    {
        let values = self.encoded(values)?;
        self.place.change_parts(&values, || self.script(&REMOVE)).await
    }

    fn inserting<'a, Q: ?Sized + 'a, R>(
        &self,
        values: impl IntoIterator<Item = &'a Q>,
        condition: &'static str,
        together: bool,
        told: fn((u64, u64)) -> R,
    ) -> SetInsert<R>
    where
        C: Encode<Q>,
    {
        let (place, values) = (self.place.clone(), self.encoded(values));
        SetInsert { place, values, condition, together, lives: Lives::On, told }
    }

    async fn left(&self, values: &[Bytes]) -> Result<Vec<i64>, ObjectError> {
        let request = values.iter().cloned().fold(self.script(&FIND)?, Request::arg);
        self.place.ask(request).await
    }

    fn script(&self, script: &'static Script<1>) -> Result<Request, ObjectError> {
        Ok(script.with([self.place.named()?.1.clone()]))
    }

    fn encoded<'a, Q: ?Sized + 'a>(&self, values: impl IntoIterator<Item = &'a Q>) -> Result<Vec<Bytes>, ObjectError>
    where
        C: Encode<Q>,
    {
        self.place.encoded_all(&self.codec, values)
    }
}

impl<T: 'static, C: Decode<T>> SetCache<T, C> {
    /// All values that are not over, as a stream.
    #[doc(alias = "iterator")]
    #[doc(alias = "readAll")]
    pub fn stream(&self) -> Scan<T> {
        let (place, codec) = (self.place.clone(), self.codec.clone());
        let request = |place: &Place, at: Bytes, page: u32, pattern: Option<Bytes>| {
            let request = SCAN.with([place.named()?.1.clone()]).arg(at).int(page.into());
            Ok(request.arg(pattern.unwrap_or_default()))
        };
        Scan::asking(1, self.place.clone(), request, move |found| {
            place.decoded(&codec, &found[0], || Some("a value".into()))
        })
    }
}

/// Inserts values when awaited; made by [`SetCache::insert`] and its like. A dropped one inserts nothing unless it has left.
#[must_use = "nothing is asked of the server until this is awaited"]
#[derive(Clone)]
pub struct SetInsert<R> {
    place: Place,
    values: Result<Vec<Bytes>, ObjectError>,
    condition: &'static str,
    together: bool,
    lives: Lives,
    told: fn((u64, u64)) -> R,
}

impl<R> SetInsert<R> {
    /// Has them end after this time, 1 ms to 3650 days.
    pub fn expires_in(mut self, lifetime: Duration) -> Self {
        self.lives = Lives::For(lifetime);
        self
    }

    /// Has them end at this time by the server's clock; at once where that has passed.
    pub fn expires_at(mut self, at: SystemTime) -> Self {
        self.lives = Lives::Until(at);
        self
    }

    async fn carry_out(self) -> Result<R, ObjectError> {
        let (values, place) = (self.values?, &self.place);
        let lives = lifetime(place, self.lives, Packed::LATEST)?;
        if self.together && parts(&values, Bytes::len).count() > 1 {
            return Err(place.invalid("values", "up to 500 of 4 MiB at once", values.len()));
        }
        if self.together && values.is_empty() {
            // None of none is in. A name that can not be is told all the same.
            place.named()?;
            return Ok((self.told)((1, 0)));
        }
        let mut all = (0, 0);
        for part in parts(&values, Bytes::len) {
            let request = INSERT.with([place.named()?.1.clone()]).arg(self.condition).arg(lives.clone()).int(NEVER);
            let request = request.arg(if self.together { "all" } else { "each" });
            let (new, done): (u64, u64) = place.change(part.iter().cloned().fold(request, Request::arg)).await?;
            all = (all.0 + new, all.1 + done);
        }
        Ok((self.told)(all))
    }
}

impl<R: Send + 'static> IntoFuture for SetInsert<R> {
    type Output = Result<R, ObjectError>;
    type IntoFuture = Pin<Box<dyn Future<Output = Self::Output> + Send>>;

    fn into_future(self) -> Self::IntoFuture {
        Box::pin(self.carry_out())
    }
}

impl<T, C: Clone> Clone for SetCache<T, C> {
    fn clone(&self) -> Self {
        SetCache { place: self.place.clone(), codec: self.codec.clone(), values: PhantomData }
    }
}

impl<T, C: fmt::Debug> fmt::Debug for SetCache<T, C> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SetCache").field("name", &self.place.name()).field("codec", &self.codec).finish_non_exhaustive()
    }
}
