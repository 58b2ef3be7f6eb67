//! Insertions of values with scores, and increments of scores.

use bytes::Bytes;
use redgrid_codecs::{Codec, Encode, EncodesFor};
use redgrid_core::Script;
use redgrid_core::object::{ObjectError, chunks};

use super::ScoredSortedSet;
use super::score::encode_score;

static ADD_AND_RANK: Script<1> = Script::new("set/add_and_rank", include_str!("../scripts/add_and_rank.lua"));

/// The condition under which a value gets a score.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum Only {
    /// The set does not contain the value.
    Absent,
    /// The set contains the value.
    Present,
    /// The set does not contain the value, or its score is lower than the new one.
    Higher,
    /// The set does not contain the value, or its score is higher than the new one.
    Lower,
}

impl Only {
    fn option(self) -> &'static str {
        match self {
            Only::Absent => "NX",
            Only::Present => "XX",
            Only::Higher => "GT",
            Only::Lower => "LT",
        }
    }
}

impl<T, C: Codec> ScoredSortedSet<T, C> {
    /// Sets the score of a value. Returns whether the value is new.
    ///
    /// # Errors
    ///
    /// [`ObjectError`] states what failed and whether anything may have changed.
    /// [`Failure::InvalidArgument`](crate::Failure::InvalidArgument) for NaN.
    ///
    /// # Cancel safety
    ///
    /// A request that was already sent is executed even if the future is dropped.
    #[doc(alias = "add")]
    pub async fn insert<Q: ?Sized>(&self, value: &Q, score: f64) -> Result<bool, ObjectError>
    where
        C: EncodesFor<T, Q>,
    {
        Ok(self.add(&[], [(value, score)]).await? > 0)
    }

    /// Sets the score of a value if the condition holds. Returns whether the value is new or its
    /// score has changed.
    ///
    /// # Errors and cancel safety
    ///
    /// As for [`ScoredSortedSet::insert`].
    #[doc(alias = "tryAdd")]
    #[doc(alias = "addIfAbsent")]
    #[doc(alias = "addIfExists")]
    #[doc(alias = "addIfGreater")]
    #[doc(alias = "addIfLess")]
    pub async fn insert_if<Q: ?Sized>(&self, only: Only, value: &Q, score: f64) -> Result<bool, ObjectError>
    where
        C: EncodesFor<T, Q>,
    {
        Ok(self.add(&[only.option(), "CH"], [(value, score)]).await? > 0)
    }

