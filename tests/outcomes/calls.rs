//! The columns of the table: calls of each object, and the kind of their error.

use std::fmt::Debug;
use std::future::Future;
use std::pin::Pin;
use std::time::Duration;

use redgrid_atomic_long::AtomicLong;
use redgrid_barrier::{Barrier, Event};
use redgrid_bucket::Bucket;
use redgrid_core::Client;
use redgrid_countdown_latch::CountDownLatch;
use redgrid_id_generator::IdGenerator;
use redgrid_list::List;
use redgrid_locks::{FairLock, Lock, MultiLock, RwLock};
use redgrid_map::Map;
use redgrid_permit_expirable_semaphore::PermitExpirableSemaphore;
use redgrid_queue::Queue;
use redgrid_rate_limiter::RateLimiter;
use redgrid_reliable_queue::ReliableQueue;
use redgrid_semaphore::Semaphore;
use redgrid_set::Set;
use redgrid_stream::Stream;
use redgrid_topic::Topic;

/// How a call ended: `Ok`, or the kind of its error, and the whole text of the error.
#[derive(Debug)]
pub(crate) struct Outcome {
    pub(crate) kind: String,
    pub(crate) text: String,
}

impl Outcome {
    pub(crate) fn is(&self, kinds: &[&str]) -> bool {
        kinds.contains(&&*self.kind)
    }
}

/// The kind of an error is the name of its variant. A variant that wraps another error has the kind
/// of that error.
fn outcome<T, E: std::error::Error>(ended: Result<T, E>) -> Outcome {
    match ended {
        Ok(_) => Outcome { kind: "Ok".into(), text: String::new() },
        Err(error) => Outcome { kind: kind(&error), text: error.to_string() },
    }
}

pub(crate) fn kind(error: &impl Debug) -> String {
    let text = format!("{error:?}");
    let mut names = text.split(['(', ' ', '{', ')']).filter(|name| !["Failed", "Object"].contains(name));
    names.next().unwrap_or_default().to_owned()
}

pub(crate) type Call = Pin<Box<dyn Future<Output = Outcome> + Send>>;

/// A call with its name.
pub(crate) type Named = (&'static str, fn(&Client) -> Call);

macro_rules! call {
    (|$client:ident| $call:expr) => {
        |$client: &Client| {
            let $client = $client.clone();
            Box::pin(async move { outcome($call.await) })
        }
    };
}

/// A timeout longer than a test waits for an early error.
pub(crate) const LONG: Duration = Duration::from_secs(600);

/// A timeout longer than the response timeout of these tests.
pub(crate) const BOUND: Duration = Duration::from_secs(2);

fn semaphore(client: &Client) -> Semaphore {
    Semaphore::new(client, "semaphore", 1)
}

fn map(client: &Client) -> Map<String, u32> {
    Map::new(client, "map")
}

fn queue(client: &Client) -> Queue<u32> {
    Queue::new(client, "queue")
}

fn messages(client: &Client) -> ReliableQueue<u32> {
    ReliableQueue::new(client, "messages")
}

/// Calls that wait, because the object is taken or does not exist.
pub(crate) const WAITING: [Named; 16] = [
    ("lock", call!(|client| Lock::new(&client, "lock").acquire())),
    ("lock with a bound", call!(|client| Lock::new(&client, "lock").acquire().timeout(BOUND))),
    ("fair lock", call!(|client| FairLock::new(&client, "fair").acquire())),
    ("fair lock with a bound", call!(|client| FairLock::new(&client, "fair").acquire().timeout(BOUND))),
    ("semaphore", call!(|client| semaphore(&client).acquire())),
    ("semaphore with a bound", call!(|client| semaphore(&client).acquire().timeout(BOUND))),
    ("latch", call!(|client| CountDownLatch::new(&client, "latch").wait())),
    ("latch with a bound", call!(|client| CountDownLatch::new(&client, "latch").wait().timeout(BOUND))),
    ("queue", call!(|client| queue(&client).take())),
    ("queue with a bound", call!(|client| queue(&client).take_within(BOUND))),
    ("barrier", call!(|client| Barrier::new(&client, "barrier", 2).wait())),
    ("barrier with a bound", call!(|client| Barrier::new(&client, "bounded barrier", 2).wait().timeout(BOUND))),
    ("event", call!(|client| Event::new(&client, "event").wait())),
    ("event with a bound", call!(|client| Event::new(&client, "event").wait().timeout(BOUND))),
    ("reliable queue", call!(|client| messages(&client).receive())),
    ("reliable queue with a bound", call!(|client| messages(&client).receive().timeout(BOUND))),
];

/// Calls that do not wait for others, or are granted at once.
pub(crate) const AT_ONCE: [Named; 17] = [
    ("acquire", call!(|client| Lock::new(&client, "free").acquire())),
    ("acquire with a bound", call!(|client| Lock::new(&client, "free").acquire().timeout(LONG))),
    ("try", call!(|client| Lock::new(&client, "free").try_acquire())),
    ("is locked", call!(|client| Lock::new(&client, "free").is_locked())),
    ("several locks", call!(|client| MultiLock::new(&client, ["a", "b"]).acquire())),
    ("read lock", call!(|client| RwLock::new(&client, "rw").read())),
    ("permit", call!(|client| Semaphore::new(&client, "permits", 2).acquire())),
    ("permit with a bound", call!(|client| Semaphore::new(&client, "permits", 2).acquire().timeout(LONG))),
    ("permits left", call!(|client| Semaphore::new(&client, "permits", 2).available_permits())),
    ("latch", call!(|client| CountDownLatch::new(&client, "latch").wait())),
    ("latch with a bound", call!(|client| CountDownLatch::new(&client, "latch").wait().timeout(LONG))),
    ("count down", call!(|client| CountDownLatch::new(&client, "latch").count_down())),
    ("read a map", call!(|client| map(&client).get("key"))),
    ("write a map", call!(|client| map(&client).set("key", &1))),
    ("push", call!(|client| queue(&client).push(&1))),
    ("take", call!(|client| queue(&client).take())),
    ("take with a bound", call!(|client| queue(&client).take_within(LONG))),
];

/// Calls of objects with errors of their own, besides those of the table.
pub(crate) const OTHERS: [Named; 13] = [
    ("number", call!(|client| AtomicLong::new(&client, "number").increment())),
    ("bucket", call!(|client| Bucket::<u32>::new(&client, "bucket").set(&1))),
    ("list", call!(|client| List::<i64>::new(&client, "list").read_all())),
    ("set", call!(|client| Set::<u32>::new(&client, "set").contains(&1))),
    ("limiter", call!(|client| RateLimiter::new(&client, "limiter").rate())),
    ("limiter's permit", call!(|client| RateLimiter::new(&client, "limiter").acquire())),
    ("topic", call!(|client| Topic::<String>::new(&client, "topic").publish("text"))),
    ("subscription", call!(|client| Topic::<String>::new(&client, "topic").subscribe())),
    ("ids", call!(|client| IdGenerator::new(&client, "ids").next())),
    ("barrier", call!(|client| Barrier::new(&client, "barrier", 2).wait())),
    ("stream", call!(|client| Stream::<String, u32>::new(&client, "stream").len())),
    ("reliable queue", call!(|client| ReliableQueue::<u8>::new(&client, "reliable").push(&1))),
    ("permit with an id", call!(|client| PermitExpirableSemaphore::new(&client, "leased").available_permits())),
];
