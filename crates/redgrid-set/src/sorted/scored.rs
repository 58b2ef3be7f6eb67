//! Sets in the order of scores.

use std::borrow::Borrow;
use std::fmt::Debug;
use std::ops::RangeBounds;

use bytes::Bytes;
use redgrid_codecs::{Codec, Decode, Encode};
use redgrid_core::object::{ObjectError, Scan};
use redgrid_core::{BulkScript, Client, Pairs, Reply, Request, Script};

use super::{RETAIN, Range, ordered_methods};
use crate::common::common_methods;
use crate::elements::{Elements, handle};

static RANK_AND_SCORE: Script<1> = Script::new("set/rank_and_score", include_str!("../scripts/rank_and_score.lua"));
static RANKS: Script<1> = Script::new("set/ranks", include_str!("../scripts/ranks.lua"));
static REPLACE: Script<1> = Script::new("set/replace", include_str!("../scripts/replace.lua"));
static POP_OF_ANY: BulkScript = BulkScript::new("set/pop_of_any", include_str!("../scripts/pop_of_any.lua"));

/// The type, with the codec of one that names none.
macro_rules! scored_sorted_set {
    ($($default:tt)*) => {
        /// Values of type `T`, each once and with a score, in the order of their scores, shared by all processes that reach the same server.
        /// Redisson's `RScoredSortedSet` on the wire.
        ///
        /// Scores are `f64`, infinities too, but no NaN. Values with one score are in the order of their bytes. Cheap to clone; clones are the
        /// same set. The codec `C` is part of the type: with the feature `json` it is `Json` where none is named. A set is there while it has values.
        #[doc(alias = "RScoredSortedSet")]
        #[doc(alias = "RedissonScoredSortedSet")]
        pub struct ScoredSortedSet<T, C $($default)*> {
            pub(crate) of: Elements<T, C>,
        }
    };
}

#[cfg(feature = "json")]
scored_sorted_set!(= redgrid_codecs::Json);
#[cfg(not(feature = "json"))]
scored_sorted_set!();

handle!(ScoredSortedSet);
ordered_methods!(ScoredSortedSet);

impl<T, C: Codec + Default> ScoredSortedSet<T, C> {
    /// The set with this name. Making one asks nobody: an invalid name is told by the first call.
    pub fn new(client: &Client, name: impl AsRef<str>) -> Self {
        ScoredSortedSet { of: Elements::new(client, name, C::default()) }
    }
}

impl<T, C: Codec> ScoredSortedSet<T, C> {
    /// The score of a value; `None` where it is not in.
    ///
    /// # Errors
    ///
    /// [`ObjectError`] says what is true then.
    ///
    /// # Cancel safety
    ///
    /// Dropping it changes nothing.
    #[doc(alias = "getScore")]
    pub async fn score<Q: ?Sized>(&self, value: &Q) -> Result<Option<f64>, ObjectError>
    where
        T: Borrow<Q>,
        C: Encode<Q>,
    {
        self.of.score(value).await
    }

    /// The scores of values, in their order; 500 of them or about 4 MiB at a time.
    ///
    /// # Errors
    ///
    /// As [`ScoredSortedSet::score`].
    ///
    /// # Cancel safety
    ///
    /// As [`ScoredSortedSet::score`].
    #[doc(alias = "getScore")]
    pub async fn scores<'a, Q: ?Sized + 'a>(
        &self,
        values: impl IntoIterator<Item = &'a Q>,
    ) -> Result<Vec<Option<f64>>, ObjectError>
    where
        T: Borrow<Q>,
        C: Encode<Q>,
    {
        self.of.scores(values).await
    }

    /// How many are in front of a value, and its score, as they were at one moment; `None` where it is not in.
    ///
    /// # Errors
    ///
    /// As [`ScoredSortedSet::score`].
    ///
    /// # Cancel safety
    ///
    /// As [`ScoredSortedSet::score`].
    #[doc(alias = "rankEntry")]
    pub async fn rank_and_score<Q: ?Sized>(&self, value: &Q) -> Result<Option<(u64, f64)>, ObjectError>
    where
        T: Borrow<Q>,
        C: Encode<Q>,
    {
        self.placed("ZRANK", value).await
    }

    /// How many are behind a value, and its score, as they were at one moment; `None` where it is not in.
    ///
    /// # Errors
    ///
    /// As [`ScoredSortedSet::score`].
    ///
    /// # Cancel safety
    ///
    /// As [`ScoredSortedSet::score`].
    #[doc(alias = "revRankEntry")]
    pub async fn rev_rank_and_score<Q: ?Sized>(&self, value: &Q) -> Result<Option<(u64, f64)>, ObjectError>
    where
        T: Borrow<Q>,
        C: Encode<Q>,
    {
        self.placed("ZREVRANK", value).await
    }

