//! Unions, intersections and differences of sorted sets, with weights and aggregated scores.

use bytes::Bytes;
use redgrid_codecs::{Codec, Decode};
use redgrid_core::object::ObjectError;

use super::score::encode_score;
use super::{ScoredSortedSet, SortedSet};
use crate::combine::{Combination, SetOperation, count};

/// How the scores of a value in several sets are aggregated in their union or intersection.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[non_exhaustive]
#[doc(alias = "RScoredSortedSet.Aggregate")]
pub enum Aggregate {
    /// The sum.
    #[default]
    Sum,
    /// The lowest score.
    Min,
    /// The highest score.
    Max,
}

/// The union, the intersection or the difference of a sorted set and others; returned by the
/// methods of those names.
///
/// The other sets are given by name, and all names must share a slot. Up to 1,000 other sets are
/// allowed. Plain sets may be among them: their values have the score 1.
#[derive(Debug)]
#[must_use = "does nothing until one of its methods is awaited"]
pub struct ScoredCombination<T, C> {
    combination: Combination<T, C>,
    weights: Vec<f64>,
    aggregate: Option<Aggregate>,
}

impl<T, C: Codec> ScoredCombination<T, C> {
    fn new(combination: Combination<T, C>) -> Self {
        ScoredCombination { combination, weights: Vec::new(), aggregate: None }
    }

    /// Sets the factors by which the scores of each set are multiplied: first the factor of this
    /// set, then those of the others, in their order. The default is 1.
    ///
    /// Not allowed for a difference, because its scores are those of this set.
    pub fn weights(mut self, weights: impl IntoIterator<Item = f64>) -> Self {
        self.weights = weights.into_iter().collect();
        self
    }

    /// Sets how scores are aggregated; the default is the sum. Not allowed for a difference.
    pub fn aggregate(mut self, aggregate: Aggregate) -> Self {
        self.aggregate = Some(aggregate);
        self
    }

    fn checked(self) -> Result<Combination<T, C>, ObjectError> {
        let ScoredCombination { mut combination, weights, aggregate } = self;
        let sets = combination.set_count();
        match combination.operation {
            SetOperation::Difference if !weights.is_empty() => {
                return Err(combination.inner.invalid(
                    "weights",
                    "none for a difference",
                    format!("{}", weights.len()),
                )?);
            }
            SetOperation::Difference if aggregate.is_some() => {
                return Err(combination.inner.invalid("aggregate", "none for a difference", "one")?);
            }
            _ if !weights.is_empty() && weights.len() != sets => {
                return Err(combination.inner.invalid(
                    "weights",
                    format!("{sets}, one for each set"),
                    weights.len().to_string(),
                )?);
            }
            _ => {}
        }
        if !weights.is_empty() {
            combination.options.push("WEIGHTS".into());
            for weight in weights {
                combination.options.push(encode_score(combination.inner.name()?, weight)?);
            }
        }
        if let Some(aggregate) = aggregate {
            let named = match aggregate {
                Aggregate::Sum => "SUM",
                Aggregate::Min => "MIN",
                Aggregate::Max => "MAX",
            };
            combination.options.extend([Bytes::from("AGGREGATE"), named.into()]);
        }
        Ok(combination)
    }

    /// Stores the values with their scores under a name, in one step, and replaces what is stored
    /// there. Returns the number of values.
    ///
    /// The name may be that of one of the sets. If there are no values, nothing is stored under the
    /// name.
    ///
    /// # Errors
    ///
    /// [`ObjectError`] states what failed and whether anything may have changed.
    /// [`Failure::InvalidArgument`](crate::Failure::InvalidArgument) if the names are in different
    /// slots of a cluster, if the number of weights is not the number of sets, and for options that
    /// are not allowed for a difference.
    ///
    /// # Cancel safety
    ///
    /// A request that was already sent is executed even if the future is dropped.
    #[doc(alias = "union")]
    #[doc(alias = "intersection")]
    #[doc(alias = "diff")]
    pub async fn store(self, name: impl AsRef<str>) -> Result<u64, ObjectError> {
        self.checked()?.store(name).await
    }
}

