//! A list in another order, read or stored elsewhere.

use std::fmt;
use std::future::IntoFuture;
use std::pin::Pin;

use bytes::Bytes;
use redgrid_codecs::{Codec, Decode, Numeric};
use redgrid_core::object::ObjectError;
use redgrid_core::{Name, Request};

use crate::list::List;
use crate::place::number;

impl<T, C: Numeric<T>> List<T, C> {
    /// The elements in the order of their numbers when awaited, as [`Sort`]'s options say.
    ///
    /// ```no_run
    /// # async fn demo(client: &redgrid_list::Client) -> Result<(), redgrid_list::ObjectError> {
    /// use redgrid_list::List;
    /// use redgrid_list::codecs::Long;
    ///
    /// let scores: List<i64, Long> = List::new(client, "scores");
    /// let best_ten = scores.sort().descending().limit(0, 10).await?;
    /// # Ok(()) }
    /// ```
    ///
    /// ```compile_fail,E0599
    /// # fn demo(words: redgrid_list::List<String, redgrid_list::codecs::Text>) {
    /// words.sort(); // no numbers: words.sort_alpha()
    /// # }
    /// ```
    #[doc(alias = "readSort")]
    pub fn sort(&self) -> Sort<T, C> {
        Sort::new(self, false)
    }
}

impl<T, C: Codec> List<T, C> {
    /// The elements in the order of their bytes when awaited, as [`Sort`]'s options say. (The server compares as its locale does, which
    /// is that of bytes unless it was started with another.)
    #[doc(alias = "readSortAlpha")]
    pub fn sort_alpha(&self) -> Sort<T, C> {
        Sort::new(self, true)
    }

    /// The elements in the order of numbers that other keys have: see [`Sort::by`].
    #[doc(alias = "readSort")]
    pub fn sort_by(&self, pattern: impl Into<String>) -> Sort<T, C> {
        Sort::new(self, false).by(pattern)
    }
}

/// A list in another order; made by [`List::sort`], [`List::sort_alpha`] and [`List::sort_by`]. Awaited, it reads the elements; nothing
/// of the list is changed. The server sorts all of them, O(n log n), and does nothing else meanwhile, whatever the limit.
///
/// # Errors
///
/// [`ObjectError`] says what is true then: `Refused` where an element is no number, and where the server allows no patterns, as most clusters do.
///
/// # Cancel safety
///
/// Dropping it changes nothing.
#[must_use = "nothing is asked of the server until this is awaited"]
pub struct Sort<T, C> {
    list: List<T, C>,
    alpha: bool,
    descending: bool,
    by: Option<String>,
    limit: Option<(u64, u64)>,
}

impl<T, C: Codec> Sort<T, C> {
    fn new(list: &List<T, C>, alpha: bool) -> Self {
        Sort { list: list.clone(), alpha, descending: false, by: None, limit: None }
    }

    /// The largest first.
    #[doc(alias = "SortOrder")]
    pub fn descending(mut self) -> Self {
        self.descending = true;
        self
    }

    /// `count` of them at most, from the one at `offset` in the new order on; all unless it is said.
    pub fn limit(mut self, offset: u64, count: u64) -> Self {
        self.limit = Some((offset, count));
        self
    }

    /// By what another key has instead of the element: that whose name is the pattern with the element's bytes, as its codec writes them, in
    /// place of `*`; `weight:*->size` is the field `size` of a hash. Needs a user who may read all keys, and a server outside
    /// a cluster (or, from Redis 8.0 on, a pattern with the list's hash tag).
    pub fn by(mut self, pattern: impl Into<String>) -> Self {
        self.by = Some(pattern.into());
        self
    }

    fn request(&self, gets: &[String]) -> Result<Request, ObjectError> {
        let (name, _) = self.list.place.named()?;
        let mut request = self.list.place.command("SORT")?;
        if let Some(by) = &self.by {
            request = request.arg("BY").arg(self.pattern(by)?);
        }
        if let Some((offset, count)) = self.limit {
            request = request.arg("LIMIT").int(number(name, "offset", offset)?).int(number(name, "count", count)?);
        }
        for get in gets {
            request = request.arg("GET").arg(if get == "#" { get.clone().into() } else { self.pattern(get)? });
        }
        request = request.arg(if self.descending { "DESC" } else { "ASC" });
        Ok(if self.alpha { request.arg("ALPHA") } else { request })
    }

    /// A pattern of keys behind the client's namespace.
    fn pattern(&self, pattern: &str) -> Result<Bytes, ObjectError> {
        let (name, _) = self.list.place.named()?;
        if !pattern.contains('*') {
            return Err(ObjectError::InvalidArgument {
                name: name.clone(),
                option: "pattern",
                expected: "a name with a `*`, where the element goes".to_owned(),
                got: pattern.to_owned(),
            });
        }
        Ok(self.list.place.client().key(&Name::new(pattern)?))
    }

