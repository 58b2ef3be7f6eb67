//! Requests that act exactly once, although they are sent again when an answer is lost.
//!
//! What sets a value may be sent twice; what adds may not. Such a script remembers, under a key of the client's own beside
//! the name, the number of the last request and its answer: the same number gets the same answer, a smaller one does
//! nothing. One request of a client about a name is under way at a time, and it is sent until it is answered. Who asked
//! may leave: the request goes on, so that the next one's number is not sent before.
//!
//! The memory lives longer than copies are sent, and each copy refuses itself when it is late, so a copy that comes after
//! the memory is gone does nothing. It is written with what it is about, and so survives a failover exactly when that does.

use std::collections::HashMap;
use std::sync::atomic::AtomicU64;
use std::sync::{Arc, Mutex, Weak};
use std::time::Duration;

use bytes::Bytes;
use tokio::sync::oneshot;

use crate::clock::Instant;
use crate::connection::{Client, Core, FromReply, Progress, Reply, Request, RequestOutcome, RetryPolicy, jittered};
use crate::error::ServerError;
use crate::name::companion;
use crate::script::ScriptText;

/// How long a request is sent again: 30 s, which outlasts a failover.
pub(crate) const RETRY_WINDOW: Duration = Duration::from_secs(30);

/// What a script begins with that acts once.
const PRELUDE: &str = include_str!("dedup.lua");

/// What it begins with where it is sent once.
const PLAIN_PRELUDE: &str = include_str!("plain.lua");

/// A script that acts exactly once however often it is sent. It takes `KEYS` keys, all of one slot; in Lua they begin at
/// `KEYS[2]`, and its arguments at `ARGV[4]`: what is in front of them is the memory of earlier answers. It ends by
/// `return answer({…})`, once everything else is done, and only reads before the first thing that can fail.
///
/// ```
/// use redgrid_core::{Client, IdempotentScript, ServerError};
///
/// static ADD: IdempotentScript<1> = IdempotentScript::new("add", "return answer({redis.call('INCRBY', KEYS[2], ARGV[4])})");
///
/// # async fn demo(client: &Client) -> Result<(), ServerError> {
/// let key = client.key(&"stock".try_into().expect("a valid name"));
/// let [stock]: [i64; 1] = client.run_exactly_once::<Vec<i64>>(ADD.with([key]).int(5)).await?.try_into().expect("one number");
/// # Ok(()) }
/// ```
#[derive(Debug)]
pub struct IdempotentScript<const KEYS: usize>(ScriptTexts);

/// The same text behind either beginning.
#[derive(Debug)]
struct ScriptTexts {
    exactly_once: ScriptText,
    plain: ScriptText,
}

impl<const KEYS: usize> IdempotentScript<KEYS> {
    /// A script by its name (for errors) and the text behind the memory's.
    pub const fn new(name: &'static str, text: &'static str) -> Self {
        IdempotentScript(ScriptTexts {
            exactly_once: ScriptText::with_prelude(PRELUDE, name, text),
            plain: ScriptText::with_prelude(PLAIN_PRELUDE, name, text),
        })
    }

    /// A call of the script with these keys; arguments are added to the result.
    pub fn with(&'static self, keys: [Bytes; KEYS]) -> IdempotentRequest {
        IdempotentRequest { texts: &self.0, request: Request::script(&self.0.exactly_once).keys(keys) }
    }

    /// The text and its hash.
    pub fn body(&self) -> &ScriptText {
        &self.0.exactly_once
    }
}

/// The same with any number of keys, one at least.
#[derive(Debug)]
pub struct IdempotentBulkScript(ScriptTexts);

impl IdempotentBulkScript {
    /// A script by its name (for errors) and the text behind the memory's.
    pub const fn new(name: &'static str, text: &'static str) -> Self {
        IdempotentBulkScript(ScriptTexts {
            exactly_once: ScriptText::with_prelude(PRELUDE, name, text),
            plain: ScriptText::with_prelude(PLAIN_PRELUDE, name, text),
        })
    }

