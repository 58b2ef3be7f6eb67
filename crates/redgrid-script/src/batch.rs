//! Batches of calls.

use std::marker::PhantomData;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use redgrid_codecs::Decode;
use redgrid_core::author::ClientExt;
use redgrid_core::config::Durability;
use redgrid_core::{Client, CommitError, Failure, FromReply, Reply, Request, ServerError};

use crate::call::{Call, keys_in_one_slot};
use crate::error::CallError;
use crate::query::{convert_reply, decode_value};

/// The maximum number of calls of a batch. It is limited because all their replies are in memory
/// together.
const MAX_CALLS: usize = 100_000;

/// The maximum number of calls of an atomic batch. It is limited because the batch blocks the
/// server.
const MAX_ATOMIC_CALLS: usize = 10_000;

/// The maximum size of the keys, arguments and scripts of a batch: 64 MiB. The client holds all of
/// them in memory; for an atomic batch, so does the server.
const MAX_BYTES: usize = 64 << 20;

/// The id of the next batch. With the ids, a [`BatchIndex`] of another batch is detected.
static NEXT_ID: AtomicU64 = AtomicU64::new(0);

/// A batch of calls that are sent together, each with its own result.
///
/// By default the calls for a node are pipelined, at most 1,000 at a time, and executed in their
/// order. Nodes work in parallel, and requests of other clients may be executed between two calls.
/// A call that is refused for a temporary reason is retried like a single call. So while a slot
/// moves, a call may be executed after a later one. [`Batch::atomic`] makes the batch a
/// transaction.
///
/// Functions should be loaded first, see [`Functions::load`](crate::Functions::load). A call of a
/// missing function is executed after the other calls, when its library has been loaded. In an
/// atomic batch it is refused.
///
/// ```no_run
/// # async fn demo(client: &redgrid_script::Client) -> Result<(), redgrid_script::CallError> {
/// use redgrid_script::{Batch, Call};
///
/// let mut batch = Batch::new(client);
/// let visits = batch.push::<i64>(Call::command("INCRBY").key("visits").int(1));
/// let name = batch.push::<Option<String>>(Call::command("GET").key("user:7:name").reads());
/// let results = batch.send().await?;
/// println!("{:?}: {}", results.get(&name)?, results.get(&visits)?);
/// # Ok(()) }
/// ```
#[doc(alias = "RBatch")]
#[doc(alias = "BatchOptions")]
#[must_use = "does nothing until `send` is awaited"]
pub struct Batch {
    client: Client,
    id: u64,
    calls: Vec<Call>,
    size: usize,
    atomic: bool,
    timeout: Option<Duration>,
    durability: Option<Durability>,
}

/// Converts the reply to a call; the text is the name of the call.
type Reader<T> = Arc<dyn Fn(&str, Reply) -> Result<T, CallError> + Send + Sync>;

/// Identifies the result of a call of a batch.
pub struct BatchIndex<T> {
    batch: u64,
    index: usize,
    read: Reader<T>,
    value: PhantomData<fn() -> T>,
}

impl Batch {
    /// Returns an empty batch.
    pub fn new(client: &Client) -> Self {
        let id = NEXT_ID.fetch_add(1, Ordering::Relaxed);
        Batch { client: client.clone(), id, calls: Vec::new(), size: 0, atomic: false, timeout: None, durability: None }
    }

    /// Executes the batch as one transaction, with MULTI and EXEC.
    ///
    /// No other request is executed between two of its calls. If a call cannot be queued, none is
    /// executed. In a cluster all keys must share a slot (by a hash tag, like `{user:7}:name`). At
    /// most 10,000 calls are allowed.
    ///
    /// A call that fails during execution, for example on a value of another type, does not affect
    /// the other calls: Redis has no rollback. Atomic batches for one node are executed one after
    /// another, on a dedicated connection, in two round trips.
    #[doc(alias = "IN_MEMORY_ATOMIC")]
    #[doc(alias = "REDIS_WRITE_ATOMIC")]
    #[doc(alias = "REDIS_READ_ATOMIC")]
    pub fn atomic(self) -> Self {
        Batch { atomic: true, ..self }
    }

