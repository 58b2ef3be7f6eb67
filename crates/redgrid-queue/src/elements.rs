//! The common part of all queues: the handle of their object, and the conversion of elements.

use std::marker::PhantomData;

use bytes::Bytes;
use redgrid_codecs::{Codec, Decode, EncodesFor};
use redgrid_core::name::companion;
use redgrid_core::object::{ObjectError, ObjectRef};
use redgrid_core::{Client, Name, Script};

/// Number of elements of a page of a stream.
pub(crate) const PAGE: usize = 100;

/// Maximum number of elements that one request removes. The server does nothing else meanwhile.
pub(crate) const MAX_POPPED: u64 = 10_000;

/// Removes a member of a sorted set. The push has returned the member.
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

/// Returns the channel with messages that elements may be available.
pub(crate) fn channel(key: &[u8]) -> Bytes {
    companion("redgrid_queue__channel", key)
}

impl<T, C: Codec> Elements<T, C> {
    pub(crate) fn encode<Q: ?Sized>(&self, value: &Q) -> Result<Bytes, ObjectError>
    where
        C: EncodesFor<T, Q>,
    {
        self.place.encoded(&self.codec, value)
    }

    pub(crate) fn encode_all<'a, Q: ?Sized + 'a>(
        &self,
        values: impl IntoIterator<Item = &'a Q>,
    ) -> Result<Vec<Bytes>, ObjectError>
    where
        C: EncodesFor<T, Q>,
    {
        self.place.encoded_all(&self.codec, values)
    }
}

impl<T, C: Decode<T>> Elements<T, C> {
    pub(crate) fn decode(&self, bytes: &Bytes) -> Result<T, ObjectError> {
        self.place.decoded(&self.codec, bytes, || Some("an element".into()))
    }

    pub(crate) fn decode_optional(&self, bytes: Option<Bytes>) -> Result<Option<T>, ObjectError> {
        bytes.map(|bytes| self.decode(&bytes)).transpose()
    }

    pub(crate) fn decode_all(&self, bytes: &[Bytes]) -> Result<Vec<T>, ObjectError> {
        bytes.iter().map(|bytes| self.decode(bytes)).collect()
    }
}

redgrid_core::clone_fields!([T, C: Clone] Elements<T, C> { place, codec, values });

/// Defines the type of a queue, its constructors, and `Clone` and `Debug`.
macro_rules! queue_type {
    ($(#[$doc:meta])* pub struct $type:ident: $layout:ident$(, $keys:literal keys)?) => {
        redgrid_core::default_codec! {
            $(#[$doc])*
            pub struct $type<T; C> {
                pub(crate) elements: Elements<T, C>,
            }
        }

        impl<T, C: Codec + Default> $type<T, C> {
            /// Returns the queue with this name.
            ///
            /// No request is sent. An invalid name is reported by the first call that sends a
            /// request.
            pub fn new(client: &Client, name: impl AsRef<str>) -> Self {
                $type { elements: Elements::new(client, name, C::default()) }
            }
        }

        impl<T, C: Codec> $type<T, C> {
            /// Returns a handle of the same name with another codec.
            pub fn with_codec<D: Codec>(self, codec: D) -> $type<T, D> {
                $type { elements: self.elements.with_codec(codec) }
            }

            /// Returns the [`Object`] of this name: existence, lifetime, rename, copy, memory size.
            pub fn object(&self) -> Object {
                self.elements.place.object(layouts::$layout)$(.with_primary_keys($keys))?
            }
        }

        redgrid_core::clone_fields!([T, C: Clone] $type<T, C> { elements });
        redgrid_core::debug_fields!([T, C: std::fmt::Debug] $type<T, C>, |it|
            name: it.elements.place.name(), codec: it.elements.codec
        );
    };
}

/// Defines the length of a list and the removal of all elements. `$remains` describes in the
/// documentation what remains.
macro_rules! list_methods {
    ($type:ident $(, $remains:literal)?) => {
        impl<T, C: Codec> $type<T, C> {
            /// Returns the number of elements.
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
                self.elements.len().await
            }

            /// Returns whether there are no elements.
            ///
            /// # Errors and cancel safety
            ///
            /// As for [`Self::len`].
            #[doc(alias = "isEmpty")]
            pub async fn is_empty(&self) -> Result<bool, ObjectError> {
                Ok(self.len().await? == 0)
            }

            /// Removes all elements in one step, and returns whether there were any.
            $(#[doc = $remains])?
            ///
            /// # Errors
            ///
            /// [`ObjectError`] states what failed and whether anything may have changed.
            ///
            /// # Cancel safety
            ///
            /// A request that was already sent is executed even if the future is dropped.
            pub async fn clear(&self) -> Result<bool, ObjectError> {
                self.elements.clear().await
            }
        }
    };
}
pub(crate) use list_methods;
pub(crate) use queue_type;
