//! The transaction: its options, its commit, and the reads and writes of its objects.

use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

use bytes::Bytes;
use redgrid_core::author::{Backoff, ClientExt};
use redgrid_core::clock::Instant;
use redgrid_core::object::{ObjectError, ObjectRef, chunks};
use redgrid_core::{Client, FromReply, Name, Pairs, Request};

use crate::commit::{Commit, Outcome};
use crate::error::TransactionError;
use crate::state::{Kind, MAX_ELEMENTS, State, Write};

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
    /// Reads return committed values. The commit requires that values that were read and are
    /// written have not changed. Values that were only read may have changed.
    #[default]
    ReadCommitted,
    /// The commit requires that nothing that was read has changed, absent values included: the
    /// result is as if the transaction had run alone.
    Serializable,
}

/// A transaction: its writes are executed as a whole at the commit, or not at all.
///
/// Clones are handles of the same transaction, and so are its objects. It buffers its writes and
/// holds no locks: dropping it discards the writes.
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
}

/// The progress of a transaction.
struct Progress {
    /// The reads and buffered writes; `None` after its end.
    state: Option<State>,
    /// The object that the last check, or the commit, has found changed by others.
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

    /// Sets the maximum time from the beginning of the transaction to the beginning of its commit;
    /// 5 s by default. After that it ends as [`TransactionError::TimedOut`].
    ///
    /// A transaction holds no locks, so a long timeout blocks no others. The longer it takes, the
    /// more likely is a conflict. Set the option before the first read or write.
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
    /// Use it if nothing is shared with Java. It saves the server one or two checks for each
    /// written element. Set the option before the first read or write.
    pub fn ignore_locks(mut self) -> Self {
        self.options.respect_locks = false;
        self
    }

    /// Sets how often [`Transaction::run`] retries after a conflict; 10 times by default.
    #[doc(alias = "retryAttempts")]
    pub fn retries(mut self, retries: u32) -> Self {
        self.options.retries = retries;
        self
    }

    /// Executes all buffered writes in one step, if the reads that its [`Isolation`] compares have
    /// not changed.
    ///
    /// The commit is executed exactly once: after a lost reply it is sent again, and the server
    /// returns the stored reply. While a transaction of Redisson holds a lock of what is written,
    /// the commit waits until the timeout.
    ///
    /// # Errors
    ///
    /// [`TransactionError`]. Nothing is written, except possibly after
    /// [`Failure::OutcomeUnknown`](crate::Failure::OutcomeUnknown).
    ///
    /// # Cancel safety
    ///
    /// If the future is dropped before the request was sent, nothing is written. Dropped later, all
    /// or nothing is written. The transaction is over in either case.
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

    /// Checks whether everything that was read is unchanged. The transaction continues.
    ///
    /// Use it before reporting inconsistent values as an error: they may be from different moments.
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
            // Only the lock is polled. The commit is sent again when the lock is free.
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
                    // After the deadline the commit is not sent again either.
                    Err(_) if self.client.clock().now() >= self.deadline() => {}
                    _ => break,
                }
            }
        }
    }

    fn deadline(&self) -> Instant {
        self.began + self.options.timeout
    }

    /// Returns an error after the timeout.
    fn check_time(&self) -> Result<(), TransactionError> {
        let taken = self.client.clock().now().since(self.began);
        if taken <= self.options.timeout {
            Ok(())
        } else {
            Err(TransactionError::TimedOut { taken, limit: self.options.timeout })
        }
    }

    fn progress(&self) -> MutexGuard<'_, Progress> {
        self.progress.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
    }
}

/// One object of a transaction.
#[derive(Clone)]
pub(crate) struct TransactionObject {
    transaction: Transaction,
    pub(crate) object_ref: ObjectRef,
    kind: Kind,
}

impl TransactionObject {
    pub(crate) fn new(transaction: &Transaction, name: impl AsRef<str>, kind: Kind) -> TransactionObject {
        TransactionObject {
            object_ref: ObjectRef::new(&transaction.client, name),
            transaction: transaction.clone(),
            kind,
        }
    }

    fn key(&self) -> Result<(&Name, &Bytes), ObjectError> {
        self.object_ref.name_and_key()
    }

    /// Runs `work` on the state of the transaction, after checking that this object may be in it.
    fn with_state<T>(&self, work: impl FnOnce(&mut State, &Bytes) -> T) -> Result<T, TransactionError> {
        let (name, key) = self.key()?;
        self.transaction.check_time()?;
        let mut progress = self.transaction.progress();
        let state = progress.state.as_mut().ok_or(TransactionError::Over)?;
        let client = &self.transaction.client;
        if let Some((first_key, first)) = state.objects.first_key_value()
            && client.slot(first_key) != client.slot(key)
        {
            return Err(TransactionError::OtherSlot { name: name.clone(), other: first.name.clone() });
        }
        state.add_object(name, key, self.kind)?;
        Ok(work(state, key))
    }