impl<T, C: Decode<T>> ScoredCombination<T, C> {
    /// Returns the values in the order of their scores, in one reply.
    ///
    /// # Errors
    ///
    /// As for [`ScoredCombination::store`].
    ///
    /// # Cancel safety
    ///
    /// Dropping the future changes nothing.
    #[doc(alias = "readUnion")]
    #[doc(alias = "readIntersection")]
    #[doc(alias = "readDiff")]
    pub async fn values(self) -> Result<Vec<T>, ObjectError> {
        self.checked()?.values().await
    }

    /// Returns the values with their scores, in the order of the scores, in one reply.
    ///
    /// # Errors
    ///
    /// As for [`ScoredCombination::store`].
    ///
    /// # Cancel safety
    ///
    /// Dropping the future changes nothing.
    #[doc(alias = "readUnionEntries")]
    #[doc(alias = "readIntersectionEntries")]
    #[doc(alias = "readDiffEntries")]
    pub async fn entries(self) -> Result<Vec<(T, f64)>, ObjectError> {
        self.checked()?.with_scores().await
    }
}

impl<T, C: Codec> ScoredSortedSet<T, C> {
    /// Returns the union of this set and others, given by name.
    pub fn union<N: AsRef<str>>(&self, others: impl IntoIterator<Item = N>) -> ScoredCombination<T, C> {
        ScoredCombination::new(Combination::new(&self.inner, SetOperation::Union, others, true))
    }

    /// Returns the intersection of this set and others, given by name.
    pub fn intersection<N: AsRef<str>>(&self, others: impl IntoIterator<Item = N>) -> ScoredCombination<T, C> {
        ScoredCombination::new(Combination::new(&self.inner, SetOperation::Intersection, others, true))
    }

    /// Returns the values of this set that none of the others contains. The others are given by
    /// name.
    pub fn difference<N: AsRef<str>>(&self, others: impl IntoIterator<Item = N>) -> ScoredCombination<T, C> {
        ScoredCombination::new(Combination::new(&self.inner, SetOperation::Difference, others, true))
    }

    /// Returns the number of values that this set and all of the others have in common, counted up
    /// to `limit`.
    ///
    /// Requires Redis 7.0 or newer, or Valkey.
    ///
    /// # Errors
    ///
    /// [`ObjectError`] states what failed. An older server refuses the command.
    ///
    /// # Cancel safety
    ///
    /// Dropping the future changes nothing.
    #[doc(alias = "countIntersection")]
    pub async fn intersection_len<N: AsRef<str>>(
        &self,
        others: impl IntoIterator<Item = N>,
        limit: Option<u64>,
    ) -> Result<u64, ObjectError> {
        count(&self.intersection(others).combination, "ZINTERCARD", limit).await
    }
}

impl<T, C: Codec> SortedSet<T, C> {
    /// Returns the union of this set and others, given by name.
    ///
    /// The others may be sets of any kind with the same codec.
    pub fn union<N: AsRef<str>>(&self, others: impl IntoIterator<Item = N>) -> Combination<T, C> {
        without_scores(Combination::new(&self.inner, SetOperation::Union, others, true))
    }

    /// Returns the intersection of this set and others, given by name.
    pub fn intersection<N: AsRef<str>>(&self, others: impl IntoIterator<Item = N>) -> Combination<T, C> {
        without_scores(Combination::new(&self.inner, SetOperation::Intersection, others, true))
    }

    /// Returns the values of this set that none of the others contains. The others are given by
    /// name.
    pub fn difference<N: AsRef<str>>(&self, others: impl IntoIterator<Item = N>) -> Combination<T, C> {
        Combination::new(&self.inner, SetOperation::Difference, others, true)
    }
}

/// Sets all scores of the result to 0, whatever they are in the other sets, so that the values are
/// sorted by their bytes.
fn without_scores<T, C: Codec>(mut combination: Combination<T, C>) -> Combination<T, C> {
    combination.options.push("WEIGHTS".into());
    combination.options.extend(std::iter::repeat_n(Bytes::from("0"), combination.set_count()));
    combination
}
