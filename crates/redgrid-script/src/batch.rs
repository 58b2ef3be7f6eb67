//! Many calls at once.

use std::fmt;
use std::marker::PhantomData;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use redgrid_codecs::Decode;
use redgrid_core::config::Durability;
use redgrid_core::{Client, CommitError, FromReply, Reply, Request, ServerError};

use crate::call::{Call, one_slot};
use crate::error::CallError;
use crate::query::{decoded, typed};

/// How many calls a batch has at most: 100,000. Their answers are in memory together.
const MOST_CALLS: usize = 100_000;

/// The same of an atomic one: 10,000. The server does nothing else meanwhile.
const MOST_AT_ONCE: usize = 10_000;

/// How many bytes the keys, arguments and scripts of a batch have at most: 64 MiB. They are in memory together, here and, of an atomic one, there.
const MOST_BYTES: usize = 64 << 20;

/// Tells batches apart, so that no handle is taken to the results of another.
static BATCHES: AtomicU64 = AtomicU64::new(0);

/// Calls that are sent together, each with a result of its own.
///
/// Without more, those of a node are sent without waiting between them, at most 1,000 at a time, and carried out in their order; nodes are
/// asked at the same time, and others may be served between two calls. What is refused for a passing reason is sent again as a call alone would
/// be: while a slot moves, a call may so come behind one that stood after it. [`Batch::atomic`] makes it one step.
///
/// Functions are to be there before ([`Functions::load`](crate::Functions::load)): one that is missing is called behind the others when its
/// library is loaded, and in an atomic batch it is refused.
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
#[must_use = "nothing is asked of the server until it is sent"]
pub struct Batch {
    client: Client,
    id: u64,
    calls: Vec<Call>,
    size: usize,
    atomic: bool,
    within: Option<Duration>,
    durability: Option<Durability>,
}

/// Reads an answer to what has this name.
type Reader<T> = Arc<dyn Fn(&str, Reply) -> Result<T, CallError> + Send + Sync>;

/// Where the result of a call of a batch will be.
pub struct Handle<T> {
    batch: u64,
    at: usize,
    read: Reader<T>,
    value: PhantomData<fn() -> T>,
}

impl Batch {
    /// One without calls.
    pub fn new(client: &Client) -> Self {
        let id = BATCHES.fetch_add(1, Ordering::Relaxed);
        Batch { client: client.clone(), id, calls: Vec::new(), size: 0, atomic: false, within: None, durability: None }
    }

    /// Has it carried out in one step, by MULTI and EXEC: nobody is served between two of its calls, and where one can not be queued, none is
    /// carried out. In a cluster all keys share a slot (a hash tag: `{user:7}:name`). At most 10,000 calls.
    ///
    /// A call that fails when it is carried out, on a value of another type, say, fails alone: Redis takes the others not back. Atomic
    /// batches to one node go one after another, by a connection of their own, in two round trips.
    #[doc(alias = "IN_MEMORY_ATOMIC")]
    #[doc(alias = "REDIS_WRITE_ATOMIC")]
    #[doc(alias = "REDIS_READ_ATOMIC")]
    pub fn atomic(self) -> Self {
        Batch { atomic: true, ..self }
    }

    /// For how long what is not answered is tried again; `response_timeout × (retries + 1)` of the settings unless set. One copy of a call waits for its
    /// answer for `response_timeout` in any case.
    #[doc(alias = "responseTimeout")]
    pub fn timeout(self, time: Duration) -> Self {
        Batch { within: Some(time), ..self }
    }

    /// How durable what is answered is to be; that of the settings unless set. One question for each node, after its answers.
    #[doc(alias = "sync")]
    #[doc(alias = "syncAOF")]
    pub fn durable(self, durability: Durability) -> Self {
        Batch { durability: Some(durability), ..self }
    }

    /// How many calls it has.
    pub fn len(&self) -> usize {
        self.calls.len()
    }

    /// Whether it has none.
    pub fn is_empty(&self) -> bool {
        self.calls.is_empty()
    }

