//! Requests that are executed exactly once, although they are sent again when a reply is lost.
//!
//! A request that sets a value can safely be executed twice. A request that adds to a value must be
//! executed only once. So such a request has a number, and its script stores this number and the
//! reply under a deduplication key. Each client has one such key for each name. A later copy of the
//! same request has the same number, and gets the stored reply. A late copy of an earlier request
//! has a smaller number, and does nothing.
//!
//! A client has at most one such request for a name in flight, and sends it until it is answered.
//! The caller polls the request in place. If the caller is dropped or does not poll, a task
//! continues the request. The next request waits until this one has ended.
//!
//! A transmission that arrives after its deadline does nothing. The deduplication key expires only
//! after the deadlines of all transmissions. So once it has expired, late transmissions have no
//! effect. The key is written together with the data, so a failover keeps both or loses both.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use redgrid_client::internal::{Core, Progress, RequestOutcome, RetryPolicy, after_unanswered, append, jittered};
use redgrid_client::{BulkScript, Client, Reply, Request, ScriptText, ServerError};
use tokio::sync::oneshot;

use crate::author::ClientExt;
use crate::clock::Instant;
use crate::name::companion;
use crate::service::ClientParts;
use crate::unpolled::{InPlace, InlineTask};

/// How long a request is retransmitted: 30 s, which is longer than a failover takes.
pub(crate) const RETRY_WINDOW: Duration = Duration::from_secs(30);

/// The beginning of a script that is executed exactly once.
const PRELUDE: &str = include_str!("dedup.lua");

/// The beginning of the same script if it is sent at most once.
const PLAIN_PRELUDE: &str = include_str!("plain.lua");

/// A script that is executed exactly once, however often it is sent.
///
/// The script takes `KEYS` keys, all of one slot. In Lua its keys begin at `KEYS[2]`, and its
/// arguments at `ARGV[4]`: deduplication uses the keys and arguments before them. The script must
/// end with `return answer({…})`, after everything else is done. Once the script has written
/// something, every later operation must succeed.
///
/// ```
/// use redgrid_core::author::ClientExt;
/// use redgrid_core::{Client, IdempotentScript, ServerError};
///
/// static ADD: IdempotentScript<1> =
///     IdempotentScript::new("add", "return answer({redis.call('INCRBY', KEYS[2], ARGV[4])})");
///
/// # async fn demo(client: &Client) -> Result<(), ServerError> {
/// let key = client.key(&"stock".try_into().expect("a valid name"));
/// let stock = client.run_exactly_once::<Vec<i64>>(ADD.with([key]).int(5)).await?;
/// let [stock]: [i64; 1] = stock.try_into().expect("one number");
/// # Ok(()) }
/// ```
#[derive(Debug)]
pub struct IdempotentScript<const KEYS: usize>(IdempotentBulkScript);

impl<const KEYS: usize> IdempotentScript<KEYS> {
    /// Creates a script from its name (for errors) and its text; the deduplication is added.
    pub const fn new(name: &'static str, text: &'static str) -> Self {
        IdempotentScript(IdempotentBulkScript::new(name, text))
    }

    /// Creates a script that begins with a fast path, before the deduplication.
    ///
    /// In many cases, the fast path executes the request with fewer commands. Then it checks the
    /// deadline, stores the number and the reply, and returns the reply, all as described in the
    /// head of `dedup.lua`. In all other cases, in particular for a copy of an executed request, it
    /// changes nothing, and the rest of the script is executed.
    pub const fn with_fast_path(name: &'static str, fast_path: &'static str, text: &'static str) -> Self {
        IdempotentScript(IdempotentBulkScript::with_fast_path(fast_path, name, text))
    }

    /// Returns a call of the script with these keys. The caller then adds the arguments.
    pub fn with(&'static self, keys: [Bytes; KEYS]) -> IdempotentRequest {
        self.0.with(keys)
    }

    /// Returns the text of the exactly-once script, and its hash.
    pub fn body(&self) -> &ScriptText {
        self.0.exactly_once.body()
    }
}

