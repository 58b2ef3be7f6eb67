//! Ranges of sorted sets: by rank, by score, and by value.

use std::fmt::{self, Debug};
use std::ops::{Bound, RangeBounds};

use bytes::Bytes;
use redgrid_codecs::{Codec, Decode, Encode};
use redgrid_core::object::ObjectError;
use redgrid_core::{Name, Pairs, Request};

use crate::elements::Elements;

/// A range of a sorted set; returned by `by_rank`, `by_score` and `by_value`.
///
/// A request is sent only by the methods that read, count, remove or store the range.
#[must_use = "does nothing until one of its methods is awaited"]
pub struct Range<T, C> {
    inner: Elements<T, C>,
    span: Result<Span, ObjectError>,
    rev: bool,
    limit: Option<(u64, u64)>,
}

/// The bounds of a range.
#[derive(Debug, Clone)]
enum Span {
    /// The first rank, and the rank after the last, if there is an end.
    Ranks(i64, Option<i64>),
    /// Bounds of scores in the server's syntax.
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
    fn new(inner: &Elements<T, C>, span: Result<Span, ObjectError>) -> Self {
        Range { inner: inner.clone(), span, rev: false, limit: None }
    }

    pub(crate) fn of_ranks(inner: &Elements<T, C>, ranks: &(impl RangeBounds<u64> + Debug)) -> Self {
        let span = inner.name().and_then(|name| rank_span(name, ranks));
        Range::new(inner, span)
    }

    pub(crate) fn of_scores(inner: &Elements<T, C>, scores: &(impl RangeBounds<f64> + Debug)) -> Self {
        let span = inner.name().and_then(|name| score_span(name, scores));
        Range::new(inner, span)
    }

    pub(crate) fn of_values<Q: ?Sized>(inner: &Elements<T, C>, values: &impl RangeBounds<Q>) -> Self
    where
        C: Encode<Q>,
    {
        Range::new(inner, value_bounds(inner, values).map(|(from, to)| Span::Values(from, to)))
    }

    /// Reverses the order. Ranks are also counted from the last value.
    #[doc(alias = "valueRangeReversed")]
    #[doc(alias = "entryRangeReversed")]
    #[doc(alias = "rangeReversed")]
    pub fn rev(mut self) -> Self {
        self.rev = true;
        self
    }

    /// Skips the first `offset` values, and returns `count` values at most. Not allowed for ranges
    /// of ranks, because ranks already define both.
    pub fn limit(mut self, offset: u64, count: u64) -> Self {
        self.limit = Some((offset, count));
        self
    }

