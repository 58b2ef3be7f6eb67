//! The transaction: its options, its end, and how its objects read and write.

use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

use bytes::Bytes;
use redgrid_core::clock::Instant;
use redgrid_core::object::{ObjectError, Place, parts};
use redgrid_core::{Client, FromReply, Name, Pairs, Request};

use crate::commit::{Commit, Outcome};
use crate::error::TransactionError;
use crate::state::{Kind, MAX_ELEMENTS, State, Write};

/// What a transaction has until it is committed, unless it is said: 5 s, as with Redisson.
const TIMEOUT: Duration = Duration::from_secs(5);

/// How often [`Transaction::run`] begins anew, unless it is said.
const RETRIES: u32 = 10;

/// The first pause while another transaction has a lock, and the longest.
const PAUSES: (Duration, Duration) = (Duration::from_millis(5), Duration::from_millis(100));

/// What others may do to a transaction before it is committed. The whole table is at the front of this crate.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum Isolation {
    /// What it reads is committed, and what it writes after it has read it is as it was read. What it has only read may have changed.
    #[default]
    ReadCommitted,
    /// All it has read is as it was read when it is committed, what was not there included: it is as if it had been alone.
    Serializable,
}

/// What is read and written together: written as a whole when it is committed, or not at all.
///
/// Clones are the same transaction, and so are the objects it gives. It buffers what it writes, and has no lock: dropping it forgets it.
#[derive(Clone)]
#[doc(alias = "RTransaction")]
#[must_use = "nothing is written until it is committed"]
pub struct Transaction {
    pub(crate) client: Client,
    pub(crate) options: Options,
    began: Instant,
    state: Arc<Mutex<Phase>>,
}

/// As it is begun.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Options {
    timeout: Duration,
    pub(crate) isolation: Isolation,
    locks: bool,
    pub(crate) retries: u32,
}

/// How far it is.
struct Phase {
    /// What is in it, until it is over.
    state: Option<State>,
    /// What its last check, or its commit, has found changed by others.
    conflict: Option<Name>,
}

impl Transaction {
    /// Begins one. It asks nobody.
    #[doc(alias = "createTransaction")]
    pub fn new(client: &Client) -> Self {
        let options = Options { timeout: TIMEOUT, isolation: Isolation::default(), locks: true, retries: RETRIES };
        Transaction::with(client, options)
    }

    fn with(client: &Client, options: Options) -> Self {
        let state = Arc::new(Mutex::new(Phase { state: Some(State::default()), conflict: None }));
        Transaction { client: client.clone(), options, began: client.clock().now(), state }
    }

    /// Another one, begun now.
    pub(crate) fn again(&self) -> Self {
        Transaction::with(&self.client, self.options)
    }

    /// What it has from its beginning until its commit begins, 5 s unless set: later it ends [`TransactionError::TimedOut`]. A transaction has no
    /// lock, so a long time is in nobody's way; the longer it is, the more likely is a conflict. An option for its beginning.
    pub fn timeout(mut self, timeout: Duration) -> Self {
        self.options.timeout = timeout;
        self
    }

    /// What others may do to it; [`Isolation::ReadCommitted`] unless set. An option for its beginning.
    pub fn isolation(mut self, isolation: Isolation) -> Self {
        self.options.isolation = isolation;
        self
    }

    /// The same as [`Isolation::Serializable`].
    pub fn serializable(self) -> Self {
        self.isolation(Isolation::Serializable)
    }

    /// Writes whether a transaction of Redisson's has the lock of an object or a key, or not: for who shares nothing with Java. It saves the
    /// server a look or two for each element that is written. An option for its beginning.
    pub fn ignore_locks(mut self) -> Self {
        self.options.locks = false;
        self
    }

    /// How often [`Transaction::run`] begins anew after a conflict, 10 times unless set.
    #[doc(alias = "retryAttempts")]
    pub fn retries(mut self, retries: u32) -> Self {
        self.options.retries = retries;
        self
    }

    /// Writes all of it, in one step, if what it has read is as it was: what that is says its [`Isolation`].
    ///
    /// It is acted once: where an answer is lost the server is asked again, and tells what it has done.
    ///
    /// While a transaction of Redisson's has a lock of what is to be written, it waits, until its time is over.
    ///
    /// # Errors
    ///
    /// [`TransactionError`]: nothing is written, but for [`TransactionError::OutcomeUnknown`].
    ///
    /// # Cancel safety
    ///
    /// Dropped before it has left, nothing is written; dropped later, all is, or nothing. The transaction is over in either case.
    #[doc(alias = "commitAsync")]
    pub async fn commit(self) -> Result<(), TransactionError> {
        self.in_time()?;
        let state = {
            let mut phase = self.phase();
            let state = phase.state.take().ok_or(TransactionError::Over)?;
            phase.conflict = None;
            state
        };
        let told = self.carry_out(&state, self.options.isolation).await;
        self.noted(told)
    }