    /// Sets how long calls without a reply are retried.
    ///
    /// The default is `response_timeout × (retries + 1)` of the settings.
    ///
    /// In any case, a single transmission of a call waits up to `response_timeout` for its reply.
    #[doc(alias = "responseTimeout")]
    pub fn timeout(self, time: Duration) -> Self {
        Batch { timeout: Some(time), ..self }
    }

    /// Sets the required durability of the executed calls. The default is that of the settings.
    ///
    /// For each node, one request after its replies confirms the durability.
    #[doc(alias = "sync")]
    #[doc(alias = "syncAOF")]
    pub fn durable(self, durability: Durability) -> Self {
        Batch { durability: Some(durability), ..self }
    }

    /// Returns the number of calls.
    pub fn len(&self) -> usize {
        self.calls.len()
    }

    /// Returns whether the batch has no calls.
    pub fn is_empty(&self) -> bool {
        self.calls.is_empty()
    }

    /// Adds a call with a reply that is converted to `T`.
    ///
    /// Its [`Call::timeout`] is ignored. A read-only call is also sent to the primary, so that it
    /// sees the effects of the calls before it.
    pub fn push<T: FromReply + 'static>(&mut self, call: Call) -> BatchIndex<T> {
        self.add(call, |what, reply| convert_reply(what, reply))
    }

    /// Adds a call whose reply is decoded with this codec; `None` if the reply is nil.
    pub fn push_as<T: 'static, C: Decode<T>>(&mut self, call: Call, codec: C) -> BatchIndex<Option<T>> {
        self.add(call, move |what, reply| {
            let bytes: Option<bytes::Bytes> = convert_reply(what, reply)?;
            bytes.map(|bytes| decode_value(what, &codec, &bytes)).transpose()
        })
    }

    fn add<T>(
        &mut self,
        call: Call,
        read: impl Fn(&str, Reply) -> Result<T, CallError> + Send + Sync + 'static,
    ) -> BatchIndex<T> {
        self.size += call.size();
        self.calls.push(call);
        BatchIndex { batch: self.id, index: self.calls.len() - 1, read: Arc::new(read), value: PhantomData }
    }

    /// Sends the calls and waits for their results.
    ///
    /// # Errors
    ///
    /// [`CallError`] if the batch is invalid. For an atomic batch, also if no call was executed
    /// ([`Refused`](crate::Failure::Refused), [`Unavailable`](crate::Failure::Unavailable)), or if
    /// the outcome is unknown ([`OutcomeUnknown`](crate::Failure::OutcomeUnknown)). Otherwise each
    /// call has its own result.
    ///
    /// # Cancel safety
    ///
    /// Calls that were already sent are executed even if the future is dropped; an atomic batch as
    /// a whole or not at all.
    #[doc(alias = "execute")]
    pub async fn send(self) -> Result<Results, CallError> {
        let requests = self.requests()?;
        let until = self.client.clock().now() + self.timeout.unwrap_or(self.client.patience());
        let durability = self.durability.unwrap_or(self.client.durability());
        let mut outcomes = Vec::with_capacity(requests.len());
        if self.atomic && !requests.is_empty() {
            let reads = self.calls.iter().all(Call::is_read);
            let error = |source| if reads { CallError::of_read(WHAT, source) } else { CallError::of(WHAT, source) };
            let mut transaction = self.client.batch(vec![Request::together(requests)], until, durability).await;
            let Some(transaction) = transaction.pop() else {
                return Err(CallError::of(WHAT, ServerError::Unknown { reason: "no result".into() }));
            };
            let replies: Vec<Reply> = transaction.result.and_then(Reply::into_typed).map_err(error)?;
            outcomes.extend(replies.into_iter().map(|reply| (exec_result(reply), transaction.durable.clone())));
        } else {
            let all = self.client.batch(requests, until, durability).await;
            outcomes.extend(all.into_iter().map(|outcome| (outcome.result, outcome.durable)));
        }
        Ok(Results { batch: self.id, calls: self.calls, outcomes })
    }

    /// Returns the requests of the calls, if all of them are valid.
    fn requests(&self) -> Result<Vec<Request>, CallError> {
        let max_calls = if self.atomic { MAX_ATOMIC_CALLS } else { MAX_CALLS };
        let invalid = |option, expected: String, got: usize| {
            CallError::from(Failure::invalid_argument(WHAT, option, expected, got))
        };
        if self.calls.len() > max_calls {
            return Err(invalid("number of calls", format!("{max_calls} at most"), self.calls.len()));
        }
        if self.size > MAX_BYTES {
            return Err(invalid("size", format!("{MAX_BYTES} bytes at most"), self.size));
        }
        if self.atomic {
            keys_in_one_slot(&self.client, WHAT, self.calls.iter().flat_map(Call::key_names))?;
        }
        self.calls.iter().map(|call| call.primary_request(&self.client).map(Request::in_order)).collect()
    }
}

