//! Sets.

use super::Grid;

impl Grid {
    /// Returns the set with this name. Its values are encoded as JSON. See
    /// [`Set`](redgrid_set::Set).
    ///
    /// ```no_run
    /// # async fn example(grid: &redgrid::Grid) -> Result<(), Box<dyn std::error::Error>> {
    /// let seen = grid.set::<String>("seen");
    /// if seen.insert("order 42").await? {
    ///     println!("order 42 is new");
    /// }
    /// # Ok(()) }
    /// ```
    #[cfg(all(feature = "set", feature = "json"))]
    #[doc(alias = "getSet")]
    pub fn set<T>(&self, name: impl AsRef<str>) -> redgrid_set::Set<T> {
        redgrid_set::Set::new(&self.client, name)
    }

    /// Returns the set with this name. Its values are encoded by `codec`. See
    /// [`Set`](redgrid_set::Set).
    ///
    /// ```no_run
    /// # async fn example(grid: &redgrid::Grid) -> Result<(), Box<dyn std::error::Error>> {
    /// use redgrid::codecs::Text;
    ///
    /// let seen = grid.set_with::<String, _>("seen", Text);
    /// seen.insert("order 42").await?;
    /// # Ok(()) }
    /// ```
    #[cfg(feature = "set")]
    pub fn set_with<T, C: redgrid_codecs::Codec>(&self, name: impl AsRef<str>, codec: C) -> redgrid_set::Set<T, C> {
        redgrid_set::Set::<T, redgrid_codecs::Raw>::new(&self.client, name).with_codec(codec)
    }

    /// Returns the set with this name that is sorted by scores. Its values are encoded as JSON. See
    /// [`ScoredSortedSet`](redgrid_set::ScoredSortedSet).
    ///
    /// ```no_run
    /// # async fn example(grid: &redgrid::Grid) -> Result<(), Box<dyn std::error::Error>> {
    /// let scores = grid.scored_sorted_set::<String>("scores");
    /// scores.add_score("ada", 5.0).await?;
    /// println!("the best three: {:?}", scores.by_rank(..3).rev().entries().await?);
    /// # Ok(()) }
    /// ```
    #[cfg(all(feature = "set", feature = "json"))]
    #[doc(alias = "getScoredSortedSet")]
    pub fn scored_sorted_set<T>(&self, name: impl AsRef<str>) -> redgrid_set::ScoredSortedSet<T> {
        redgrid_set::ScoredSortedSet::new(&self.client, name)
    }

    /// Returns the set with this name that is sorted by scores. Its values are encoded by `codec`.
    /// See [`ScoredSortedSet`](redgrid_set::ScoredSortedSet).
    ///
    /// ```no_run
    /// # async fn example(grid: &redgrid::Grid) -> Result<(), Box<dyn std::error::Error>> {
    /// use redgrid::codecs::Text;
    ///
    /// let scores = grid.scored_sorted_set_with::<String, _>("scores", Text);
    /// scores.insert("ada", 310.0).await?;
    /// # Ok(()) }
    /// ```
    #[cfg(feature = "set")]
    pub fn scored_sorted_set_with<T, C: redgrid_codecs::Codec>(
        &self,
        name: impl AsRef<str>,
        codec: C,
    ) -> redgrid_set::ScoredSortedSet<T, C> {
        redgrid_set::ScoredSortedSet::<T, redgrid_codecs::Raw>::new(&self.client, name).with_codec(codec)
    }

    /// Returns the set of texts with this name, sorted by their bytes. See
    /// [`LexSortedSet`](redgrid_set::LexSortedSet).
    ///
    /// ```no_run
    /// # async fn example(grid: &redgrid::Grid) -> Result<(), Box<dyn std::error::Error>> {
    /// let words = grid.lex_sorted_set("words");
    /// words.insert_many(["latch", "lease", "lock"]).await?;
    /// println!("from \"le\" on: {:?}", words.by_value("le".to_owned()..).values().await?);
    /// # Ok(()) }
    /// ```
    #[cfg(feature = "set")]
    #[doc(alias = "getLexSortedSet")]
    pub fn lex_sorted_set(&self, name: impl AsRef<str>) -> redgrid_set::LexSortedSet {
        redgrid_set::LexSortedSet::new(&self.client, name)
    }

    /// Returns the set with this name that is sorted by its values: numbers, texts and tuples of
    /// them. See [`SortedSet`](redgrid_set::SortedSet).
    ///
    /// ```no_run
    /// # async fn example(grid: &redgrid::Grid) -> Result<(), Box<dyn std::error::Error>> {
    /// let due = grid.sorted_set::<(u64, String)>("due");
    /// due.insert(&(90, "end".to_owned())).await?;
    /// due.insert(&(30, "half time".to_owned())).await?;
    /// let next = due.pop_first().await?; // half time
    /// # Ok(()) }
    /// ```
    #[cfg(feature = "set")]
    #[doc(alias = "getSortedSet")]
    pub fn sorted_set<T>(&self, name: impl AsRef<str>) -> redgrid_set::SortedSet<T>
    where
        redgrid_codecs::Natural: redgrid_codecs::Ordered<T>,
    {
        redgrid_set::SortedSet::new(&self.client, name)
    }
}