    /// Forgets it. Nobody is asked, as nothing is written or locked; dropping it is the same.
    #[doc(alias = "rollbackAsync")]
    pub fn rollback(self) {
        self.phase().state.take();
    }

    /// Whether it is committed or rolled back, or that was tried.
    pub(crate) fn is_over(&self) -> bool {
        self.phase().state.is_none()
    }

    /// The conflict that its last check, or its commit, has told.
    pub(crate) fn conflict(&self) -> Option<TransactionError> {
        Some(TransactionError::Conflict { name: self.phase().conflict.clone()? })
    }

    fn noted(&self, told: Result<(), TransactionError>) -> Result<(), TransactionError> {
        if let Err(TransactionError::Conflict { name }) = &told {
            self.phase().conflict = Some(name.clone());
        }
        told
    }

    /// Whether all it has read is still so; it goes on. For who has read what can not be, before it says so to somebody.
    ///
    /// # Errors
    ///
    /// [`TransactionError::Conflict`] where it is not.
    ///
    /// # Cancel safety
    ///
    /// Dropping it changes nothing.
    pub async fn check(&self) -> Result<(), TransactionError> {
        self.in_time()?;
        let read = self.phase().state.as_ref().ok_or(TransactionError::Over)?.only_read();
        let told = self.carry_out(&read, Isolation::Serializable).await;
        self.noted(told)
    }

    async fn carry_out(&self, state: &State, isolation: Isolation) -> Result<(), TransactionError> {
        let (began, mut pause) = (self.client.clock().now(), PAUSES.0);
        let Some(commit) = Commit::of(&self.client, state, isolation, self.options.locks)? else { return Ok(()) };
        loop {
            let answer = self.client.run_exactly_once::<Vec<String>>(commit.request.clone()).await;
            let Outcome::Locked(name, lock) = commit.outcome(answer.map_err(TransactionError::of_commit)?)? else {
                return Ok(());
            };
            // The lock is looked at, and all of it is sent again when it is free.
            loop {
                let now = self.client.clock().now();
                let next = now + pause.mul_f64(0.5 + fastrand::f64());
                if next > self.ends() {
                    return Err(TransactionError::Locked { name, waited: now.since(began) });
                }
                self.client.clock().sleep_until(next).await;
                pause = (pause * 2).min(PAUSES.1);
                let look = Request::command("EXISTS").key(lock.clone()).idempotent();
                match self.client.run_until::<bool>(look, self.ends()).await {
                    Ok(true) => {}
                    // Who can not be asked any more in time is not sent it either.
                    Err(_) if self.client.clock().now() >= self.ends() => {}
                    _ => break,
                }
            }
        }
    }

    fn ends(&self) -> Instant {
        self.began + self.options.timeout
    }

    fn in_time(&self) -> Result<(), TransactionError> {
        let taken = self.client.clock().now().since(self.began);
        match taken <= self.options.timeout {
            true => Ok(()),
            false => Err(TransactionError::TimedOut { taken, limit: self.options.timeout }),
        }
    }

    fn phase(&self) -> MutexGuard<'_, Phase> {
        self.state.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
    }
}

/// One object of a transaction.
#[derive(Clone)]
pub(crate) struct Part {
    transaction: Transaction,
    pub(crate) place: Place,
    kind: Kind,
}

impl Part {
    pub(crate) fn new(transaction: &Transaction, name: impl AsRef<str>, kind: Kind) -> Part {
        Part { place: Place::new(&transaction.client, name), transaction: transaction.clone(), kind }
    }

    fn key(&self) -> Result<(&Name, &Bytes), ObjectError> {
        self.place.named()
    }

    /// Does something with what is in the transaction, once it is clear that this object can be.
    fn with<T>(&self, work: impl FnOnce(&mut State, &Bytes) -> T) -> Result<T, TransactionError> {
        let (name, key) = self.key()?;
        self.transaction.in_time()?;
        let mut phase = self.transaction.phase();
        let state = phase.state.as_mut().ok_or(TransactionError::Over)?;
        let client = &self.transaction.client;
        if let Some((first, touched)) = state.objects.first_key_value()
            && client.slot(first) != client.slot(key)
        {
            return Err(TransactionError::OtherSlot { name: name.clone(), other: touched.name.clone() });
        }
        state.enter(name, key, self.kind)?;
        Ok(work(state, key))
    }

