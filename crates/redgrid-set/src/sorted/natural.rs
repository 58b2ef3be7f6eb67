//! Sets in the natural order of their values.

use std::borrow::Borrow;
use std::collections::VecDeque;
use std::fmt::Debug;
use std::ops::RangeBounds;

use bytes::Bytes;
use futures_util::stream::{self, BoxStream, StreamExt};
use redgrid_codecs::{Codec, Decode, EncodesFor, Natural, Ordered, Text};
use redgrid_core::object::{ObjectError, chunks};
use redgrid_core::{Client, Pairs};

use super::{RETAIN, Range, ordered_methods};
use crate::common::common_methods;
use crate::elements::{Elements, handle};

/// A set of values of type `T` in their natural order, shared by all processes that reach the same
/// server: a distributed `BTreeSet`.
///
/// It is stored as a sorted set in which all scores are 0, so the server sorts it by the bytes of
/// the values. The codec must therefore preserve the order of values ([`Ordered`]), like
/// [`Natural`] for numbers, text, bytes and tuples. An insertion needs no lock, and O(log n) time.
/// Its keys cannot be shared with Redisson's `RSortedSet`, which is a list under a lock, ordered by
/// a Java class.
///
/// It is cheap to clone; clones are handles of the same set. A set exists while it has values.
#[doc(alias = "RSortedSet")]
pub struct SortedSet<T, C = Natural> {
    pub(crate) inner: Elements<T, C>,
}

/// A set of text in the order of its UTF-8 bytes, which is the order of the code points.
///
/// On the wire it is Redisson's `RLexSortedSet`.
#[doc(alias = "RLexSortedSet")]
#[doc(alias = "RedissonLexSortedSet")]
pub type LexSortedSet = SortedSet<String, Text>;

/// A stream of the values of a [`SortedSet`] in their order; returned by [`SortedSet::stream`] and
/// [`SortedSet::stream_of`].
pub type InOrder<T> = BoxStream<'static, Result<T, ObjectError>>;

/// The number of values in a page of a stream.
const PAGE: i64 = 100;

handle!(SortedSet);
ordered_methods!(SortedSet);

impl<T, C: Ordered<T> + Default> SortedSet<T, C> {
    /// Returns the set with this name.
    ///
    /// No request is sent: an invalid name is reported by the first call.
    pub fn new(client: &Client, name: impl AsRef<str>) -> Self {
        SortedSet { inner: Elements::new(client, name, C::default()) }
    }
}

impl<T, C: Codec> SortedSet<T, C> {
    /// Inserts a value. Returns whether it is new.
    ///
    /// # Errors
    ///
    /// [`ObjectError`] states what failed and whether anything may have changed.
    ///
    /// # Cancel safety
    ///
    /// A request that was already sent is executed even if the future is dropped.
    #[doc(alias = "add")]
    pub async fn insert<Q: ?Sized>(&self, value: &Q) -> Result<bool, ObjectError>
    where
        T: Borrow<Q>,
        C: Ordered<Q>,
    {
        let value = self.inner.encode(value)?;
        self.inner.object_ref.change(self.inner.object_ref.command("ZADD")?.int(0).arg(value)).await
    }

    /// Inserts values, up to 500 or about 4 MiB a request. Returns the number of new values.
    ///
    /// After an error, some of the values may have been inserted.
    ///
    /// # Errors and cancel safety
    ///
    /// As for [`SortedSet::insert`].
    #[doc(alias = "addAll")]
    pub async fn insert_many<'a, Q: ?Sized + 'a>(
        &self,
        values: impl IntoIterator<Item = &'a Q>,
    ) -> Result<u64, ObjectError>
    where
        T: Borrow<Q>,
        C: Ordered<Q>,
    {
        let (values, mut sum) = (self.inner.encode_all(values)?, 0);
        for chunk in chunks(&values, Bytes::len) {
            let request = self.inner.object_ref.command("ZADD")?;
            let request = chunk.iter().fold(request, |request, value| request.int(0).arg(value.clone()));
            sum += self.inner.object_ref.change::<u64>(request).await?;
        }
        Ok(sum)
    }

    /// Returns a range of values, as for a `BTreeSet`.
    ///
    /// ```no_run
    /// # use redgrid_set::{LexSortedSet, ObjectError, SortedSet};
    /// # async fn demo(numbers: &SortedSet<i64>, words: &LexSortedSet) -> Result<(), ObjectError> {
    /// use std::ops::Bound;
    ///
    /// let some: Vec<i64> = numbers.by_value(-10..10).limit(0, 50).values().await?;
    /// let gone = numbers.by_value(..0).remove().await?;
    /// let behind_m = words.by_value::<str>((Bound::Excluded("m"), Bound::Unbounded)).values().await?;
    /// # Ok(()) }
    /// ```
    #[doc(alias = "range")]
    #[doc(alias = "rangeHead")]
    #[doc(alias = "rangeTail")]
    #[doc(alias = "subSet")]
    #[doc(alias = "headSet")]
    #[doc(alias = "tailSet")]
    #[doc(alias = "count")]
    #[doc(alias = "countHead")]
    #[doc(alias = "countTail")]
    #[doc(alias = "removeRange")]
    #[doc(alias = "removeRangeHead")]
    #[doc(alias = "removeRangeTail")]
    pub fn by_value<Q: ?Sized>(&self, values: impl RangeBounds<Q>) -> Range<T, C>
    where
        T: Borrow<Q>,
        C: Ordered<Q>,
    {
        Range::of_values(&self.inner, &values)
    }
}

