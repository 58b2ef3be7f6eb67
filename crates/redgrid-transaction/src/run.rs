//! Doing a transaction again until it is committed.

use std::time::Duration;

use crate::error::TransactionError;
use crate::transaction::{Isolation, Transaction};

/// The first pause before a transaction is begun anew, and the longest.
const PAUSES: (Duration, Duration) = (Duration::from_millis(1), Duration::from_millis(100));

impl Transaction {
    /// Does `work` in a transaction with these options and commits it; where others were quicker, again from its beginning, as often as
    /// [`Transaction::retries`] says. Each time it is another transaction, with all its time.
    ///
    /// `work` may be done several times: what it does besides, it does as often. Where it fails, nothing is written. Where a check of its has found
    /// a conflict, it is done again, and of a serializable one it is looked first whether all it has read was so at one moment: it may have failed
    /// because of that. Where it has committed or rolled back by itself, its value is told, and nothing else is done.
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
    /// Those of `work`, and [`TransactionError`] of the commit: nothing is written, but for [`TransactionError::OutcomeUnknown`], behind which it is
    /// not done again.
    ///
    /// # Cancel safety
    ///
    /// As [`Transaction::commit`].
    pub async fn run<T, E, F, R>(self, mut work: F) -> Result<T, E>
    where
        F: FnMut(Transaction) -> R,
        R: Future<Output = Result<T, E>>,
        E: From<TransactionError>,
    {
        let mut lost = 0;
        loop {
            let transaction = self.again();
            let conflict = match work(transaction.clone()).await {
                // It has ended it by itself.
                Ok(value) if transaction.is_over() => return Ok(value),
                Ok(value) => match transaction.commit().await {
                    Ok(()) => return Ok(value),
                    Err(conflict @ TransactionError::Conflict { .. }) => conflict,
                    Err(error) => return Err(error.into()),
                },
                Err(error) => {
                    // It may have failed because of that.
                    let is_isolated = self.options.isolation == Isolation::Serializable;
                    if is_isolated && transaction.conflict().is_none() {
                        let _ = transaction.check().await;
                    }
                    match transaction.conflict() {
                        Some(conflict) => conflict,
                        None => return Err(error),
                    }
                }
            };
            if lost == self.options.retries {
                return Err(conflict.into());
            }
            let pause = (PAUSES.0 * 2_u32.pow(lost.min(10))).min(PAUSES.1).mul_f64(0.5 + fastrand::f64());
            lost += 1;
            self.client.clock().sleep_until(self.client.clock().now() + pause).await;
        }
    }
}
