//! The list: construction, length, and clearing.

use std::fmt;
use std::marker::PhantomData;

use bytes::Bytes;
use redgrid_codecs::{Codec, Decode, Encode};
use redgrid_core::Client;
use redgrid_core::object::{Object, ObjectError, ObjectRef, layouts};

/// Defines the type, with its default codec. Only the feature `json` gives it one, so that the
/// stored format never depends on features that other crates enable.
macro_rules! list {
    ($($default:tt)*) => {
        /// A list of elements of type `T`, shared by all processes that reach the same server.
        ///
        /// Redisson's `RList` on the wire.
        ///
        /// Cheap to clone; clones are handles of the same list. The codec `C` is part of the type:
        /// all users of a list must use the same one. With the feature `json`, the default is
        /// `Json`. A list exists while it has elements.
        ///
        /// Indices count from 0. The server finds an index from the nearer end, a node of a few
        /// kilobytes at a time.
        #[doc(alias = "RList")]
        #[doc(alias = "RedissonList")]
        pub struct List<T, C $($default)*> {
            pub(crate) object_ref: ObjectRef,
            pub(crate) codec: C,
            elements: PhantomData<fn() -> T>,
        }
    };
}

#[cfg(feature = "json")]
list!(= redgrid_codecs::Json);
#[cfg(not(feature = "json"))]
list!();

impl<T, C: Codec + Default> List<T, C> {
    /// Returns the list with this name.
    ///
    /// No request is sent: the first call reports an invalid name.
    pub fn new(client: &Client, name: impl AsRef<str>) -> Self {
        List { object_ref: ObjectRef::new(client, name), codec: C::default(), elements: PhantomData }
    }
}

impl<T, C: Codec> List<T, C> {
    /// Returns a handle of the same name with another codec.
    pub fn with_codec<D: Codec>(self, codec: D) -> List<T, D> {
        List { object_ref: self.object_ref, codec, elements: PhantomData }
    }

    /// Returns the [`Object`] of this name: existence, lifetime, other names, memory size.
    pub fn object(&self) -> Object {
        self.object_ref.object(layouts::list)
    }

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
        self.object_ref.read(self.object_ref.command("LLEN")?).await
    }

    /// Returns whether the list is empty.
    ///
    /// # Errors
    ///
    /// As for [`List::len`].
    ///
    /// # Cancel safety
    ///
    /// As for [`List::len`].
    #[doc(alias = "isEmpty")]
    pub async fn is_empty(&self) -> Result<bool, ObjectError> {
        Ok(self.len().await? == 0)
    }

    /// Removes all elements, in one step. Returns whether there were any.
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
}

impl<T, C: Encode<T>> List<T, C> {
    pub(crate) fn encode(&self, value: &T) -> Result<Bytes, ObjectError> {
        self.object_ref.encoded(&self.codec, value)
    }

    pub(crate) fn encode_all<'a>(&self, values: impl IntoIterator<Item = &'a T>) -> Result<Vec<Bytes>, ObjectError>
    where
        T: 'a,
    {
        self.object_ref.encoded_all(&self.codec, values)
    }
}

impl<T, C: Decode<T>> List<T, C> {
    /// Decodes the element at an index.
    pub(crate) fn decode_at(&self, index: u64, bytes: &Bytes) -> Result<T, ObjectError> {
        self.object_ref.decoded(&self.codec, bytes, || Some(format!("index {index}")))
    }

    /// Decodes an element; errors describe its position by `location`.
    pub(crate) fn decode(&self, bytes: &Bytes, location: &'static str) -> Result<T, ObjectError> {
        self.object_ref.decoded(&self.codec, bytes, || Some(location.to_owned()))
    }
}

impl<T, C: Clone> Clone for List<T, C> {
    fn clone(&self) -> Self {
        List { object_ref: self.object_ref.clone(), codec: self.codec.clone(), elements: PhantomData }
    }
}

impl<T, C: fmt::Debug> fmt::Debug for List<T, C> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("List")
            .field("name", &self.object_ref.name())
            .field("codec", &self.codec)
            .finish_non_exhaustive()
    }
}