    async fn placed<Q: ?Sized>(&self, command: &'static str, value: &Q) -> Result<Option<(u64, f64)>, ObjectError>
    where
        C: Encode<Q>,
    {
        let value = self.of.encoded(value)?;
        self.of.place.ask(self.of.script(&RANK_AND_SCORE)?.arg(command).arg(value)).await
    }

    /// Of each value how many are behind it, as they were at one moment, in their order; up to 100,000 of them.
    ///
    /// # Errors
    ///
    /// As [`ScoredSortedSet::score`]; [`ObjectError::InvalidArgument`] of more.
    ///
    /// # Cancel safety
    ///
    /// As [`ScoredSortedSet::score`].
    #[doc(alias = "revRank")]
    pub async fn rev_ranks<'a, Q: ?Sized + 'a>(
        &self,
        values: impl IntoIterator<Item = &'a Q>,
    ) -> Result<Vec<Option<u64>>, ObjectError>
    where
        T: Borrow<Q>,
        C: Encode<Q>,
    {
        let values = self.of.encoded_together(values)?;
        self.of.place.ask(values.into_iter().fold(self.of.script(&RANKS)?.arg("ZREVRANK"), Request::arg)).await
    }

    /// Gives the score of a value to another in its place; tells whether it was in. If the other is in, its score is this one then.
    ///
    /// # Errors
    ///
    /// [`ObjectError`] says what is true then.
    ///
    /// # Cancel safety
    ///
    /// What has left is carried out although nobody waits for it.
    pub async fn replace<Q: ?Sized>(&self, value: &Q, by: &Q) -> Result<bool, ObjectError>
    where
        T: Borrow<Q>,
        C: Encode<Q>,
    {
        let (value, by) = (self.of.encoded(value)?, self.of.encoded(by)?);
        self.of.place.change(self.of.script(&REPLACE)?.arg(value).arg(by)).await
    }

    /// Those with these scores.
    ///
    /// ```no_run
    /// # #[cfg(feature = "json")]
    /// # async fn demo(scores: &redgrid_set::ScoredSortedSet<String>) -> Result<(), redgrid_set::ObjectError> {
    /// let page: Vec<(String, f64)> = scores.by_score(10.0..20.0).rev().limit(0, 50).entries().await?;
    /// let gone = scores.by_score(..=0.0).remove().await?;
    /// # Ok(()) }
    /// ```
    #[doc(alias = "valueRange")]
    #[doc(alias = "entryRange")]
    #[doc(alias = "count")]
    #[doc(alias = "removeRangeByScore")]
    pub fn by_score(&self, scores: impl RangeBounds<f64> + Debug) -> Range<T, C> {
        Range::of_scores(&self.of, &scores)
    }
}

impl<T, C: Decode<T>> ScoredSortedSet<T, C> {
    /// The value with the lowest score, with it; `None` where there is none.
    ///
    /// # Errors
    ///
    /// [`ObjectError`] says what is true then.
    ///
    /// # Cancel safety
    ///
    /// Dropping it changes nothing.
    #[doc(alias = "firstEntry")]
    #[doc(alias = "firstScore")]
    pub async fn first(&self) -> Result<Option<(T, f64)>, ObjectError> {
        Ok(self.by_rank(..1).entries().await?.pop())
    }

    /// The value with the highest score, with it; `None` where there is none.
    ///
    /// # Errors
    ///
    /// As [`ScoredSortedSet::first`].
    ///
    /// # Cancel safety
    ///
    /// As [`ScoredSortedSet::first`].
    #[doc(alias = "lastEntry")]
    #[doc(alias = "lastScore")]
    pub async fn last(&self) -> Result<Option<(T, f64)>, ObjectError> {
        Ok(self.by_rank(..1).rev().entries().await?.pop())
    }

    /// Removes the value with the lowest score, and tells both; `None` where there is none. Where its answer is lost it is gone.
    ///
    /// # Errors
    ///
    /// [`ObjectError`] says what is true then; it is removed also where it can not be decoded.
    ///
    /// # Cancel safety
    ///
    /// What has left is carried out although nobody waits for it: then the value is nobody's.
    #[doc(alias = "pollFirst")]
    #[doc(alias = "pollFirstEntry")]
    pub async fn pop_first(&self) -> Result<Option<(T, f64)>, ObjectError> {
        Ok(self.popped("ZPOPMIN", 1).await?.pop())
    }

    /// The same of the value with the highest score.
    ///
    /// # Errors
    ///
    /// As [`ScoredSortedSet::pop_first`].
    ///
    /// # Cancel safety
    ///
    /// As [`ScoredSortedSet::pop_first`].
    #[doc(alias = "pollLast")]
    #[doc(alias = "pollLastEntry")]
    pub async fn pop_last(&self) -> Result<Option<(T, f64)>, ObjectError> {
        Ok(self.popped("ZPOPMAX", 1).await?.pop())
    }

    /// Removes the `count` values with the lowest scores, and tells them and their scores, the lowest first.
    ///
    /// # Errors
    ///
    /// As [`ScoredSortedSet::pop_first`]; one that can not be decoded is an error of all, and all are removed: where others may have written it,
    /// take them one by one.
    ///
    /// # Cancel safety
    ///
    /// As [`ScoredSortedSet::pop_first`].
    #[doc(alias = "pollFirst")]
    #[doc(alias = "pollFirstEntries")]
    pub async fn pop_first_many(&self, count: u32) -> Result<Vec<(T, f64)>, ObjectError> {
        self.popped("ZPOPMIN", count).await
    }

