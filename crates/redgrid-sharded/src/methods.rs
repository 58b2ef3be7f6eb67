//! The methods that all sharded objects have, and those of sharded collections.

/// Implements the methods of all sharded objects, and `Clone`. `$existence` documents when the
/// object begins to exist.
macro_rules! sharded_methods {
    ([$($generics:tt)*] $type:ty $(, $existence:literal)?) => {
        impl<$($generics)*> $type {
            /// Sets the number of shards, a power of two of up to 1,024; the default is 16.
            ///
            /// If another number is already stored, calls return
            /// [`Failure::InvalidArgument`](crate::Failure::InvalidArgument): a stored object
            /// cannot be resharded.
            ///
            /// With more shards, the distribution over many nodes is more even, but a call for all
            /// shards sends more commands. A good number is two to eight times the number of nodes
            /// that the cluster may have in the future.
            pub fn with_shards(mut self, shards: u32) -> Self {
                self.sharded.requested.shards = Some(shards);
                self
            }

            #[doc = concat!("Returns the operations on all shards: existence", $($existence, )? ", lifetime, deletion.")]
            pub fn object(&self) -> crate::ShardedObject {
                crate::ShardedObject::new(&self.sharded)
            }
        }

        impl<$($generics)*> Clone for $type {
            fn clone(&self) -> Self {
                Self { sharded: self.sharded.clone() }
            }
        }
    };
}

/// Implements the size of a collection and its removal. `$items` is the name of its elements.
#[cfg(any(feature = "map", feature = "set"))]
macro_rules! collection_methods {
    ($items:literal, [$($generics:tt)*] $type:ty) => {
        impl<$($generics)*> $type {
            #[doc = concat!("Returns the number of ", $items, ". The shards are not counted at the same moment.")]
            ///
            /// # Errors
            ///
            /// [`ObjectError::Shards`] names the shards that could not be read.
            ///
            /// # Cancel safety
            ///
            /// Dropping the future changes nothing.
            #[doc(alias = "size")]
            pub async fn len(&self) -> Result<u64, ObjectError> {
                self.sharded.sum(|shard| async move { shard.len().await }).await
            }

            #[doc = concat!("Returns whether there are no ", $items, ".")]
            ///
            /// # Errors
            ///
            /// [`ObjectError::Shards`] if the shards that replied are empty, but others failed.
            ///
            /// # Cancel safety
            ///
            /// As for [`Self::len`].
            #[doc(alias = "isEmpty")]
            pub async fn is_empty(&self) -> Result<bool, ObjectError> {
                Ok(!self.sharded.any(|shard| async move { Ok(!shard.is_empty().await?) }).await?)
            }

            #[doc = concat!("Removes all ", $items, ", each shard in one step. Returns whether there were any.")]
            /// The shard layout is kept.
            ///
            /// # Errors
            ///
            #[doc = concat!("[`ObjectError::Shards`] names the shards that may still have their ", $items, ".")]
            ///
            /// # Cancel safety
            ///
            /// A request that was already sent is executed even if the future is dropped.
            pub async fn clear(&self) -> Result<bool, ObjectError> {
                self.sharded.change_all(|shard| async move { shard.clear().await }).await
            }
        }
    };
}

#[cfg(any(feature = "map", feature = "set"))]
pub(crate) use collection_methods;
pub(crate) use sharded_methods;
