//! A set whose values have lifetimes.

use std::time::{Duration, SystemTime};

use bytes::Bytes;
use redgrid_codecs::{Codec, Decode, Encode, EncodesFor};
use redgrid_core::into_future;
use redgrid_core::object::{Lifetime, ObjectError, ObjectRef, Scan, SetTtl, alone, chunks};
use redgrid_core::{Request, Script};

use crate::layout::{Packed, sealed::Requests};
use crate::put::encode_lifetime;

static INSERT: Script<1> = Script::new("set_cache/insert", include_str!("scripts/set_insert.lua"));
static FIND: Script<1> = Script::new("set_cache/find", include_str!("scripts/set_find.lua"));
static REMOVE: Script<1> = Script::new("set_cache/remove", include_str!("scripts/set_remove.lua"));
static LEN: Script<1> = Script::new("set_cache/len", include_str!("scripts/set_len.lua"));
static SCAN: Script<1> = Script::new("set_cache/scan", include_str!("scripts/set_scan.lua"));

/// The expiry of a value without a lifetime: Redisson's number for it.
const NEVER: i64 = 92_233_720_368_547_758;

/// A remaining time of at least this counts as no lifetime. For a value without a lifetime,
/// Redisson stores `NEVER` minus the time of insertion.
const NEVER_FROM: i64 = NEVER / 2;

redgrid_core::value_object! {
    /// A set of values of type `T` with lifetimes, in no order, shared by all processes that
    /// reach the same server.
    ///
    /// On the wire it is Redisson's `RSetCache`: a sorted set of values, scored by expiry.
    ///
    /// It is cheap to clone; clones are handles of the same set. The codec `C` is part of the type:
    /// all users of a set must use the same one. With the feature `json`, the default is `Json`.
    /// Expiry follows the server's clock.
    #[doc(alias = "RSetCache")]
    #[doc(alias = "RedissonSetCache")]
    pub struct SetCache;

    ///
    /// The object exists even if all of its values are expired.
    |object_ref| object_ref.object(alone)
}

impl<T, C: Codec> SetCache<T, C> {
    /// Returns the number of values that are not expired.
    ///
    /// # Errors
    ///
    /// [`ObjectError`] states what failed and whether anything may have changed.
    ///
    /// # Cancel safety
    ///
    /// Dropping the future changes nothing.
    #[doc(alias = "size")]
    pub async fn len(&self) -> Result<u64, ObjectError> {
        self.object_ref.read_primary(self.script(&LEN)?).await
    }

    /// Returns whether the set is empty. Expired values do not count.
    ///
    /// # Errors and cancel safety
    ///
    /// As for [`SetCache::len`].
    #[doc(alias = "isEmpty")]
    pub async fn is_empty(&self) -> Result<bool, ObjectError> {
        Ok(self.len().await? == 0)
    }

    /// Removes all values, in one step. Returns whether there were any, expired ones included.
    ///
    /// # Errors
    ///
    /// [`ObjectError`] states what failed and whether anything may have changed.
    ///
    /// # Cancel safety
    ///
    /// A request that was already sent is executed even if the future is dropped.
    pub async fn clear(&self) -> Result<bool, ObjectError> {
        self.object_ref.change(self.object_ref.command("DEL")?).await
    }

    /// Inserts a value. Returns whether it is new.
    ///
    /// Without options, the value has no lifetime. A value that is in the set gets the new
    /// lifetime.
    ///
    /// # Errors
    ///
    /// [`ObjectError`] states what failed and whether anything may have changed.
    ///
    /// # Cancel safety
    ///
    /// A request that was already sent is executed even if the future is dropped.
    #[doc(alias = "add")]
    pub fn insert<Q: ?Sized>(&self, value: &Q) -> SetInsert<bool>
    where
        C: EncodesFor<T, Q>,
    {
        self.insert_with([value], "any", false, |(new, _)| new > 0)
    }

    /// Inserts a value that is not in the set. Returns whether it was inserted.
    ///
    /// # Errors and cancel safety
    ///
    /// As for [`SetCache::insert`].
    #[doc(alias = "addIfAbsent")]
    pub fn insert_if_absent<Q: ?Sized>(&self, value: &Q) -> SetInsert<bool>
    where
        C: EncodesFor<T, Q>,
    {
        self.insert_with([value], "absent", false, |(new, _)| new > 0)
    }

    /// Sets the lifetime of a value that is in the set. Returns whether it was set.
    ///
    /// # Errors and cancel safety
    ///
    /// As for [`SetCache::insert`].
    #[doc(alias = "addIfExists")]
    pub fn expire<Q: ?Sized>(&self, value: &Q) -> SetInsert<bool>
    where
        C: EncodesFor<T, Q>,
    {
        self.insert_with([value], "present", false, |(_, done)| done > 0)
    }

