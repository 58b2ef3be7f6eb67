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
use crate::script::Body;

/// How long a request is sent again: 30 s, which outlasts a failover.
pub(crate) const CHASED_FOR: Duration = Duration::from_secs(30);

/// What a script begins with that acts once.
const PRELUDE: &str = include_str!("once.lua");

/// What it begins with where it is sent once.
const PLAIN: &str = include_str!("plain.lua");

/// A script that acts exactly once however often it is sent. It takes `KEYS` keys, all of one slot; in Lua they begin at
/// `KEYS[2]`, and its arguments at `ARGV[4]`: what is in front of them is the memory of earlier answers. It ends by
/// `return answer({…})`, once everything else is done, and only reads before the first thing that can fail.
///
/// ```
/// use redgrid_core::{Client, OnceScript, ServerError};
///
/// static ADD: OnceScript<1> = OnceScript::new("add", "return answer({redis.call('INCRBY', KEYS[2], ARGV[4])})");
///
/// # async fn demo(client: &Client) -> Result<(), ServerError> {
/// let key = client.key(&"stock".try_into().expect("a valid name"));
/// let [stock]: [i64; 1] = client.run_once::<Vec<i64>>(ADD.with([key]).int(5)).await?.try_into().expect("one number");
/// # Ok(()) }
/// ```
#[derive(Debug)]
pub struct OnceScript<const KEYS: usize>(Bodies);

/// The same text behind either beginning.
#[derive(Debug)]
struct Bodies {
    once: Body,
    plain: Body,
}

impl<const KEYS: usize> OnceScript<KEYS> {
    /// A script by its name (for errors) and the text behind the memory's.
    pub const fn new(name: &'static str, text: &'static str) -> Self {
        OnceScript(Bodies { once: Body::behind(PRELUDE, name, text), plain: Body::behind(PLAIN, name, text) })
    }

    /// A call of the script with these keys; arguments are added to the result.
    pub fn with(&'static self, keys: [Bytes; KEYS]) -> OnceRequest {
        OnceRequest { bodies: &self.0, request: Request::script(&self.0.once).keys(keys) }
    }

    /// The text and its hash.
    pub fn body(&self) -> &Body {
        &self.0.once
    }
}

/// The same with any number of keys, one at least.
#[derive(Debug)]
pub struct OnceBulkScript(Bodies);

impl OnceBulkScript {
    /// A script by its name (for errors) and the text behind the memory's.
    pub const fn new(name: &'static str, text: &'static str) -> Self {
        OnceBulkScript(Bodies { once: Body::behind(PRELUDE, name, text), plain: Body::behind(PLAIN, name, text) })
    }

    /// A call of the script with these keys; arguments are added to the result. The memory is beside the first of them.
    pub fn with(&'static self, keys: impl IntoIterator<Item = Bytes>) -> OnceRequest {
        OnceRequest { bodies: &self.0, request: Request::script(&self.0.once).keys(keys) }
    }

    /// The text and its hash.
    pub fn body(&self) -> &Body {
        &self.0.once
    }
}

/// A call of a [`OnceScript`]: its keys and arguments.
#[derive(Debug, Clone)]
pub struct OnceRequest {
    bodies: &'static Bodies,
    request: Request,
}

impl OnceRequest {
    /// Adds an argument.
    pub fn arg(self, arg: impl Into<Bytes>) -> Self {
        OnceRequest { request: self.request.arg(arg), ..self }
    }

    /// Adds a whole number as an argument, in decimal text.
    pub fn int(self, n: i64) -> Self {
        OnceRequest { request: self.request.int(n), ..self }
    }

    /// Adds the place where the command is written by which a script publishes.
    pub fn publish_here(self) -> Self {
        OnceRequest { request: self.request.publish_here(), ..self }
    }

    /// The first of the keys that were given.
    pub(crate) fn first_key(&self) -> &[u8] {
        self.request.first_key()
    }

    /// The request itself, with its memory, its number and how long that is remembered.
    pub(crate) fn numbered(self, memory: Bytes, number: u64, timeout: Duration) -> Request {
        let lifetime = (CHASED_FOR + timeout * 2).as_millis();
        let head = Request::script(&self.bodies.once).key(memory).keys(self.request.keys);
        let mut whole = head.not_after_here().arg(number.to_string()).arg(lifetime.to_string()).idempotent();
        whole.args.extend(self.request.args);
        whole
    }
}

impl OnceRequest {
    /// The request where it is sent once, and nothing is remembered.
    pub(crate) fn plain(self) -> Request {
        let head = Request::script(&self.bodies.plain)
            .key(Bytes::copy_from_slice(self.request.first_key()))
            .keys(self.request.keys);
        let mut whole = head.arg("").arg("").arg("");
        whole.args.extend(self.request.args);
        whole
    }
}

/// The key of a client's memory of a name.
pub(crate) fn memory(core: &Core, key: &[u8], of: &str) -> Bytes {
    let mut memory = companion("redgrid_once", key).to_vec();
    for part in [&*core.id, of].into_iter().filter(|part| !part.is_empty()) {
        memory.push(b':');
        memory.extend_from_slice(part.as_bytes());
    }
    memory.into()
}

