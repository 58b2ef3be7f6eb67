//! What bit sets make together.

use bytes::Bytes;
use redgrid_core::BulkScript;
use redgrid_core::name::{companion, suffixed};
use redgrid_core::object::ObjectError;

use crate::bit_set::BitSet;

static COMBINE: BulkScript = BulkScript::new("bits/combine", include_str!("scripts/combine.lua"));

/// How many sets one call takes at most.
const OTHERS: usize = 500;

/// Each replaces this set by what it and others make together, in one step; its lifetime stays. They tell how many bytes it has then. In a
/// cluster all must be of one slot (a hash tag, `{seats}:monday`); while that slot moves, they wait until all of it has moved.
impl BitSet {
    /// Keeps what is set in all of the others, too.
    ///
    /// # Errors
    ///
    /// [`ObjectError`] says what is true then; nothing is changed unless it is `OutcomeUnknown`. A set of another slot, and none or more
    /// than 500 of them, are [`ObjectError::InvalidArgument`].
    ///
    /// # Cancel safety
    ///
    /// What has left is carried out although nobody waits for it.
    pub async fn and<N: AsRef<str>>(&self, others: impl IntoIterator<Item = N>) -> Result<u64, ObjectError> {
        self.combined("AND", others).await
    }

    /// Adds what is set in one of the others.
    ///
    /// # Errors
    ///
    /// As [`BitSet::and`].
    ///
    /// # Cancel safety
    ///
    /// As [`BitSet::and`].
    pub async fn or<N: AsRef<str>>(&self, others: impl IntoIterator<Item = N>) -> Result<u64, ObjectError> {
        self.combined("OR", others).await
    }

    /// Keeps what is set in an odd number of all of them.
    ///
    /// # Errors
    ///
    /// As [`BitSet::and`].
    ///
    /// # Cancel safety
    ///
    /// As [`BitSet::and`].
    pub async fn xor<N: AsRef<str>>(&self, others: impl IntoIterator<Item = N>) -> Result<u64, ObjectError> {
        self.combined("XOR", others).await
    }

    /// Sets what is clear and clears what is set, of as many bits as it has [room](BitSet::size) for.
    ///
    /// # Errors
    ///
    /// As [`BitSet::and`].
    ///
    /// # Cancel safety
    ///
    /// As [`BitSet::and`].
    #[allow(clippy::should_implement_trait, reason = "it asks a server")]
    pub async fn not(&self) -> Result<u64, ObjectError> {
        self.ask("NOT", Vec::new()).await
    }

    /// Keeps what is set in none of the others.
    ///
    /// # Errors
    ///
    /// As [`BitSet::and`].
    ///
    /// # Cancel safety
    ///
    /// As [`BitSet::and`].
    #[doc(alias = "diff")]
    pub async fn and_not<N: AsRef<str>>(&self, others: impl IntoIterator<Item = N>) -> Result<u64, ObjectError> {
        self.combined("DIFF", others).await
    }

    /// Becomes what is set in one of the others and not in it.
    ///
    /// # Errors
    ///
    /// As [`BitSet::and`].
    ///
    /// # Cancel safety
    ///
    /// As [`BitSet::and`].
    #[doc(alias = "diffInverse")]
    pub async fn or_and_not<N: AsRef<str>>(&self, others: impl IntoIterator<Item = N>) -> Result<u64, ObjectError> {
        self.combined("DIFF1", others).await
    }

    /// Keeps what is set in one of the others, at least.
    ///
    /// # Errors
    ///
    /// As [`BitSet::and`].
    ///
    /// # Cancel safety
    ///
    /// As [`BitSet::and`].
    #[doc(alias = "andOr")]
    pub async fn and_any<N: AsRef<str>>(&self, others: impl IntoIterator<Item = N>) -> Result<u64, ObjectError> {
        self.combined("ANDOR", others).await
    }

    /// Becomes what is set in exactly one of all of them.
    ///
    /// # Errors
    ///
    /// As [`BitSet::and`].
    ///
    /// # Cancel safety
    ///
    /// As [`BitSet::and`].
    #[doc(alias = "setExclusive")]
    pub async fn exactly_one<N: AsRef<str>>(&self, others: impl IntoIterator<Item = N>) -> Result<u64, ObjectError> {
        self.combined("ONE", others).await
    }

    async fn combined<N: AsRef<str>>(
        &self,
        how: &'static str,
        others: impl IntoIterator<Item = N>,
    ) -> Result<u64, ObjectError> {
        let others: Result<Vec<Bytes>, _> = others.into_iter().map(|name| self.place.beside("name", name)).collect();
        let others = others?;
        if !(1..=OTHERS).contains(&others.len()) {
            return Err(self.place.invalid("names", format_args!("1 to {OTHERS} of them"), others.len()));
        }
        self.ask(how, others).await
    }

    async fn ask(&self, how: &'static str, others: Vec<Bytes>) -> Result<u64, ObjectError> {
        let (_, key) = self.place.named()?;
        let beside = companion("redgrid_bits", key);
        let made = ["1", "2", "3"].map(|n| suffixed(&beside, n));
        let keys = [key.clone()].into_iter().chain(made).chain(others);
        self.place.change(COMBINE.with(keys).arg(how)).await
    }
}
