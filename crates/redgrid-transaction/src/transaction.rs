//! The transaction: its options and its commit.

use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

use redgrid_core::author::counts::{CommitOutcome, committed, transaction_family};
use redgrid_core::author::{Backoff, ClientExt};
use redgrid_core::clock::Instant;
use redgrid_core::{Client, Failure, Name, Request};

use crate::commit::{Commit, Outcome};
use crate::error::TransactionError;
use crate::state::State;

/// The default timeout: 5 s, as in Redisson.
const DEFAULT_TIMEOUT: Duration = Duration::from_secs(5);

/// The default number of retries of [`Transaction::run`].
const DEFAULT_RETRIES: u32 = 10;

/// The pauses between two checks of a lock.
const LOCK_PAUSES: Backoff = Backoff { first: Duration::from_millis(5), longest: Duration::from_millis(100) };

/// The isolation of a transaction. The documentation of this crate has the table of anomalies.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
#[non_exhaustive]
pub enum Isolation {
    /// Reads return committed values. The commit requires that values that were both read and
    /// written have not changed. Values that were only read may have changed.
    #[default]
    ReadCommitted,
    /// The commit requires that no value that was read has changed, including values that were
    /// absent. The result is as if the transaction had run alone.
    Serializable,
}

/// A transaction. The commit executes its writes as a whole, or not at all.
///
/// Clones and the objects of a transaction are handles of the same transaction. It buffers its
/// writes and holds no locks: dropping it discards the writes.
#[derive(Clone)]
#[doc(alias = "RTransaction")]
#[must_use = "does nothing until committed"]
pub struct Transaction {
    pub(crate) client: Client,
    pub(crate) options: Options,
    began: Instant,
    progress: Arc<Mutex<Progress>>,
}

/// The options of a transaction.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Options {
    timeout: Duration,
    pub(crate) isolation: Isolation,
    respect_locks: bool,
    pub(crate) retries: u32,
    /// The label in metrics.
    family: &'static str,
}

/// The progress of a transaction.
pub(crate) struct Progress {
    /// The reads and buffered writes; `None` after its end.
    pub(crate) state: Option<State>,
    /// The object that others have changed, as found by the last check or the commit.
    conflict: Option<Name>,
}

impl Transaction {
    /// Begins a transaction. No request is sent.
    #[doc(alias = "createTransaction")]
    pub fn new(client: &Client) -> Self {
        let options = Options {
            timeout: DEFAULT_TIMEOUT,
            isolation: Isolation::default(),
            respect_locks: true,
            retries: DEFAULT_RETRIES,
            family: "",
        };
        Transaction::with(client, options)
    }

    fn with(client: &Client, options: Options) -> Self {
        let progress = Arc::new(Mutex::new(Progress { state: Some(State::default()), conflict: None }));
        Transaction { client: client.clone(), options, began: client.clock().now(), progress }
    }

    /// Begins a new transaction with the same options.
    pub(crate) fn new_attempt(&self) -> Self {
        Transaction::with(&self.client, self.options)
    }

    /// Sets the maximum time from the start of the transaction to the start of its commit; 5 s by
    /// default. After this time, the transaction ends with [`TransactionError::TimedOut`].
    ///
    /// A transaction holds no locks, so a long timeout blocks no other clients. The longer a
    /// transaction takes, the more likely is a conflict. Set the option before the first read or
    /// write.
    pub fn timeout(mut self, timeout: Duration) -> Self {
        self.options.timeout = timeout;
        self
    }

    /// Sets the isolation; [`Isolation::ReadCommitted`] by default. Set the option before the first
    /// read or write.
    pub fn isolation(mut self, isolation: Isolation) -> Self {
        self.options.isolation = isolation;
        self
    }

    /// Sets the isolation to [`Isolation::Serializable`].
    pub fn serializable(self) -> Self {
        self.isolation(Isolation::Serializable)
    }

    /// Writes even if a transaction of Redisson holds the lock of an object or a key.
    ///
    /// Use it if no object is shared with Java. It saves the server one or two checks for each
    /// written element. Set the option before the first read or write.
    pub fn ignore_locks(mut self) -> Self {
        self.options.respect_locks = false;
        self
    }

    /// Sets how many times [`Transaction::run`] retries after a conflict; 10 times by default.
    #[doc(alias = "retryAttempts")]
    pub fn retries(mut self, retries: u32) -> Self {
        self.options.retries = retries;
        self
    }

    /// Sets the label `family` in metrics: a constant that groups transactions of one purpose.
    pub fn family(mut self, family: &'static str) -> Self {
        transaction_family(family);
        self.options.family = family;
        self
    }

