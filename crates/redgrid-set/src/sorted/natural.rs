//! Sets in the order of their values.

use std::borrow::Borrow;
use std::collections::VecDeque;
use std::fmt::Debug;
use std::ops::RangeBounds;

use bytes::Bytes;
use futures_util::stream::{self, BoxStream, StreamExt};
use redgrid_codecs::{Codec, Decode, Encode, Natural, Ordered, Text};
use redgrid_core::object::{ObjectError, parts};
use redgrid_core::{Client, Pairs};

use super::{RETAIN, Range, ordered_methods};
use crate::common::common_methods;
use crate::elements::{Elements, handle};

/// Values of type `T`, each once and in their own order, shared by all processes that reach the same server: a `BTreeSet` of all of them.
///
/// A sorted set of the server in which all have the score 0, and are in the order of their bytes. So the codec is one that keeps
/// the order of values ([`Ordered`]): [`Natural`] for numbers, text, bytes and tuples. Inserting needs no lock and O(log n). Redisson's
/// `RSortedSet` is something else, and its keys can not be shared: a list under a lock, ordered by a class of Java's.
///
/// Cheap to clone; clones are the same set. A set is there while it has values.
#[doc(alias = "RSortedSet")]
pub struct SortedSet<T, C = Natural> {
    pub(crate) of: Elements<T, C>,
}

/// Text in the order of its bytes, which for UTF-8 is that of its characters' numbers. Redisson's `RLexSortedSet` on the wire.
#[doc(alias = "RLexSortedSet")]
#[doc(alias = "RedissonLexSortedSet")]
pub type LexSortedSet = SortedSet<String, Text>;

/// Values of a [`SortedSet`] in their order, as a stream; made by [`SortedSet::stream`] and [`SortedSet::stream_of`].
pub type InOrder<T> = BoxStream<'static, Result<T, ObjectError>>;

/// How many values a page of a stream has.
const PAGE: i64 = 100;

handle!(SortedSet);
ordered_methods!(SortedSet);

impl<T, C: Ordered<T> + Default> SortedSet<T, C> {
    /// The set with this name. Making one asks nobody: an invalid name is told by the first call.
    pub fn new(client: &Client, name: impl AsRef<str>) -> Self {
        SortedSet { of: Elements::new(client, name, C::default()) }
    }
}

impl<T, C: Codec> SortedSet<T, C> {
    /// Inserts a value; tells whether it is new.
    ///
    /// # Errors
    ///
    /// [`ObjectError`] says what is true then.
    ///
    /// # Cancel safety
    ///
    /// What has left is carried out although nobody waits for it.
    #[doc(alias = "add")]
    pub async fn insert<Q: ?Sized>(&self, value: &Q) -> Result<bool, ObjectError>
    where
        T: Borrow<Q>,
        C: Ordered<Q>,
    {
        let value = self.of.encoded(value)?;
        self.of.place.change(self.of.place.command("ZADD")?.int(0).arg(value)).await
    }

    /// Inserts values, 500 of them or about 4 MiB at a time; tells how many are new. After an error some may be in.
    ///
    /// # Errors
    ///
    /// As [`SortedSet::insert`].
    ///
    /// # Cancel safety
    ///
    /// As [`SortedSet::insert`].
    #[doc(alias = "addAll")]
    pub async fn insert_many<'a, Q: ?Sized + 'a>(
        &self,
        values: impl IntoIterator<Item = &'a Q>,
    ) -> Result<u64, ObjectError>
    where
        T: Borrow<Q>,
        C: Ordered<Q>,
    {
        let (values, mut sum) = (self.of.encoded_all(values)?, 0);
        for part in parts(&values, Bytes::len) {
            let request = self.of.place.command("ZADD")?;
            let request = part.iter().fold(request, |request, value| request.int(0).arg(value.clone()));
            sum += self.of.place.change::<u64>(request).await?;
        }
        Ok(sum)
    }

    /// Those between these, as of a `BTreeSet`.
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
        Range::of_values(&self.of, &values)
    }
}

impl<T, C: Decode<T>> SortedSet<T, C> {
    /// The lowest value; `None` where there is none.
    ///
    /// # Errors
    ///
    /// [`ObjectError`] says what is true then.
    ///
    /// # Cancel safety
    ///
    /// Dropping it changes nothing.
    pub async fn first(&self) -> Result<Option<T>, ObjectError> {
        Ok(self.by_rank(..1).values().await?.pop())
    }

    /// The highest value; `None` where there is none.
    ///
    /// # Errors
    ///
    /// As [`SortedSet::first`].
    ///
    /// # Cancel safety
    ///
    /// As [`SortedSet::first`].
    pub async fn last(&self) -> Result<Option<T>, ObjectError> {
        Ok(self.by_rank(..1).rev().values().await?.pop())
    }

