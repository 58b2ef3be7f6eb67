//! Sets in the order of scores.

use std::fmt::Debug;
use std::ops::RangeBounds;

use bytes::Bytes;
use redgrid_codecs::{Codec, Decode, Encode, EncodesFor};
use redgrid_core::object::{ObjectError, Scan};
use redgrid_core::{BulkScript, Client, Pairs, Reply, Request, Script};

use super::{RETAIN, Range, ordered_methods};
use crate::common::common_methods;
use crate::elements::{Elements, handle};

static RANK_AND_SCORE: Script<1> = Script::new("set/rank_and_score", include_str!("../scripts/rank_and_score.lua"));
static RANKS: Script<1> = Script::new("set/ranks", include_str!("../scripts/ranks.lua"));
static REPLACE: Script<1> = Script::new("set/replace", include_str!("../scripts/replace.lua"));
static POP_OF_ANY: BulkScript = BulkScript::new("set/pop_of_any", include_str!("../scripts/pop_of_any.lua"));

redgrid_core::default_codec! {
    /// A set of values of type `T` with scores, in the order of the scores, shared by all
    /// processes that reach the same server.
    ///
    /// On the wire it is Redisson's `RScoredSortedSet`.
    ///
    /// Scores are `f64`, including infinities, but not NaN. Values with the same score are sorted
    /// by their bytes. It is cheap to clone; clones are handles of the same set. The codec `C` is
    /// part of the type. With the feature `json`, the default is `Json`. A set exists while it has
    /// values.
    #[doc(alias = "RScoredSortedSet")]
    #[doc(alias = "RedissonScoredSortedSet")]
    pub struct ScoredSortedSet<T; C> {
        pub(crate) inner: Elements<T, C>,
    }
}

handle!(ScoredSortedSet);
ordered_methods!(ScoredSortedSet);

impl<T, C: Codec + Default> ScoredSortedSet<T, C> {
    /// Returns the set with this name.
    ///
    /// No request is sent: an invalid name is reported by the first call.
    pub fn new(client: &Client, name: impl AsRef<str>) -> Self {
        ScoredSortedSet { inner: Elements::new(client, name, C::default()) }
    }
}

impl<T, C: Codec> ScoredSortedSet<T, C> {
    /// Returns the score of a value; `None` if the set does not contain it.
    ///
    /// # Errors
    ///
    /// [`ObjectError`] states what failed and whether anything may have changed.
    ///
    /// # Cancel safety
    ///
    /// Dropping the future changes nothing.
    #[doc(alias = "getScore")]
    pub async fn score<Q: ?Sized>(&self, value: &Q) -> Result<Option<f64>, ObjectError>
    where
        C: EncodesFor<T, Q>,
    {
        self.inner.score(value).await
    }

    /// Returns the scores of values, in their order, up to 500 or about 4 MiB a request.
    ///
    /// # Errors and cancel safety
    ///
    /// As for [`ScoredSortedSet::score`].
    #[doc(alias = "getScore")]
    pub async fn scores<'a, Q: ?Sized + 'a>(
        &self,
        values: impl IntoIterator<Item = &'a Q>,
    ) -> Result<Vec<Option<f64>>, ObjectError>
    where
        C: EncodesFor<T, Q>,
    {
        self.inner.scores(values).await
    }

    /// Returns the number of values before a value, and its score, in one step; `None` if the set
    /// does not contain it.
    ///
    /// # Errors and cancel safety
    ///
    /// As for [`ScoredSortedSet::score`].
    #[doc(alias = "rankEntry")]
    pub async fn rank_and_score<Q: ?Sized>(&self, value: &Q) -> Result<Option<(u64, f64)>, ObjectError>
    where
        C: EncodesFor<T, Q>,
    {
        self.placed("ZRANK", value).await
    }

    /// Returns the number of values after a value, and its score, in one step; `None` if the set
    /// does not contain it.
    ///
    /// # Errors and cancel safety
    ///
    /// As for [`ScoredSortedSet::score`].
    #[doc(alias = "revRankEntry")]
    pub async fn rev_rank_and_score<Q: ?Sized>(&self, value: &Q) -> Result<Option<(u64, f64)>, ObjectError>
    where
        C: EncodesFor<T, Q>,
    {
        self.placed("ZREVRANK", value).await
    }

