//! The HyperLogLog.

use bytes::Bytes;
use redgrid_codecs::{Codec, EncodesFor};
use redgrid_core::Request;
use redgrid_core::object::{ObjectError, alone, chunks};

redgrid_core::value_object! {
    /// An estimate of the number of different elements, with a standard error of 0.81 %, in at most
    /// 12 KiB.
    ///
    /// On the wire it is Redisson's `RHyperLogLog`.
    ///
    /// It is cheap to clone; clones are handles of the same object. It uses the server's own PFADD,
    /// PFCOUNT and PFMERGE.
    #[doc(alias = "RHyperLogLog")]
    #[doc(alias = "RedissonHyperLogLog")]
    pub struct HyperLogLog;

    |object_ref| object_ref.object(alone)
}

impl<T, C: Codec> HyperLogLog<T, C> {
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
        C: EncodesFor<T, Q>,
    {
        let element = self.object_ref.encoded(&self.codec, element)?;
        self.object_ref.change(self.object_ref.command("PFADD")?.arg(element)).await
    }

    /// Adds elements, up to 500 or about 4 MiB a request. Returns whether the estimate may have
    /// changed.
    ///
    /// # Errors
    ///
    /// As for [`HyperLogLog::add`]. Some of the elements may have been added.
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
        C: EncodesFor<T, Q>,
    {
        let (elements, mut changed) = (self.object_ref.encoded_all(&self.codec, elements)?, false);
        for chunk in chunks(&elements, Bytes::len) {
            let request = chunk.iter().cloned().fold(self.object_ref.command("PFADD")?, Request::arg);
            changed |= self.object_ref.change::<bool>(request).await?;
        }
        Ok(changed)
    }

    /// Estimates the number of different elements that were added.
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

    /// Estimates the number of different elements that were added to this object and the others
    /// together.
    ///
    /// In a cluster, all objects must be in one slot (by a hash tag, like `{visitors}:monday`).
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

    /// Adds the elements of the others. In a cluster, all objects must be in one slot.
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
