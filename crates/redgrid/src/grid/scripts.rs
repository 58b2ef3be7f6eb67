//! Scripts, functions, batches and transactions.

use super::Grid;

impl Grid {
    /// Returns the script caches of the servers. See [`Scripts`](redgrid_script::Scripts);
    /// [`Script`](redgrid_script::Script) runs a script.
    ///
    /// ```no_run
    /// # async fn example(grid: &redgrid::Grid) -> Result<(), Box<dyn std::error::Error>> {
    /// use redgrid::script::Script;
    ///
    /// let count = Script::new("return redis.call('INCR', KEYS[1])");
    /// grid.scripts().load(&count).await?; // optional: a call loads it as well
    /// let hits: i64 = count.call().key("hits").query(grid.client()).await?;
    /// # Ok(()) }
    /// ```
    #[cfg(feature = "script")]
    #[doc(alias = "getScript")]
    pub fn scripts(&self) -> redgrid_script::Scripts {
        redgrid_script::Scripts::new(&self.client)
    }

    /// Returns the function libraries of the servers: Redis 7.0 or newer, or Valkey. See
    /// [`Functions`](redgrid_script::Functions).
    ///
    /// ```no_run
    /// # async fn example(grid: &redgrid::Grid) -> Result<(), Box<dyn std::error::Error>> {
    /// for library in grid.functions().list().await? {
    ///     println!("{}: {} functions", library.name, library.functions.len());
    /// }
    /// # Ok(()) }
    /// ```
    #[cfg(feature = "script")]
    #[doc(alias = "getFunction")]
    pub fn functions(&self) -> redgrid_script::Functions {
        redgrid_script::Functions::new(&self.client)
    }

    /// Returns an empty batch: calls that are sent together. See [`Batch`](redgrid_script::Batch).
    ///
    /// ```no_run
    /// # async fn example(grid: &redgrid::Grid) -> Result<(), Box<dyn std::error::Error>> {
    /// use redgrid::script::Call;
    ///
    /// let mut batch = grid.batch().atomic(); // all of them or none
    /// let sold = batch.push::<i64>(Call::command("INCRBY").key("{stock:7}:sold").int(2));
    /// let left = batch.push::<i64>(Call::command("DECRBY").key("{stock:7}:left").int(2));
    /// let results = batch.send().await?;
    /// println!("{} sold, {} left", results.get(&sold)?, results.get(&left)?);
    /// # Ok(()) }
    /// ```
    #[cfg(feature = "script")]
    #[doc(alias = "createBatch")]
    pub fn batch(&self) -> redgrid_script::Batch {
        redgrid_script::Batch::new(&self.client)
    }

    /// Returns a new transaction: buckets, maps and sets that are read and written together, in one
    /// step or not at all. See [`Transaction`](redgrid_transaction::Transaction).
    ///
    /// ```no_run
    /// # async fn example(grid: &redgrid::Grid) -> Result<(), Box<dyn std::error::Error>> {
    /// use redgrid::codecs::Text;
    /// use redgrid::transaction::TransactionError;
    ///
    /// let settings = grid.transaction().run(|tx| async move {
    ///     let settings = tx.map_with::<String, String, _, _>("settings", Text, Text);
    ///     settings.set("color", &"blue".to_owned())?;
    ///     settings.set("size", &"large".to_owned())?;
    ///     Ok::<_, TransactionError>(())
    /// });
    /// settings.await?;
    /// # Ok(()) }
    /// ```
    #[cfg(feature = "transaction")]
    #[doc(alias = "createTransaction")]
    pub fn transaction(&self) -> redgrid_transaction::Transaction {
        redgrid_transaction::Transaction::new(&self.client)
    }
}