    async fn placed<Q: ?Sized>(&self, command: &'static str, value: &Q) -> Result<Option<(u64, f64)>, ObjectError>
    where
        C: Encode<Q>,
    {
        let value = self.inner.encode(value)?;
        self.inner.object_ref.read_primary(self.inner.script(&RANK_AND_SCORE)?.arg(command).arg(value)).await
    }

    /// Returns for each value, in their order, the number of values after it, in one step. Up to
    /// 100,000 values can be given.
    ///
    /// # Errors
    ///
    /// As for [`ScoredSortedSet::score`].
    /// [`Failure::InvalidArgument`](crate::Failure::InvalidArgument) for more than 100,000 values.
    ///
    /// # Cancel safety
    ///
    /// As for [`ScoredSortedSet::score`].
    #[doc(alias = "revRank")]
    pub async fn rev_ranks<'a, Q: ?Sized + 'a>(
        &self,
        values: impl IntoIterator<Item = &'a Q>,
    ) -> Result<Vec<Option<u64>>, ObjectError>
    where
        C: EncodesFor<T, Q>,
    {
        let values = self.inner.encode_limited(values)?;
        self.inner
            .object_ref
            .read_primary(values.into_iter().fold(self.inner.script(&RANKS)?.arg("ZREVRANK"), Request::arg))
            .await
    }

    /// Replaces a value by another with the same score. Returns whether the set contained the
    /// value.
    ///
    /// If the set already contains the other value, the score of the other value is replaced.
    ///
    /// # Errors
    ///
    /// [`ObjectError`] states what failed and whether anything may have changed.
    ///
    /// # Cancel safety
    ///
    /// A request that was already sent is executed even if the future is dropped.
    pub async fn replace<Q: ?Sized>(&self, value: &Q, by: &Q) -> Result<bool, ObjectError>
    where
        C: EncodesFor<T, Q>,
    {
        let (value, by) = (self.inner.encode(value)?, self.inner.encode(by)?);
        self.inner.object_ref.change(self.inner.script(&REPLACE)?.arg(value).arg(by)).await
    }

    /// Returns the range of values with these scores.
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
        Range::of_scores(&self.inner, &scores)
    }
}

impl<T, C: Decode<T>> ScoredSortedSet<T, C> {
    /// Returns the value with the lowest score, and the score; `None` if the set is empty.
    ///
    /// # Errors
    ///
    /// [`ObjectError`] states what failed and whether anything may have changed.
    ///
    /// # Cancel safety
    ///
    /// Dropping the future changes nothing.
    #[doc(alias = "firstEntry")]
    #[doc(alias = "firstScore")]
    pub async fn first(&self) -> Result<Option<(T, f64)>, ObjectError> {
        Ok(self.by_rank(..1).entries().await?.pop())
    }

    /// Returns the value with the highest score, and the score; `None` if the set is empty.
    ///
    /// # Errors and cancel safety
    ///
    /// As for [`ScoredSortedSet::first`].
    #[doc(alias = "lastEntry")]
    #[doc(alias = "lastScore")]
    pub async fn last(&self) -> Result<Option<(T, f64)>, ObjectError> {
        Ok(self.by_rank(..1).rev().entries().await?.pop())
    }

    /// Removes the value with the lowest score, and returns both; `None` if the set is empty. If
    /// the reply is lost, the value is lost.
    ///
    /// # Errors
    ///
    /// [`ObjectError`] states what failed and whether anything may have changed. A value that
    /// cannot be decoded is removed as well.
    ///
    /// # Cancel safety
    ///
    /// A request that was already sent is executed even if the future is dropped: in that case a
    /// removed value is lost.
    #[doc(alias = "pollFirst")]
    #[doc(alias = "pollFirstEntry")]
    pub async fn pop_first(&self) -> Result<Option<(T, f64)>, ObjectError> {
        Ok(self.pop_some("ZPOPMIN", 1).await?.pop())
    }

    /// Removes the value with the highest score, and returns both; `None` if the set is empty. If
    /// the reply is lost, the value is lost.
    ///
    /// # Errors and cancel safety
    ///
    /// As for [`ScoredSortedSet::pop_first`].
    #[doc(alias = "pollLast")]
    #[doc(alias = "pollLastEntry")]
    pub async fn pop_last(&self) -> Result<Option<(T, f64)>, ObjectError> {
        Ok(self.pop_some("ZPOPMAX", 1).await?.pop())
    }

    /// Removes the `count` values with the lowest scores and returns them with their scores, the
    /// lowest first.
    ///
    /// # Errors
    ///
    /// As for [`ScoredSortedSet::pop_first`]. If one value cannot be decoded, the call fails, but
    /// all of them are removed. If other writers may use another codec, pop values one by one.
    ///
    /// # Cancel safety
    ///
    /// As for [`ScoredSortedSet::pop_first`].
    #[doc(alias = "pollFirst")]
    #[doc(alias = "pollFirstEntries")]
    pub async fn pop_first_many(&self, count: u32) -> Result<Vec<(T, f64)>, ObjectError> {
        self.pop_some("ZPOPMIN", count).await
    }