    /// Adds a call, whose answer is read as `T`. Its [`Call::timeout`] does not count here. What reads asks the primary all the same, so that it
    /// sees what stands before it.
    pub fn push<T: FromReply + 'static>(&mut self, call: Call) -> Handle<T> {
        self.add(call, |what, reply| typed(what, reply))
    }

    /// The same, its answer read as a value by this codec; `None` where it answers with nothing.
    pub fn push_as<T: 'static, C: Decode<T>>(&mut self, call: Call, codec: C) -> Handle<Option<T>> {
        self.add(call, move |what, reply| {
            let bytes: Option<bytes::Bytes> = typed(what, reply)?;
            bytes.map(|bytes| decoded(what, &codec, &bytes)).transpose()
        })
    }

    fn add<T>(
        &mut self,
        call: Call,
        read: impl Fn(&str, Reply) -> Result<T, CallError> + Send + Sync + 'static,
    ) -> Handle<T> {
        self.size += call.size();
        self.calls.push(call);
        Handle { batch: self.id, at: self.calls.len() - 1, read: Arc::new(read), value: PhantomData }
    }

    /// Sends the calls and waits for what becomes of each.
    ///
    /// # Errors
    ///
    /// [`CallError`] where the batch can not be as it is, and, of an atomic one, where none of it was carried out
    /// ([`Refused`](CallError::Refused), [`Unavailable`](CallError::Unavailable)) or nobody knows
    /// ([`OutcomeUnknown`](CallError::OutcomeUnknown)). Else each call has a result of its own.
    ///
    /// # Cancel safety
    ///
    /// What has left is carried out although nobody waits for it; an atomic batch as a whole or not at all.
    #[doc(alias = "execute")]
    pub async fn send(self) -> Result<Results, CallError> {
        let requests = self.requests()?;
        let until = self.client.clock().now() + self.within.unwrap_or(self.client.patience());
        let durability = self.durability.unwrap_or(self.client.durability());
        let mut answers = Vec::with_capacity(requests.len());
        if self.atomic && !requests.is_empty() {
            let reads = self.calls.iter().all(Call::is_read);
            let error = |source| if reads { CallError::of_read(WHAT, source) } else { CallError::of(WHAT, source) };
            let mut whole = self.client.batch(vec![Request::together(requests)], until, durability).await;
            let Some(whole) = whole.pop() else {
                return Err(CallError::of(WHAT, ServerError::Unknown { reason: "no result".into() }));
            };
            let parts: Vec<Reply> = whole.result.and_then(Reply::into_typed).map_err(error)?;
            answers.extend(parts.into_iter().map(|part| (part_of(part), whole.durable.clone())));
        } else {
            let all = self.client.batch(requests, until, durability).await;
            answers.extend(all.into_iter().map(|one| (one.result, one.durable)));
        }
        Ok(Results { batch: self.id, calls: self.calls, answers })
    }

    /// The calls as they are sent, if all of them can be.
    fn requests(&self) -> Result<Vec<Request>, CallError> {
        let most = if self.atomic { MOST_AT_ONCE } else { MOST_CALLS };
        let refuse = |option, expected: String, got: usize| CallError::InvalidArgument {
            what: WHAT.into(),
            option,
            expected: expected.into(),
            got: got.to_string(),
        };
        if self.calls.len() > most {
            return Err(refuse("number of calls", format!("{most} at most"), self.calls.len()));
        }
        if self.size > MOST_BYTES {
            return Err(refuse("size", format!("{MOST_BYTES} bytes at most"), self.size));
        }
        if self.atomic {
            one_slot(&self.client, WHAT, self.calls.iter().flat_map(Call::names))?;
        }
        self.calls.iter().map(|call| call.for_primary(&self.client).map(Request::in_order)).collect()
    }
}

/// What a batch is called in errors.
const WHAT: &str = "batch";

/// An answer among those to an EXEC.
fn part_of(reply: Reply) -> Result<Reply, ServerError> {
    match reply {
        Reply::Error(error) => Err(error),
        reply => Ok(reply),
    }
}

/// What became of the calls of a batch.
pub struct Results {
    batch: u64,
    calls: Vec<Call>,
    answers: Vec<(Result<Reply, ServerError>, Result<(), CommitError>)>,
}

impl Results {
    /// The result of one call. It may be asked for again.
    ///
    /// # Errors
    ///
    /// [`CallError`] says what is true of this call; [`CallError::NotDurable`] where it is carried out, and not proven to be as durable as
    /// was asked. [`CallError::InvalidArgument`] for a handle of another batch.
    #[doc(alias = "getResponses")]
    pub fn get<T>(&self, handle: &Handle<T>) -> Result<T, CallError> {
        let (Some((result, durable)), true) = (self.answers.get(handle.at), handle.batch == self.batch) else {
            return Err(CallError::InvalidArgument {
                what: WHAT.into(),
                option: "handle",
                expected: "one of this batch".into(),
                got: "one of another".into(),
            });
        };
        let call = &self.calls[handle.at];
        let reply = result.clone().map_err(|source| call.error(source))?;
        is_durable(call, durable)?;
        (handle.read)(call.label(), reply)
    }

    /// Whether all calls were carried out, as durably as was asked: for who wants to know no more.
    ///
    /// # Errors
    ///
    /// [`CallError`] of the first call for which it is not so.
    #[doc(alias = "skipResult")]
    pub fn check(&self) -> Result<(), CallError> {
        for (call, (result, durable)) in self.calls.iter().zip(&self.answers) {
            if let Err(source) = result {
                return Err(call.error(source.clone()));
            }
            is_durable(call, durable)?;
        }
        Ok(())
    }

    /// How many calls there were.
    pub fn len(&self) -> usize {
        self.answers.len()
    }

    /// Whether there were none.
    pub fn is_empty(&self) -> bool {
        self.answers.is_empty()
    }
}

fn is_durable(call: &Call, durable: &Result<(), CommitError>) -> Result<(), CallError> {
    let not = |source| CallError::NotDurable { what: call.label().to_owned(), source };
    durable.clone().map_err(not)
}

impl fmt::Debug for Batch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Batch").field("calls", &self.calls).field("atomic", &self.atomic).finish_non_exhaustive()
    }
}

impl<T> fmt::Debug for Handle<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Handle").field("at", &self.at).finish_non_exhaustive()
    }
}

impl fmt::Debug for Results {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Results").field("calls", &self.calls).finish_non_exhaustive()
    }
}
