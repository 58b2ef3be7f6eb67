//! Sorted reads of a list.

use std::fmt;

use bytes::Bytes;
use redgrid_codecs::{Codec, Decode, Numeric};
use redgrid_core::into_future;
use redgrid_core::object::ObjectError;
use redgrid_core::{Name, Request};

use crate::index::server_int;
use crate::list::List;

impl<T, C: Numeric<T>> List<T, C> {
    /// Returns the elements in numeric order when awaited, with the options of [`Sort`].
    ///
    /// The server compares the numbers as doubles. Integers beyond 2^53 that round to the same
    /// double are sorted by their bytes.
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
    /// Returns the elements in the order of their bytes when awaited, with the options of [`Sort`].
    ///
    /// The server compares texts according to its locale. That means by bytes, unless it was
    /// started with another locale.
    #[doc(alias = "readSortAlpha")]
    pub fn sort_alpha(&self) -> Sort<T, C> {
        Sort::new(self, true)
    }

    /// Returns the elements in the order of numbers that other keys store: see [`Sort::by`].
    #[doc(alias = "readSort")]
    pub fn sort_by(&self, pattern: impl Into<String>) -> Sort<T, C> {
        Sort::new(self, false).by(pattern)
    }
}

/// A sorted read of a list; returned by [`List::sort`], [`List::sort_alpha`] and [`List::sort_by`].
///
/// When awaited, it returns the sorted elements and leaves the list unchanged. The server sorts all
/// elements in O(n log n), whatever the limit, and is blocked meanwhile.
///
/// # Errors
///
/// [`ObjectError`] states what failed. `Refused` if an element is not a number, or if the server
/// does not allow patterns, like most clusters. If one element cannot be decoded, the read fails.
///
/// # Cancel safety
///
/// Dropping the future changes nothing.
#[must_use = "does nothing until awaited"]
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

    /// Sorts the largest element first.
    #[doc(alias = "SortOrder")]
    pub fn descending(mut self) -> Self {
        self.descending = true;
        self
    }

    /// Returns `count` elements at most, from `offset` on in the sorted order; the default is all.
    pub fn limit(mut self, offset: u64, count: u64) -> Self {
        self.limit = Some((offset, count));
        self
    }

    /// Sorts by the values of other keys instead of the elements.
    ///
    /// The name of such a key is the pattern, with the encoded bytes of the element in place of
    /// `*`. `weight:*->size` is the field `size` of a hash. The user must have permission to read
    /// all keys. In a cluster, Redis 8.0 or newer is required, and the pattern must have the hash
    /// tag of the list.
    pub fn by(mut self, pattern: impl Into<String>) -> Self {
        self.by = Some(pattern.into());
        self
    }

    fn request(&self, fetched: &[String]) -> Result<Request, ObjectError> {
        let (name, _) = self.list.object_ref.name_and_key()?;
        let mut request = self.list.object_ref.command("SORT")?;
        if let Some(by) = &self.by {
            request = request.arg("BY").arg(self.pattern(by)?);
        }
        if let Some((offset, count)) = self.limit {
            request =
                request.arg("LIMIT").int(server_int(name, "offset", offset)?).int(server_int(name, "count", count)?);
        }
        for pattern_name in fetched {
            request = request.arg("GET").arg(if pattern_name == "#" {
                pattern_name.clone().into()
            } else {
                self.pattern(pattern_name)?
            });
        }
        request = request.arg(if self.descending { "DESC" } else { "ASC" });
        Ok(if self.alpha { request.arg("ALPHA") } else { request })
    }

    /// Returns a pattern with the client's namespace as its prefix.
    fn pattern(&self, pattern: &str) -> Result<Bytes, ObjectError> {
        let (name, _) = self.list.object_ref.name_and_key()?;
        if !pattern.contains('*') {
            return Err(ObjectError::invalid_argument(
                name,
                "pattern",
                "a name with a `*` in the place of the element",
                pattern,
            ));
        }
        Ok(self.list.object_ref.client().key(&Name::new(pattern)?))
    }

    /// Returns values of other keys: for each element, in the sorted order, a row with one value
    /// for each pattern.
    ///
    /// [`Sort::by`] describes the patterns; `#` means the element itself. A value is `None` if
    /// there is no such key.
    ///
    /// # Errors
    ///
    /// As for the sort itself, and
    /// [`Failure::InvalidArgument`](crate::Failure::InvalidArgument) without a pattern.
    ///
    /// # Cancel safety
    ///
    /// Dropping the future changes nothing.
    #[doc(alias = "readSort")]
    #[doc(alias = "readSortAlpha")]
    pub async fn fetch<V, D: Decode<V>>(
        self,
        codec: D,
        patterns: impl IntoIterator<Item = impl Into<String>>,
    ) -> Result<Vec<Vec<Option<V>>>, ObjectError> {
        let patterns = self.patterns(patterns)?;
        let values: Vec<Option<Bytes>> = self.list.object_ref.read_primary(self.request(&patterns)?).await?;
        let value =
            |bytes: &Bytes| self.list.object_ref.decoded(&codec, bytes, || Some("the value of a pattern".to_owned()));
        let row = |row: &[Option<Bytes>]| row.iter().map(|bytes| bytes.as_ref().map(value).transpose()).collect();
        values.chunks(patterns.len()).map(row).collect()
    }

    fn patterns(&self, patterns: impl IntoIterator<Item = impl Into<String>>) -> Result<Vec<String>, ObjectError> {
        let (name, _) = self.list.object_ref.name_and_key()?;
        let patterns: Vec<String> = patterns.into_iter().map(Into::into).collect();
        if patterns.is_empty() {
            return Err(ObjectError::invalid_argument(name, "patterns", "at least one", "none"));
        }
        Ok(patterns)
    }

    /// Stores the sorted elements as another list, and replaces what is stored there. Returns the
    /// number of stored elements.
    ///
    /// In a cluster, the other name must share the slot (by a hash tag, like `{scores}:sorted`).
    /// The stored list has no lifetime; for an empty list nothing is stored.
    ///
    /// # Errors
    ///
    /// As for the sort itself, and
    /// [`Failure::InvalidArgument`](crate::Failure::InvalidArgument) for a name in another slot.
    ///
    /// # Cancel safety
    ///
    /// A request that was already sent is executed even if the future is dropped.
    #[doc(alias = "sortTo")]
    pub async fn store(self, name: impl AsRef<str>) -> Result<u64, ObjectError> {
        self.store_as(name.as_ref(), &[]).await
    }

    /// Stores the values of other keys for each element, row after row, as another list. Returns
    /// the number of stored values.
    ///
    /// A value is an empty string if there is no such key. Otherwise as [`Sort::store`].
    ///
    /// # Errors
    ///
    /// As for [`Sort::store`] and [`Sort::fetch`].
    ///
    /// # Cancel safety
    ///
    /// As for [`Sort::store`].
    #[doc(alias = "sortTo")]
    pub async fn store_fetched(
        self,
        name: impl AsRef<str>,
        patterns: impl IntoIterator<Item = impl Into<String>>,
    ) -> Result<u64, ObjectError> {
        let patterns = self.patterns(patterns)?;
        self.store_as(name.as_ref(), &patterns).await
    }

    async fn store_as(&self, to: &str, fetched: &[String]) -> Result<u64, ObjectError> {
        let (name, key) = self.list.object_ref.name_and_key()?;
        let destination = self.list.key_in_slot(key, name, "destination", &Name::new(to)?)?;
        self.list.object_ref.change(self.request(fetched)?.arg("STORE").arg(destination)).await
    }
}

