//! The list: construction, length, and clearing.

use bytes::Bytes;
use redgrid_codecs::{Codec, Decode, EncodesFor};
use redgrid_core::object::{ObjectError, layouts};

redgrid_core::value_object! {
    /// A list of elements of type `T`, shared by all processes that reach the same server.
    ///
    /// On the wire it is Redisson's `RList`.
    ///
    /// It is cheap to clone; clones are handles of the same list. The codec `C` is part of the
    /// type: all users of a list must use the same one. With the feature `json`, the default is
    /// `Json`. A list exists while it has elements.
    ///
    /// Indices count from 0. To find an index, the server starts at the nearer end, and skips whole
    /// nodes of a few kilobytes.
    #[doc(alias = "RList")]
    #[doc(alias = "RedissonList")]
    pub struct List;

    |object_ref| object_ref.object(layouts::list)
}

impl<T, C: Codec> List<T, C> {
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
    /// # Errors and cancel safety
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

impl<T, C: Codec> List<T, C> {
    pub(crate) fn encode<Q: ?Sized>(&self, value: &Q) -> Result<Bytes, ObjectError>
    where
        C: EncodesFor<T, Q>,
    {
        self.object_ref.encoded(&self.codec, value)
    }

    pub(crate) fn encode_all<'a, Q: ?Sized + 'a>(
        &self,
        values: impl IntoIterator<Item = &'a Q>,
    ) -> Result<Vec<Bytes>, ObjectError>
    where
        C: EncodesFor<T, Q>,
    {
        self.object_ref.encoded_all(&self.codec, values)
    }
}

impl<T, C: Decode<T>> List<T, C> {
    /// Decodes the element at an index.
    pub(crate) fn decode_at(&self, index: u64, bytes: &Bytes) -> Result<T, ObjectError> {
        self.object_ref.decoded(&self.codec, bytes, || Some(format!("index {index}")))
    }

    /// Decodes an element. Errors contain `location` as its position.
    pub(crate) fn decode(&self, bytes: &Bytes, location: &'static str) -> Result<T, ObjectError> {
        self.object_ref.decoded(&self.codec, bytes, || Some(location.to_owned()))
    }
}
