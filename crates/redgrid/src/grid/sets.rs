//! Sets.

use super::Grid;

impl Grid {
    /// A set, as JSON; [`Set::with_codec`](redgrid_set::Set::with_codec) has it another way. See [`Set`](redgrid_set::Set).
    #[cfg(all(feature = "set", feature = "json"))]
    #[doc(alias = "getSet")]
    pub fn set<T>(&self, name: impl AsRef<str>) -> redgrid_set::Set<T> {
        redgrid_set::Set::new(&self.client, name)
    }

    /// A set, as this codec writes its values. See [`Set`](redgrid_set::Set).
    #[cfg(feature = "set")]
    pub fn set_with<T, C: redgrid_codecs::Codec>(&self, name: impl AsRef<str>, codec: C) -> redgrid_set::Set<T, C> {
        redgrid_set::Set::<T, redgrid_codecs::Raw>::new(&self.client, name).with_codec(codec)
    }

    /// A set in the order of scores, as JSON. See [`ScoredSortedSet`](redgrid_set::ScoredSortedSet).
    #[cfg(all(feature = "set", feature = "json"))]
    #[doc(alias = "getScoredSortedSet")]
    pub fn scored_sorted_set<T>(&self, name: impl AsRef<str>) -> redgrid_set::ScoredSortedSet<T> {
        redgrid_set::ScoredSortedSet::new(&self.client, name)
    }

    /// A set in the order of scores, as this codec writes its values. See [`ScoredSortedSet`](redgrid_set::ScoredSortedSet).
    #[cfg(feature = "set")]
    pub fn scored_sorted_set_with<T, C: redgrid_codecs::Codec>(
        &self,
        name: impl AsRef<str>,
        codec: C,
    ) -> redgrid_set::ScoredSortedSet<T, C> {
        redgrid_set::ScoredSortedSet::<T, redgrid_codecs::Raw>::new(&self.client, name).with_codec(codec)
    }

    /// Text in order. See [`LexSortedSet`](redgrid_set::LexSortedSet).
    #[cfg(feature = "set")]
    #[doc(alias = "getLexSortedSet")]
    pub fn lex_sorted_set(&self, name: impl AsRef<str>) -> redgrid_set::LexSortedSet {
        redgrid_set::LexSortedSet::new(&self.client, name)
    }

    /// A set in the order of its values. See [`SortedSet`](redgrid_set::SortedSet).
    #[cfg(feature = "set")]
    #[doc(alias = "getSortedSet")]
    pub fn sorted_set<T>(&self, name: impl AsRef<str>) -> redgrid_set::SortedSet<T>
    where
        redgrid_codecs::Natural: redgrid_codecs::Ordered<T>,
    {
        redgrid_set::SortedSet::new(&self.client, name)
    }
}
