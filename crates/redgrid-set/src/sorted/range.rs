//! Ranges of sorted sets: by rank, by score, and by the values' own order.

use std::fmt::{self, Debug};
use std::ops::{Bound, RangeBounds};

use bytes::Bytes;
use redgrid_codecs::{Codec, Decode, Encode};
use redgrid_core::object::ObjectError;
use redgrid_core::{Name, Pairs, Request};

use crate::elements::Elements;

/// Some of a sorted set; made by `by_rank`, `by_score` and `by_value`. It asks when one of its last methods is called.
#[must_use = "nothing is asked of the server yet"]
pub struct Range<T, C> {
    of: Elements<T, C>,
    span: Result<Span, ObjectError>,
    rev: bool,
    limit: Option<(u64, u64)>,
}

/// From where to where.
#[derive(Debug, Clone)]
enum Span {
    /// The first, and the one behind the last where there is an end.
    Ranks(i64, Option<i64>),
    /// As the server takes them.
    Scores(Bytes, Bytes),
    Values(Bytes, Bytes),
}

impl Span {
    fn command(&self, names: [&'static str; 3]) -> &'static str {
        match self {
            Span::Ranks(..) => names[0],
            Span::Scores(..) => names[1],
            Span::Values(..) => names[2],
        }
    }
}

impl<T, C: Codec> Range<T, C> {
    fn new(of: &Elements<T, C>, span: Result<Span, ObjectError>) -> Self {
        Range { of: of.clone(), span, rev: false, limit: None }
    }

    pub(crate) fn of_ranks(of: &Elements<T, C>, ranks: &(impl RangeBounds<u64> + Debug)) -> Self {
        let span = of.name().and_then(|name| ranks_of(name, ranks));
        Range::new(of, span)
    }

    pub(crate) fn of_scores(of: &Elements<T, C>, scores: &(impl RangeBounds<f64> + Debug)) -> Self {
        let span = of.name().and_then(|name| scores_of(name, scores));
        Range::new(of, span)
    }

    pub(crate) fn of_values<Q: ?Sized>(of: &Elements<T, C>, values: &impl RangeBounds<Q>) -> Self
    where
        C: Encode<Q>,
    {
        Range::new(of, bounds_of(of, values).map(|(from, to)| Span::Values(from, to)))
    }

    /// From the last to the first; ranks are counted from the last then, too.
    #[doc(alias = "valueRangeReversed")]
    #[doc(alias = "entryRangeReversed")]
    #[doc(alias = "rangeReversed")]
    pub fn rev(mut self) -> Self {
        self.rev = true;
        self
    }

    /// Without the first `offset` of them, and `count` at most. Not of ranks, which say that themselves.
    pub fn limit(mut self, offset: u64, count: u64) -> Self {
        self.limit = Some((offset, count));
        self
    }

    /// What is behind the key, or of a store behind both.
    fn arguments(&self, request: Request) -> Result<Request, ObjectError> {
        let request = match self.span.clone()? {
            Span::Ranks(first, end) => {
                let (first, last) = last_of(first, end);
                request.int(first).int(last)
            }
            Span::Scores(from, to) if self.rev => request.arg(to).arg(from).arg("BYSCORE"),
            Span::Scores(from, to) => request.arg(from).arg(to).arg("BYSCORE"),
            Span::Values(from, to) if self.rev => request.arg(to).arg(from).arg("BYLEX"),
            Span::Values(from, to) => request.arg(from).arg(to).arg("BYLEX"),
        };
        let request = if self.rev { request.arg("REV") } else { request };
        match (self.limit, &self.span) {
            (None, _) => Ok(request),
            (Some(_), Ok(Span::Ranks(..))) => Err(self.of.invalid("limit", "none of ranks", "one")?),
            (Some((offset, count)), _) => {
                let number = |n: u64| i64::try_from(n).unwrap_or(i64::MAX);
                Ok(request.arg("LIMIT").int(number(offset)).int(number(count)))
            }
        }
    }

    fn unlimited(&self) -> Result<Span, ObjectError> {
        match self.limit {
            None => self.span.clone(),
            Some(_) => Err(self.of.invalid("limit", "none for what counts or removes", "one")?),
        }
    }

    /// How many there are.
    ///
    /// # Errors
    ///
    /// [`ObjectError`] says what is true then; [`ObjectError::InvalidArgument`] of a range that can not be, or that is limited.
    ///
    /// # Cancel safety
    ///
    /// Dropping it changes nothing.
    #[doc(alias = "countHead")]
    #[doc(alias = "countTail")]
    pub async fn count(self) -> Result<u64, ObjectError> {
        let span = self.unlimited()?;
        let request = self.of.place.command(span.command(["ZCARD", "ZCOUNT", "ZLEXCOUNT"]))?;
        match span {
            Span::Ranks(first, end) => {
                let len: i64 = self.of.place.read(request).await?;
                Ok((end.unwrap_or(len).min(len) - first).max(0).unsigned_abs())
            }
            Span::Scores(from, to) | Span::Values(from, to) => self.of.place.read(request.arg(from).arg(to)).await,
        }
    }

    /// Removes them, in one step; tells how many. The server does nothing else meanwhile.
    ///
    /// # Errors
    ///
    /// As [`Range::count`].
    ///
    /// # Cancel safety
    ///
    /// What has left is carried out although nobody waits for it.
    #[doc(alias = "removeRangeByScore")]
    #[doc(alias = "removeRangeByRank")]
    #[doc(alias = "removeRange")]
    #[doc(alias = "removeRangeHead")]
    #[doc(alias = "removeRangeTail")]
    pub async fn remove(self) -> Result<u64, ObjectError> {
        let span = self.unlimited()?;
        let request = self.of.place.command(span.command(["ZREMRANGEBYRANK", "ZREMRANGEBYSCORE", "ZREMRANGEBYLEX"]))?;
        let request = match span {
            Span::Ranks(first, end) => {
                let (first, last) = last_of(first, end);
                // From the last one on: -1 is that. An empty range is one there, too.
                match (self.rev, first <= last || last == -1) {
                    (false, _) => request.int(first).int(last),
                    (true, false) => request.int(1).int(0),
                    (true, true) if last == -1 => request.int(0).int(-first - 1),
                    (true, true) => request.int(-last - 1).int(-first - 1),
                }
            }
            Span::Scores(from, to) | Span::Values(from, to) => request.arg(from).arg(to),
        };
        self.of.place.change(request).await
    }

    /// Stores them, with their scores, under another name, in place of what is there, in one step; tells how many there are.
    ///
    /// # Errors
    ///
    /// [`ObjectError`] says what is true then; [`ObjectError::InvalidArgument`] where the name does not share a slot of a cluster, or of a
    /// range that can not be.
    ///
    /// # Cancel safety
    ///
    /// What has left is carried out although nobody waits for it.
    #[doc(alias = "rangeTo")]
    #[doc(alias = "revRangeTo")]
    pub async fn store(self, name: impl AsRef<str>) -> Result<u64, ObjectError> {
        let into = self.of.place.beside("name", name)?;
        let (_, key) = self.of.place.named()?;
        let request = self.arguments(Request::command("ZRANGESTORE").key(into).key(key.clone()))?;
        self.of.place.change(request).await
    }
}

impl<T, C: Decode<T>> Range<T, C> {
    /// The values, in one answer.
    ///
    /// # Errors
    ///
    /// [`ObjectError`] says what is true then; [`ObjectError::InvalidArgument`] of a range that can not be.
    ///
    /// # Cancel safety
    ///
    /// Dropping it changes nothing.
    #[doc(alias = "valueRange")]
    #[doc(alias = "valueRangeReversed")]
    #[doc(alias = "rangeHead")]
    #[doc(alias = "rangeTail")]
    #[doc(alias = "rangeHeadReversed")]
    #[doc(alias = "rangeTailReversed")]
    pub async fn values(self) -> Result<Vec<T>, ObjectError> {
        let request = self.arguments(self.of.place.command("ZRANGE")?)?;
        self.of.all(&self.of.place.read::<Vec<_>>(request).await?)
    }

    /// The values with their scores, in one answer.
    ///
    /// # Errors
    ///
    /// As [`Range::values`].
    ///
    /// # Cancel safety
    ///
    /// As [`Range::values`].
    #[doc(alias = "entryRange")]
    #[doc(alias = "entryRangeReversed")]
    pub async fn entries(self) -> Result<Vec<(T, f64)>, ObjectError> {
        let by_value = matches!(self.span, Ok(Span::Values(..)));
        if by_value {
            // All of them have the same.
            return Ok(self.values().await?.into_iter().map(|value| (value, 0.0)).collect());
        }
        let request = self.arguments(self.of.place.command("ZRANGE")?)?.arg("WITHSCORES");
        let found: Pairs<Bytes, f64> = self.of.place.read(request).await?;
        self.of.entries(found)
    }
}

/// Bounds of values as the server takes them.
pub(super) fn bounds_of<T, C: Encode<Q>, Q: ?Sized>(
    of: &Elements<T, C>,
    values: &impl RangeBounds<Q>,
) -> Result<(Bytes, Bytes), ObjectError> {
    let bound = |bound: Bound<&Q>, none: &'static str| {
        let (mark, value) = match bound {
            Bound::Included(value) => (b"[", value),
            Bound::Excluded(value) => (b"(", value),
            Bound::Unbounded => return Ok(Bytes::from_static(none.as_bytes())),
        };
        Ok::<_, ObjectError>(Bytes::from([&mark[..], &of.encoded(value)?].concat()))
    };
    let (from, to) = (bound(values.start_bound(), "-")?, bound(values.end_bound(), "+")?);
    // An end without a value has one byte, and is on its side of all of them.
    match from != *"-" && to != *"+" && to[1..] < from[1..] {
        true => Err(backwards(of.name()?, "one that does".into())),
        false => Ok((from, to)),
    }
}

/// Ranks as the server takes them: the first and the last, which is -1 without an end.
fn last_of(first: i64, end: Option<i64>) -> (i64, i64) {
    match end {
        None => (first, -1),
        Some(end) if end <= first => (1, 0),
        Some(end) => (first, end - 1),
    }
}

fn ranks_of(name: &Name, ranks: &(impl RangeBounds<u64> + Debug)) -> Result<Span, ObjectError> {
    let narrow = |n: u128| i64::try_from(n).unwrap_or(i64::MAX);
    let first = match ranks.start_bound() {
        Bound::Included(&at) => at.into(),
        Bound::Excluded(&at) => u128::from(at) + 1,
        Bound::Unbounded => 0,
    };
    let end = match ranks.end_bound() {
        Bound::Included(&at) => Some(u128::from(at) + 1),
        Bound::Excluded(&at) => Some(at.into()),
        Bound::Unbounded => None,
    };
    match end {
        Some(end) if end < first => Err(backwards(name, format!("{ranks:?}"))),
        end => Ok(Span::Ranks(narrow(first), end.map(narrow))),
    }
}

fn scores_of(name: &Name, scores: &(impl RangeBounds<f64> + Debug)) -> Result<Span, ObjectError> {
    let bound = |bound: Bound<&f64>, none: &'static str| {
        let (mark, score) = match bound {
            Bound::Included(score) => ("", score),
            Bound::Excluded(score) => ("(", score),
            Bound::Unbounded => return Ok(Bytes::from_static(none.as_bytes())),
        };
        Ok::<_, ObjectError>(Bytes::from([mark.as_bytes(), &super::score::text(name, *score)?].concat()))
    };
    let (from, to) = (bound(scores.start_bound(), "-inf")?, bound(scores.end_bound(), "+inf")?);
    match (scores.start_bound(), scores.end_bound()) {
        (Bound::Included(from) | Bound::Excluded(from), Bound::Included(to) | Bound::Excluded(to)) if to < from => {
            Err(backwards(name, format!("{scores:?}")))
        }
        _ => Ok(Span::Scores(from, to)),
    }
}

fn backwards(name: &Name, got: String) -> ObjectError {
    let expected = "one that does not end before it begins".into();
    ObjectError::InvalidArgument { name: name.clone(), option: "range", expected, got }
}

impl<T, C: Debug> Debug for Range<T, C> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut shown = f.debug_struct("Range");
        shown.field("name", &self.of.place.name()).field("span", &self.span).field("rev", &self.rev);
        shown.field("limit", &self.limit).finish()
    }
}
