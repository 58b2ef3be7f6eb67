//! Sorted sets: by scores, by text, and by the values' own order.

mod add;
mod combine;
mod natural;
mod range;
mod score;
mod scored;

pub use self::add::Only;
pub use self::combine::{Aggregate, ScoredCombination};
pub use self::natural::{InOrder, LexSortedSet, SortedSet};
pub use self::range::Range;
pub use self::scored::ScoredSortedSet;
use redgrid_core::Script;

static RETAIN: Script<1> = Script::new("set/retain_sorted", include_str!("../scripts/retain_sorted.lua"));

/// What the two types of sorted sets have in common, whatever orders them.
macro_rules! ordered_methods {
    ($type:ident) => {
        impl<T, C: Codec> $type<T, C> {
            /// The same name with another codec.
            pub fn with_codec<D: Codec>(self, codec: D) -> $type<T, D> {
                $type { of: self.of.with_codec(codec) }
            }

            /// What every object has: whether it is there, its lifetime, other names, its size in memory.
            pub fn object(&self) -> Object {
                self.of.place.object(alone)
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
                self.of.place.read(self.of.place.command("ZCARD")?).await
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
                T: Borrow<Q>,
                C: Encode<Q>,
            {
                let value = self.of.encoded(value)?;
                self.of.place.change(self.of.place.command("ZREM")?.arg(value)).await
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
            pub async fn remove_many<'a, Q: ?Sized + 'a>(
                &self,
                values: impl IntoIterator<Item = &'a Q>,
            ) -> Result<u64, ObjectError>
            where
                T: Borrow<Q>,
                C: Encode<Q>,
            {
                let values = self.of.encoded_all(values)?;
                self.of.change_parts("ZREM", &values).await
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
                T: Borrow<Q>,
                C: Encode<Q>,
            {
                let values = self.of.encoded_together(values)?;
                let request = values.into_iter().fold(self.of.script(&RETAIN)?, Request::arg);
                self.of.place.change(request).await
            }

            /// Whether a value is in.
            ///
            /// # Errors
            ///
            /// [`ObjectError`] says what is true then.
            ///
            /// # Cancel safety
            ///
            /// Dropping it changes nothing.
            pub async fn contains<Q: ?Sized>(&self, value: &Q) -> Result<bool, ObjectError>
            where
                T: Borrow<Q>,
                C: Encode<Q>,
            {
                Ok(self.of.score(value).await?.is_some())
            }

            /// Of each value whether it is in, in their order; 500 of them or about 4 MiB at a time.
            ///
            /// # Errors
            ///
            /// As [`Self::contains`].
            ///
            /// # Cancel safety
            ///
            /// As [`Self::contains`].
            #[doc(alias = "containsAll")]
            pub async fn contains_each<'a, Q: ?Sized + 'a>(
                &self,
                values: impl IntoIterator<Item = &'a Q>,
            ) -> Result<Vec<bool>, ObjectError>
            where
                T: Borrow<Q>,
                C: Encode<Q>,
            {
                Ok(self.of.scores(values).await?.into_iter().map(|score| score.is_some()).collect())
            }

            /// How many are in front of a value; `None` where it is not in.
            ///
            /// # Errors
            ///
            /// As [`Self::contains`].
            ///
            /// # Cancel safety
            ///
            /// As [`Self::contains`].
            pub async fn rank<Q: ?Sized>(&self, value: &Q) -> Result<Option<u64>, ObjectError>
            where
                T: Borrow<Q>,
                C: Encode<Q>,
            {
                let value = self.of.encoded(value)?;
                self.of.place.read(self.of.place.command("ZRANK")?.arg(value)).await
            }

            /// How many are behind a value; `None` where it is not in.
            ///
            /// # Errors
            ///
            /// As [`Self::contains`].
            ///
            /// # Cancel safety
            ///
            /// As [`Self::contains`].
            #[doc(alias = "revRank")]
            pub async fn rev_rank<Q: ?Sized>(&self, value: &Q) -> Result<Option<u64>, ObjectError>
            where
                T: Borrow<Q>,
                C: Encode<Q>,
            {
                let value = self.of.encoded(value)?;
                self.of.place.read(self.of.place.command("ZREVRANK")?.arg(value)).await
            }

            /// Those at these ranks, the first 0; behind [`Range::rev`] the last 0.
            #[doc(alias = "valueRange")]
            #[doc(alias = "entryRange")]
            #[doc(alias = "range")]
            #[doc(alias = "removeRangeByRank")]
            pub fn by_rank(&self, ranks: impl RangeBounds<u64> + Debug) -> Range<T, C> {
                Range::of_ranks(&self.of, &ranks)
            }
        }

        impl<T, C: Decode<T>> $type<T, C> {
            /// All values in one answer, in their order: as large as all of them.
            ///
            /// # Errors
            ///
            /// [`ObjectError`] says what is true then.
            ///
            /// # Cancel safety
            ///
            /// Dropping it changes nothing.
            #[doc(alias = "readAll")]
            #[doc(alias = "toArray")]
            pub async fn read_all(&self) -> Result<Vec<T>, ObjectError> {
                self.of.all(&self.of.place.read::<Vec<_>>(self.of.place.command("ZRANGE")?.int(0).int(-1)).await?)
            }

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
                self.of.maybe(self.of.place.read(self.of.place.command("ZRANDMEMBER")?).await?)
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
                let request = self.of.place.command("ZRANDMEMBER")?.int(count.into());
                self.of.all(&self.of.place.read::<Vec<_>>(request).await?)
            }
        }
    };
}
pub(crate) use ordered_methods;