    /// Removes the lowest value, and tells it; `None` where there is none. Where its answer is lost it is gone.
    ///
    /// # Errors
    ///
    /// [`ObjectError`] says what is true then; it is removed also where it can not be decoded.
    ///
    /// # Cancel safety
    ///
    /// What has left is carried out although nobody waits for it: then the value is nobody's.
    #[doc(alias = "pollFirst")]
    pub async fn pop_first(&self) -> Result<Option<T>, ObjectError> {
        Ok(self.popped("ZPOPMIN", 1).await?.pop())
    }

    /// Removes the highest value, and tells it; `None` where there is none. Where its answer is lost it is gone.
    ///
    /// # Errors
    ///
    /// As [`SortedSet::pop_first`].
    ///
    /// # Cancel safety
    ///
    /// As [`SortedSet::pop_first`].
    #[doc(alias = "pollLast")]
    pub async fn pop_last(&self) -> Result<Option<T>, ObjectError> {
        Ok(self.popped("ZPOPMAX", 1).await?.pop())
    }

    /// Removes the `count` lowest values, and tells them, the lowest first.
    ///
    /// # Errors
    ///
    /// As [`SortedSet::pop_first`]; one that can not be decoded is an error of all, and all are removed: where others may have written it, take
    /// them one by one.
    ///
    /// # Cancel safety
    ///
    /// As [`SortedSet::pop_first`].
    #[doc(alias = "pollFirst")]
    pub async fn pop_first_many(&self, count: u32) -> Result<Vec<T>, ObjectError> {
        self.popped("ZPOPMIN", count).await
    }

    /// Removes the `count` highest values, and tells them, the highest first.
    ///
    /// # Errors
    ///
    /// As [`SortedSet::pop_first_many`].
    ///
    /// # Cancel safety
    ///
    /// As [`SortedSet::pop_first`].
    #[doc(alias = "pollLast")]
    pub async fn pop_last_many(&self, count: u32) -> Result<Vec<T>, ObjectError> {
        self.popped("ZPOPMAX", count).await
    }

    async fn popped(&self, command: &'static str, count: u32) -> Result<Vec<T>, ObjectError> {
        let Pairs(found): Pairs<Bytes, f64> =
            self.of.place.change(self.of.place.command(command)?.int(count.into())).await?;
        found.iter().map(|(value, _)| self.of.one(value)).collect()
    }
}

impl<T: 'static, C: Decode<T>> SortedSet<T, C> {
    /// All values in their order, as a stream: a page of 100 at a time. What is in from beginning to end comes once; what is inserted or
    /// removed meanwhile comes as it is when its page is asked for. One that can not be decoded is an error, and the stream goes on
    /// behind it; behind any other error it is over.
    #[doc(alias = "iterator")]
    pub fn stream(&self) -> InOrder<T> {
        self.streamed(Bytes::from_static(b"-"), Bytes::from_static(b"+"))
    }

    /// Those between these in their order, as a stream. See [`SortedSet::stream`].
    pub fn stream_of<Q: ?Sized>(&self, values: impl RangeBounds<Q>) -> InOrder<T>
    where
        T: Borrow<Q>,
        C: Ordered<Q>,
    {
        match super::range::bounds_of(&self.of, &values) {
            Ok((from, to)) => self.streamed(from, to),
            Err(error) => stream::iter([error]).map(Err).boxed(),
        }
    }

    fn streamed(&self, from: Bytes, to: Bytes) -> InOrder<T> {
        let of = self.of.clone();
        // What is found and not yet taken, and where to go on.
        let begin = (of, VecDeque::<Bytes>::new(), Some(from), to);
        let values = stream::unfold(begin, |(of, mut found, mut from, to)| async move {
            loop {
                if let Some(bytes) = found.pop_front() {
                    return Some((of.one(&bytes), (of, found, from, to)));
                }
                let at = from.take()?;
                match page(&of, at, to.clone()).await {
                    Ok(page) => {
                        let full = page.len() as u64 == PAGE.unsigned_abs();
                        from = page.last().filter(|_| full).map(|last| [b"(", &last[..]].concat().into());
                        found.extend(page);
                    }
                    Err(error) => return Some((Err(error), (of, found, None, to))),
                }
            }
        });
        values.boxed()
    }
}

async fn page<T, C: Codec>(of: &Elements<T, C>, from: Bytes, to: Bytes) -> Result<Vec<Bytes>, ObjectError> {
    let request = of.place.command("ZRANGE")?.arg(from).arg(to).arg("BYLEX").arg("LIMIT").int(0).int(PAGE);
    // From the primary, whatever the read mode: a replica may be behind where the last page was.
    of.place.ask(request).await
}