    /// What an element is within the transaction.
    pub(crate) async fn get(&self, element: Bytes) -> Result<Option<Bytes>, TransactionError> {
        Ok(self.get_many(vec![element]).await?.pop().flatten())
    }

    /// What elements are within the transaction; the server is asked for those that are not known, for each 500 once.
    pub(crate) async fn get_many(&self, elements: Vec<Bytes>) -> Result<Vec<Option<Bytes>>, TransactionError> {
        loop {
            let known = self.with(|state, key| {
                let known = elements.iter().map(|element| state.known(key, element));
                known.collect::<Vec<_>>()
            })?;
            let unknown = elements.iter().zip(&known).filter(|(_, known)| known.is_none());
            let unknown: Vec<_> = unknown.map(|(element, _)| element.clone()).collect();
            if unknown.is_empty() {
                return Ok(known.into_iter().map(Option::flatten).collect());
            }
            self.ask_for(&unknown).await?;
        }
    }

    /// Has the server say what elements are.
    async fn ask_for(&self, elements: &[Bytes]) -> Result<(), TransactionError> {
        for part in parts(elements, Bytes::len) {
            let values: Vec<Option<Bytes>> = match self.kind {
                Kind::Bucket => vec![self.ask(self.place.command("GET")?).await?],
                Kind::Map => {
                    let request = part.iter().cloned().fold(self.place.command("HMGET")?, Request::arg);
                    self.ask(request).await?
                }
                Kind::Set => {
                    let request = part.iter().cloned().fold(self.place.command("SMISMEMBER")?, Request::arg);
                    let are: Vec<bool> = self.ask(request).await?;
                    are.into_iter().map(|is| is.then(Bytes::new)).collect()
                }
            };
            self.with(|state, key| {
                let mut seen = part.iter().cloned().zip(values);
                seen.try_for_each(|(element, value)| state.saw(key, element, value))
            })??;
        }
        Ok(())
    }

    /// All elements within the transaction.
    pub(crate) async fn all(&self) -> Result<Vec<(Bytes, Bytes)>, TransactionError> {
        loop {
            if let Some(all) = self.with(|state, key| state.all(key))? {
                return Ok(all);
            }
            let count = self.count().await?;
            if count > MAX_ELEMENTS as u64 {
                return Err(TransactionError::too_large("elements", MAX_ELEMENTS, count as usize));
            }
            let all: Vec<(Bytes, Bytes)> = match self.kind {
                Kind::Set => {
                    let values: Vec<Bytes> = self.ask(self.place.command("SMEMBERS")?).await?;
                    values.into_iter().map(|value| (value, Bytes::new())).collect()
                }
                _ => self.ask::<Pairs<Bytes, Bytes>>(self.place.command("HGETALL")?).await?.0,
            };
            self.with(|state, key| state.saw_all(key, all))??;
        }
    }

    /// How many elements there are within the transaction.
    pub(crate) async fn len(&self) -> Result<u64, TransactionError> {
        loop {
            let unseen = match self.with(|state, key| state.len(key))? {
                Ok(len) => return Ok(len),
                Err(unseen) => unseen,
            };
            if !unseen.is_empty() {
                self.ask_for(&unseen).await?;
            }
            let count = self.count().await?;
            self.with(|state, key| state.counted(key, count))?;
        }
    }

    async fn count(&self) -> Result<u64, TransactionError> {
        let command = if self.kind == Kind::Set { "SCARD" } else { "HLEN" };
        self.ask(self.place.command(command)?).await
    }

    /// Asks the primary what only reads, within the time of the transaction.
    async fn ask<T: FromReply>(&self, request: Request) -> Result<T, TransactionError> {
        let client = &self.transaction.client;
        let until = self.transaction.ends().min(client.clock().now() + client.patience());
        let answer = client.run_until(request.idempotent(), until).await;
        if answer.is_err() {
            self.transaction.in_time()?;
        }
        let (name, _) = self.key()?;
        Ok(answer.map_err(|source| ObjectError::of_read(name, source))?)
    }

    pub(crate) fn put(&self, element: Bytes, value: Bytes, options: Vec<Bytes>) -> Result<(), TransactionError> {
        self.with(|state, key| state.write(key, element, Write::Put(value, options)))?
    }

    pub(crate) fn remove(&self, element: Bytes) -> Result<(), TransactionError> {
        self.with(|state, key| state.write(key, element, Write::Remove))?
    }

    pub(crate) fn clear(&self) -> Result<(), TransactionError> {
        self.with(|state, key| state.clear(key))
    }
}

impl fmt::Debug for Transaction {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Transaction").field("options", &self.options).finish_non_exhaustive()
    }
}