    /// A call of the script with these keys; arguments are added to the result. The memory is beside the first of them.
    pub fn with(&'static self, keys: impl IntoIterator<Item = Bytes>) -> IdempotentRequest {
        IdempotentRequest { texts: &self.0, request: Request::script(&self.0.exactly_once).keys(keys) }
    }

    /// The text and its hash.
    pub fn body(&self) -> &ScriptText {
        &self.0.exactly_once
    }
}

/// A call of a [`IdempotentScript`]: its keys and arguments.
#[derive(Debug, Clone)]
pub struct IdempotentRequest {
    texts: &'static ScriptTexts,
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

    /// Adds the place where the command is written by which a script publishes.
    pub fn publish_here(self) -> Self {
        IdempotentRequest { request: self.request.publish_here(), ..self }
    }

    /// The first of the keys that were given.
    pub(crate) fn first_key(&self) -> &[u8] {
        self.request.first_key()
    }

    /// The request itself, with its memory, its number and how long that is remembered.
    pub(crate) fn with_sequence(self, dedup_key: Bytes, sequence: u64, timeout: Duration) -> Request {
        let lifetime = (RETRY_WINDOW + timeout * 2).as_millis();
        let head = Request::script(&self.texts.exactly_once).key(dedup_key).keys(self.request.keys);
        let mut whole = head.not_after_here().arg(sequence.to_string()).arg(lifetime.to_string()).idempotent();
        whole.args.extend(self.request.args);
        whole
    }
}

impl IdempotentRequest {
    /// The request where it is sent once, and nothing is remembered.
    pub(crate) fn at_most_once(self) -> Request {
        let head = Request::script(&self.texts.plain)
            .key(Bytes::copy_from_slice(self.request.first_key()))
            .keys(self.request.keys);
        let mut whole = head.arg("").arg("").arg("");
        whole.args.extend(self.request.args);
        whole
    }
}

/// The key of a client's memory of a name.
pub(crate) fn dedup_key(core: &Core, key: &[u8], of: &str) -> Bytes {
    let mut dedup_key = companion("redgrid_once", key).to_vec();
    for part in [&*core.id, of].into_iter().filter(|part| !part.is_empty()) {
        dedup_key.push(b':');
        dedup_key.extend_from_slice(part.as_bytes());
    }
    dedup_key.into()
}

/// Sends a request with its number until it is answered for good; tells with the answer which copy it was. Nothing else
/// with the same memory may be under way.
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
            // This copy did nothing. An earlier one may have: only an answer tells.
            (Ok(reply), Some(Reply::Int(0))) if core.clock.now() < until => {
                if let Some(time) = reply.into_iter().nth(1).and_then(|time| time.into_typed().ok()) {
                    outcome.report_time(time);
                }
                progress.not_done();
                core.clock.sleep_until(core.clock.now() + jittered(core.settings.retry_delay)).await;
                continue;
            }
            (Ok(_), Some(Reply::Int(0))) if !retransmitted => {
                Err(ServerError::not_sent("the server found the request too late"))
            }
            (Ok(_), _) => Err(ServerError::unknown("the server does not know any more what became of the request")),
            // Of the last copy this is true; an earlier one may have been carried out.
            (Err(error), _) if retransmitted && error.is_not_done() => {
                Err(ServerError::unknown(format!("an earlier copy may have been carried out; then {error}")))
            }
            (Err(error), _) => Err(error),
        };
        return (answer, outcome);
    }
}

/// The lanes of a client: whose turn it is to ask about a name.
#[derive(Default)]
pub(crate) struct KeyLocks {
    locks: Mutex<HashMap<Bytes, Weak<tokio::sync::Mutex<()>>>>,
    last_sequence: AtomicU64,
}

impl KeyLocks {
    /// The number of the next request, taken once it is its turn.
    pub(crate) fn next_sequence(&self) -> u64 {
        self.last_sequence.fetch_add(1, std::sync::atomic::Ordering::Relaxed) + 1
    }

