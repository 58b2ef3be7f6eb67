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

static RETAIN: Script<1> = Script::new(
    "set/retain_sorted",
    concat!(include_str!("../scripts/retain_sorted.lua"), include_str!("../scripts/retained.lua")),
);

/// What the two types of sorted sets have in common, whatever orders them.
macro_rules! ordered_methods {
    ($type:ident) => {
        common_methods!($type, "ZCARD", "ZREM", "ZRANDMEMBER", RETAIN);

        impl<T, C: Codec> $type<T, C> {
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
        }
    };
}
pub(crate) use ordered_methods;
