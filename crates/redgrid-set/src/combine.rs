//! Unions, intersections and differences of sets.

use bytes::Bytes;
use redgrid_codecs::{Codec, Decode};
use redgrid_core::object::ObjectError;
use redgrid_core::{BulkScript, FromReply, Pairs, Request};

use crate::elements::Elements;
use crate::set::Set;

static COMBINE: BulkScript = BulkScript::new("set/combine", include_str!("scripts/combine.lua"));

/// The maximum number of other sets in one call. A script accepts only a few thousand arguments.
const MAX_OTHERS: usize = 1000;

/// How several sets are combined.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum SetOperation {
    Union,
    Intersection,
    Difference,
}

/// The union, the intersection or the difference of a set and others; returned by the methods of
/// those names.
///
/// The other sets are given by name, and all names must share a slot. Up to 1,000 other sets are
/// allowed; more cause [`Failure::InvalidArgument`](crate::Failure::InvalidArgument).
#[must_use = "does nothing until one of its methods is awaited"]
pub struct Combination<T, C> {
    pub(crate) inner: Elements<T, C>,
    pub(crate) operation: SetOperation,
    others: Vec<String>,
    /// Whether the sets are sorted sets, which have separate commands.
    sorted: bool,
    pub(crate) options: Vec<Bytes>,
}

impl<T, C: Codec> Combination<T, C> {
    pub(crate) fn new<N: AsRef<str>>(
        inner: &Elements<T, C>,
        operation: SetOperation,
        others: impl IntoIterator<Item = N>,
        sorted: bool,
    ) -> Self {
        let others = others.into_iter().map(|name| name.as_ref().to_owned()).collect();
        Combination { inner: inner.clone(), operation, others, sorted, options: Vec::new() }
    }

    /// Returns the number of sets, including this one.
    pub(crate) fn set_count(&self) -> usize {
        self.others.len() + 1
    }

    fn keys(&self) -> Result<Vec<Bytes>, ObjectError> {
        let own = self.inner.object_ref.name_and_key()?.1.clone();
        if self.others.len() > MAX_OTHERS {
            return Err(self.inner.object_ref.invalid(
                "names",
                format_args!("up to {MAX_OTHERS} of them"),
                self.others.len(),
            ));
        }
        let others = self.others.iter().map(|other| self.inner.object_ref.same_slot_key("name", other));
        std::iter::once(Ok(own)).chain(others).collect()
    }

    pub(crate) fn request(&self, into: Option<&str>, option: Option<&'static str>) -> Result<Request, ObjectError> {
        let mut command = if self.sorted { "Z" } else { "S" }.to_owned();
        command.push_str(match self.operation {
            SetOperation::Union => "UNION",
            SetOperation::Intersection => "INTER",
            SetOperation::Difference => "DIFF",
        });
        let mut keys = self.keys()?;
        if let Some(into) = into {
            keys.insert(0, self.inner.object_ref.same_slot_key("name", into)?);
            command.push_str("STORE");
        }
        let takes_count = if self.sorted { "1" } else { "0" };
        let request = COMBINE.with(keys).arg(command).int(into.is_some().into()).arg(takes_count);
        Ok(self.options.iter().cloned().chain(option.map(Bytes::from)).fold(request, Request::arg))
    }

    pub(crate) async fn read<R: FromReply>(&self, option: Option<&'static str>) -> Result<R, ObjectError> {
        // The request is a script, so it is sent to the primary.
        self.inner.object_ref.read_primary(self.request(None, option)?).await
    }

    /// Stores the values under a name, in one step, and replaces what is stored there. Returns the
    /// number of values.
    ///
    /// The name may be that of one of the sets. If there are no values, nothing is stored under the
    /// name.
    ///
    /// # Errors
    ///
    /// [`ObjectError`] states what failed and whether anything may have changed.
    /// [`Failure::InvalidArgument`](crate::Failure::InvalidArgument) if the names are in different
    /// slots of a cluster.
    ///
    /// # Cancel safety
    ///
    /// A request that was already sent is executed even if the future is dropped.
    #[doc(alias = "union")]
    #[doc(alias = "intersection")]
    #[doc(alias = "diff")]
    pub async fn store(self, name: impl AsRef<str>) -> Result<u64, ObjectError> {
        self.inner.object_ref.change(self.request(Some(name.as_ref()), None)?).await
    }
}

impl<T, C: Decode<T>> Combination<T, C> {
    /// Returns the values in one reply; for sorted sets, in their order.
    ///
    /// # Errors
    ///
    /// [`ObjectError`] states what failed and whether anything may have changed.
    /// [`Failure::InvalidArgument`](crate::Failure::InvalidArgument) if the names are in different
    /// slots of a cluster.
    ///
    /// # Cancel safety
    ///
    /// Dropping the future changes nothing.
    #[doc(alias = "readUnion")]
    #[doc(alias = "readIntersection")]
    #[doc(alias = "readDiff")]
    pub async fn values(self) -> Result<Vec<T>, ObjectError> {
        self.inner.decode_all(&self.read::<Vec<_>>(None).await?)
    }

    pub(crate) async fn with_scores(self) -> Result<Vec<(T, f64)>, ObjectError> {
        let found: Pairs<Bytes, f64> = self.read(Some("WITHSCORES")).await?;
        self.inner.decode_entries(found)
    }
}

impl<T, C: Codec> Set<T, C> {
    /// Returns the union of this set and others, given by name.
    pub fn union<N: AsRef<str>>(&self, others: impl IntoIterator<Item = N>) -> Combination<T, C> {
        Combination::new(&self.inner, SetOperation::Union, others, false)
    }

    /// Returns the intersection of this set and others, given by name.
    pub fn intersection<N: AsRef<str>>(&self, others: impl IntoIterator<Item = N>) -> Combination<T, C> {
        Combination::new(&self.inner, SetOperation::Intersection, others, false)
    }

    /// Returns the values of this set that none of the others contains. The others are given by
    /// name.
    pub fn difference<N: AsRef<str>>(&self, others: impl IntoIterator<Item = N>) -> Combination<T, C> {
        Combination::new(&self.inner, SetOperation::Difference, others, false)
    }

    /// Returns the number of values that this set and all of the others have in common, counted up
    /// to `limit`.
    ///
    /// Requires Redis 7.0 or newer, or Valkey.
    ///
    /// # Errors
    ///
    /// [`ObjectError`] states what failed. An older server refuses the command.
    ///
    /// # Cancel safety
    ///
    /// Dropping the future changes nothing.
    #[doc(alias = "countIntersection")]
    pub async fn intersection_len<N: AsRef<str>>(
        &self,
        others: impl IntoIterator<Item = N>,
        limit: Option<u64>,
    ) -> Result<u64, ObjectError> {
        count(&self.intersection(others), "SINTERCARD", limit).await
    }
}

/// Counts the values of an intersection.
pub(crate) async fn count<T, C: Codec>(
    combination: &Combination<T, C>,
    command: &'static str,
    limit: Option<u64>,
) -> Result<u64, ObjectError> {
    let mut request = COMBINE.with(combination.keys()?).arg(command).int(0).int(1);
    if let Some(limit) = limit {
        // For the server, 0 means no limit.
        if limit == 0 {
            return Ok(0);
        }
        request = request.arg("LIMIT").int(limit.try_into().unwrap_or(i64::MAX));
    }
    combination.inner.object_ref.read_primary(request).await
}

redgrid_core::debug_fields!([T, C: std::fmt::Debug] Combination<T, C>, |it|
    name: it.inner.object_ref.name(), operation: it.operation, others: it.others
);