/// The name of a batch in errors.
const WHAT: &str = "batch";

/// Converts one of the replies to EXEC.
fn exec_result(reply: Reply) -> Result<Reply, ServerError> {
    match reply {
        Reply::Error(error) => Err(error),
        reply => Ok(reply),
    }
}

/// The results of the calls of a batch.
pub struct Results {
    batch: u64,
    calls: Vec<Call>,
    outcomes: Vec<(Result<Reply, ServerError>, Result<(), CommitError>)>,
}

impl Results {
    /// Returns the result of one call. It may be called again for the same result.
    ///
    /// # Errors
    ///
    /// The [`CallError`] of this call; [`CallError::NotDurable`] if it was executed but the
    /// required durability was not confirmed. [`Failure::InvalidArgument`] for the handle of
    /// another batch.
    #[doc(alias = "getResponses")]
    pub fn get<T>(&self, handle: &BatchIndex<T>) -> Result<T, CallError> {
        let (Some((result, durable)), true) = (self.outcomes.get(handle.index), handle.batch == self.batch) else {
            return Err(Failure::invalid_argument(WHAT, "handle", "a handle of this batch", "another one").into());
        };
        let call = &self.calls[handle.index];
        let reply = result.clone().map_err(|source| call.error(source))?;
        check_durable(call, durable)?;
        (handle.read)(call.label(), reply)
    }

    /// Checks that all calls were executed with the required durability, without converting
    /// replies.
    ///
    /// # Errors
    ///
    /// The [`CallError`] of the first call that failed or is not durable.
    #[doc(alias = "skipResult")]
    pub fn check(&self) -> Result<(), CallError> {
        for (call, (result, durable)) in self.calls.iter().zip(&self.outcomes) {
            if let Err(source) = result {
                return Err(call.error(source.clone()));
            }
            check_durable(call, durable)?;
        }
        Ok(())
    }

    /// Returns the number of calls.
    pub fn len(&self) -> usize {
        self.outcomes.len()
    }

    /// Returns whether the batch had no calls.
    pub fn is_empty(&self) -> bool {
        self.outcomes.is_empty()
    }
}

fn check_durable(call: &Call, durable: &Result<(), CommitError>) -> Result<(), CallError> {
    let not_durable = |source| CallError::NotDurable { what: call.label().to_owned(), source };
    durable.clone().map_err(not_durable)
}

redgrid_core::debug_fields!(Batch, |it| calls: it.calls, atomic: it.atomic);

redgrid_core::debug_fields!([T] BatchIndex<T>, |it| index: it.index);

redgrid_core::debug_fields!(Results, |it| calls: it.calls);