    /// Executes all buffered writes in one step. The [`Isolation`] determines which reads must be
    /// unchanged.
    ///
    /// The commit is executed exactly once: after a lost reply it is sent again, and the server
    /// returns the stored reply. While a transaction of Redisson holds the lock of an element to
    /// write, the commit waits, up to the timeout.
    ///
    /// # Errors
    ///
    /// [`TransactionError`]. Nothing is written, except possibly after
    /// [`Failure::OutcomeUnknown`](crate::Failure::OutcomeUnknown).
    ///
    /// # Cancel safety
    ///
    /// If the future is dropped before the request is sent, nothing is written. If it is dropped
    /// later, either all or nothing is written. The transaction is over in either case.
    #[doc(alias = "commitAsync")]
    pub async fn commit(self) -> Result<(), TransactionError> {
        self.check_time()?;
        let state = {
            let mut progress = self.progress();
            let state = progress.state.take().ok_or(TransactionError::Over)?;
            progress.conflict = None;
            state
        };
        let result = self.execute(&state, self.options.isolation).await;
        let outcome = match &result {
            Ok(()) => CommitOutcome::Committed,
            Err(TransactionError::Conflict { .. }) => CommitOutcome::Conflict,
            Err(TransactionError::Failed(Failure::OutcomeUnknown { .. })) => CommitOutcome::Unknown,
            Err(_) => CommitOutcome::Failed,
        };
        committed(self.options.family, outcome);
        self.record_conflict(result)
    }

    /// Discards the transaction. No request is sent, because nothing is written or locked. Dropping
    /// it has the same effect.
    #[doc(alias = "rollbackAsync")]
    pub fn rollback(self) {
        self.progress().state.take();
    }

    /// Returns whether the transaction is committed or rolled back, or a commit was attempted.
    pub(crate) fn is_over(&self) -> bool {
        self.progress().state.is_none()
    }

    /// Returns the conflict that the last check, or the commit, has found.
    pub(crate) fn conflict(&self) -> Option<TransactionError> {
        Some(TransactionError::Conflict { name: self.progress().conflict.clone()? })
    }

    fn record_conflict(&self, result: Result<(), TransactionError>) -> Result<(), TransactionError> {
        if let Err(TransactionError::Conflict { name }) = &result {
            self.progress().conflict = Some(name.clone());
        }
        result
    }

    /// Checks that all values that were read are unchanged. The transaction continues.
    ///
    /// Use it before reporting inconsistent values as an error, because the values may be from
    /// different moments.
    ///
    /// # Errors
    ///
    /// [`TransactionError::Conflict`] if a value has changed.
    ///
    /// # Cancel safety
    ///
    /// Dropping the future changes nothing.
    pub async fn check(&self) -> Result<(), TransactionError> {
        self.check_time()?;
        let reads = self.progress().state.as_ref().ok_or(TransactionError::Over)?.reads_only();
        let result = self.execute(&reads, Isolation::Serializable).await;
        self.record_conflict(result)
    }

    async fn execute(&self, state: &State, isolation: Isolation) -> Result<(), TransactionError> {
        let (began, mut polls) = (self.client.clock().now(), 0);
        let Some(commit) = Commit::of(&self.client, state, isolation, self.options.respect_locks)? else {
            return Ok(());
        };
        loop {
            let reply = self.client.run_exactly_once::<Vec<String>>(commit.request.clone()).await;
            let Outcome::Locked(name, lock) = commit.parse_reply(reply.map_err(TransactionError::of_commit)?)? else {
                return Ok(());
            };
            // While the lock is held, only the lock is polled. The commit is sent again when the
            // lock is free.
            loop {
                let now = self.client.clock().now();
                let next = now + LOCK_PAUSES.after(polls).mul_f64(0.5 + fastrand::f64());
                if next > self.deadline() {
                    return Err(TransactionError::Locked { name, waited: now.since(began) });
                }
                self.client.clock().sleep_until(next).await;
                polls += 1;
                let poll = Request::command("EXISTS").key(lock.clone()).idempotent();
                match self.client.run_until::<bool>(poll, self.deadline()).await {
                    Ok(true) => {}
                    // After the deadline the commit is not sent again.
                    Err(_) if self.client.clock().now() >= self.deadline() => {}
                    _ => break,
                }
            }
        }
    }

    pub(crate) fn deadline(&self) -> Instant {
        self.began + self.options.timeout
    }

    /// Returns an error if the timeout has passed.
    pub(crate) fn check_time(&self) -> Result<(), TransactionError> {
        let taken = self.client.clock().now().since(self.began);
        if taken <= self.options.timeout {
            Ok(())
        } else {
            Err(TransactionError::TimedOut { taken, limit: self.options.timeout })
        }
    }

    pub(crate) fn progress(&self) -> MutexGuard<'_, Progress> {
        self.progress.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
    }
}

redgrid_core::debug_fields!(Transaction, |it| options: it.options);