impl<T, C: Decode<T>> SortedSet<T, C> {
    /// Returns the lowest value; `None` if the set is empty.
    ///
    /// # Errors
    ///
    /// [`ObjectError`] states what failed and whether anything may have changed.
    ///
    /// # Cancel safety
    ///
    /// Dropping the future changes nothing.
    pub async fn first(&self) -> Result<Option<T>, ObjectError> {
        Ok(self.by_rank(..1).values().await?.pop())
    }

    /// Returns the highest value; `None` if the set is empty.
    ///
    /// # Errors and cancel safety
    ///
    /// As for [`SortedSet::first`].
    pub async fn last(&self) -> Result<Option<T>, ObjectError> {
        Ok(self.by_rank(..1).rev().values().await?.pop())
    }

    /// Removes the lowest value and returns it; `None` if the set is empty. If the reply is lost,
    /// the value is lost.
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
    pub async fn pop_first(&self) -> Result<Option<T>, ObjectError> {
        Ok(self.pop_some("ZPOPMIN", 1).await?.pop())
    }

    /// Removes the highest value and returns it; `None` if the set is empty. If the reply is lost,
    /// the value is lost.
    ///
    /// # Errors and cancel safety
    ///
    /// As for [`SortedSet::pop_first`].
    #[doc(alias = "pollLast")]
    pub async fn pop_last(&self) -> Result<Option<T>, ObjectError> {
        Ok(self.pop_some("ZPOPMAX", 1).await?.pop())
    }

    /// Removes the `count` lowest values and returns them, the lowest first.
    ///
    /// # Errors
    ///
    /// As for [`SortedSet::pop_first`]. If one value cannot be decoded, the call fails, but all of
    /// them are removed. If other writers may use another codec, pop values one by one.
    ///
    /// # Cancel safety
    ///
    /// As for [`SortedSet::pop_first`].
    #[doc(alias = "pollFirst")]
    pub async fn pop_first_many(&self, count: u32) -> Result<Vec<T>, ObjectError> {
        self.pop_some("ZPOPMIN", count).await
    }

    /// Removes the `count` highest values and returns them, the highest first.
    ///
    /// # Errors and cancel safety
    ///
    /// As for [`SortedSet::pop_first_many`].
    #[doc(alias = "pollLast")]
    pub async fn pop_last_many(&self, count: u32) -> Result<Vec<T>, ObjectError> {
        self.pop_some("ZPOPMAX", count).await
    }

    async fn pop_some(&self, command: &'static str, count: u32) -> Result<Vec<T>, ObjectError> {
        let Pairs(found): Pairs<Bytes, f64> =
            self.inner.object_ref.change(self.inner.object_ref.command(command)?.int(count.into())).await?;
        found.iter().map(|(value, _)| self.inner.decode(value)).collect()
    }
}

impl<T: 'static, C: Decode<T>> SortedSet<T, C> {
    /// Returns a stream of all values in their order, in pages of 100.
    ///
    /// A value that is in the set for the whole time is returned once. Whether other changes are
    /// visible depends on when their page is read. If a value cannot be decoded, the stream returns
    /// an error and continues. Any other error ends the stream.
    #[doc(alias = "iterator")]
    pub fn stream(&self) -> InOrder<T> {
        self.stream_between(Bytes::from_static(b"-"), Bytes::from_static(b"+"))
    }

    /// Returns a stream of a range of values in their order. See [`SortedSet::stream`].
    pub fn stream_of<Q: ?Sized>(&self, values: impl RangeBounds<Q>) -> InOrder<T>
    where
        T: Borrow<Q>,
        C: Ordered<Q>,
    {
        match super::range::value_bounds(&self.inner, &values) {
            Ok((from, to)) => self.stream_between(from, to),
            Err(error) => stream::iter([error]).map(Err).boxed(),
        }
    }

    fn stream_between(&self, from: Bytes, to: Bytes) -> InOrder<T> {
        let inner = self.inner.clone();
        // The state: the values that were read but not yet returned, and the start of the next
        // page.
        let begin = (inner, VecDeque::<Bytes>::new(), Some(from), to);
        let values = stream::unfold(begin, |(inner, mut found, mut from, to)| async move {
            loop {
                if let Some(bytes) = found.pop_front() {
                    return Some((inner.decode(&bytes), (inner, found, from, to)));
                }
                let at = from.take()?;
                match page(&inner, at, to.clone()).await {
                    Ok(page) => {
                        let full = page.len() as u64 == PAGE.unsigned_abs();
                        from = page.last().filter(|_| full).map(|last| [b"(", &last[..]].concat().into());
                        found.extend(page);
                    }
                    Err(error) => return Some((Err(error), (inner, found, None, to))),
                }
            }
        });
        values.boxed()
    }
}

async fn page<T, C: Codec>(inner: &Elements<T, C>, from: Bytes, to: Bytes) -> Result<Vec<Bytes>, ObjectError> {
    let request = inner.object_ref.command("ZRANGE")?.arg(from).arg(to).arg("BYLEX").arg("LIMIT").int(0).int(PAGE);
    // The primary is read, whatever the read mode: a replica may be behind the previous page.
    inner.object_ref.read_primary(request).await
}
