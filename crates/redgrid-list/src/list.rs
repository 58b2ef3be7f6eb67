//! The list, and what is asked of it as a whole.

use std::fmt;
use std::marker::PhantomData;

use bytes::Bytes;
use redgrid_codecs::{Codec, Decode, Encode};
use redgrid_core::Client;
use redgrid_core::object::{Object, ObjectError, Place, layouts};

/// The type, with the codec of one that names none: there is one only with the feature `json`, so that what a list stores never
/// depends on the features that others ask for.
macro_rules! list {
    ($($default:tt)*) => {
        /// Elements of type `T` in their order, shared by all processes that reach the same server. Redisson's `RList` on the wire.
        ///
        /// Cheap to clone; clones are the same list. The codec `C` is part of the type: all who share a list name the same one. With
        /// the feature `json` it is `Json` where none is named. A list is there while it has elements.
        ///
        /// Indices count from 0. The server finds one from the nearer end, a node of a few kilobytes at a time.
        #[doc(alias = "RList")]
        #[doc(alias = "RedissonList")]
        pub struct List<T, C $($default)*> {
            pub(crate) place: Place,
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
    /// The list with this name. Making one asks nobody: an invalid name is told by the first call.
    pub fn new(client: &Client, name: impl AsRef<str>) -> Self {
        List { place: Place::new(client, name), codec: C::default(), elements: PhantomData }
    }
}

impl<T, C: Codec> List<T, C> {
    /// The same name with another codec.
    pub fn with_codec<D: Codec>(self, codec: D) -> List<T, D> {
        List { place: self.place, codec, elements: PhantomData }
    }

    /// What every object has: whether it is there, its lifetime, other names, its size in memory.
    pub fn object(&self) -> Object {
        self.place.object(layouts::list)
    }

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
        self.place.read(self.place.command("LLEN")?).await
    }

    /// Whether it has none.
    ///
    /// # Errors
    ///
    /// As [`List::len`].
    ///
    /// # Cancel safety
    ///
    /// As [`List::len`].
    #[doc(alias = "isEmpty")]
    pub async fn is_empty(&self) -> Result<bool, ObjectError> {
        Ok(self.len().await? == 0)
    }

    /// Removes all elements, in one step; tells whether there were any.
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
}

impl<T, C: Encode<T>> List<T, C> {
    pub(crate) fn encoded(&self, value: &T) -> Result<Bytes, ObjectError> {
        self.place.encoded(&self.codec, value)
    }

    pub(crate) fn encoded_all<'a>(&self, values: impl IntoIterator<Item = &'a T>) -> Result<Vec<Bytes>, ObjectError>
    where
        T: 'a,
    {
        self.place.encoded_all(&self.codec, values)
    }
}

impl<T, C: Decode<T>> List<T, C> {
    /// What is at an index.
    pub(crate) fn at(&self, index: u64, bytes: &Bytes) -> Result<T, ObjectError> {
        self.place.decoded(&self.codec, bytes, || Some(format!("index {index}")))
    }

    /// What is somewhere, in these words.
    pub(crate) fn one(&self, bytes: &Bytes, place: &'static str) -> Result<T, ObjectError> {
        self.place.decoded(&self.codec, bytes, || Some(place.to_owned()))
    }
}

impl<T, C: Clone> Clone for List<T, C> {
    fn clone(&self) -> Self {
        List { place: self.place.clone(), codec: self.codec.clone(), elements: PhantomData }
    }
}

impl<T, C: fmt::Debug> fmt::Debug for List<T, C> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("List").field("name", &self.place.name()).field("codec", &self.codec).finish_non_exhaustive()
    }
}