    /// Appends the arguments after the key or, for a store, after both keys.
    fn arguments(&self, request: Request) -> Result<Request, ObjectError> {
        let request = match self.span.clone()? {
            Span::Ranks(first, end) => {
                let (first, last) = rank_bounds(first, end);
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
            (Some(_), Ok(Span::Ranks(..))) => Err(self.inner.invalid("limit", "none for a range of ranks", "one")?),
            (Some((offset, count)), _) => {
                let number = |n: u64| i64::try_from(n).unwrap_or(i64::MAX);
                Ok(request.arg("LIMIT").int(number(offset)).int(number(count)))
            }
        }
    }

    fn unlimited(&self) -> Result<Span, ObjectError> {
        match self.limit {
            None => self.span.clone(),
            Some(_) => Err(self.inner.invalid("limit", "none for a call that counts or removes", "one")?),
        }
    }

    /// Returns the number of values in the range.
    ///
    /// # Errors
    ///
    /// [`ObjectError`] states what failed and whether anything may have changed.
    /// [`Failure::InvalidArgument`](crate::Failure::InvalidArgument) if the range is invalid or has
    /// a limit.
    ///
    /// # Cancel safety
    ///
    /// Dropping the future changes nothing.
    #[doc(alias = "countHead")]
    #[doc(alias = "countTail")]
    pub async fn count(self) -> Result<u64, ObjectError> {
        let span = self.unlimited()?;
        let request = self.inner.object_ref.command(span.command(["ZCARD", "ZCOUNT", "ZLEXCOUNT"]))?;
        match span {
            Span::Ranks(first, end) => {
                let len: i64 = self.inner.object_ref.read(request).await?;
                Ok((end.unwrap_or(len).min(len) - first).max(0).unsigned_abs())
            }
            Span::Scores(from, to) | Span::Values(from, to) => {
                self.inner.object_ref.read(request.arg(from).arg(to)).await
            }
        }
    }

    /// Removes the values of the range, in one step, and returns their number. The command blocks
    /// the server meanwhile.
    ///
    /// # Errors
    ///
    /// As for [`Range::count`].
    ///
    /// # Cancel safety
    ///
    /// A request that was already sent is executed even if the future is dropped.
    #[doc(alias = "removeRangeByScore")]
    #[doc(alias = "removeRangeByRank")]
    #[doc(alias = "removeRange")]
    #[doc(alias = "removeRangeHead")]
    #[doc(alias = "removeRangeTail")]
    pub async fn remove(self) -> Result<u64, ObjectError> {
        let span = self.unlimited()?;
        let request =
            self.inner.object_ref.command(span.command(["ZREMRANGEBYRANK", "ZREMRANGEBYSCORE", "ZREMRANGEBYLEX"]))?;
        let request = match span {
            Span::Ranks(first, end) => {
                let (first, last) = rank_bounds(first, end);
                // Reversed ranks are sent as negative ranks: -1 is the last value. An empty range
                // must stay empty.
                match (self.rev, first <= last || last == -1) {
                    (false, _) => request.int(first).int(last),
                    (true, false) => request.int(1).int(0),
                    (true, true) if last == -1 => request.int(0).int(-first - 1),
                    (true, true) => request.int(-last - 1).int(-first - 1),
                }
            }
            Span::Scores(from, to) | Span::Values(from, to) => request.arg(from).arg(to),
        };
        self.inner.object_ref.change(request).await
    }

    /// Stores the values with their scores under another name, in one step, and replaces what is
    /// stored there. Returns the number of values.
    ///
    /// # Errors
    ///
    /// [`ObjectError`] states what failed and whether anything may have changed.
    /// [`Failure::InvalidArgument`](crate::Failure::InvalidArgument) if the name is in another slot
    /// of a cluster, or for an invalid range.
    ///
    /// # Cancel safety
    ///
    /// A request that was already sent is executed even if the future is dropped.
    #[doc(alias = "rangeTo")]
    #[doc(alias = "revRangeTo")]
    pub async fn store(self, name: impl AsRef<str>) -> Result<u64, ObjectError> {
        let into = self.inner.object_ref.same_slot_key("name", name)?;
        let (_, key) = self.inner.object_ref.name_and_key()?;
        let request = self.arguments(Request::command("ZRANGESTORE").key(into).key(key.clone()))?;
        self.inner.object_ref.change(request).await
    }
}

impl<T, C: Decode<T>> Range<T, C> {
    /// Returns the values, in one reply.
    ///
    /// # Errors
    ///
    /// [`ObjectError`] states what failed and whether anything may have changed.
    /// [`Failure::InvalidArgument`](crate::Failure::InvalidArgument) for an invalid range.
    ///
    /// # Cancel safety
    ///
    /// Dropping the future changes nothing.
    #[doc(alias = "valueRange")]
    #[doc(alias = "valueRangeReversed")]
    #[doc(alias = "rangeHead")]
    #[doc(alias = "rangeTail")]
    #[doc(alias = "rangeHeadReversed")]
    #[doc(alias = "rangeTailReversed")]
    pub async fn values(self) -> Result<Vec<T>, ObjectError> {
        let request = self.arguments(self.inner.object_ref.command("ZRANGE")?)?;
        self.inner.decode_all(&self.inner.object_ref.read::<Vec<_>>(request).await?)
    }

