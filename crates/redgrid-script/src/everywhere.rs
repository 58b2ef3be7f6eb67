//! What every primary answered.

use redgrid_core::NodeId;

use crate::error::CallError;

/// The answers of all primaries, each by itself: one, or as many as a cluster has shards.
#[derive(Debug, Clone)]
pub struct Everywhere<T> {
    answers: Vec<(NodeId, Result<T, CallError>)>,
}

impl<T> Everywhere<T> {
    pub(crate) fn new(answers: impl IntoIterator<Item = (NodeId, Result<T, CallError>)>) -> Self {
        Everywhere { answers: answers.into_iter().collect() }
    }

    /// Who answered what.
    pub fn into_answers(self) -> Vec<(NodeId, Result<T, CallError>)> {
        self.answers
    }

    /// All answers as one, from `first` on, by `add`.
    ///
    /// ```no_run
    /// # async fn demo(client: &redgrid_script::Client) -> Result<(), redgrid_script::CallError> {
    /// use redgrid_script::Script;
    ///
    /// let keys = Script::new("return redis.call('DBSIZE')").reads();
    /// let all: i64 = keys.call().query_everywhere::<i64>(client).await?.reduce(0, |sum, keys| sum + keys)?;
    /// # Ok(()) }
    /// ```
    ///
    /// # Errors
    ///
    /// The first error that a primary answered with, or that stood in its way.
    pub fn reduce<A>(self, first: A, add: impl FnMut(A, T) -> A) -> Result<A, CallError> {
        let all: Vec<T> = self.answers.into_iter().map(|(_, answer)| answer).collect::<Result<_, _>>()?;
        Ok(all.into_iter().fold(first, add))
    }
}