    /// Sets the lifetime of a value that is in the set and would expire earlier. Returns whether it
    /// was set.
    ///
    /// # Errors and cancel safety
    ///
    /// As for [`SetCache::insert`].
    #[doc(alias = "addIfGreater")]
    pub fn prolong<Q: ?Sized>(&self, value: &Q) -> SetInsert<bool>
    where
        C: EncodesFor<T, Q>,
    {
        self.insert_with([value], "sooner", false, |(_, done)| done > 0)
    }

    /// Sets the lifetime of a value that is in the set and would expire later. Returns whether it
    /// was set.
    ///
    /// # Errors and cancel safety
    ///
    /// As for [`SetCache::insert`].
    #[doc(alias = "addIfLess")]
    pub fn shorten<Q: ?Sized>(&self, value: &Q) -> SetInsert<bool>
    where
        C: EncodesFor<T, Q>,
    {
        self.insert_with([value], "later", false, |(_, done)| done > 0)
    }

    /// Inserts values, up to 500 or about 4 MiB a request. Returns the number of new values.
    ///
    /// After an error, some of them may have been inserted.
    ///
    /// # Errors and cancel safety
    ///
    /// As for [`SetCache::insert`].
    #[doc(alias = "addAll")]
    #[doc(alias = "addAllCounted")]
    pub fn insert_many<'a, Q: ?Sized + 'a>(&self, values: impl IntoIterator<Item = &'a Q>) -> SetInsert<u64>
    where
        C: EncodesFor<T, Q>,
    {
        self.insert_with(values, "any", false, |(new, _)| new)
    }

    /// Inserts all of the values, up to 500 and about 4 MiB, if the set contains none of them.
    /// Returns whether they were inserted.
    ///
    /// # Errors
    ///
    /// As for [`SetCache::insert`]. [`Failure::InvalidArgument`](crate::Failure::InvalidArgument)
    /// for more values.
    ///
    /// # Cancel safety
    ///
    /// As for [`SetCache::insert`].
    #[doc(alias = "tryAdd")]
    pub fn try_insert_all<'a, Q: ?Sized + 'a>(&self, values: impl IntoIterator<Item = &'a Q>) -> SetInsert<bool>
    where
        C: EncodesFor<T, Q>,
    {
        self.insert_with(values, "absent", true, |(new, _)| new > 0)
    }

    /// Returns whether the set contains a value that is not expired.
    ///
    /// # Errors and cancel safety
    ///
    /// As for [`SetCache::len`].
    pub async fn contains<Q: ?Sized>(&self, value: &Q) -> Result<bool, ObjectError>
    where
        C: EncodesFor<T, Q>,
    {
        Ok(self.contains_many([value]).await?.into_iter().any(|is_in| is_in))
    }

    /// Returns for each value, in their order, whether it is in the set and not expired. Up to 500
    /// values a request.
    ///
    /// # Errors and cancel safety
    ///
    /// As for [`SetCache::len`].
    #[doc(alias = "containsEach")]
    #[doc(alias = "containsAll")]
    pub async fn contains_many<'a, Q: ?Sized + 'a>(
        &self,
        values: impl IntoIterator<Item = &'a Q>,
    ) -> Result<Vec<bool>, ObjectError>
    where
        C: EncodesFor<T, Q>,
    {
        let (values, mut all) = (self.encode_all(values)?, Vec::new());
        for chunk in chunks(&values, Bytes::len) {
            let remaining = self.remaining(chunk).await?;
            all.extend(remaining.into_iter().map(|remaining| remaining > 0));
        }
        Ok(all)
    }

    /// Returns the remaining lifetime of a value.
    ///
    /// # Errors and cancel safety
    ///
    /// As for [`SetCache::len`].
    pub async fn lifetime<Q: ?Sized>(&self, value: &Q) -> Result<Lifetime, ObjectError>
    where
        C: EncodesFor<T, Q>,
    {
        let remaining = self.remaining(&self.encode_all([value])?).await?.pop().unwrap_or(-2);
        Ok(Lifetime::of(if remaining >= NEVER_FROM { -1 } else { remaining }))
    }

    /// Removes a value. Returns whether it was in the set and not expired.
    ///
    /// # Errors and cancel safety
    ///
    /// As for [`SetCache::insert`].
    pub async fn remove<Q: ?Sized>(&self, value: &Q) -> Result<bool, ObjectError>
    where
        C: EncodesFor<T, Q>,
    {
        Ok(self.remove_many([value]).await? > 0)
    }

    /// Removes values, up to 500 or about 4 MiB a request. Returns the number of values that were
    /// in the set and not expired.
    ///
    /// After an error, some of them may have been removed.
    ///
    /// # Errors and cancel safety
    ///
    /// As for [`SetCache::insert`].
    #[doc(alias = "removeAll")]
    #[doc(alias = "removeAllCounted")]
    pub async fn remove_many<'a, Q: ?Sized + 'a>(
        &self,
        values: impl IntoIterator<Item = &'a Q>,
    ) -> Result<u64, ObjectError>
    where
        C: EncodesFor<T, Q>,
    {
        let values = self.encode_all(values)?;
        self.object_ref.change_chunks(&values, || self.script(&REMOVE)).await
    }

    fn insert_with<'a, Q: ?Sized + 'a, R>(
        &self,
        values: impl IntoIterator<Item = &'a Q>,
        condition: &'static str,
        all_or_none: bool,
        result_of: fn((u64, u64)) -> R,
    ) -> SetInsert<R>
    where
        C: Encode<Q>,
    {
        let (object_ref, values) = (self.object_ref.clone(), self.encode_all(values));
        SetInsert { object_ref, values, condition, all_or_none, ttl: SetTtl::None, result_of }
    }

    async fn remaining(&self, values: &[Bytes]) -> Result<Vec<i64>, ObjectError> {
        let request = values.iter().cloned().fold(self.script(&FIND)?, Request::arg);
        self.object_ref.read_primary(request).await
    }

    fn script(&self, script: &'static Script<1>) -> Result<Request, ObjectError> {
        Ok(script.with([self.object_ref.name_and_key()?.1.clone()]))
    }

    fn encode_all<'a, Q: ?Sized + 'a>(&self, values: impl IntoIterator<Item = &'a Q>) -> Result<Vec<Bytes>, ObjectError>
    where
        C: Encode<Q>,
    {
        self.object_ref.encoded_all(&self.codec, values)
    }
}

impl<T: 'static, C: Decode<T>> SetCache<T, C> {
    /// Returns a stream of all values that are not expired.
    #[doc(alias = "iterator")]
    #[doc(alias = "readAll")]
    pub fn stream(&self) -> Scan<T> {
        let (object_ref, codec) = (self.object_ref.clone(), self.codec.clone());
        let request = |object_ref: &ObjectRef, at: Bytes, page: u32, pattern: Option<Bytes>| {
            let request = SCAN.with([object_ref.name_and_key()?.1.clone()]).arg(at).int(page.into());
            Ok(request.arg(pattern.unwrap_or_default()))
        };
        Scan::asking(1, self.object_ref.clone(), request, move |found| {
            object_ref.decoded(&codec, &found[0], || Some("a value".into()))
        })
    }
}

/// Inserts values when awaited; returned by [`SetCache::insert`] and its variants.
///
/// If it is dropped before the request is sent, nothing is inserted.
#[must_use = "does nothing until awaited"]
#[derive(Clone)]
pub struct SetInsert<R> {
    object_ref: ObjectRef,
    values: Result<Vec<Bytes>, ObjectError>,
    condition: &'static str,
    all_or_none: bool,
    ttl: SetTtl,
    /// Computes the result from the number of new values, and of values with the new expiry.
    result_of: fn((u64, u64)) -> R,
}

impl<R> SetInsert<R> {
    /// Lets the values expire after this time, 1 ms to 3650 days.
    pub fn expires_in(mut self, lifetime: Duration) -> Self {
        self.ttl = SetTtl::For(lifetime);
        self
    }

    /// Lets the values expire at this time by the server's clock; at once if it has passed.
    pub fn expires_at(mut self, at: SystemTime) -> Self {
        self.ttl = SetTtl::Until(at);
        self
    }

    async fn send(self) -> Result<R, ObjectError> {
        let (values, object_ref) = (self.values?, &self.object_ref);
        let encoded_lifetime = encode_lifetime(object_ref, self.ttl, Packed::LATEST)?;
        if self.all_or_none && chunks(&values, Bytes::len).count() > 1 {
            return Err(object_ref.invalid("values", "at most 500 values with 4 MiB in all", values.len()));
        }
        if self.all_or_none && values.is_empty() {
            // Without values, the condition is met. An invalid name is an error all the same.
            object_ref.name_and_key()?;
            return Ok((self.result_of)((1, 0)));
        }
        let (mut new, mut done) = (0, 0);
        for chunk in chunks(&values, Bytes::len) {
            let request = INSERT
                .with([object_ref.name_and_key()?.1.clone()])
                .arg(self.condition)
                .arg(encoded_lifetime.clone())
                .int(NEVER);
            let request = request.arg(if self.all_or_none { "all" } else { "each" });
            let (chunk_new, chunk_done): (u64, u64) =
                object_ref.change(chunk.iter().cloned().fold(request, Request::arg)).await?;
            new += chunk_new;
            done += chunk_done;
        }
        Ok((self.result_of)((new, done)))
    }
}

into_future!([R: Send + 'static] SetInsert<R> => Result<R, ObjectError>, |this| this.send());
