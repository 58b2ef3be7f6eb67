//! The HyperLogLog.

use std::borrow::Borrow;
use std::fmt;
use std::marker::PhantomData;

use bytes::Bytes;
use redgrid_codecs::{Codec, Encode};
use redgrid_core::object::{Object, ObjectError, ObjectRef, alone, chunks};
use redgrid_core::{Client, Request};

/// Defines the type, with its default codec. Only the feature `json` gives it one, so that the
/// equality of elements never depends on features that other crates enable.
macro_rules! hyper_log_log {
    ($($codec:tt)*) => {
        /// An estimate of the number of different elements, with a standard error of 0.81 %, in 12
        /// KiB at most.
        ///
        /// Redisson's `RHyperLogLog` on the wire.
        ///
        /// Cheap to clone; clones are handles of the same object. It uses the server's own PFADD,
        /// PFCOUNT and PFMERGE.
        #[doc(alias = "RHyperLogLog")]
        #[doc(alias = "RedissonHyperLogLog")]
        pub struct HyperLogLog<T, C $($codec)*> {
            object_ref: ObjectRef,
            codec: C,
            elements: PhantomData<fn() -> T>,
        }
    };
}

#[cfg(feature = "json")]
hyper_log_log!(= redgrid_codecs::Json);
#[cfg(not(feature = "json"))]
hyper_log_log!();

impl<T, C: Codec + Default> HyperLogLog<T, C> {
    /// Returns the HyperLogLog with this name.
    ///
    /// No request is sent: the first call reports an invalid name.
    pub fn new(client: &Client, name: impl AsRef<str>) -> Self {
        HyperLogLog { object_ref: ObjectRef::new(client, name), codec: C::default(), elements: PhantomData }
    }
}

impl<T, C: Codec> HyperLogLog<T, C> {
    /// Returns a handle of the same name with another codec. Elements are equal if their encoded
    /// bytes are equal.
    pub fn with_codec<D: Codec>(self, codec: D) -> HyperLogLog<T, D> {
        HyperLogLog { object_ref: self.object_ref, codec, elements: PhantomData }
    }

    /// Returns the [`Object`] of this name: existence, lifetime, other names, memory size.
    pub fn object(&self) -> Object {
        self.object_ref.object(alone)
    }

    /// Adds an element. Returns whether the estimate may have changed.
    ///
    /// # Errors
    ///
    /// [`ObjectError`] states what failed and whether anything may have changed. After an unknown
    /// outcome, the element may be added again.
    ///
    /// # Cancel safety
    ///
    /// A request that was already sent is executed even if the future is dropped.
    pub async fn add<Q: ?Sized>(&self, element: &Q) -> Result<bool, ObjectError>
    where
        T: Borrow<Q>,
        C: Encode<Q>,
    {
        let element = self.object_ref.encoded(&self.codec, element)?;
        self.object_ref.change(self.object_ref.command("PFADD")?.arg(element)).await
    }

    /// Adds elements, up to 500 or about 4 MiB a request. Returns whether the estimate may have
    /// changed.
    ///
    /// # Errors
    ///
    /// As for [`HyperLogLog::add`]. Some elements may have been added.
    ///
    /// # Cancel safety
    ///
    /// As for [`HyperLogLog::add`].
    #[doc(alias = "addAll")]
    pub async fn add_many<'a, Q: ?Sized + 'a>(
        &self,
        elements: impl IntoIterator<Item = &'a Q>,
    ) -> Result<bool, ObjectError>
    where
        T: Borrow<Q>,
        C: Encode<Q>,
    {
        let (elements, mut changed) = (self.object_ref.encoded_all(&self.codec, elements)?, false);
        for chunk in chunks(&elements, Bytes::len) {
            let request = chunk.iter().cloned().fold(self.object_ref.command("PFADD")?, Request::arg);
            changed |= self.object_ref.change::<bool>(request).await?;
        }
        Ok(changed)
    }

    /// Estimates how many different elements were added.
    ///
    /// # Errors
    ///
    /// [`ObjectError`] states what failed and whether anything may have changed.
    ///
    /// # Cancel safety
    ///
    /// Dropping the future changes nothing.
    pub async fn count(&self) -> Result<u64, ObjectError> {
        self.object_ref.read(self.object_ref.command("PFCOUNT")?).await
    }

    /// Estimates how many different elements were added to this object and the others together.
    ///
    /// In a cluster, all must be in one slot (by a hash tag, like `{visitors}:monday`).
    ///
    /// # Errors
    ///
    /// As for [`HyperLogLog::count`]. [`Failure::InvalidArgument`](crate::Failure::InvalidArgument)
    /// for an object in another slot.
    ///
    /// # Cancel safety
    ///
    /// Dropping the future changes nothing.
    #[doc(alias = "countWith")]
    pub async fn count_with<N: AsRef<str>>(&self, others: impl IntoIterator<Item = N>) -> Result<u64, ObjectError> {
        self.object_ref.read(self.request_with(others, "PFCOUNT")?).await
    }

    /// Adds the elements of the others. In a cluster, all must be in one slot.
    ///
    /// # Errors
    ///
    /// As for [`HyperLogLog::add`]. [`Failure::InvalidArgument`](crate::Failure::InvalidArgument)
    /// for an object in another slot.
    ///
    /// # Cancel safety
    ///
    /// As for [`HyperLogLog::add`].
    #[doc(alias = "mergeWith")]
    pub async fn merge_with<N: AsRef<str>>(&self, others: impl IntoIterator<Item = N>) -> Result<(), ObjectError> {
        self.object_ref.change(self.request_with(others, "PFMERGE")?).await
    }

    fn request_with<N: AsRef<str>>(
        &self,
        others: impl IntoIterator<Item = N>,
        command: &'static str,
    ) -> Result<Request, ObjectError> {
        let others: Result<Vec<Bytes>, _> =
            others.into_iter().map(|name| self.object_ref.same_slot_key("name", name)).collect();
        Ok(self.object_ref.command(command)?.keys(others?))
    }
}

impl<T, C: Clone> Clone for HyperLogLog<T, C> {
    fn clone(&self) -> Self {
        HyperLogLog { object_ref: self.object_ref.clone(), codec: self.codec.clone(), elements: PhantomData }
    }
}

impl<T, C: fmt::Debug> fmt::Debug for HyperLogLog<T, C> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut debug = f.debug_struct("HyperLogLog");
        debug.field("name", &self.object_ref.name()).field("codec", &self.codec).finish_non_exhaustive()
    }
}