    /// Sets the scores of values, up to 500 or about 4 MiB a request. Returns the number of new
    /// values.
    ///
    /// After an error, some of the scores may have been set.
    ///
    /// # Errors and cancel safety
    ///
    /// As for [`ScoredSortedSet::insert`].
    #[doc(alias = "addAll")]
    pub async fn insert_many<'a, Q: ?Sized + 'a>(
        &self,
        entries: impl IntoIterator<Item = (&'a Q, f64)>,
    ) -> Result<u64, ObjectError>
    where
        C: EncodesFor<T, Q>,
    {
        self.add(&[], entries).await
    }

    /// Sets the scores of the values for which the condition holds, up to 500 or about 4 MiB a
    /// request. Returns the number of values that are new or whose scores have changed.
    ///
    /// After an error, some of the scores may have been set.
    ///
    /// # Errors and cancel safety
    ///
    /// As for [`ScoredSortedSet::insert`].
    #[doc(alias = "addAllIfAbsent")]
    #[doc(alias = "addAllIfExist")]
    #[doc(alias = "addAllIfGreater")]
    #[doc(alias = "addAllIfLess")]
    pub async fn insert_many_if<'a, Q: ?Sized + 'a>(
        &self,
        only: Only,
        entries: impl IntoIterator<Item = (&'a Q, f64)>,
    ) -> Result<u64, ObjectError>
    where
        C: EncodesFor<T, Q>,
    {
        self.add(&[only.option(), "CH"], entries).await
    }

    async fn add<'a, Q: ?Sized + 'a>(
        &self,
        options: &[&'static str],
        entries: impl IntoIterator<Item = (&'a Q, f64)>,
    ) -> Result<u64, ObjectError>
    where
        C: Encode<Q>,
    {
        let (entries, mut sum) = (self.inner.encode_scored(entries)?, 0);
        for chunk in chunks(&entries, |(score, value)| score.len() + value.len()) {
            let request = self.inner.object_ref.command("ZADD")?;
            let request = options.iter().fold(request, |request, option| request.arg(*option));
            let request =
                chunk.iter().fold(request, |request, (score, value)| request.arg(score.clone()).arg(value.clone()));
            sum += self.inner.object_ref.change::<u64>(request).await?;
        }
        Ok(sum)
    }

    /// Adds to the score of a value on the server. A new value starts at 0. Returns the new score.
    ///
    /// # Errors
    ///
    /// [`ObjectError`] states what failed and whether anything may have changed.
    /// [`Failure::InvalidArgument`](crate::Failure::InvalidArgument) for NaN.
    /// [`Failure::Refused`](crate::Failure::Refused) if the sum would be NaN (infinities of both
    /// signs).
    ///
    /// # Cancel safety
    ///
    /// A request that was already sent is executed even if the future is dropped.
    #[doc(alias = "addScore")]
    pub async fn add_score<Q: ?Sized>(&self, value: &Q, by: f64) -> Result<f64, ObjectError>
    where
        C: EncodesFor<T, Q>,
    {
        let (by, value) = (encode_score(self.inner.name()?, by)?, self.inner.encode(value)?);
        self.inner.object_ref.change(self.inner.object_ref.command("ZINCRBY")?.arg(by).arg(value)).await
    }

    /// Sets the score of a value. Returns the number of values before it after the change.
    ///
    /// # Errors and cancel safety
    ///
    /// As for [`ScoredSortedSet::insert`].
    #[doc(alias = "addAndGetRank")]
    pub async fn insert_and_rank<Q: ?Sized>(&self, value: &Q, score: f64) -> Result<u64, ObjectError>
    where
        C: EncodesFor<T, Q>,
    {
        self.add_and_rank_one("ZADD", "ZRANK", value, score).await
    }

    /// Sets the score of a value. Returns the number of values after it, counted after the change.
    ///
    /// # Errors and cancel safety
    ///
    /// As for [`ScoredSortedSet::insert`].
    #[doc(alias = "addAndGetRevRank")]
    pub async fn insert_and_rev_rank<Q: ?Sized>(&self, value: &Q, score: f64) -> Result<u64, ObjectError>
    where
        C: EncodesFor<T, Q>,
    {
        self.add_and_rank_one("ZADD", "ZREVRANK", value, score).await
    }

    /// Sets the scores of up to 50,000 values, in one step. Returns for each the number of values
    /// after it, counted after all scores are set.
    ///
    /// # Errors
    ///
    /// As for [`ScoredSortedSet::insert`].
    /// [`Failure::InvalidArgument`](crate::Failure::InvalidArgument) for more than 50,000 values.
    ///
    /// # Cancel safety
    ///
    /// As for [`ScoredSortedSet::insert`].
    #[doc(alias = "addAndGetRevRank")]
    pub async fn insert_many_and_rev_rank<'a, Q: ?Sized + 'a>(
        &self,
        entries: impl IntoIterator<Item = (&'a Q, f64)>,
    ) -> Result<Vec<u64>, ObjectError>
    where
        C: EncodesFor<T, Q>,
    {
        let entries = self.inner.encode_scored(entries)?;
        match entries.len() {
            0 => Ok(Vec::new()),
            1..=MAX_RANKED => self.add_and_rank("ZADD", "ZREVRANK", entries).await,
            many => Err(self.inner.invalid("values", format!("up to {MAX_RANKED} at once"), many.to_string())?),
        }
    }

    /// Adds to the score of a value. Returns the number of values before it after the change.
    ///
    /// # Errors and cancel safety
    ///
    /// As for [`ScoredSortedSet::add_score`].
    #[doc(alias = "addScoreAndGetRank")]
    pub async fn add_score_and_rank<Q: ?Sized>(&self, value: &Q, by: f64) -> Result<u64, ObjectError>
    where
        C: EncodesFor<T, Q>,
    {
        self.add_and_rank_one("ZINCRBY", "ZRANK", value, by).await
    }

    /// Adds to the score of a value. Returns the number of values after it, counted after the
    /// change.
    ///
    /// # Errors and cancel safety
    ///
    /// As for [`ScoredSortedSet::add_score`].
    #[doc(alias = "addScoreAndGetRevRank")]
    pub async fn add_score_and_rev_rank<Q: ?Sized>(&self, value: &Q, by: f64) -> Result<u64, ObjectError>
    where
        C: EncodesFor<T, Q>,
    {
        self.add_and_rank_one("ZINCRBY", "ZREVRANK", value, by).await
    }

    async fn add_and_rank_one<Q: ?Sized>(
        &self,
        add: &'static str,
        rank: &'static str,
        value: &Q,
        score: f64,
    ) -> Result<u64, ObjectError>
    where
        C: Encode<Q>,
    {
        let ranks = self.add_and_rank(add, rank, self.inner.encode_scored([(value, score)])?).await?;
        Ok(ranks.first().copied().unwrap_or_default())
    }

    async fn add_and_rank(
        &self,
        add: &'static str,
        rank: &'static str,
        entries: Vec<(Bytes, Bytes)>,
    ) -> Result<Vec<u64>, ObjectError> {
        let request = self.inner.script(&ADD_AND_RANK)?.arg(add).arg(rank);
        let request = entries.into_iter().fold(request, |request, (score, value)| request.arg(score).arg(value));
        self.inner.object_ref.change(request).await
    }
}

/// The maximum number of values in one script call that ranks them. Such a call takes some tens of
/// milliseconds.
const MAX_RANKED: usize = 50_000;