    /// Removes the `count` values with the highest scores, and tells them and their scores, the highest first.
    ///
    /// # Errors
    ///
    /// As [`ScoredSortedSet::pop_first_many`].
    ///
    /// # Cancel safety
    ///
    /// As [`ScoredSortedSet::pop_first`].
    #[doc(alias = "pollLast")]
    #[doc(alias = "pollLastEntries")]
    pub async fn pop_last_many(&self, count: u32) -> Result<Vec<(T, f64)>, ObjectError> {
        self.popped("ZPOPMAX", count).await
    }

    async fn popped(&self, command: &'static str, count: u32) -> Result<Vec<(T, f64)>, ObjectError> {
        let found = self.of.place.change(self.of.place.command(command)?.int(count.into())).await?;
        self.of.entries(found)
    }

    /// The same of the first set that has any, of this one and of others by their names, which share a slot; it tells which it was.
    ///
    /// # Errors
    ///
    /// As [`ScoredSortedSet::pop_first_many`]; [`ObjectError::InvalidArgument`] where the names do not share a slot of a cluster.
    ///
    /// # Cancel safety
    ///
    /// As [`ScoredSortedSet::pop_first`].
    #[doc(alias = "pollFirstFromAny")]
    #[doc(alias = "pollFirstEntriesFromAny")]
    pub async fn pop_first_of_any<N: AsRef<str>>(
        &self,
        others: impl IntoIterator<Item = N>,
        count: u32,
    ) -> Result<Option<(String, Vec<(T, f64)>)>, ObjectError> {
        self.popped_of_any("ZPOPMIN", others, count).await
    }

    /// The same from the highest score on.
    ///
    /// # Errors
    ///
    /// As [`ScoredSortedSet::pop_first_of_any`].
    ///
    /// # Cancel safety
    ///
    /// As [`ScoredSortedSet::pop_first`].
    #[doc(alias = "pollLastFromAny")]
    #[doc(alias = "pollLastEntriesFromAny")]
    pub async fn pop_last_of_any<N: AsRef<str>>(
        &self,
        others: impl IntoIterator<Item = N>,
        count: u32,
    ) -> Result<Option<(String, Vec<(T, f64)>)>, ObjectError> {
        self.popped_of_any("ZPOPMAX", others, count).await
    }

    async fn popped_of_any<N: AsRef<str>>(
        &self,
        command: &'static str,
        others: impl IntoIterator<Item = N>,
        count: u32,
    ) -> Result<Option<(String, Vec<(T, f64)>)>, ObjectError> {
        let (mut names, mut keys) = (vec![self.of.name()?.to_string()], vec![self.of.place.named()?.1.clone()]);
        for other in others {
            keys.push(self.of.place.beside("name", &other)?);
            names.push(other.as_ref().to_owned());
        }
        let request = POP_OF_ANY.with(keys).arg(command).int(count.into());
        let found: Option<(u64, Pairs<Bytes, f64>)> = self.of.place.change(request).await?;
        let Some((which, found)) = found else { return Ok(None) };
        let which = usize::try_from(which).unwrap_or_default().min(names.len() - 1);
        Ok(Some((names.swap_remove(which), self.of.entries(found)?)))
    }

    /// Some values by chance with their scores, each once: `count` of them, or all where there are fewer. They stay.
    ///
    /// # Errors
    ///
    /// As [`ScoredSortedSet::first`].
    ///
    /// # Cancel safety
    ///
    /// As [`ScoredSortedSet::first`].
    #[doc(alias = "randomEntries")]
    pub async fn random_entries(&self, count: u32) -> Result<Vec<(T, f64)>, ObjectError> {
        let request = self.of.place.command("ZRANDMEMBER")?.int(count.into()).arg("WITHSCORES");
        self.of.entries(self.of.place.read(request).await?)
    }
}

impl<T: 'static, C: Decode<T>> ScoredSortedSet<T, C> {
    /// All values, as a stream, in no order; [`ScoredSortedSet::by_rank`] and [`ScoredSortedSet::by_score`] have them in order.
    #[doc(alias = "iterator")]
    pub fn stream(&self) -> Scan<T> {
        let of = self.of.clone();
        Scan::by("ZSCAN", 2, self.of.place.clone(), move |found| of.one(&found[0]))
    }

    /// All values with their scores, as a stream, in no order.
    #[doc(alias = "entryIterator")]
    pub fn entries(&self) -> Scan<(T, f64)> {
        let of = self.of.clone();
        Scan::by("ZSCAN", 2, self.of.place.clone(), move |found| {
            let (name, score) = (of.name()?, Reply::Bytes(found[1].clone()).into_typed());
            Ok((of.one(&found[0])?, score.map_err(|source| ObjectError::of(name, source))?))
        })
    }
}
