//! The HyperLogLog.

use std::borrow::Borrow;
use std::fmt;
use std::marker::PhantomData;

use bytes::Bytes;
use redgrid_codecs::{Codec, Encode};
use redgrid_core::object::{Object, ObjectError, Place, alone, parts};
use redgrid_core::{Client, Request};

/// The type, with the codec of one that names none: there is one only with the feature `json`, so that what counts as the same never depends on
/// the features that others ask for.
macro_rules! hyper_log_log {
    ($($codec:tt)*) => {
        /// How many different elements were added, with a standard error of 0.81 %, in 12 KiB at most. Redisson's `RHyperLogLog` on the wire.
        ///
        /// Cheap to clone; clones are the same. It is counted by the server's own PFADD, PFCOUNT and PFMERGE.
        #[doc(alias = "RHyperLogLog")]
        #[doc(alias = "RedissonHyperLogLog")]
        pub struct HyperLogLog<T, C $($codec)*> {
            place: Place,
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
    /// The one with this name. Making one asks nobody: an invalid name is told by the first call.
    pub fn new(client: &Client, name: impl AsRef<str>) -> Self {
        HyperLogLog { place: Place::new(client, name), codec: C::default(), elements: PhantomData }
    }
}

impl<T, C: Codec> HyperLogLog<T, C> {
    /// The same name with another codec: elements are equal whose bytes are.
    pub fn with_codec<D: Codec>(self, codec: D) -> HyperLogLog<T, D> {
        HyperLogLog { place: self.place, codec, elements: PhantomData }
    }

    /// What every object has: whether it is there, its lifetime, other names, its size in memory.
    pub fn object(&self) -> Object {
        self.place.object(alone)
    }

    /// Adds an element; tells whether the estimate may be another now.
    ///
    /// # Errors
    ///
    /// [`ObjectError`] says what is true then. What ended unknown may be added again.
    ///
    /// # Cancel safety
    ///
    /// What has left is carried out although nobody waits for it.
    pub async fn add<Q: ?Sized>(&self, element: &Q) -> Result<bool, ObjectError>
    where
        T: Borrow<Q>,
        C: Encode<Q>,
    {
        let element = self.place.encoded(&self.codec, element)?;
        self.place.change(self.place.command("PFADD")?.arg(element)).await
    }

    /// Adds many, 500 or about 4 MiB at a time; tells whether the estimate may be another now.
    ///
    /// # Errors
    ///
    /// As [`HyperLogLog::add`]; some may be added.
    ///
    /// # Cancel safety
    ///
    /// As [`HyperLogLog::add`].
    #[doc(alias = "addAll")]
    pub async fn add_many<'a, Q: ?Sized + 'a>(
        &self,
        elements: impl IntoIterator<Item = &'a Q>,
    ) -> Result<bool, ObjectError>
    where
        T: Borrow<Q>,
        C: Encode<Q>,
    {
        let (elements, mut changed) = (self.place.encoded_all(&self.codec, elements)?, false);
        for part in parts(&elements, Bytes::len) {
            let request = part.iter().cloned().fold(self.place.command("PFADD")?, Request::arg);
            changed |= self.place.change::<bool>(request).await?;
        }
        Ok(changed)
    }

    /// About how many different elements were added.
    ///
    /// # Errors
    ///
    /// [`ObjectError`] says what is true then.
    ///
    /// # Cancel safety
    ///
    /// Dropping it changes nothing.
    pub async fn count(&self) -> Result<u64, ObjectError> {
        self.place.read(self.place.command("PFCOUNT")?).await
    }

    /// About how many different elements were added to this one and to the others together. In a cluster all must be of one slot (a hash
    /// tag, `{visitors}:monday`).
    ///
    /// # Errors
    ///
    /// As [`HyperLogLog::count`]; one of another slot is [`ObjectError::InvalidArgument`].
    ///
    /// # Cancel safety
    ///
    /// Dropping it changes nothing.
    #[doc(alias = "countWith")]
    pub async fn count_with<N: AsRef<str>>(&self, others: impl IntoIterator<Item = N>) -> Result<u64, ObjectError> {
        self.place.read(self.with(others, "PFCOUNT")?).await
    }

    /// Adds what was added to the others. In a cluster all must be of one slot.
    ///
    /// # Errors
    ///
    /// As [`HyperLogLog::add`]; one of another slot is [`ObjectError::InvalidArgument`].
    ///
    /// # Cancel safety
    ///
    /// As [`HyperLogLog::add`].
    #[doc(alias = "mergeWith")]
    pub async fn merge_with<N: AsRef<str>>(&self, others: impl IntoIterator<Item = N>) -> Result<(), ObjectError> {
        self.place.change(self.with(others, "PFMERGE")?).await
    }

    fn with<N: AsRef<str>>(
        &self,
        others: impl IntoIterator<Item = N>,
        command: &'static str,
    ) -> Result<Request, ObjectError> {
        let others: Result<Vec<Bytes>, _> = others.into_iter().map(|name| self.place.beside("name", name)).collect();
        Ok(self.place.command(command)?.keys(others?))
    }
}

impl<T, C: Clone> Clone for HyperLogLog<T, C> {
    fn clone(&self) -> Self {
        HyperLogLog { place: self.place.clone(), codec: self.codec.clone(), elements: PhantomData }
    }
}

impl<T, C: fmt::Debug> fmt::Debug for HyperLogLog<T, C> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut shown = f.debug_struct("HyperLogLog");
        shown.field("name", &self.place.name()).field("codec", &self.codec).finish_non_exhaustive()
    }
}
