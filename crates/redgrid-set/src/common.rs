//! What all sets have in common, whatever orders them.

/// By the commands of the server for it, and the script that retains.
macro_rules! common_methods {
    ($type:ident, $count:literal, $remove:literal, $random:literal, $retain:ident) => {
        impl<T, C: redgrid_codecs::Codec> $type<T, C> {
            /// The same name with another codec.
            pub fn with_codec<D: redgrid_codecs::Codec>(self, codec: D) -> $type<T, D> {
                $type { of: self.of.with_codec(codec) }
            }

            /// What every object has: whether it is there, its lifetime, other names, its size in memory.
            pub fn object(&self) -> redgrid_core::object::Object {
                self.of.place.object(redgrid_core::object::alone)
            }

            /// How many values it has.
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
                self.of.place.read(self.of.place.command($count)?).await
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

            /// Removes all values, in one step; tells whether there were any.
            ///
            /// # Errors
            ///
            /// [`ObjectError`] says what is true then.
            ///
            /// # Cancel safety
            ///
            /// What has left is carried out although nobody waits for it.
            pub async fn clear(&self) -> Result<bool, ObjectError> {
                self.of.place.change(self.of.place.command("DEL")?).await
            }

            /// Removes a value; tells whether it was in.
            ///
            /// # Errors
            ///
            /// [`ObjectError`] says what is true then.
            ///
            /// # Cancel safety
            ///
            /// What has left is carried out although nobody waits for it.
            pub async fn remove<Q: ?Sized>(&self, value: &Q) -> Result<bool, ObjectError>
            where
                T: std::borrow::Borrow<Q>,
                C: redgrid_codecs::Encode<Q>,
            {
                let value = self.of.encoded(value)?;
                self.of.place.change(self.of.place.command($remove)?.arg(value)).await
            }

            /// Removes values, 500 of them or about 4 MiB at a time; tells how many were in. After an error some may be removed.
            ///
            /// # Errors
            ///
            /// As [`Self::remove`].
            ///
            /// # Cancel safety
            ///
            /// As [`Self::remove`].
            #[doc(alias = "removeAll")]
            #[doc(alias = "removeAllCounted")]
            pub async fn remove_many<'a, Q: ?Sized + 'a>(
                &self,
                values: impl IntoIterator<Item = &'a Q>,
            ) -> Result<u64, ObjectError>
            where
                T: std::borrow::Borrow<Q>,
                C: redgrid_codecs::Encode<Q>,
            {
                let values = self.of.encoded_all(values)?;
                self.of.change_parts($remove, &values).await
            }

            /// Removes all but these, up to 100,000, in one step; tells how many. Its lifetime stays.
            ///
            /// # Errors
            ///
            /// [`ObjectError`] says what is true then; [`ObjectError::InvalidArgument`] of more.
            ///
            /// # Cancel safety
            ///
            /// What has left is carried out although nobody waits for it.
            #[doc(alias = "retainAll")]
            pub async fn retain_many<'a, Q: ?Sized + 'a>(
                &self,
                values: impl IntoIterator<Item = &'a Q>,
            ) -> Result<u64, ObjectError>
            where
                T: std::borrow::Borrow<Q>,
                C: redgrid_codecs::Encode<Q>,
            {
                let values = self.of.encoded_together(values)?;
                let request = values.into_iter().fold(self.of.script(&$retain)?, redgrid_core::Request::arg);
                self.of.place.change(request).await
            }
        }

        impl<T, C: redgrid_codecs::Decode<T>> $type<T, C> {
            /// A value by chance, which stays; `None` where there is none.
            ///
            /// # Errors
            ///
            /// As [`Self::read_all`].
            ///
            /// # Cancel safety
            ///
            /// As [`Self::read_all`].
            pub async fn random(&self) -> Result<Option<T>, ObjectError> {
                self.of.maybe(self.of.place.read(self.of.place.command($random)?).await?)
            }

            /// Some values by chance, each once: `count` of them, or all where there are fewer. They stay.
            ///
            /// # Errors
            ///
            /// As [`Self::read_all`].
            ///
            /// # Cancel safety
            ///
            /// As [`Self::read_all`].
            #[doc(alias = "random")]
            pub async fn random_many(&self, count: u32) -> Result<Vec<T>, ObjectError> {
                let request = self.of.place.command($random)?.int(count.into());
                self.of.all(&self.of.place.read::<Vec<_>>(request).await?)
            }
        }
    };
}
pub(crate) use common_methods;
