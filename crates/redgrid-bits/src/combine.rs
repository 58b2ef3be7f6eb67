//! Bitwise operations on several bit sets.

use bytes::Bytes;
use redgrid_core::BulkScript;
use redgrid_core::name::{companion, suffixed};
use redgrid_core::object::ObjectError;

use crate::bit_set::BitSet;

static COMBINE: BulkScript = BulkScript::new("bits/combine", include_str!("scripts/combine.lua"));

/// The maximum number of other sets in one call.
const MAX_OTHERS: usize = 500;

/// Bitwise operations that replace this set by their result, in one step. The set keeps its
/// lifetime.
///
/// They return the new size of the set in bytes. In a cluster, all sets must be in one slot (by a
/// hash tag, like `{seats}:monday`). During a migration of that slot, the call waits until the
/// whole slot has moved.
impl BitSet {
    /// Keeps the bits that are set in this set and in all of the others.
    ///
    /// # Errors
    ///
    /// [`ObjectError`] states what failed. Nothing is changed, except possibly after
    /// `OutcomeUnknown`. [`Failure::InvalidArgument`](crate::Failure::InvalidArgument) for a set in
    /// another slot, and for no or more than 500 other sets.
    ///
    /// # Cancel safety
    ///
    /// A request that was already sent is executed even if the future is dropped.
    pub async fn and<N: AsRef<str>>(&self, others: impl IntoIterator<Item = N>) -> Result<u64, ObjectError> {
        self.combine_with("AND", others).await
    }

    /// Adds the bits that are set in any of the others.
    ///
    /// # Errors and cancel safety
    ///
    /// As for [`BitSet::and`].
    pub async fn or<N: AsRef<str>>(&self, others: impl IntoIterator<Item = N>) -> Result<u64, ObjectError> {
        self.combine_with("OR", others).await
    }

    /// Keeps or sets the bits that are set in an odd number of all sets, and clears the others.
    ///
    /// # Errors and cancel safety
    ///
    /// As for [`BitSet::and`].
    pub async fn xor<N: AsRef<str>>(&self, others: impl IntoIterator<Item = N>) -> Result<u64, ObjectError> {
        self.combine_with("XOR", others).await
    }

    /// Inverts all [stored](BitSet::size) bits.
    ///
    /// # Errors and cancel safety
    ///
    /// As for [`BitSet::and`].
    #[allow(clippy::should_implement_trait, reason = "it sends a request")]
    pub async fn not(&self) -> Result<u64, ObjectError> {
        self.send_combine("NOT", Vec::new()).await
    }

    /// Keeps the bits that are set in this set and in none of the others.
    ///
    /// # Errors and cancel safety
    ///
    /// As for [`BitSet::and`].
    #[doc(alias = "diff")]
    pub async fn and_not<N: AsRef<str>>(&self, others: impl IntoIterator<Item = N>) -> Result<u64, ObjectError> {
        self.combine_with("DIFF", others).await
    }

    /// Sets the bits that are set in any of the others but not in this set. Clears all other bits.
    ///
    /// # Errors and cancel safety
    ///
    /// As for [`BitSet::and`].
    #[doc(alias = "diffInverse")]
    pub async fn or_and_not<N: AsRef<str>>(&self, others: impl IntoIterator<Item = N>) -> Result<u64, ObjectError> {
        self.combine_with("DIFF1", others).await
    }

    /// Keeps the bits that are set in this set and in at least one of the others.
    ///
    /// # Errors and cancel safety
    ///
    /// As for [`BitSet::and`].
    #[doc(alias = "andOr")]
    pub async fn and_any<N: AsRef<str>>(&self, others: impl IntoIterator<Item = N>) -> Result<u64, ObjectError> {
        self.combine_with("ANDOR", others).await
    }

    /// Sets the bits that are set in exactly one of all sets. Clears all other bits.
    ///
    /// # Errors and cancel safety
    ///
    /// As for [`BitSet::and`].
    #[doc(alias = "setExclusive")]
    pub async fn exactly_one<N: AsRef<str>>(&self, others: impl IntoIterator<Item = N>) -> Result<u64, ObjectError> {
        self.combine_with("ONE", others).await
    }

    async fn combine_with<N: AsRef<str>>(
        &self,
        operation: &'static str,
        others: impl IntoIterator<Item = N>,
    ) -> Result<u64, ObjectError> {
        let others: Result<Vec<Bytes>, _> =
            others.into_iter().map(|name| self.object_ref.same_slot_key("name", name)).collect();
        let others = others?;
        if !(1..=MAX_OTHERS).contains(&others.len()) {
            return Err(self.object_ref.invalid("names", format_args!("1 to {MAX_OTHERS} of them"), others.len()));
        }
        self.send_combine(operation, others).await
    }

    async fn send_combine(&self, operation: &'static str, others: Vec<Bytes>) -> Result<u64, ObjectError> {
        let (_, key) = self.object_ref.name_and_key()?;
        let prefix = companion("redgrid_bits", key);
        let temporaries = ["1", "2", "3"].map(|n| suffixed(&prefix, n));
        let keys = [key.clone()].into_iter().chain(temporaries).chain(others);
        self.object_ref.change(COMBINE.with(keys).arg(operation)).await
    }
}