    fn lock_for(&self, dedup_key: &Bytes) -> Arc<tokio::sync::Mutex<()>> {
        let mut locks = self.locks.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
        if let Some(lock) = locks.get(dedup_key).and_then(Weak::upgrade) {
            return lock;
        }
        // Those that nobody uses any more go when there are twice as many as were kept the last time.
        if locks.len() == locks.capacity() {
            locks.retain(|_, lock| lock.strong_count() > 0);
        }
        let lock = Arc::default();
        locks.insert(dedup_key.clone(), Arc::downgrade(&lock));
        lock
    }
}

impl Client {
    /// Carries out a script that acts once, and reads its answer as `T`: tried again until `response_timeout × (retries + 1)` is over,
    /// after lost replies too.
    ///
    /// # Errors
    ///
    /// [`ServerError`] says whether it may have been carried out. One that is unknown goes on to be sent for 30 s; later
    /// requests of this client about the name come after it.
    ///
    /// # Cancel safety
    ///
    /// A request that has left goes on although nobody waits for it; one that has not is not sent.
    pub async fn run_exactly_once<T: FromReply>(&self, request: IdempotentRequest) -> Result<T, ServerError> {
        let until = self.clock().now() + self.patience();
        self.run_exactly_once_until(request, until).await
    }

    /// The same, waited for until `until`.
    ///
    /// # Errors
    ///
    /// As [`Client::run_exactly_once`].
    ///
    /// # Cancel safety
    ///
    /// As [`Client::run_exactly_once`].
    pub async fn run_exactly_once_until<T: FromReply>(
        &self,
        request: IdempotentRequest,
        until: Instant,
    ) -> Result<T, ServerError> {
        let (answer, outcome) = oneshot::channel();
        let progress = Arc::new(Progress::default());
        if self.table().is_closed() {
            return Err(self.ended());
        }
        self.table().spawn_background(Box::pin(run_serialized(self.clone(), request, Arc::clone(&progress), answer)));
        let pending = PendingGuard(progress);
        tokio::select! {
            biased;
            answer = outcome => match answer {
                Ok(answer) => answer?.into_typed(),
                Err(_) if pending.0.abandon() => Err(self.ended()),
                Err(_) => Err(ServerError::unknown("the client was shut down before an answer came")),
            },
            () = self.clock().sleep_until(until) => {
                // From here on no copy leaves, if none has.
                pending.0.abandon();
                Err(pending.0.at_the_end())
            }
        }
    }

    /// Carries out the same script, sent once: after a lost reply it is not sent again, and nothing is remembered on the server.
    /// It has no `clock`. It is tried until `until`.
    ///
    /// # Errors
    ///
    /// [`ServerError`] says whether it may have been carried out.
    ///
    /// # Cancel safety
    ///
    /// A request that has left is carried out although nobody waits for its reply.
    pub async fn run_at_most_once<T: FromReply>(
        &self,
        request: IdempotentRequest,
        until: Instant,
    ) -> Result<T, ServerError> {
        let mut parts: Vec<Reply> = self.run_until(request.at_most_once(), until).await?;
        parts.pop().unwrap_or(Reply::Nil).into_typed()
    }
}

/// Somebody waits for a request. Dropped, it is given up if it has not left.
struct PendingGuard(Arc<Progress>);

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
    let dedup_key = dedup_key(core, request.request.first_key(), "");
    let lock = client.key_locks().lock_for(&dedup_key);
    let guard = tokio::select! {
        biased;
        guard = lock.lock() => guard,
        () = answer.closed() => return,
    };
    if answer.is_closed() {
        return;
    }
    let request = request.with_sequence(dedup_key, client.key_locks().next_sequence(), core.settings.response_timeout);
    let (outcome, _) = send_until_answered(core, &request, &progress).await;
    drop(guard);
    let _ = answer.send(outcome);
}
