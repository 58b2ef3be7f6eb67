//! Several sorted sets as one: with weights, and a score of those that a value has in each.

use bytes::Bytes;
use redgrid_codecs::{Codec, Decode};
use redgrid_core::object::ObjectError;

use super::score::text;
use super::{ScoredSortedSet, SortedSet};
use crate::combine::{Combination, Of, count};

/// Which score a value has in a union or an intersection, of those that it has in each set.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[non_exhaustive]
#[doc(alias = "RScoredSortedSet.Aggregate")]
pub enum Aggregate {
    /// Their sum.
    #[default]
    Sum,
    /// The lowest.
    Min,
    /// The highest.
    Max,
}

/// A sorted set with others: their union, their intersection, or what only it has. Made by the methods of those names; the others are asked
/// about by their names, and all share a slot; there are up to 1,000 others. Plain sets may be among them: their values have the score 1.
#[derive(Debug)]
#[must_use = "nothing is asked of the server yet"]
pub struct ScoredCombination<T, C> {
    all: Combination<T, C>,
    weights: Vec<f64>,
    aggregate: Option<Aggregate>,
}

impl<T, C: Codec> ScoredCombination<T, C> {
    fn new(all: Combination<T, C>) -> Self {
        ScoredCombination { all, weights: Vec::new(), aggregate: None }
    }

    /// By what the scores of each set are multiplied: first those of this one, then those of the others, in their order. 1 unless it is said.
    /// Not of a difference, which has the scores of this set.
    pub fn weights(mut self, weights: impl IntoIterator<Item = f64>) -> Self {
        self.weights = weights.into_iter().collect();
        self
    }

    /// Which score a value has then; the sum unless it is said. Not of a difference.
    pub fn aggregate(mut self, aggregate: Aggregate) -> Self {
        self.aggregate = Some(aggregate);
        self
    }

    fn checked(self) -> Result<Combination<T, C>, ObjectError> {
        let ScoredCombination { mut all, weights, aggregate } = self;
        let sets = all.width();
        match all.what {
            Of::Difference if !weights.is_empty() => {
                return Err(all.of.invalid("weights", "none of a difference", format!("{}", weights.len()))?);
            }
            Of::Difference if aggregate.is_some() => {
                return Err(all.of.invalid("aggregate", "none of a difference", "one")?);
            }
            _ if !weights.is_empty() && weights.len() != sets => {
                return Err(all.of.invalid(
                    "weights",
                    format!("{sets}, one for each set"),
                    weights.len().to_string(),
                )?);
            }
            _ => {}
        }
        if !weights.is_empty() {
            all.options.push("WEIGHTS".into());
            for weight in weights {
                all.options.push(text(all.of.name()?, weight)?);
            }
        }
        if let Some(aggregate) = aggregate {
            let named = match aggregate {
                Aggregate::Sum => "SUM",
                Aggregate::Min => "MIN",
                Aggregate::Max => "MAX",
            };
            all.options.extend([Bytes::from("AGGREGATE"), named.into()]);
        }
        Ok(all)
    }

    /// Stores them with their scores under a name, in place of what is there, in one step; tells how many there are. The name may be
    /// that of one of the sets. Nothing is there where there are none.
    ///
    /// # Errors
    ///
    /// [`ObjectError`] says what is true then; [`ObjectError::InvalidArgument`] where the names do not share a slot of a cluster, of weights that
    /// are not one for each set, and of what a difference does not have.
    ///
    /// # Cancel safety
    ///
    /// What has left is carried out although nobody waits for it.
    #[doc(alias = "union")]
    #[doc(alias = "intersection")]
    #[doc(alias = "diff")]
    pub async fn store(self, name: impl AsRef<str>) -> Result<u64, ObjectError> {
        self.checked()?.store(name).await
    }
}

impl<T, C: Decode<T>> ScoredCombination<T, C> {
    /// The values in the order of their scores, in one answer.
    ///
    /// # Errors
    ///
    /// As [`ScoredCombination::store`].
    ///
    /// # Cancel safety
    ///
    /// Dropping it changes nothing.
    #[doc(alias = "readUnion")]
    #[doc(alias = "readIntersection")]
    #[doc(alias = "readDiff")]
    pub async fn values(self) -> Result<Vec<T>, ObjectError> {
        self.checked()?.values().await
    }

    /// The values with their scores, in their order, in one answer.
    ///
    /// # Errors
    ///
    /// As [`ScoredCombination::store`].
    ///
    /// # Cancel safety
    ///
    /// Dropping it changes nothing.
    #[doc(alias = "readUnionEntries")]
    #[doc(alias = "readIntersectionEntries")]
    #[doc(alias = "readDiffEntries")]
    pub async fn entries(self) -> Result<Vec<(T, f64)>, ObjectError> {
        self.checked()?.with_scores().await
    }
}

impl<T, C: Codec> ScoredSortedSet<T, C> {
    /// What is in this set or in others, by their names.
    pub fn union<N: AsRef<str>>(&self, others: impl IntoIterator<Item = N>) -> ScoredCombination<T, C> {
        ScoredCombination::new(Combination::new(&self.of, Of::Union, others, true))
    }

    /// What is in this set and in all of the others, by their names.
    pub fn intersection<N: AsRef<str>>(&self, others: impl IntoIterator<Item = N>) -> ScoredCombination<T, C> {
        ScoredCombination::new(Combination::new(&self.of, Of::Intersection, others, true))
    }

    /// What is in this set and in none of the others, by their names.
    pub fn difference<N: AsRef<str>>(&self, others: impl IntoIterator<Item = N>) -> ScoredCombination<T, C> {
        ScoredCombination::new(Combination::new(&self.of, Of::Difference, others, true))
    }

    /// How many values this set and all of the others have in common; it counts up to `limit` where one is given. Redis 7.0 or newer,
    /// Valkey.
    ///
    /// # Errors
    ///
    /// [`ObjectError`] says what is true then: an older server refuses.
    ///
    /// # Cancel safety
    ///
    /// Dropping it changes nothing.
    #[doc(alias = "countIntersection")]
    pub async fn intersection_len<N: AsRef<str>>(
        &self,
        others: impl IntoIterator<Item = N>,
        limit: Option<u64>,
    ) -> Result<u64, ObjectError> {
        count(&self.intersection(others).all, "ZINTERCARD", limit).await
    }
}

impl<T, C: Codec> SortedSet<T, C> {
    /// What is in this set or in others, by their names. Those may be sets of any kind whose values are written by the same codec.
    pub fn union<N: AsRef<str>>(&self, others: impl IntoIterator<Item = N>) -> Combination<T, C> {
        without_scores(Combination::new(&self.of, Of::Union, others, true))
    }

    /// What is in this set and in all of the others, by their names.
    pub fn intersection<N: AsRef<str>>(&self, others: impl IntoIterator<Item = N>) -> Combination<T, C> {
        without_scores(Combination::new(&self.of, Of::Intersection, others, true))
    }

    /// What is in this set and in none of the others, by their names.
    pub fn difference<N: AsRef<str>>(&self, others: impl IntoIterator<Item = N>) -> Combination<T, C> {
        Combination::new(&self.of, Of::Difference, others, true)
    }
}

/// All with the score 0, whatever those of the others are: so that they are in the order of their bytes.
fn without_scores<T, C: Codec>(mut all: Combination<T, C>) -> Combination<T, C> {
    all.options.push("WEIGHTS".into());
    all.options.extend(std::iter::repeat_n(Bytes::from("0"), all.width()));
    all
}