impl<T, C: Codec> List<T, C> {
    /// Returns the key of another name, which must be in the slot of the list.
    pub(crate) fn key_in_slot(
        &self,
        key: &Bytes,
        name: &Name,
        option: &'static str,
        other: &Name,
    ) -> Result<Bytes, ObjectError> {
        let client = self.object_ref.client();
        let other_key = client.key(other);
        if client.slot(&other_key) == client.slot(key) {
            return Ok(other_key);
        }
        Err(ObjectError::invalid_argument(name, option, "a name in the same slot (give both one hash tag)", other))
    }
}

into_future!([T: 'static, C: Decode<T>] Sort<T, C> => Result<Vec<T>, ObjectError>, |this| async move {
    // SORT can store, so replicas refuse it. Servers older than Redis 7.0 have no SORT_RO. So the
    // primary is read.
    let elements: Vec<Bytes> = this.list.object_ref.read_primary(this.request(&[])?).await?;
    elements.iter().map(|bytes| this.list.decode(bytes, "a sorted element")).collect()
});

redgrid_core::clone_fields!([T, C: Codec] Sort<T, C> { list, alpha, descending, by, limit });

impl<T, C: Codec> fmt::Debug for Sort<T, C> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Sort { list, alpha, descending, by, limit } = self;
        let mut debug = f.debug_struct("Sort");
        debug.field("list", list).field("alpha", alpha).field("descending", descending);
        debug.field("by", by).field("limit", limit).finish()
    }
}
