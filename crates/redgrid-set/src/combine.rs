//! Several sets as one: unions, intersections and differences.

use std::fmt;

use bytes::Bytes;
use redgrid_codecs::{Codec, Decode};
use redgrid_core::object::ObjectError;
use redgrid_core::{BulkScript, FromReply, Pairs, Request};

use crate::elements::Elements;
use crate::set::Set;

static COMBINE: BulkScript = BulkScript::new("set/combine", include_str!("scripts/combine.lua"));

/// How many others one call takes at most: a script has room for no more than some thousands of arguments.
const OTHERS: usize = 1000;

/// What is made of several sets.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Of {
    Union,
    Intersection,
    Difference,
}

/// A set with others: their union, their intersection, or what only it has. Made by the methods of those names; the others are asked about by
/// their names, and all share a slot. There are up to 1,000 others; more are [`ObjectError::InvalidArgument`].
#[must_use = "nothing is asked of the server yet"]
pub struct Combination<T, C> {
    pub(crate) of: Elements<T, C>,
    pub(crate) what: Of,
    others: Vec<String>,
    /// The commands, of a set or of a sorted one.
    sorted: bool,
    pub(crate) options: Vec<Bytes>,
}

impl<T, C: Codec> Combination<T, C> {
    pub(crate) fn new<N: AsRef<str>>(
        of: &Elements<T, C>,
        what: Of,
        others: impl IntoIterator<Item = N>,
        sorted: bool,
    ) -> Self {
        let others = others.into_iter().map(|name| name.as_ref().to_owned()).collect();
        Combination { of: of.clone(), what, others, sorted, options: Vec::new() }
    }

    /// How many sets there are.
    pub(crate) fn width(&self) -> usize {
        self.others.len() + 1
    }

    fn keys(&self) -> Result<Vec<Bytes>, ObjectError> {
        let own = self.of.place.named()?.1.clone();
        if self.others.len() > OTHERS {
            return Err(self.of.place.invalid("names", format_args!("up to {OTHERS} of them"), self.others.len()));
        }
        let others = self.others.iter().map(|other| self.of.place.beside("name", other));
        std::iter::once(Ok(own)).chain(others).collect()
    }

    pub(crate) fn request(&self, into: Option<&str>, told: Option<&'static str>) -> Result<Request, ObjectError> {
        let mut command = if self.sorted { "Z" } else { "S" }.to_owned();
        command.push_str(match self.what {
            Of::Union => "UNION",
            Of::Intersection => "INTER",
            Of::Difference => "DIFF",
        });
        let mut keys = self.keys()?;
        if let Some(into) = into {
            keys.insert(0, self.of.place.beside("name", into)?);
            command.push_str("STORE");
        }
        let counted = if self.sorted { "1" } else { "0" };
        let request = COMBINE.with(keys).arg(command).int(into.is_some().into()).arg(counted);
        Ok(self.options.iter().cloned().chain(told.map(Bytes::from)).fold(request, Request::arg))
    }

    pub(crate) async fn read<R: FromReply>(&self, told: Option<&'static str>) -> Result<R, ObjectError> {
        // From the primary: a script.
        self.of.place.ask(self.request(None, told)?).await
    }

    /// Stores them under a name, in place of what is there, in one step; tells how many there are. The name may be that of one of the
    /// sets. Nothing is there where there are none.
    ///
    /// # Errors
    ///
    /// [`ObjectError`] says what is true then; [`ObjectError::InvalidArgument`] where the names do not share a slot of a cluster.
    ///
    /// # Cancel safety
    ///
    /// What has left is carried out although nobody waits for it.
    #[doc(alias = "union")]
    #[doc(alias = "intersection")]
    #[doc(alias = "diff")]
    pub async fn store(self, name: impl AsRef<str>) -> Result<u64, ObjectError> {
        self.of.place.change(self.request(Some(name.as_ref()), None)?).await
    }
}

impl<T, C: Decode<T>> Combination<T, C> {
    /// The values, in one answer; of sorted sets in their order.
    ///
    /// # Errors
    ///
    /// [`ObjectError`] says what is true then; [`ObjectError::InvalidArgument`] where the names do not share a slot of a cluster.
    ///
    /// # Cancel safety
    ///
    /// Dropping it changes nothing.
    #[doc(alias = "readUnion")]
    #[doc(alias = "readIntersection")]
    #[doc(alias = "readDiff")]
    pub async fn values(self) -> Result<Vec<T>, ObjectError> {
        self.of.all(&self.read::<Vec<_>>(None).await?)
    }

    pub(crate) async fn with_scores(self) -> Result<Vec<(T, f64)>, ObjectError> {
        let found: Pairs<Bytes, f64> = self.read(Some("WITHSCORES")).await?;
        self.of.entries(found)
    }
}

impl<T, C: Codec> Set<T, C> {
    /// What is in this set or in others, by their names.
    pub fn union<N: AsRef<str>>(&self, others: impl IntoIterator<Item = N>) -> Combination<T, C> {
        Combination::new(&self.of, Of::Union, others, false)
    }

    /// What is in this set and in all of the others, by their names.
    pub fn intersection<N: AsRef<str>>(&self, others: impl IntoIterator<Item = N>) -> Combination<T, C> {
        Combination::new(&self.of, Of::Intersection, others, false)
    }

    /// What is in this set and in none of the others, by their names.
    pub fn difference<N: AsRef<str>>(&self, others: impl IntoIterator<Item = N>) -> Combination<T, C> {
        Combination::new(&self.of, Of::Difference, others, false)
    }

    /// How many values this set and all of the others have in common; it counts up to `limit` where one is given. Redis 7.0 or newer,
    /// Valkey.
    ///
    /// # Errors
    ///
    /// [`ObjectError`] says what is true then: an older server refuses.
    ///
    /// # Cancel safety
    ///
    /// Dropping it changes nothing.
    #[doc(alias = "countIntersection")]
    pub async fn intersection_len<N: AsRef<str>>(
        &self,
        others: impl IntoIterator<Item = N>,
        limit: Option<u64>,
    ) -> Result<u64, ObjectError> {
        count(&self.intersection(others), "SINTERCARD", limit).await
    }
}

/// How many are in all of them.
pub(crate) async fn count<T, C: Codec>(
    of: &Combination<T, C>,
    command: &'static str,
    limit: Option<u64>,
) -> Result<u64, ObjectError> {
    let mut request = COMBINE.with(of.keys()?).arg(command).int(0).int(1);
    if let Some(limit) = limit {
        // To the server 0 is no limit.
        if limit == 0 {
            return Ok(0);
        }
        request = request.arg("LIMIT").int(limit.try_into().unwrap_or(i64::MAX));
    }
    of.of.place.ask(request).await
}

impl<T, C: fmt::Debug> fmt::Debug for Combination<T, C> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut shown = f.debug_struct("Combination");
        shown.field("name", &self.of.place.name()).field("what", &self.what).field("others", &self.others);
        shown.finish_non_exhaustive()
    }
}