    /// Returns the value of an element within the transaction.
    pub(crate) async fn get(&self, element: Bytes) -> Result<Option<Bytes>, TransactionError> {
        Ok(self.get_many(vec![element]).await?.pop().flatten())
    }

    /// Returns the values of elements within the transaction. Unknown ones are read from the
    /// server, up to 500 in a request.
    pub(crate) async fn get_many(&self, elements: Vec<Bytes>) -> Result<Vec<Option<Bytes>>, TransactionError> {
        loop {
            let known = self.with_state(|state, key| {
                let known = elements.iter().map(|element| state.known(key, element));
                known.collect::<Vec<_>>()
            })?;
            let unknown = elements.iter().zip(&known).filter(|(_, known)| known.is_none());
            let unknown: Vec<_> = unknown.map(|(element, _)| element.clone()).collect();
            if unknown.is_empty() {
                return Ok(known.into_iter().map(Option::flatten).collect());
            }
            self.read_elements(&unknown).await?;
        }
    }

    /// Reads elements from the server.
    async fn read_elements(&self, elements: &[Bytes]) -> Result<(), TransactionError> {
        for chunk in chunks(elements, Bytes::len) {
            let values: Vec<Option<Bytes>> = match self.kind {
                Kind::Bucket => vec![self.read(self.object_ref.command("GET")?).await?],
                Kind::Map => {
                    let request = chunk.iter().cloned().fold(self.object_ref.command("HMGET")?, Request::arg);
                    self.read(request).await?
                }
                Kind::Set => {
                    let request = chunk.iter().cloned().fold(self.object_ref.command("SMISMEMBER")?, Request::arg);
                    let exist: Vec<bool> = self.read(request).await?;
                    exist.into_iter().map(|exists| exists.then(Bytes::new)).collect()
                }
            };
            self.with_state(|state, key| {
                let mut read = chunk.iter().cloned().zip(values);
                read.try_for_each(|(element, value)| state.record_read(key, element, value))
            })??;
        }
        Ok(())
    }

    /// Returns all elements within the transaction.
    pub(crate) async fn all(&self) -> Result<Vec<(Bytes, Bytes)>, TransactionError> {
        loop {
            if let Some(all) = self.with_state(|state, key| state.all(key))? {
                return Ok(all);
            }
            let count = self.count().await?;
            if count > MAX_ELEMENTS as u64 {
                return Err(TransactionError::too_large("elements", MAX_ELEMENTS, count as usize));
            }
            let all: Vec<(Bytes, Bytes)> = match self.kind {
                Kind::Set => {
                    let values: Vec<Bytes> = self.read(self.object_ref.command("SMEMBERS")?).await?;
                    values.into_iter().map(|value| (value, Bytes::new())).collect()
                }
                _ => self.read::<Pairs<Bytes, Bytes>>(self.object_ref.command("HGETALL")?).await?.0,
            };
            self.with_state(|state, key| state.record_all(key, all))??;
        }
    }

    /// Returns the number of elements within the transaction.
    pub(crate) async fn len(&self) -> Result<u64, TransactionError> {
        loop {
            let unread = match self.with_state(|state, key| state.len(key))? {
                Ok(len) => return Ok(len),
                Err(unread) => unread,
            };
            if !unread.is_empty() {
                self.read_elements(&unread).await?;
            }
            let count = self.count().await?;
            self.with_state(|state, key| state.record_len(key, count))?;
        }
    }

    async fn count(&self) -> Result<u64, TransactionError> {
        let command = if self.kind == Kind::Set { "SCARD" } else { "HLEN" };
        self.read(self.object_ref.command(command)?).await
    }

    /// Sends a read to the primary, within the timeout of the transaction.
    async fn read<T: FromReply>(&self, request: Request) -> Result<T, TransactionError> {
        let client = &self.transaction.client;
        let until = self.transaction.deadline().min(client.clock().now() + client.patience());
        let reply = client.run_until(request.idempotent(), until).await;
        if reply.is_err() {
            self.transaction.check_time()?;
        }
        let (name, _) = self.key()?;
        Ok(reply.map_err(|source| ObjectError::of_read(name, source))?)
    }

    pub(crate) fn put(&self, element: Bytes, value: Bytes, options: Vec<Bytes>) -> Result<(), TransactionError> {
        self.with_state(|state, key| state.write(key, element, Write::Put(value, options)))?
    }

    pub(crate) fn remove(&self, element: Bytes) -> Result<(), TransactionError> {
        self.with_state(|state, key| state.write(key, element, Write::Remove))?
    }

    pub(crate) fn clear(&self) -> Result<(), TransactionError> {
        self.with_state(|state, key| state.clear(key))
    }
}

impl fmt::Debug for Transaction {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Transaction").field("options", &self.options).finish_non_exhaustive()
    }
}
