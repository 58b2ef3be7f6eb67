//! What all queues have inside: where they are, and how their elements become bytes.

use std::marker::PhantomData;

use bytes::Bytes;
use redgrid_codecs::{Codec, Decode, Encode};
use redgrid_core::name::companion;
use redgrid_core::object::{ObjectError, ObjectRef};
use redgrid_core::{Client, Name, Script};

/// How many elements a page of a stream has.
pub(crate) const PAGE: usize = 100;

/// How many elements one request removes at most: a server does nothing else meanwhile.
pub(crate) const POPPED_AT_ONCE: u64 = 10_000;

/// Removes a member of a sorted set, of a queue that has told it when it was pushed.
pub(crate) static CANCEL: Script<1> = Script::new("queue/cancel", include_str!("scripts/cancel.lua"));

pub(crate) struct Elements<T, C> {
    pub(crate) place: ObjectRef,
    pub(crate) codec: C,
    values: PhantomData<fn() -> T>,
}

impl<T, C: Codec> Elements<T, C> {
    pub(crate) fn new(client: &Client, name: impl AsRef<str>, codec: C) -> Self {
        Elements { place: ObjectRef::new(client, name), codec, values: PhantomData }
    }

    pub(crate) fn with_codec<D: Codec>(self, codec: D) -> Elements<T, D> {
        Elements { place: self.place, codec, values: PhantomData }
    }
}

impl<T, C> Elements<T, C> {
    pub(crate) fn name(&self) -> Result<&Name, ObjectError> {
        Ok(self.place.name_and_key()?.0)
    }

    pub(crate) fn key(&self) -> Result<Bytes, ObjectError> {
        Ok(self.place.name_and_key()?.1.clone())
    }
}

/// Where it is told that there is something to take.
pub(crate) fn channel(key: &[u8]) -> Bytes {
    companion("redgrid_queue__channel", key)
}

impl<T, C: Encode<T>> Elements<T, C> {
    pub(crate) fn encoded(&self, value: &T) -> Result<Bytes, ObjectError> {
        self.place.encoded(&self.codec, value)
    }

    pub(crate) fn encoded_all<'a>(&self, values: impl IntoIterator<Item = &'a T>) -> Result<Vec<Bytes>, ObjectError>
    where
        T: 'a,
    {
        values.into_iter().map(|value| self.encoded(value)).collect()
    }
}

impl<T, C: Decode<T>> Elements<T, C> {
    pub(crate) fn one(&self, bytes: &Bytes) -> Result<T, ObjectError> {
        self.place.decoded(&self.codec, bytes, || Some("an element".into()))
    }

    pub(crate) fn maybe(&self, bytes: Option<Bytes>) -> Result<Option<T>, ObjectError> {
        bytes.map(|bytes| self.one(&bytes)).transpose()
    }

    pub(crate) fn all(&self, bytes: &[Bytes]) -> Result<Vec<T>, ObjectError> {
        bytes.iter().map(|bytes| self.one(bytes)).collect()
    }
}

impl<T, C: Clone> Clone for Elements<T, C> {
    fn clone(&self) -> Self {
        Elements { place: self.place.clone(), codec: self.codec.clone(), values: PhantomData }
    }
}

/// The type of a queue, with the codec of one that names none: there is one only with the feature `json`, so that what a queue stores
/// never depends on the features that others ask for. It is cloned and shown as what is inside.
macro_rules! queue {
    ($(#[$doc:meta])* pub struct $type:ident: $layout:ident$(, $faces:literal keys)?) => {
        #[cfg(feature = "json")]
        queue!(@type $(#[$doc])* $type, = redgrid_codecs::Json);
        #[cfg(not(feature = "json"))]
        queue!(@type $(#[$doc])* $type,);

        impl<T, C: Codec + Default> $type<T, C> {
            /// The one with this name. Making one asks nobody: an invalid name is told by the first call.
            pub fn new(client: &Client, name: impl AsRef<str>) -> Self {
                $type { of: Elements::new(client, name, C::default()) }
            }
        }

        impl<T, C: Codec> $type<T, C> {
            /// The same name with another codec.
            pub fn with_codec<D: Codec>(self, codec: D) -> $type<T, D> {
                $type { of: self.of.with_codec(codec) }
            }

            /// What every object has: whether it is there, its lifetime, other names, its size in memory.
            pub fn object(&self) -> Object {
                self.of.place.object(layouts::$layout)$(.with_primary_keys($faces))?
            }
        }

        impl<T, C: Clone> Clone for $type<T, C> {
            fn clone(&self) -> Self {
                $type { of: self.of.clone() }
            }
        }

        impl<T, C: std::fmt::Debug> std::fmt::Debug for $type<T, C> {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                let mut shown = f.debug_struct(stringify!($type));
                shown.field("name", &self.of.place.name()).field("codec", &self.of.codec).finish_non_exhaustive()
            }
        }
    };
    (@type $(#[$doc:meta])* $type:ident, $($default:tt)*) => {
        $(#[$doc])*
        pub struct $type<T, C $($default)*> {
            pub(crate) of: Elements<T, C>,
        }
    };
}

/// How many elements a list has, and the removal of all. What is left after that is said behind it.
macro_rules! counted {
    ($type:ident $(, $left:literal)?) => {
        impl<T, C: Codec> $type<T, C> {
            /// How many elements it has.
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
                self.of.len().await
            }

            /// Whether it has none.
            ///
            /// # Errors
            ///
            /// As [`Self::len`].
            ///
            /// # Cancel safety
            ///
            /// As [`Self::len`].
            #[doc(alias = "isEmpty")]
            pub async fn is_empty(&self) -> Result<bool, ObjectError> {
                Ok(self.len().await? == 0)
            }

            /// Removes all elements, in one step; tells whether there were any.
            $(#[doc = $left])?
            ///
            /// # Errors
            ///
            /// [`ObjectError`] says what is true then.
            ///
            /// # Cancel safety
            ///
            /// What has left is carried out although nobody waits for it.
            pub async fn clear(&self) -> Result<bool, ObjectError> {
                self.of.clear().await
            }
        }
    };
}
pub(crate) use counted;
pub(crate) use queue;
