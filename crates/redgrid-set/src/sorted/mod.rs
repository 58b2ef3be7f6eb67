//! Sorted sets: by scores, by text, and by the natural order of the values.

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

static RETAIN: Script<1> = Script::new(
    "set/retain_sorted",
    concat!(include_str!("../scripts/retain_sorted.lua"), include_str!("../scripts/retained.lua")),
);

/// Implements the methods that both types of sorted sets have.
macro_rules! ordered_methods {
    ($type:ident) => {
        common_methods!($type, "ZCARD", "ZREM", "ZRANDMEMBER", RETAIN);

        impl<T, C: Codec> $type<T, C> {
            /// Returns whether the set contains a value.
            ///
            /// # Errors
            ///
            /// [`ObjectError`] states what failed and whether anything may have changed.
            ///
            /// # Cancel safety
            ///
            /// Dropping the future changes nothing.
            pub async fn contains<Q: ?Sized>(&self, value: &Q) -> Result<bool, ObjectError>
            where
                C: EncodesFor<T, Q>,
            {
                Ok(self.inner.score(value).await?.is_some())
            }

            /// Returns for each value, in their order, whether the set contains it. A request
            /// contains up to 500 values or about 4 MiB.
            ///
            /// # Errors and cancel safety
            ///
            /// As for [`Self::contains`].
            #[doc(alias = "containsAll")]
            pub async fn contains_each<'a, Q: ?Sized + 'a>(
                &self,
                values: impl IntoIterator<Item = &'a Q>,
            ) -> Result<Vec<bool>, ObjectError>
            where
                C: EncodesFor<T, Q>,
            {
                Ok(self.inner.scores(values).await?.into_iter().map(|score| score.is_some()).collect())
            }

            /// Returns the number of values before a value; `None` if the set does not contain it.
            ///
            /// # Errors and cancel safety
            ///
            /// As for [`Self::contains`].
            pub async fn rank<Q: ?Sized>(&self, value: &Q) -> Result<Option<u64>, ObjectError>
            where
                C: EncodesFor<T, Q>,
            {
                let value = self.inner.encode(value)?;
                self.inner.object_ref.read(self.inner.object_ref.command("ZRANK")?.arg(value)).await
            }

            /// Returns the number of values after a value; `None` if the set does not contain it.
            ///
            /// # Errors and cancel safety
            ///
            /// As for [`Self::contains`].
            #[doc(alias = "revRank")]
            pub async fn rev_rank<Q: ?Sized>(&self, value: &Q) -> Result<Option<u64>, ObjectError>
            where
                C: EncodesFor<T, Q>,
            {
                let value = self.inner.encode(value)?;
                self.inner.object_ref.read(self.inner.object_ref.command("ZREVRANK")?.arg(value)).await
            }

            /// Returns the range of these ranks. They count from 0 for the first value; after
            /// [`Range::rev`], from 0 for the last.
            #[doc(alias = "valueRange")]
            #[doc(alias = "entryRange")]
            #[doc(alias = "range")]
            #[doc(alias = "removeRangeByRank")]
            pub fn by_rank(&self, ranks: impl RangeBounds<u64> + Debug) -> Range<T, C> {
                Range::of_ranks(&self.inner, &ranks)
            }
        }

        impl<T, C: Decode<T>> $type<T, C> {
            /// Returns all values in their order, in one reply, which is as large as all of them.
            ///
            /// # Errors
            ///
            /// [`ObjectError`] states what failed and whether anything may have changed.
            ///
            /// # Cancel safety
            ///
            /// Dropping the future changes nothing.
            #[doc(alias = "readAll")]
            #[doc(alias = "toArray")]
            pub async fn read_all(&self) -> Result<Vec<T>, ObjectError> {
                self.inner.decode_all(
                    &self
                        .inner
                        .object_ref
                        .read::<Vec<_>>(self.inner.object_ref.command("ZRANGE")?.int(0).int(-1))
                        .await?,
                )
            }
        }
    };
}
pub(crate) use ordered_methods;