    /// Returns the values with their scores, in one reply.
    ///
    /// # Errors and cancel safety
    ///
    /// As for [`Range::values`].
    #[doc(alias = "entryRange")]
    #[doc(alias = "entryRangeReversed")]
    pub async fn entries(self) -> Result<Vec<(T, f64)>, ObjectError> {
        let by_value = matches!(self.span, Ok(Span::Values(..)));
        if by_value {
            // All scores of a set with ranges of values are 0.
            return Ok(self.values().await?.into_iter().map(|value| (value, 0.0)).collect());
        }
        let request = self.arguments(self.inner.object_ref.command("ZRANGE")?)?.arg("WITHSCORES");
        let found: Pairs<Bytes, f64> = self.inner.object_ref.read(request).await?;
        self.inner.decode_entries(found)
    }
}

/// Encodes the bounds of a range of values in the server's syntax.
pub(super) fn value_bounds<T, C: Encode<Q>, Q: ?Sized>(
    inner: &Elements<T, C>,
    values: &impl RangeBounds<Q>,
) -> Result<(Bytes, Bytes), ObjectError> {
    let bound = |bound: Bound<&Q>, none: &'static str| {
        let (prefix, value) = match bound {
            Bound::Included(value) => (b"[", value),
            Bound::Excluded(value) => (b"(", value),
            Bound::Unbounded => return Ok(Bytes::from_static(none.as_bytes())),
        };
        Ok::<_, ObjectError>(Bytes::from([&prefix[..], &inner.encode(value)?].concat()))
    };
    let (from, to) = (bound(values.start_bound(), "-")?, bound(values.end_bound(), "+")?);
    // An unlimited bound is one byte, `-` or `+`. Other bounds must not be in reversed order.
    if from != *"-" && to != *"+" && to[1..] < from[1..] {
        return Err(reversed_range_error(inner.name()?, "a reversed range".into()));
    }
    Ok((from, to))
}

/// Returns the first and the last rank in the server's syntax; -1 is the last rank of the set.
fn rank_bounds(first: i64, end: Option<i64>) -> (i64, i64) {
    match end {
        None => (first, -1),
        Some(end) if end <= first => (1, 0),
        Some(end) => (first, end - 1),
    }
}

fn rank_span(name: &Name, ranks: &(impl RangeBounds<u64> + Debug)) -> Result<Span, ObjectError> {
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
        Some(end) if end < first => Err(reversed_range_error(name, format!("{ranks:?}"))),
        end => Ok(Span::Ranks(narrow(first), end.map(narrow))),
    }
}

fn score_span(name: &Name, scores: &(impl RangeBounds<f64> + Debug)) -> Result<Span, ObjectError> {
    let bound = |bound: Bound<&f64>, none: &'static str| {
        let (prefix, score) = match bound {
            Bound::Included(score) => ("", score),
            Bound::Excluded(score) => ("(", score),
            Bound::Unbounded => return Ok(Bytes::from_static(none.as_bytes())),
        };
        Ok::<_, ObjectError>(Bytes::from([prefix.as_bytes(), &super::score::encode_score(name, *score)?].concat()))
    };
    let (from, to) = (bound(scores.start_bound(), "-inf")?, bound(scores.end_bound(), "+inf")?);
    match (scores.start_bound(), scores.end_bound()) {
        (Bound::Included(from) | Bound::Excluded(from), Bound::Included(to) | Bound::Excluded(to)) if to < from => {
            Err(reversed_range_error(name, format!("{scores:?}")))
        }
        _ => Ok(Span::Scores(from, to)),
    }
}

fn reversed_range_error(name: &Name, got: String) -> ObjectError {
    let expected = "a range that does not end before it begins";
    ObjectError::invalid_argument(name, "range", expected, got)
}

impl<T, C: Debug> Debug for Range<T, C> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut debug = f.debug_struct("Range");
        debug.field("name", &self.inner.object_ref.name()).field("span", &self.span).field("rev", &self.rev);
        debug.field("limit", &self.limit).finish()
    }
}
