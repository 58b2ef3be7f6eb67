//! The methods that all types of sets have, sorted or not.

/// Implements the common methods of a set type. The arguments are the server's commands for this
/// type, and the script for `retain_many`.
macro_rules! common_methods {
    ($type:ident, $count:literal, $remove:literal, $random:literal, $retain:ident) => {
        impl<T, C: redgrid_codecs::Codec> $type<T, C> {
            /// Returns a handle of the same name with another codec.
            pub fn with_codec<D: redgrid_codecs::Codec>(self, codec: D) -> $type<T, D> {
                $type { inner: self.inner.with_codec(codec) }
            }

            /// Returns the [`Object`](redgrid_core::object::Object) of this name: existence,
            /// lifetime, other names, memory size.
            pub fn object(&self) -> redgrid_core::object::Object {
                self.inner.object_ref.object(redgrid_core::object::alone)
            }

            /// Returns the number of values.
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
                self.inner.object_ref.read(self.inner.object_ref.command($count)?).await
            }

            /// Returns whether the set is empty.
            ///
            /// # Errors and cancel safety
            ///
            /// As for [`Self::len`].
            #[doc(alias = "isEmpty")]
            pub async fn is_empty(&self) -> Result<bool, ObjectError> {
                Ok(self.len().await? == 0)
            }

            /// Removes all values, in one step. Returns whether there were any.
            ///
            /// # Errors
            ///
            /// [`ObjectError`] states what failed and whether anything may have changed.
            ///
            /// # Cancel safety
            ///
            /// A request that was already sent is executed even if the future is dropped.
            pub async fn clear(&self) -> Result<bool, ObjectError> {
                self.inner.object_ref.change(self.inner.object_ref.command("DEL")?).await
            }

            /// Removes a value. Returns whether the set contained it.
            ///
            /// # Errors
            ///
            /// [`ObjectError`] states what failed and whether anything may have changed.
            ///
            /// # Cancel safety
            ///
            /// A request that was already sent is executed even if the future is dropped.
            pub async fn remove<Q: ?Sized>(&self, value: &Q) -> Result<bool, ObjectError>
            where
                C: redgrid_codecs::EncodesFor<T, Q>,
            {
                let value = self.inner.encode(value)?;
                self.inner.object_ref.change(self.inner.object_ref.command($remove)?.arg(value)).await
            }

            /// Removes values, up to 500 or about 4 MiB a request. Returns the number of removed
            /// values.
            ///
            /// After an error, some of the values may have been removed.
            ///
            /// # Errors and cancel safety
            ///
            /// As for [`Self::remove`].
            #[doc(alias = "removeAll")]
            #[doc(alias = "removeAllCounted")]
            pub async fn remove_many<'a, Q: ?Sized + 'a>(
                &self,
                values: impl IntoIterator<Item = &'a Q>,
            ) -> Result<u64, ObjectError>
            where
                C: redgrid_codecs::EncodesFor<T, Q>,
            {
                let values = self.inner.encode_all(values)?;
                self.inner.change_chunks($remove, &values).await
            }

            /// Removes all values except the given ones, in one step. Up to 100,000 values can be
            /// given. Returns the number of removed values.
            ///
            /// The set keeps its lifetime.
            ///
            /// # Errors
            ///
            /// [`ObjectError`] states what failed and whether anything may have changed.
            /// [`Failure::InvalidArgument`](crate::Failure::InvalidArgument) for more than 100,000
            /// values.
            ///
            /// # Cancel safety
            ///
            /// A request that was already sent is executed even if the future is dropped.
            #[doc(alias = "retainAll")]
            pub async fn retain_many<'a, Q: ?Sized + 'a>(
                &self,
                values: impl IntoIterator<Item = &'a Q>,
            ) -> Result<u64, ObjectError>
            where
                C: redgrid_codecs::EncodesFor<T, Q>,
            {
                let values = self.inner.encode_limited(values)?;
                let request = values.into_iter().fold(self.inner.script(&$retain)?, redgrid_core::Request::arg);
                self.inner.object_ref.change(request).await
            }
        }

        impl<T, C: redgrid_codecs::Decode<T>> $type<T, C> {
            /// Returns a random value without removing it; `None` if the set is empty.
            ///
            /// # Errors and cancel safety
            ///
            /// As for [`Self::read_all`].
            pub async fn random(&self) -> Result<Option<T>, ObjectError> {
                self.inner.decode_option(self.inner.object_ref.read(self.inner.object_ref.command($random)?).await?)
            }

            /// Returns `count` distinct random values without removing them, or all values if there
            /// are fewer.
            ///
            /// # Errors and cancel safety
            ///
            /// As for [`Self::read_all`].
            #[doc(alias = "random")]
            pub async fn random_many(&self, count: u32) -> Result<Vec<T>, ObjectError> {
                let request = self.inner.object_ref.command($random)?.int(count.into());
                self.inner.decode_all(&self.inner.object_ref.read::<Vec<_>>(request).await?)
            }
        }
    };
}
pub(crate) use common_methods;