    /// What other keys have of each element, in its order: for each a row with one value for each pattern ([`Sort::by`] says what one is; `#` is
    /// the element itself), `None` where there is no such key.
    ///
    /// # Errors
    ///
    /// As awaiting it; [`ObjectError::InvalidArgument`] without a pattern.
    ///
    /// # Cancel safety
    ///
    /// Dropping it changes nothing.
    #[doc(alias = "readSort")]
    #[doc(alias = "readSortAlpha")]
    pub async fn fetch<V, D: Decode<V>>(
        self,
        codec: D,
        patterns: impl IntoIterator<Item = impl Into<String>>,
    ) -> Result<Vec<Vec<Option<V>>>, ObjectError> {
        let patterns = self.patterns(patterns)?;
        let values: Vec<Option<Bytes>> = self.list.place.ask(self.request(&patterns)?).await?;
        let value =
            |bytes: &Bytes| self.list.place.decoded(&codec, bytes, || Some("what a pattern leads to".to_owned()));
        let row = |row: &[Option<Bytes>]| row.iter().map(|bytes| bytes.as_ref().map(value).transpose()).collect();
        values.chunks(patterns.len()).map(row).collect()
    }

    fn patterns(&self, patterns: impl IntoIterator<Item = impl Into<String>>) -> Result<Vec<String>, ObjectError> {
        let (name, _) = self.list.place.named()?;
        let patterns: Vec<String> = patterns.into_iter().map(Into::into).collect();
        match patterns.is_empty() {
            false => Ok(patterns),
            true => Err(ObjectError::InvalidArgument {
                name: name.clone(),
                option: "patterns",
                expected: "one at least".to_owned(),
                got: "none".to_owned(),
            }),
        }
    }

    /// Stores the elements in this order as another list, in place of what is there; tells how many. In a cluster its name must share
    /// the slot (a hash tag, `{scores}:sorted`). What is stored has no lifetime; of an empty list nothing is.
    ///
    /// # Errors
    ///
    /// As awaiting it; [`ObjectError::InvalidArgument`] of a name in another slot.
    ///
    /// # Cancel safety
    ///
    /// What has left is carried out although nobody waits for it.
    #[doc(alias = "sortTo")]
    pub async fn store(self, name: impl AsRef<str>) -> Result<u64, ObjectError> {
        self.stored(name.as_ref(), &[]).await
    }

    /// The same of what other keys have of each element: row behind row, the empty string where there is no such key.
    ///
    /// # Errors
    ///
    /// As [`Sort::store`] and [`Sort::fetch`].
    ///
    /// # Cancel safety
    ///
    /// As [`Sort::store`].
    #[doc(alias = "sortTo")]
    pub async fn store_fetched(
        self,
        name: impl AsRef<str>,
        patterns: impl IntoIterator<Item = impl Into<String>>,
    ) -> Result<u64, ObjectError> {
        let patterns = self.patterns(patterns)?;
        self.stored(name.as_ref(), &patterns).await
    }

    async fn stored(&self, to: &str, gets: &[String]) -> Result<u64, ObjectError> {
        let (name, key) = self.list.place.named()?;
        let destination = self.list.beside(key, name, "destination", &Name::new(to)?)?;
        self.list.place.change(self.request(gets)?.arg("STORE").arg(destination)).await
    }
}

impl<T, C: Codec> List<T, C> {
    /// The key of another name in the slot of the list.
    pub(crate) fn beside(
        &self,
        key: &Bytes,
        name: &Name,
        option: &'static str,
        other: &Name,
    ) -> Result<Bytes, ObjectError> {
        let client = self.place.client();
        let other_key = client.key(other);
        match client.slot(&other_key) == client.slot(key) {
            true => Ok(other_key),
            false => Err(ObjectError::InvalidArgument {
                name: name.clone(),
                option,
                expected: "a name in its slot, by the same hash tag".to_owned(),
                got: other.to_string(),
            }),
        }
    }
}

impl<T: 'static, C: Decode<T>> IntoFuture for Sort<T, C> {
    type Output = Result<Vec<T>, ObjectError>;
    type IntoFuture = Pin<Box<dyn Future<Output = Self::Output> + Send>>;

    fn into_future(self) -> Self::IntoFuture {
        Box::pin(async move {
            // SORT may store, so replicas refuse it; SORT_RO is not there before Redis 7.0.
            let elements: Vec<Bytes> = self.list.place.ask(self.request(&[])?).await?;
            elements.iter().map(|bytes| self.list.one(bytes, "one of the sorted")).collect()
        })
    }
}

impl<T, C: Codec> Clone for Sort<T, C> {
    fn clone(&self) -> Self {
        let Sort { list, alpha, descending, by, limit } = self;
        Sort { list: list.clone(), alpha: *alpha, descending: *descending, by: by.clone(), limit: *limit }
    }
}

impl<T, C: Codec> fmt::Debug for Sort<T, C> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Sort { list, alpha, descending, by, limit } = self;
        let mut shown = f.debug_struct("Sort");
        shown.field("list", list).field("alpha", alpha).field("descending", descending);
        shown.field("by", by).field("limit", limit).finish()
    }
}
