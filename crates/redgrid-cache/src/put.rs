//! Values for keys, and how long they live.

use std::borrow::Borrow;
use std::future::IntoFuture;
use std::marker::PhantomData;
use std::pin::Pin;
use std::time::{Duration, SystemTime};

use bytes::Bytes;
use redgrid_codecs::{Codec, Decode, Encode};
use redgrid_core::object::{Lives, ObjectError, Place, millis, parts};
use redgrid_core::{LIFETIMES, LIFETIMES_EXPECTED, describe_time, unix_millis};

use crate::cache::{Cache, NEEDED, shown};
use crate::layout::{Layout, Packed, Said};

/// What is said of an idle time.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Idle {
    None,
    AsBefore,
    For(Duration),
}

/// A lifetime as the scripts are told it, where it is no later than this.
pub(crate) fn lifetime(place: &Place, lives: Lives, latest: (u128, &'static str)) -> Result<Bytes, ObjectError> {
    Ok(match lives {
        Lives::On => "0".into(),
        Lives::AsBefore => "=".into(),
        Lives::For(lifetime) => millis(place.named()?.0, lifetime)?,
        Lives::Until(at) => match unix_millis(at).filter(|millis| *millis <= latest.0) {
            Some(millis) => format!("@{}", millis.max(1)).into(),
            None => return Err(place.invalid("lifetime", latest.1, describe_time(at))),
        },
    })
}

/// An idle time as the scripts are told it.
pub(crate) fn idle(place: &Place, idle: Idle) -> Result<Bytes, ObjectError> {
    Ok(match idle {
        Idle::None => "0".into(),
        Idle::AsBefore => "=".into(),
        Idle::For(time) if LIFETIMES.contains(&time) => time.as_millis().to_string().into(),
        Idle::For(time) => return Err(place.invalid("idle time", LIFETIMES_EXPECTED, format_args!("{time:?}"))),
    })
}

/// What all ways of putting have.
#[derive(Clone)]
struct New<Y> {
    place: Place,
    entries: Result<Vec<(Bytes, Bytes)>, ObjectError>,
    expected: Option<Bytes>,
    condition: &'static str,
    told: bool,
    lives: Lives,
    idle: Idle,
    layout: PhantomData<fn() -> Y>,
}

/// What became of an entry: 0 for nothing, 1 for a new one, 2 for another value; and what it had.
type Done = (i64, Option<Bytes>);

impl<Y: Layout> New<Y> {
    fn of(place: &Place, entries: Result<Vec<(Bytes, Bytes)>, ObjectError>, condition: &'static str) -> Self {
        // Another value for what is there lives as that would have.
        let (lives, idle) = match condition {
            "present" | "equal" => (Lives::AsBefore, Idle::AsBefore),
            _ => (Lives::On, Idle::None),
        };
        let place = place.clone();
        New { place, entries, expected: None, condition, told: false, lives, idle, layout: PhantomData }
    }

    /// Where a lifetime is said, the idle time is what is said of that, too.
    fn lives(&mut self, lives: Lives) {
        self.lives = lives;
        self.idle = match self.idle {
            Idle::AsBefore => Idle::None,
            said => said,
        };
    }

    fn idles(&mut self, time: Duration) {
        self.idle = Idle::For(time);
        self.lives = match self.lives {
            Lives::AsBefore => Lives::On,
            said => said,
        };
    }

    async fn carry_out(self) -> Result<Vec<Done>, ObjectError> {
        let entries = self.entries?;
        let said = Said {
            condition: self.condition,
            expected: self.expected,
            told: self.told,
            lifetime: lifetime(&self.place, self.lives, Y::LATEST)?,
            idle: idle(&self.place, self.idle)?,
        };
        let mut done = Vec::with_capacity(entries.len());
        for part in parts(&entries, |(field, value)| field.len() + value.len()) {
            let told = self.place.change::<Vec<Done>>(Y::put(&self.place, &said, part)?).await;
            done.extend(told.map_err(|error| error.or_unsupported(NEEDED))?);
        }
        Ok(done)
    }
}

macro_rules! lives {
    ([$($param:ident),*] $of:ident) => {
        impl<$($param,)* Y: Layout> $of<$($param,)* Y> {
            /// Has it end after this time, 1 ms to 3650 days.
            pub fn expires_in(mut self, lifetime: Duration) -> Self {
                self.new.lives(Lives::For(lifetime));
                self
            }

            /// Has it end at this time by the server's clock; at once where that has passed. Servers keep those of a native map up to
            /// November 4199.
            pub fn expires_at(mut self, at: SystemTime) -> Self {
                self.new.lives(Lives::Until(at));
                self
            }

            /// Has it live on, without an end.
            pub fn endless(mut self) -> Self {
                (self.new.lives, self.new.idle) = (Lives::On, Idle::None);
                self
            }

            /// Has it live as long as what was there before, with the same idle time.
            pub fn keep_lifetime(mut self) -> Self {
                (self.new.lives, self.new.idle) = (Lives::AsBefore, Idle::AsBefore);
                self
            }
        }

        impl<$($param),*> $of<$($param,)* Packed> {
            /// Has it end when nobody has used it for this time, 1 ms to 3650 days; beside its lifetime, if it has one.
            pub fn idle_for(mut self, time: Duration) -> Self {
                self.new.idles(time);
                self
            }
        }
    };
}

/// Gives a key a value when awaited; made by [`Cache::set`] and its like. Tells what they say. A dropped one sets nothing unless it has left.
#[must_use = "nothing is asked of the server until this is awaited"]
#[derive(Clone)]
pub struct Set<Y> {
    new: New<Y>,
    tells_new: bool,
}

/// Gives many keys values when awaited; made by [`Cache::set_many`].
#[must_use = "nothing is asked of the server until this is awaited"]
#[derive(Clone)]
pub struct SetMany<Y> {
    new: New<Y>,
}

/// Gives a key a value when awaited, and tells what it had; made by [`Cache::insert`] and its like.
#[must_use = "nothing is asked of the server until this is awaited"]
pub struct Insert<V, VC, Y> {
    new: New<Y>,
    values: VC,
    value: PhantomData<fn() -> V>,
}

lives!([] Set);
lives!([] SetMany);
lives!([V, VC] Insert);

impl<K, V, KC: Codec, VC: Encode<V>, Y: Layout> Cache<K, V, KC, VC, Y> {
    /// Gives the key a value, with the lifetime and idle time that are said, else none; tells whether it is new in the map.
    ///
    /// # Errors
    ///
    /// [`ObjectError`] says what is true then; [`ObjectError::Unsupported`] of a native one with a lifetime on a server that knows none.
    ///
    /// # Cancel safety
    ///
    /// What has left is carried out although nobody waits for it.
    #[doc(alias = "fastPut")]
    pub fn set<Q: ?Sized>(&self, key: &Q, value: &V) -> Set<Y>
    where
        K: Borrow<Q>,
        KC: Encode<Q>,
    {
        Set { new: self.put(key, value, "any"), tells_new: true }
    }

    /// Gives the key a value if it is not in the map; tells whether it did. That it finds one is a use of that.
    ///
    /// # Errors
    ///
    /// As [`Cache::set`].
    ///
    /// # Cancel safety
    ///
    /// As [`Cache::set`].
    #[doc(alias = "fastPutIfAbsent")]
    pub fn set_if_absent<Q: ?Sized>(&self, key: &Q, value: &V) -> Set<Y>
    where
        K: Borrow<Q>,
        KC: Encode<Q>,
    {
        Set { new: self.put(key, value, "absent"), tells_new: false }
    }

    /// Gives the key another value if it is in the map; tells whether it did. It lives as long as it would have, unless another lifetime is said; its idle
    /// time begins anew.
    ///
    /// # Errors
    ///
    /// As [`Cache::set`].
    ///
    /// # Cancel safety
    ///
    /// As [`Cache::set`].
    #[doc(alias = "fastReplace")]
    #[doc(alias = "fastPutIfExists")]
    pub fn set_if_exists<Q: ?Sized>(&self, key: &Q, value: &V) -> Set<Y>
    where
        K: Borrow<Q>,
        KC: Encode<Q>,
    {
        Set { new: self.put(key, value, "present"), tells_new: false }
    }

    /// Gives the key another value if it has `expected`; tells whether it did. Values are equal whose bytes are. It lives as long as it would have,
    /// unless another lifetime is said; its idle time begins anew.
    ///
    /// # Errors
    ///
    /// As [`Cache::set`].
    ///
    /// # Cancel safety
    ///
    /// As [`Cache::set`].
    #[doc(alias = "replace")]
    pub fn compare_and_set<Q: ?Sized>(&self, key: &Q, expected: &V, new: &V) -> Set<Y>
    where
        K: Borrow<Q>,
        KC: Encode<Q>,
    {
        let mut new = self.put(key, new, "equal");
        match self.place.encoded(&self.values, expected) {
            Ok(expected) => new.expected = Some(expected),
            Err(error) => new.entries = Err(error),
        }
        Set { new, tells_new: false }
    }

    /// Gives many keys values, 500 of them or about 4 MiB at a time: after an error some may have theirs.
    ///
    /// # Errors
    ///
    /// As [`Cache::set`].
    ///
    /// # Cancel safety
    ///
    /// As [`Cache::set`].
    #[doc(alias = "putAll")]
    pub fn set_many<'a, Q: ?Sized + 'a>(&self, entries: impl IntoIterator<Item = (&'a Q, &'a V)>) -> SetMany<Y>
    where
        K: Borrow<Q>,
        KC: Encode<Q>,
        V: 'a,
    {
        let entries = entries.into_iter().map(|(key, value)| self.both(key, value)).collect();
        SetMany { new: New::of(&self.place, entries, "any") }
    }

    fn both<Q: ?Sized>(&self, key: &Q, value: &V) -> Result<(Bytes, Bytes), ObjectError>
    where
        KC: Encode<Q>,
    {
        Ok((self.field(key)?, self.place.encoded(&self.values, value)?))
    }

    fn put<Q: ?Sized>(&self, key: &Q, value: &V, condition: &'static str) -> New<Y>
    where
        KC: Encode<Q>,
    {
        New::of(&self.place, self.both(key, value).map(|both| vec![both]), condition)
    }
}

impl<K, V, KC: Codec, VC: Encode<V> + Decode<V>, Y: Layout> Cache<K, V, KC, VC, Y> {
    /// Gives the key a value, with the lifetime and idle time that are said, else none; tells what it had.
    ///
    /// # Errors
    ///
    /// As [`Cache::set`]; the value is given also where what it had can not be decoded.
    ///
    /// # Cancel safety
    ///
    /// As [`Cache::set`].
    #[doc(alias = "put")]
    pub fn insert<Q: ?Sized>(&self, key: &Q, value: &V) -> Insert<V, VC, Y>
    where
        K: Borrow<Q>,
        KC: Encode<Q>,
    {
        self.inserting(key, value, "any")
    }

    /// Gives the key a value if it is not in the map; else tells what it has, as a use of it.
    ///
    /// # Errors
    ///
    /// As [`Cache::insert`].
    ///
    /// # Cancel safety
    ///
    /// As [`Cache::set`].
    #[doc(alias = "putIfAbsent")]
    pub fn insert_if_absent<Q: ?Sized>(&self, key: &Q, value: &V) -> Insert<V, VC, Y>
    where
        K: Borrow<Q>,
        KC: Encode<Q>,
    {
        self.inserting(key, value, "absent")
    }

    /// Gives the key another value if it is in the map; tells what it had. It lives as long as it would have, unless another lifetime is said; its idle
    /// time begins anew.
    ///
    /// # Errors
    ///
    /// As [`Cache::insert`].
    ///
    /// # Cancel safety
    ///
    /// As [`Cache::set`].
    #[doc(alias = "putIfExists")]
    #[doc(alias = "putIfExist")]
    pub fn replace<Q: ?Sized>(&self, key: &Q, value: &V) -> Insert<V, VC, Y>
    where
        K: Borrow<Q>,
        KC: Encode<Q>,
    {
        self.inserting(key, value, "present")
    }

    fn inserting<Q: ?Sized>(&self, key: &Q, value: &V, condition: &'static str) -> Insert<V, VC, Y>
    where
        KC: Encode<Q>,
    {
        let mut new = self.put(key, value, condition);
        new.told = true;
        Insert { new, values: self.values.clone(), value: PhantomData }
    }
}

impl<Y: Layout> IntoFuture for Set<Y> {
    type Output = Result<bool, ObjectError>;
    type IntoFuture = Pin<Box<dyn Future<Output = Self::Output> + Send>>;

    fn into_future(self) -> Self::IntoFuture {
        Box::pin(async move {
            let tells_new = self.tells_new;
            let done = self.new.carry_out().await?;
            Ok(done.into_iter().any(|(done, _)| if tells_new { done == 1 } else { done > 0 }))
        })
    }
}

impl<Y: Layout> IntoFuture for SetMany<Y> {
    type Output = Result<(), ObjectError>;
    type IntoFuture = Pin<Box<dyn Future<Output = Self::Output> + Send>>;

    fn into_future(self) -> Self::IntoFuture {
        Box::pin(async move { self.new.carry_out().await.map(drop) })
    }
}

impl<V: 'static, VC: Decode<V>, Y: Layout> IntoFuture for Insert<V, VC, Y> {
    type Output = Result<Option<V>, ObjectError>;
    type IntoFuture = Pin<Box<dyn Future<Output = Self::Output> + Send>>;

    fn into_future(self) -> Self::IntoFuture {
        Box::pin(async move {
            let Insert { new, values, .. } = self;
            let field = new.entries.as_ref().ok().and_then(|entries| entries.first()).map(|(field, _)| field.clone());
            let place = new.place.clone();
            let was = new.carry_out().await?.pop().and_then(|(_, was)| was);
            was.map(|was| place.decoded(&values, &was, || shown(&field.unwrap_or_default()))).transpose()
        })
    }
}