/// An [`IdempotentScript`] with any number of keys, at least one.
#[derive(Debug)]
pub struct IdempotentBulkScript {
    /// The script with its fast path and [`PRELUDE`] before it.
    exactly_once: BulkScript,
    /// The script with [`PLAIN_PRELUDE`] before it.
    plain: BulkScript,
}

impl IdempotentBulkScript {
    /// Creates a script from its name (for errors) and its text; the deduplication is added.
    pub const fn new(name: &'static str, text: &'static str) -> Self {
        IdempotentBulkScript::with_fast_path("", name, text)
    }

    const fn with_fast_path(fast_path: &'static str, name: &'static str, text: &'static str) -> Self {
        IdempotentBulkScript {
            exactly_once: BulkScript::with_preludes([fast_path, PRELUDE], name, text),
            plain: BulkScript::with_preludes([PLAIN_PRELUDE, ""], name, text),
        }
    }

    /// Returns a call of the script with these keys. The caller then adds the arguments.
    ///
    /// The deduplication key is derived from the first one of `keys`.
    pub fn with(&'static self, keys: impl IntoIterator<Item = Bytes>) -> IdempotentRequest {
        IdempotentRequest { script: self, request: self.exactly_once.with(keys) }
    }
}

/// A call of an [`IdempotentScript`]: its keys and arguments.
#[derive(Debug, Clone)]
pub struct IdempotentRequest {
    script: &'static IdempotentBulkScript,
    request: Request,
}

impl IdempotentRequest {
    /// Adds an argument.
    pub fn arg(self, arg: impl Into<Bytes>) -> Self {
        IdempotentRequest { request: self.request.arg(arg), ..self }
    }

    /// Adds a whole number as an argument, in decimal text.
    pub fn int(self, n: i64) -> Self {
        IdempotentRequest { request: self.request.int(n), ..self }
    }

    /// Adds a placeholder for the command with which the script publishes.
    pub fn publish_arg(self) -> Self {
        IdempotentRequest { request: self.request.publish_arg(), ..self }
    }

    /// Returns the first of the script's own keys.
    pub(crate) fn first_key(&self) -> &[u8] {
        self.request.all_keys().first().map_or(&[], |key| key)
    }

    /// Returns the complete request, with its number, its deduplication key, and the lifetime of
    /// that key.
    pub(crate) fn with_sequence(self, dedup_key: Bytes, sequence: u64, timeout: Duration) -> Request {
        let lifetime = (RETRY_WINDOW + timeout * 2).as_millis();
        let head = self.script.exactly_once.with([dedup_key]).deadline_arg();
        append(head.arg(sequence.to_string()).arg(lifetime.to_string()).idempotent(), self.request)
    }

    /// Returns the request for a script that is sent once, and stores nothing for deduplication.
    pub(crate) fn at_most_once(self) -> Request {
        let head = self.script.plain.with([Bytes::copy_from_slice(self.first_key())]);
        append(head.arg("").arg("").arg(""), self.request)
    }
}

/// Returns the deduplication key of a client for a name.
pub(crate) fn dedup_key(core: &Core, key: &[u8], of: &str) -> Bytes {
    let mut dedup_key = companion("redgrid_once", key).to_vec();
    for part in [&*core.id, of].into_iter().filter(|part| !part.is_empty()) {
        dedup_key.push(b':');
        dedup_key.extend_from_slice(part.as_bytes());
    }
    dedup_key.into()
}

