//! Retries of a transaction until it is committed.

use std::time::Duration;

use redgrid_core::author::{Backoff, ClientExt};

use crate::error::TransactionError;
use crate::transaction::{Isolation, Transaction};

/// The pauses before a transaction is retried.
const RETRY_PAUSES: Backoff = Backoff { first: Duration::from_millis(1), longest: Duration::from_millis(100) };

impl Transaction {
    /// Runs `work` in a transaction with these options, and commits it. After a conflict, the whole
    /// transaction is retried, up to [`Transaction::retries`] times.
    ///
    /// Each attempt is a new transaction with the full timeout. `work` may run several times, and
    /// so its other effects may occur several times. If `work` fails, nothing is written.
    ///
    /// If a [`check`](Transaction::check) in `work` has found a conflict, `work` is retried. If
    /// `work` fails in a serializable transaction, all reads are checked first, because
    /// inconsistent reads may be the cause. If `work` commits or rolls back by itself, its value is
    /// returned, and there is no further commit.
    ///
    /// ```no_run
    /// # #[cfg(feature = "json")]
    /// # async fn demo(client: &redgrid_transaction::Client) -> Result<(), redgrid_transaction::TransactionError> {
    /// use redgrid_transaction::Transaction;
    ///
    /// let left = Transaction::new(client)
    ///     .retries(20)
    ///     .run(|tx| async move {
    ///         let stock = tx.map::<String, u32>("stock");
    ///         let left = stock.get("P0001").await?.unwrap_or(0).saturating_sub(1);
    ///         stock.set("P0001", &left)?;
    ///         Ok::<_, redgrid_transaction::TransactionError>(left)
    ///     })
    ///     .await?;
    /// # Ok(()) }
    /// ```
    ///
    /// # Errors
    ///
    /// The errors of `work`, and [`TransactionError`] of the commit. Nothing is written, except
    /// possibly after [`Failure::OutcomeUnknown`](crate::Failure::OutcomeUnknown), which is not
    /// retried.
    ///
    /// # Cancel safety
    ///
    /// As for [`Transaction::commit`].
    pub async fn run<T, E, F, R>(self, mut work: F) -> Result<T, E>
    where
        F: FnMut(Transaction) -> R,
        R: Future<Output = Result<T, E>>,
        E: From<TransactionError>,
    {
        let mut conflicts = 0;
        loop {
            let transaction = self.new_attempt();
            let conflict = match work(transaction.clone()).await {
                // `work` has committed or rolled back.
                Ok(value) if transaction.is_over() => return Ok(value),
                Ok(value) => match transaction.commit().await {
                    Ok(()) => return Ok(value),
                    Err(conflict @ TransactionError::Conflict { .. }) => conflict,
                    Err(error) => return Err(error.into()),
                },
                Err(error) => {
                    // Inconsistent reads may be the cause of the failure.
                    let is_serializable = self.options.isolation == Isolation::Serializable;
                    if is_serializable && transaction.conflict().is_none() {
                        let _ = transaction.check().await;
                    }
                    match transaction.conflict() {
                        Some(conflict) => conflict,
                        None => return Err(error),
                    }
                }
            };
            if conflicts == self.options.retries {
                return Err(conflict.into());
            }
            let pause = RETRY_PAUSES.after(conflicts).mul_f64(0.5 + fastrand::f64());
            conflicts += 1;
            self.client.clock().sleep_until(self.client.clock().now() + pause).await;
        }
    }
}