/// Sends a request with its number until it is answered for good; tells with the answer which copy it was. Nothing else
/// with the same memory may be under way.
pub(crate) async fn chase(
    core: &Core,
    request: &Request,
    progress: &Progress,
) -> (Result<Reply, ServerError>, RequestOutcome) {
    let began = core.clock.now();
    let (until, mut repeated) = (began + CHASED_FOR, false);
    loop {
        let asked = core.exchange(request.clone(), until, RetryPolicy::Once, progress).await;
        repeated |= asked.retransmission_ends.is_some();
        if repeated {
            progress.unanswered();
        }
        let reply = asked.result.clone().and_then(Reply::into_typed::<Vec<Reply>>);
        let status = reply.as_ref().ok().and_then(|reply| reply.first().cloned());
        let answer = match (reply, status) {
            (Ok(mut reply), Some(Reply::Int(1))) if reply.len() == 2 => Ok(reply.swap_remove(1)),
            // This copy did nothing. An earlier one may have: only an answer tells.
            (Ok(reply), Some(Reply::Int(0))) if core.clock.now() < until => {
                if let Some(time) = reply.into_iter().nth(1).and_then(|time| time.into_typed().ok()) {
                    asked.report_time(time);
                }
                progress.not_done();
                core.clock.sleep_until(core.clock.now() + jittered(core.settings.retry_delay)).await;
                continue;
            }
            (Ok(_), Some(Reply::Int(0))) if !repeated => {
                Err(ServerError::not_sent("the server found the request too late"))
            }
            (Ok(_), _) => Err(ServerError::unknown("the server does not know any more what became of the request")),
            // Of the last copy this is true; an earlier one may have been carried out.
            (Err(error), _) if repeated && error.is_not_done() => {
                Err(ServerError::unknown(format!("an earlier copy may have been carried out; then {error}")))
            }
            (Err(error), _) => Err(error),
        };
        return (answer, asked);
    }
}

/// The lanes of a client: whose turn it is to ask about a name.
#[derive(Default)]
pub(crate) struct Lanes {
    lanes: Mutex<HashMap<Bytes, Weak<tokio::sync::Mutex<()>>>>,
    next: AtomicU64,
}

impl Lanes {
    /// The number of the next request, taken once it is its turn.
    pub(crate) fn number(&self) -> u64 {
        self.next.fetch_add(1, std::sync::atomic::Ordering::Relaxed) + 1
    }

    fn lane(&self, memory: &Bytes) -> Arc<tokio::sync::Mutex<()>> {
        let mut lanes = self.lanes.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
        if let Some(lane) = lanes.get(memory).and_then(Weak::upgrade) {
            return lane;
        }
        // Those that nobody uses any more go when there are twice as many as were kept the last time.
        if lanes.len() == lanes.capacity() {
            lanes.retain(|_, lane| lane.strong_count() > 0);
        }
        let lane = Arc::default();
        lanes.insert(memory.clone(), Arc::downgrade(&lane));
        lane
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
    pub async fn run_once<T: FromReply>(&self, request: OnceRequest) -> Result<T, ServerError> {
        let until = self.clock().now() + self.patience();
        self.run_once_until(request, until).await
    }

    /// The same, waited for until `until`.
    ///
    /// # Errors
    ///
    /// As [`Client::run_once`].
    ///
    /// # Cancel safety
    ///
    /// As [`Client::run_once`].
    pub async fn run_once_until<T: FromReply>(&self, request: OnceRequest, until: Instant) -> Result<T, ServerError> {
        let (answer, outcome) = oneshot::channel();
        let progress = Arc::new(Progress::default());
        if self.table().is_closed() {
            return Err(self.ended());
        }
        self.table().spawn_background(Box::pin(in_turn(self.clone(), request, Arc::clone(&progress), answer)));
        let asked = Asked(progress);
        tokio::select! {
            biased;
            answer = outcome => match answer {
                Ok(answer) => answer?.into_typed(),
                Err(_) if asked.0.abandon() => Err(self.ended()),
                Err(_) => Err(ServerError::unknown("the client was shut down before an answer came")),
            },
            () = self.clock().sleep_until(until) => {
                // From here on no copy leaves, if none has.
                asked.0.abandon();
                Err(asked.0.at_the_end())
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
    pub async fn run_unremembered<T: FromReply>(&self, request: OnceRequest, until: Instant) -> Result<T, ServerError> {
        let mut parts: Vec<Reply> = self.run_until(request.plain(), until).await?;
        parts.pop().unwrap_or(Reply::Nil).into_typed()
    }
}

/// Somebody waits for a request. Dropped, it is given up if it has not left.
struct Asked(Arc<Progress>);

impl Drop for Asked {
    fn drop(&mut self) {
        self.0.abandon();
    }
}

async fn in_turn(
    client: Client,
    request: OnceRequest,
    progress: Arc<Progress>,
    mut answer: oneshot::Sender<Result<Reply, ServerError>>,
) {
    let core = client.core();
    let memory = memory(core, request.request.first_key(), "");
    let lane = client.lanes().lane(&memory);
    let turn = tokio::select! {
        biased;
        turn = lane.lock() => turn,
        () = answer.closed() => return,
    };
    if answer.is_closed() {
        return;
    }
    let request = request.numbered(memory, client.lanes().number(), core.settings.response_timeout);
    let (outcome, _) = chase(core, &request, &progress).await;
    drop(turn);
    let _ = answer.send(outcome);
}