/// Sends a numbered request until it has a final answer. Also returns the outcome of the last call
/// of `Core::exchange`.
///
/// The caller must ensure that no other request with the same deduplication key is in flight.
pub(crate) async fn send_until_answered(
    core: &Core,
    request: &Request,
    progress: &Progress,
) -> (Result<Reply, ServerError>, RequestOutcome) {
    let started = core.clock.now();
    let (until, mut retransmitted) = (started + RETRY_WINDOW, false);
    loop {
        let outcome = core.exchange(request.clone(), until, RetryPolicy::Once, progress).await;
        retransmitted |= outcome.retransmission_ends.is_some();
        if retransmitted {
            progress.unanswered();
        }
        let reply = outcome.result.clone().and_then(Reply::into_typed::<Vec<Reply>>);
        let status = reply.as_ref().ok().and_then(|reply| reply.first().cloned());
        let answer = match (reply, status) {
            (Ok(mut reply), Some(Reply::Int(1))) if reply.len() == 2 => Ok(reply.swap_remove(1)),
            // This transmission arrived late and did nothing. Only the reply to the next
            // transmission shows whether an earlier one was executed.
            (Ok(reply), Some(Reply::Int(0))) if core.clock.now() < until => {
                if let Some(time) = reply.into_iter().nth(1).and_then(|time| time.into_typed().ok()) {
                    outcome.report_time(time);
                }
                progress.not_done();
                core.clock.sleep_until(core.clock.now() + jittered(core.settings.retry_delay)).await;
                continue;
            }
            (Ok(_), Some(Reply::Int(0))) if !retransmitted => {
                Err(ServerError::not_sent("the request reached the server too late"))
            }
            (Ok(_), _) => Err(ServerError::unknown("the server no longer stores the outcome of the request")),
            (Err(error), _) if retransmitted => Err(after_unanswered(error)),
            (Err(error), _) => Err(error),
        };
        return (answer, outcome);
    }
}

/// Admits one request at a time for a deduplication key of a client.
#[derive(Default)]
struct KeyLock(tokio::sync::Mutex<()>);

/// Runs a script exactly once; see [`ClientExt::run_exactly_once_until`].
pub(crate) async fn run(client: &Client, request: IdempotentRequest, until: Instant) -> Result<Reply, ServerError> {
    if client.core().life.is_closed() {
        return Err(client.ended());
    }
    let (answer, receiver) = oneshot::channel();
    let progress = Arc::new(Progress::default());
    let work = Box::pin(run_serialized(client.clone(), request, Arc::clone(&progress), answer));
    // Later requests for the same name wait for this one.
    let task = Some(InlineTask::observed(&client.holdings().unpolled, work));
    let mut outcome = InPlace { client: client.clone(), receiver, task };
    // It is dropped first. So a request that was not sent is abandoned before a task continues it.
    let pending = PendingGuard(progress);
    tokio::select! {
        biased;
        answer = &mut outcome => match answer {
            Some(answer) => answer,
            None if pending.0.abandon() => Err(client.ended()),
            None => Err(ServerError::unknown("the client was shut down before an answer came")),
        },
        () = client.clock().sleep_until(until) => {
            // If the request was not sent yet, `abandon` ensures that it is never sent.
            pending.0.abandon();
            Err(pending.0.at_the_end())
        }
    }
}

/// Runs a script at most once; see [`ClientExt::run_at_most_once`].
pub(crate) async fn run_at_most_once(
    client: &Client,
    request: IdempotentRequest,
    until: Instant,
) -> Result<Reply, ServerError> {
    let mut parts: Vec<Reply> = client.run_until(request.at_most_once(), until).await?;
    Ok(parts.pop().unwrap_or(Reply::Nil))
}

/// Guards the wait for a request. If the guard is dropped before the request was sent, the request
/// is abandoned.
pub(crate) struct PendingGuard(pub(crate) Arc<Progress>);

impl Drop for PendingGuard {
    fn drop(&mut self) {
        self.0.abandon();
    }
}

async fn run_serialized(
    client: Client,
    request: IdempotentRequest,
    progress: Arc<Progress>,
    mut answer: oneshot::Sender<Result<Reply, ServerError>>,
) {
    let core = client.core();
    let dedup_key = dedup_key(core, request.first_key(), "");
    let lock = client.shared(&dedup_key, KeyLock::default);
    let guard = tokio::select! {
        biased;
        guard = lock.0.lock() => guard,
        () = answer.closed() => return,
    };
    if answer.is_closed() {
        return;
    }
    let request = request.with_sequence(dedup_key, client.table().number(), core.settings.response_timeout);
    let (outcome, _) = send_until_answered(core, &request, &progress).await;
    drop(guard);
    let _ = answer.send(outcome);
}
