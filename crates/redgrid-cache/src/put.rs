//! Writes of entries, and their lifetimes.

use std::marker::PhantomData;
use std::time::{Duration, SystemTime};

use bytes::Bytes;
use redgrid_codecs::{Codec, Decode, Encode, EncodesFor};
use redgrid_core::into_future;
use redgrid_core::object::{ObjectError, ObjectRef, SetTtl, chunks, millis};
use redgrid_core::{LIFETIMES, LIFETIMES_EXPECTED, describe_time, unix_millis};

use crate::cache::{Cache, FIELD_LIFETIMES_NEEDED, describe_key};
use crate::layout::{Layout, Packed, PutOptions};

/// The idle time of written entries.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Idle {
    None,
    Keep,
    For(Duration),
}

/// Encodes a lifetime for the scripts, if it ends no later than `latest`.
pub(crate) fn encode_lifetime(
    object_ref: &ObjectRef,
    ttl: SetTtl,
    latest: (u128, &'static str),
) -> Result<Bytes, ObjectError> {
    Ok(match ttl {
        SetTtl::None => "0".into(),
        SetTtl::Keep => "=".into(),
        SetTtl::For(lifetime) => millis(object_ref.name_and_key()?.0, lifetime)?,
        SetTtl::Until(at) => match unix_millis(at).filter(|millis| *millis <= latest.0) {
            Some(millis) => format!("@{}", millis.max(1)).into(),
            None => return Err(object_ref.invalid("lifetime", latest.1, describe_time(at))),
        },
    })
}

/// Encodes an idle time for the scripts.
pub(crate) fn encode_idle_time(object_ref: &ObjectRef, idle: Idle) -> Result<Bytes, ObjectError> {
    Ok(match idle {
        Idle::None => "0".into(),
        Idle::Keep => "=".into(),
        Idle::For(time) if LIFETIMES.contains(&time) => time.as_millis().to_string().into(),
        Idle::For(time) => return Err(object_ref.invalid("idle time", LIFETIMES_EXPECTED, format_args!("{time:?}"))),
    })
}

/// A put with its options, common to all builders.
#[derive(Clone)]
struct PutRequest<Y> {
    object_ref: ObjectRef,
    entries: Result<Vec<(Bytes, Bytes)>, ObjectError>,
    expected: Option<Bytes>,
    condition: &'static str,
    return_previous: bool,
    ttl: SetTtl,
    idle: Idle,
    layout: PhantomData<fn() -> Y>,
}

/// The outcome of one entry: 0 for unchanged, 1 for new, 2 for replaced; and the previous value.
type PutOutcome = (i64, Option<Bytes>);

impl<Y: Layout> PutRequest<Y> {
    fn new(object_ref: &ObjectRef, entries: Result<Vec<(Bytes, Bytes)>, ObjectError>, condition: &'static str) -> Self {
        // By default, replacing a value keeps its lifetime and its idle time.
        let (ttl, idle) = match condition {
            "present" | "equal" => (SetTtl::Keep, Idle::Keep),
            _ => (SetTtl::None, Idle::None),
        };
        let object_ref = object_ref.clone();
        PutRequest {
            object_ref,
            entries,
            expected: None,
            condition,
            return_previous: false,
            ttl,
            idle,
            layout: PhantomData,
        }
    }

    /// Sets the lifetime. A kept idle time is dropped: setting one of the two replaces both.
    fn set_lifetime(&mut self, ttl: SetTtl) {
        self.ttl = ttl;
        self.idle = match self.idle {
            Idle::Keep => Idle::None,
            set => set,
        };
    }

    fn set_idle_time(&mut self, time: Duration) {
        self.idle = Idle::For(time);
        self.ttl = match self.ttl {
            SetTtl::Keep => SetTtl::None,
            set => set,
        };
    }

    async fn send(self) -> Result<Vec<PutOutcome>, ObjectError> {
        let entries = self.entries?;
        let options = PutOptions {
            condition: self.condition,
            expected: self.expected,
            return_previous: self.return_previous,
            lifetime: encode_lifetime(&self.object_ref, self.ttl, Y::LATEST)?,
            idle: encode_idle_time(&self.object_ref, self.idle)?,
        };
        let mut done = Vec::with_capacity(entries.len());
        for chunk in chunks(&entries, |(field, value)| field.len() + value.len()) {
            let outcomes = self.object_ref.change::<Vec<PutOutcome>>(Y::put(&self.object_ref, &options, chunk)?).await;
            done.extend(outcomes.map_err(|error| error.or_unsupported(FIELD_LIFETIMES_NEEDED))?);
        }
        Ok(done)
    }
}

/// Defines the options for lifetimes of a builder.
macro_rules! lifetime_methods {
    ([$($param:ident),*] $type:ident) => {
        impl<$($param,)* Y: Layout> $type<$($param,)* Y> {
            /// Lets the entry expire after this time, 1 ms to 3650 days.
            pub fn expires_in(mut self, lifetime: Duration) -> Self {
                self.put.set_lifetime(SetTtl::For(lifetime));
                self
            }

            /// Lets the entry expire at this time by the server's clock; at once if it has passed.
            ///
            /// Servers accept expiry times of native maps up to November 4199.
            pub fn expires_at(mut self, at: SystemTime) -> Self {
                self.put.set_lifetime(SetTtl::Until(at));
                self
            }

            /// Lets the entry never expire.
            pub fn no_expiry(mut self) -> Self {
                (self.put.ttl, self.put.idle) = (SetTtl::None, Idle::None);
                self
            }

            /// Keeps the lifetime and the idle time of the previous value.
            pub fn keep_lifetime(mut self) -> Self {
                (self.put.ttl, self.put.idle) = (SetTtl::Keep, Idle::Keep);
                self
            }
        }

        impl<$($param),*> $type<$($param,)* Packed> {
            /// Lets the entry expire when it was not accessed for this time, 1 ms to 3650 days.
            ///
            /// A lifetime applies as well, if the entry has one.
            pub fn idle_for(mut self, time: Duration) -> Self {
                self.put.set_idle_time(time);
                self
            }
        }
    };
}

/// Sets the value of a key when awaited; returned by [`Cache::set`] and its variants, which define
/// the result.
///
/// If it is dropped before the request is sent, nothing is set.
#[must_use = "does nothing until awaited"]
#[derive(Clone)]
pub struct Set<Y> {
    put: PutRequest<Y>,
    only_new: bool,
}

/// Sets the values of many keys when awaited; returned by [`Cache::set_many`].
#[must_use = "does nothing until awaited"]
#[derive(Clone)]
pub struct SetMany<Y> {
    put: PutRequest<Y>,
}

/// Sets the value of a key when awaited, and returns the previous value; returned by
/// [`Cache::insert`] and its variants.
#[must_use = "does nothing until awaited"]
pub struct Insert<V, VC, Y> {
    put: PutRequest<Y>,
    values: VC,
    value: PhantomData<fn() -> V>,
}

lifetime_methods!([] Set);
lifetime_methods!([] SetMany);
lifetime_methods!([V, VC] Insert);

impl<K, V, KC: Codec, VC: Encode<V>, Y: Layout> Cache<K, V, KC, VC, Y> {
    /// Sets the value of a key. Returns whether the key is new in the map.
    ///
    /// Without options, the entry has neither a lifetime nor an idle time.
    ///
    /// # Errors
    ///
    /// [`ObjectError`] states what failed and whether anything may have changed.
    /// [`ObjectError::Unsupported`] for a native map with a lifetime, on a server without lifetimes
    /// of hash fields.
    ///
    /// # Cancel safety
    ///
    /// A request that was already sent is executed even if the future is dropped.
    #[doc(alias = "fastPut")]
    pub fn set<Q: ?Sized>(&self, key: &Q, value: &V) -> Set<Y>
    where
        KC: EncodesFor<K, Q>,
    {
        Set { put: self.put(key, value, "any"), only_new: true }
    }

    /// Sets the value of a key that is not in the map. Returns whether it was set.
    ///
    /// If the key exists, the call counts as an access to it.
    ///
    /// # Errors and cancel safety
    ///
    /// As for [`Cache::set`].
    #[doc(alias = "fastPutIfAbsent")]
    pub fn set_if_absent<Q: ?Sized>(&self, key: &Q, value: &V) -> Set<Y>
    where
        KC: EncodesFor<K, Q>,
    {
        Set { put: self.put(key, value, "absent"), only_new: false }
    }

    /// Sets the value of a key that is in the map. Returns whether it was set.
    ///
    /// The entry keeps its lifetime unless another is set; its idle time starts again.
    ///
    /// # Errors and cancel safety
    ///
    /// As for [`Cache::set`].
    #[doc(alias = "fastReplace")]
    #[doc(alias = "fastPutIfExists")]
    pub fn set_if_exists<Q: ?Sized>(&self, key: &Q, value: &V) -> Set<Y>
    where
        KC: EncodesFor<K, Q>,
    {
        Set { put: self.put(key, value, "present"), only_new: false }
    }

    /// Sets the value of a key if its current value is `expected`. Returns whether it was set.
    ///
    /// Values are equal if their encoded bytes are equal. The entry keeps its lifetime unless
    /// another is set; its idle time starts again.
    ///
    /// # Errors and cancel safety
    ///
    /// As for [`Cache::set`].
    #[doc(alias = "replace")]
    pub fn compare_and_set<Q: ?Sized>(&self, key: &Q, expected: &V, new: &V) -> Set<Y>
    where
        KC: EncodesFor<K, Q>,
    {
        let mut put = self.put(key, new, "equal");
        match self.object_ref.encoded(&self.values, expected) {
            Ok(expected) => put.expected = Some(expected),
            Err(error) => put.entries = Err(error),
        }
        Set { put, only_new: false }
    }

    /// Sets the values of many keys, up to 500 or about 4 MiB a request.
    ///
    /// After an error, some of them may have been set.
    ///
    /// # Errors and cancel safety
    ///
    /// As for [`Cache::set`].
    #[doc(alias = "putAll")]
    pub fn set_many<'a, Q: ?Sized + 'a>(&self, entries: impl IntoIterator<Item = (&'a Q, &'a V)>) -> SetMany<Y>
    where
        V: 'a,
        KC: EncodesFor<K, Q>,
    {
        let entries = entries.into_iter().map(|(key, value)| self.encode_entry(key, value)).collect();
        SetMany { put: PutRequest::new(&self.object_ref, entries, "any") }
    }

    fn encode_entry<Q: ?Sized>(&self, key: &Q, value: &V) -> Result<(Bytes, Bytes), ObjectError>
    where
        KC: Encode<Q>,
    {
        Ok((self.encode_key(key)?, self.object_ref.encoded(&self.values, value)?))
    }

    fn put<Q: ?Sized>(&self, key: &Q, value: &V, condition: &'static str) -> PutRequest<Y>
    where
        KC: Encode<Q>,
    {
        PutRequest::new(&self.object_ref, self.encode_entry(key, value).map(|entry| vec![entry]), condition)
    }
}

impl<K, V, KC: Codec, VC: Encode<V> + Decode<V>, Y: Layout> Cache<K, V, KC, VC, Y> {
    /// Sets the value of a key. Returns the previous value.
    ///
    /// Without options, the entry has neither a lifetime nor an idle time.
    ///
    /// # Errors
    ///
    /// As for [`Cache::set`]. The value is set even if the previous one cannot be decoded.
    ///
    /// # Cancel safety
    ///
    /// As for [`Cache::set`].
    #[doc(alias = "put")]
    pub fn insert<Q: ?Sized>(&self, key: &Q, value: &V) -> Insert<V, VC, Y>
    where
        KC: EncodesFor<K, Q>,
    {
        self.insert_with(key, value, "any")
    }

    /// Sets the value of a key that is not in the map. Otherwise returns its current value, which
    /// counts as an access.
    ///
    /// # Errors and cancel safety
    ///
    /// As for [`Cache::insert`].
    #[doc(alias = "putIfAbsent")]
    pub fn insert_if_absent<Q: ?Sized>(&self, key: &Q, value: &V) -> Insert<V, VC, Y>
    where
        KC: EncodesFor<K, Q>,
    {
        self.insert_with(key, value, "absent")
    }

    /// Sets the value of a key that is in the map. Returns the previous value.
    ///
    /// The entry keeps its lifetime unless another is set; its idle time starts again.
    ///
    /// # Errors and cancel safety
    ///
    /// As for [`Cache::insert`].
    #[doc(alias = "putIfExists")]
    #[doc(alias = "putIfExist")]
    pub fn replace<Q: ?Sized>(&self, key: &Q, value: &V) -> Insert<V, VC, Y>
    where
        KC: EncodesFor<K, Q>,
    {
        self.insert_with(key, value, "present")
    }

    fn insert_with<Q: ?Sized>(&self, key: &Q, value: &V, condition: &'static str) -> Insert<V, VC, Y>
    where
        KC: Encode<Q>,
    {
        let mut put = self.put(key, value, condition);
        put.return_previous = true;
        Insert { put, values: self.values.clone(), value: PhantomData }
    }
}

into_future!([Y: Layout] Set<Y> => Result<bool, ObjectError>, |this| async move {
    let only_new = this.only_new;
    let done = this.put.send().await?;
    Ok(done.into_iter().any(|(done, _)| if only_new { done == 1 } else { done > 0 }))
});

into_future!([Y: Layout] SetMany<Y> => Result<(), ObjectError>, |this| async move { this.put.send().await.map(drop) });

into_future!(
    [V: 'static, VC: Decode<V>, Y: Layout] Insert<V, VC, Y> => Result<Option<V>, ObjectError>,
    |this| async move {
        let Insert { put, values, .. } = this;
        let field = put.entries.as_ref().ok().and_then(|entries| entries.first()).map(|(field, _)| field.clone());
        let object_ref = put.object_ref.clone();
        let previous = put.send().await?.pop().and_then(|(_, previous)| previous);
        previous
            .map(|previous| object_ref.decoded(&values, &previous, || describe_key(&field.unwrap_or_default())))
            .transpose()
    }
);
