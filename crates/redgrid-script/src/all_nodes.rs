//! The replies of all primaries.

use redgrid_core::NodeId;

use crate::error::CallError;

/// The results of a call on all primaries, one for each shard of a cluster.
#[derive(Debug, Clone)]
pub struct AllNodes<T> {
    results: Vec<(NodeId, Result<T, CallError>)>,
}

impl<T> AllNodes<T> {
    pub(crate) fn new(results: impl IntoIterator<Item = (NodeId, Result<T, CallError>)>) -> Self {
        AllNodes { results: results.into_iter().collect() }
    }

    /// Returns the result of each primary.
    pub fn into_answers(self) -> Vec<(NodeId, Result<T, CallError>)> {
        self.results
    }

    /// Combines all results with `add`, starting with `first`.
    ///
    /// ```no_run
    /// # async fn demo(client: &redgrid_script::Client) -> Result<(), redgrid_script::CallError> {
    /// use redgrid_script::Script;
    ///
    /// let keys = Script::new("return redis.call('DBSIZE')").reads();
    /// let counts = keys.call().query_all_nodes::<i64>(client).await?;
    /// let all: i64 = counts.reduce(0, |sum, keys| sum + keys)?;
    /// # Ok(()) }
    /// ```
    ///
    /// # Errors
    ///
    /// The first error of a primary.
    pub fn reduce<A>(self, first: A, add: impl FnMut(A, T) -> A) -> Result<A, CallError> {
        let all: Vec<T> = self.results.into_iter().map(|(_, result)| result).collect::<Result<_, _>>()?;
        Ok(all.into_iter().fold(first, add))
    }
}
