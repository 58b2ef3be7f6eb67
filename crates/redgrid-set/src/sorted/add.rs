//! Values and scores that come in, and scores that change.

use std::borrow::Borrow;

use bytes::Bytes;
use redgrid_codecs::{Codec, Encode};
use redgrid_core::Script;
use redgrid_core::object::{ObjectError, parts};

use super::ScoredSortedSet;
use super::score::text;

static ADD_AND_RANK: Script<1> = Script::new("set/add_and_rank", include_str!("../scripts/add_and_rank.lua"));

/// What must be true of a value for it to get a score.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum Only {
    /// It is not in.
    Absent,
    /// It is in.
    Present,
    /// It is not in, or the new score is higher than the one it has.
    Higher,
    /// It is not in, or the new score is lower than the one it has.
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
    /// Gives a value a score; tells whether the value is new.
    ///
    /// # Errors
    ///
    /// [`ObjectError`] says what is true then; [`ObjectError::InvalidArgument`] of NaN.
    ///
    /// # Cancel safety
    ///
    /// What has left is carried out although nobody waits for it.
    #[doc(alias = "add")]
    pub async fn insert<Q: ?Sized>(&self, value: &Q, score: f64) -> Result<bool, ObjectError>
    where
        T: Borrow<Q>,
        C: Encode<Q>,
    {
        Ok(self.add(&[], [(value, score)]).await? > 0)
    }

    /// Gives a value a score if this is true of it; tells whether it is new or has another score now.
    ///
    /// # Errors
    ///
    /// As [`ScoredSortedSet::insert`].
    ///
    /// # Cancel safety
    ///
    /// As [`ScoredSortedSet::insert`].
    #[doc(alias = "tryAdd")]
    #[doc(alias = "addIfAbsent")]
    #[doc(alias = "addIfExists")]
    #[doc(alias = "addIfGreater")]
    #[doc(alias = "addIfLess")]
    pub async fn insert_if<Q: ?Sized>(&self, only: Only, value: &Q, score: f64) -> Result<bool, ObjectError>
    where
        T: Borrow<Q>,
        C: Encode<Q>,
    {
        Ok(self.add(&[only.option(), "CH"], [(value, score)]).await? > 0)
    }

    /// Gives values scores, 500 of them or about 4 MiB at a time; tells how many are new. After an error some may have theirs.
    ///
    /// # Errors
    ///
    /// As [`ScoredSortedSet::insert`].
    ///
    /// # Cancel safety
    ///
    /// As [`ScoredSortedSet::insert`].
    #[doc(alias = "addAll")]
    pub async fn insert_many<'a, Q: ?Sized + 'a>(
        &self,
        entries: impl IntoIterator<Item = (&'a Q, f64)>,
    ) -> Result<u64, ObjectError>
    where
        T: Borrow<Q>,
        C: Encode<Q>,
    {
        self.add(&[], entries).await
    }

    /// Gives those of the values scores of which this is true, 500 of them or about 4 MiB at a time; tells how many are new or have another
    /// score now. After an error some may have theirs.
    ///
    /// # Errors
    ///
    /// As [`ScoredSortedSet::insert`].
    ///
    /// # Cancel safety
    ///
    /// As [`ScoredSortedSet::insert`].
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
        T: Borrow<Q>,
        C: Encode<Q>,
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
        let (entries, mut sum) = (self.of.scored(entries)?, 0);
        for part in parts(&entries, |(score, value)| score.len() + value.len()) {
            let request = self.of.place.command("ZADD")?;
            let request = options.iter().fold(request, |request, option| request.arg(*option));
            let request =
                part.iter().fold(request, |request, (score, value)| request.arg(score.clone()).arg(value.clone()));
            sum += self.of.place.change::<u64>(request).await?;
        }
        Ok(sum)
    }

    /// Adds to the score of a value, 0 where it is not in, on the server; tells what it is then.
    ///
    /// # Errors
    ///
    /// [`ObjectError`] says what is true then; [`ObjectError::InvalidArgument`] of NaN, [`ObjectError::Refused`] where the sum would be
    /// (infinities of both signs).
    ///
    /// # Cancel safety
    ///
    /// What has left is carried out although nobody waits for it.
    #[doc(alias = "addScore")]
    pub async fn add_score<Q: ?Sized>(&self, value: &Q, by: f64) -> Result<f64, ObjectError>
    where
        T: Borrow<Q>,
        C: Encode<Q>,
    {
        let (by, value) = (text(self.of.name()?, by)?, self.of.encoded(value)?);
        self.of.place.change(self.of.place.command("ZINCRBY")?.arg(by).arg(value)).await
    }

    /// Gives a value a score; tells how many are in front of it then.
    ///
    /// # Errors
    ///
    /// As [`ScoredSortedSet::insert`].
    ///
    /// # Cancel safety
    ///
    /// As [`ScoredSortedSet::insert`].
    #[doc(alias = "addAndGetRank")]
    pub async fn insert_and_rank<Q: ?Sized>(&self, value: &Q, score: f64) -> Result<u64, ObjectError>
    where
        T: Borrow<Q>,
        C: Encode<Q>,
    {
        self.ranked_one("ZADD", "ZRANK", value, score).await
    }

    /// Gives a value a score; tells how many are behind it then.
    ///
    /// # Errors
    ///
    /// As [`ScoredSortedSet::insert`].
    ///
    /// # Cancel safety
    ///
    /// As [`ScoredSortedSet::insert`].
    #[doc(alias = "addAndGetRevRank")]
    pub async fn insert_and_rev_rank<Q: ?Sized>(&self, value: &Q, score: f64) -> Result<u64, ObjectError>
    where
        T: Borrow<Q>,
        C: Encode<Q>,
    {
        self.ranked_one("ZADD", "ZREVRANK", value, score).await
    }

    /// Gives values scores, in one step; tells of each how many are behind it when all are in. Up to 50,000 of them.
    ///
    /// # Errors
    ///
    /// As [`ScoredSortedSet::insert`]; [`ObjectError::InvalidArgument`] of more.
    ///
    /// # Cancel safety
    ///
    /// As [`ScoredSortedSet::insert`].
    #[doc(alias = "addAndGetRevRank")]
    pub async fn insert_many_and_rev_rank<'a, Q: ?Sized + 'a>(
        &self,
        entries: impl IntoIterator<Item = (&'a Q, f64)>,
    ) -> Result<Vec<u64>, ObjectError>
    where
        T: Borrow<Q>,
        C: Encode<Q>,
    {
        let entries = self.of.scored(entries)?;
        match entries.len() {
            0 => Ok(Vec::new()),
            1..=RANKED => self.ranked("ZADD", "ZREVRANK", entries).await,
            many => Err(self.of.invalid("values", format!("up to {RANKED} at once"), many.to_string())?),
        }
    }

    /// Adds to the score of a value; tells how many are in front of it then.
    ///
    /// # Errors
    ///
    /// As [`ScoredSortedSet::add_score`].
    ///
    /// # Cancel safety
    ///
    /// As [`ScoredSortedSet::add_score`].
    #[doc(alias = "addScoreAndGetRank")]
    pub async fn add_score_and_rank<Q: ?Sized>(&self, value: &Q, by: f64) -> Result<u64, ObjectError>
    where
        T: Borrow<Q>,
        C: Encode<Q>,
    {
        self.ranked_one("ZINCRBY", "ZRANK", value, by).await
    }

    /// Adds to the score of a value; tells how many are behind it then.
    ///
    /// # Errors
    ///
    /// As [`ScoredSortedSet::add_score`].
    ///
    /// # Cancel safety
    ///
    /// As [`ScoredSortedSet::add_score`].
    #[doc(alias = "addScoreAndGetRevRank")]
    pub async fn add_score_and_rev_rank<Q: ?Sized>(&self, value: &Q, by: f64) -> Result<u64, ObjectError>
    where
        T: Borrow<Q>,
        C: Encode<Q>,
    {
        self.ranked_one("ZINCRBY", "ZREVRANK", value, by).await
    }

    async fn ranked_one<Q: ?Sized>(
        &self,
        add: &'static str,
        rank: &'static str,
        value: &Q,
        score: f64,
    ) -> Result<u64, ObjectError>
    where
        C: Encode<Q>,
    {
        let ranks = self.ranked(add, rank, self.of.scored([(value, score)])?).await?;
        Ok(ranks.first().copied().unwrap_or_default())
    }

    async fn ranked(
        &self,
        add: &'static str,
        rank: &'static str,
        entries: Vec<(Bytes, Bytes)>,
    ) -> Result<Vec<u64>, ObjectError> {
        let request = self.of.script(&ADD_AND_RANK)?.arg(add).arg(rank);
        let request = entries.into_iter().fold(request, |request, (score, value)| request.arg(score).arg(value));
        self.of.place.change(request).await
    }
}

/// How many values one script ranks: some tens of milliseconds.
const RANKED: usize = 50_000;