    /// Removes the `count` values with the highest scores and returns them with their scores, the
    /// highest first.
    ///
    /// # Errors and cancel safety
    ///
    /// As for [`ScoredSortedSet::pop_first_many`].
    #[doc(alias = "pollLast")]
    #[doc(alias = "pollLastEntries")]
    pub async fn pop_last_many(&self, count: u32) -> Result<Vec<(T, f64)>, ObjectError> {
        self.pop_some("ZPOPMAX", count).await
    }

    async fn pop_some(&self, command: &'static str, count: u32) -> Result<Vec<(T, f64)>, ObjectError> {
        let found = self.inner.object_ref.change(self.inner.object_ref.command(command)?.int(count.into())).await?;
        self.inner.decode_entries(found)
    }

    /// Removes the `count` values with the lowest scores from the first set that is not empty.
    /// Returns the name of that set, and the values with their scores.
    ///
    /// The candidates are this set and others, given by name, which must share a slot.
    ///
    /// # Errors
    ///
    /// As for [`ScoredSortedSet::pop_first_many`].
    /// [`Failure::InvalidArgument`](crate::Failure::InvalidArgument) if the names are in different
    /// slots of a cluster.
    ///
    /// # Cancel safety
    ///
    /// As for [`ScoredSortedSet::pop_first`].
    #[doc(alias = "pollFirstFromAny")]
    #[doc(alias = "pollFirstEntriesFromAny")]
    pub async fn pop_first_of_any<N: AsRef<str>>(
        &self,
        others: impl IntoIterator<Item = N>,
        count: u32,
    ) -> Result<Option<(String, Vec<(T, f64)>)>, ObjectError> {
        self.pop_some_of_any("ZPOPMIN", others, count).await
    }

    /// Removes the `count` values with the highest scores from the first set that is not empty.
    /// Returns the name of that set, and the values with their scores.
    ///
    /// The candidates are this set and others, given by name, which must share a slot.
    ///
    /// # Errors and cancel safety
    ///
    /// As for [`ScoredSortedSet::pop_first_of_any`].
    #[doc(alias = "pollLastFromAny")]
    #[doc(alias = "pollLastEntriesFromAny")]
    pub async fn pop_last_of_any<N: AsRef<str>>(
        &self,
        others: impl IntoIterator<Item = N>,
        count: u32,
    ) -> Result<Option<(String, Vec<(T, f64)>)>, ObjectError> {
        self.pop_some_of_any("ZPOPMAX", others, count).await
    }

    async fn pop_some_of_any<N: AsRef<str>>(
        &self,
        command: &'static str,
        others: impl IntoIterator<Item = N>,
        count: u32,
    ) -> Result<Option<(String, Vec<(T, f64)>)>, ObjectError> {
        let (mut names, mut keys) =
            (vec![self.inner.name()?.to_string()], vec![self.inner.object_ref.name_and_key()?.1.clone()]);
        for other in others {
            keys.push(self.inner.object_ref.same_slot_key("name", &other)?);
            names.push(other.as_ref().to_owned());
        }
        let request = POP_OF_ANY.with(keys).arg(command).int(count.into());
        let found: Option<(u64, Pairs<Bytes, f64>)> = self.inner.object_ref.change(request).await?;
        let Some((index, found)) = found else { return Ok(None) };
        let index = usize::try_from(index).unwrap_or_default().min(names.len() - 1);
        Ok(Some((names.swap_remove(index), self.inner.decode_entries(found)?)))
    }

    /// Returns `count` distinct random values with their scores, without removing them, or all
    /// values if there are fewer.
    ///
    /// # Errors and cancel safety
    ///
    /// As for [`ScoredSortedSet::first`].
    #[doc(alias = "randomEntries")]
    pub async fn random_entries(&self, count: u32) -> Result<Vec<(T, f64)>, ObjectError> {
        let request = self.inner.object_ref.command("ZRANDMEMBER")?.int(count.into()).arg("WITHSCORES");
        self.inner.decode_entries(self.inner.object_ref.read(request).await?)
    }
}

impl<T: 'static, C: Decode<T>> ScoredSortedSet<T, C> {
    /// Returns a stream of all values, in no order. For an order use [`ScoredSortedSet::by_rank`]
    /// or [`ScoredSortedSet::by_score`].
    #[doc(alias = "iterator")]
    pub fn stream(&self) -> Scan<T> {
        let inner = self.inner.clone();
        Scan::by("ZSCAN", 2, self.inner.object_ref.clone(), move |found| inner.decode(&found[0]))
    }

    /// Returns a stream of all values with their scores, in no order.
    #[doc(alias = "entryIterator")]
    pub fn entries(&self) -> Scan<(T, f64)> {
        let inner = self.inner.clone();
        Scan::by("ZSCAN", 2, self.inner.object_ref.clone(), move |found| {
            let (name, score) = (inner.name()?, Reply::Bytes(found[1].clone()).into_typed());
            Ok((inner.decode(&found[0])?, score.map_err(|source| ObjectError::of(name, source))?))
        })
    }
}
