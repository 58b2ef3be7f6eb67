//! Compares the simulated server with a real one: the same calls, replies, keys and messages.

use bytes::Bytes;
use redgrid_core::author::ClientExt;
use redgrid_core::{BulkScript, Client, Reply, Request, ServerError};
use redgrid_testkit::wait_until;
use redgrid_tests::simulated_network::{Call, Store, scripts};
use redgrid_tests::{SOON, client, server};

macro_rules! script {
    ($label:literal, $path:literal) => {
        BulkScript::new($label, include_str!(concat!("../../crates/", $path, ".lua")))
    };
}

static ACQUIRE: BulkScript = script!("lock/acquire", "redgrid-locks/src/scripts/acquire");
static TAKE_OVER: BulkScript = script!("lock/takeover", "redgrid-locks/src/scripts/takeover");
static RELEASE: BulkScript = script!("lock/release", "redgrid-locks/src/scripts/release");
static RELEASE_YIELDING: BulkScript = script!("lock/release-yielding", "redgrid-locks/src/scripts/release_yielding");
static MARK: BulkScript = script!("pubsub/set-waiting", "redgrid-client/src/pubsub/set_waiting");
static RETAIN: BulkScript = script!("lock/retain", "redgrid-locks/src/scripts/retain");
static EXTEND: BulkScript = script!("lock/extend", "redgrid-locks/src/scripts/extend");
static RENEW: BulkScript = script!("lock/renew", "redgrid-locks/src/scripts/renew");
static RELEASE_MANY: BulkScript = script!("lock/release-many", "redgrid-locks/src/scripts/release_many");
static INSPECT: BulkScript = script!("lock/inspect", "redgrid-locks/src/scripts/inspect");
static PEEK: BulkScript = script!("pubsub/ttl", "redgrid-client/src/pubsub/ttl");

const NAMES: [&str; 3] = ["a", "b", "c{d}"];
/// Holder ids: two of one client, one of another client, and two that do not have the form of this
/// library's ids.
const FIELDS: [&str; 5] = [
    "0a1b2c3d-0001-4002-8003-0123456789ab:1",
    "0a1b2c3d-0001-4002-8003-0123456789ab:22",
    "ffffffff-0001-4002-8003-0123456789AB:3",
    "stranger",
    "not-a-hex-id-here:4",
];
const MARKS: [&str; 2] = ["redgrid_wait:{a}", "redgrid_wait:{c{d}"];
const CHANNELS: [&str; 5] = [
    "redisson_lock__channel:{a}",
    "redisson_lock__channel:{b}",
    "redgrid_client:{0a1b2c3d-0001-4002-8003-0123456789ab}",
    "redgrid_client:{ffffffff-0001-4002-8003-0123456789AB}",
    // A channel without a subscriber, for the holder id that only resembles one of this library.
    "redgrid_client:{not-a-hex-id-here}",
];

/// The largest accepted difference between two lifetimes, in milliseconds: the two servers' clocks
/// are read at different times.
const NEAR: i64 = 1500;

/// Whether this element of a reply is a lifetime.
fn is_lifetime(call: &str, at: usize, real: &[Reply]) -> bool {
    match call {
        "lock/acquire" | "lock/takeover" => at == 2 && real[0] == Reply::Int(0),
        "pubsub/ttl" => true,
        "lock/inspect" => at == 0,
        _ => false,
    }
}

fn is_time(call: &str, at: usize) -> bool {
    matches!(call, "lock/acquire" | "lock/takeover" | "lock/extend") && at == 1
}

fn agree(call: &Call, real: &Result<Reply, ServerError>, simulated: &Result<Reply, ServerError>) -> bool {
    let close = |one: &Reply, two: &Reply| {
        let number = |reply: &Reply| reply.clone().into_typed::<i64>().unwrap_or(i64::MIN);
        let (one, two) = (number(one), number(two));
        // -1 and -2 are codes and not lifetimes.
        one == two || (one >= 0 && two >= 0 && (one - two).abs() <= NEAR)
    };
    match (real, simulated) {
        (Ok(Reply::Array(real)), Ok(Reply::Array(simulated))) => {
            real.len() == simulated.len()
                && real.iter().zip(simulated).enumerate().all(|(at, (one, two))| {
                    one == two || is_time(&call.name, at) || (is_lifetime(&call.name, at, real) && close(one, two))
                })
        }
        // The times of two grants differ.
        (Ok(Reply::Int(real)), Ok(Reply::Int(simulated))) if call.name == "lock/acquire" => *real > 0 && *simulated > 0,
        (real, simulated) => real == simulated,
    }
}

fn any<'a>(random: &mut fastrand::Rng, of: &[&'a str]) -> &'a str {
    of[random.usize(..of.len())]
}

/// Returns a random call. The time limit of some calls has passed, as for a request that arrives
/// late. Leases are multiples of 100 s, so small differences of the clocks never change which of
/// two leases ends first.
fn call(random: &mut fastrand::Rng, time: u64) -> Request {
    let key = |random: &mut fastrand::Rng| Bytes::from(any(random, &NAMES));
    let keys = |random: &mut fastrand::Rng| {
        let first = random.usize(..NAMES.len());
        (0..random.usize(1..=NAMES.len())).map(move |n| NAMES[(first + n) % NAMES.len()].into()).collect::<Vec<Bytes>>()
    };
    let lease = |random: &mut fastrand::Rng| random.i64(1..20) * 100_000;
    let hour = 3_600_000_000;
    let limit = if random.u8(..8) == 0 { time - hour } else { time + hour };
    let one = key(random);
    match random.u8(..16) {
        0..=4 => ACQUIRE.with([one]).arg(any(random, &FIELDS)).int(lease(random)).arg(limit.to_string()),
        5 => {
            let take_over = TAKE_OVER.with([one]).arg(any(random, &FIELDS)).int(lease(random)).arg(limit.to_string());
            let take_over = take_over.int(random.i64(0..=1)).arg("redgrid_client:{");
            if random.bool() { take_over.arg(any(random, &FIELDS)) } else { take_over }
        }
        6..=8 => RELEASE.with([one]).arg(any(random, &FIELDS)).arg(any(random, &CHANNELS)),
        // The second key is the flag of a waiter without a subscription. It exists if an earlier
        // call has set it.
        9 if random.bool() => {
            let release_yielding = RELEASE_YIELDING.with([one, any(random, &MARKS).into()]).arg(any(random, &FIELDS));
            release_yielding.arg("PUBLISH").arg(any(random, &CHANNELS))
        }
        9 => {
            let retain = RETAIN.with([one]).arg(any(random, &FIELDS)).int(lease(random));
            retain.arg("PUBLISH").arg(any(random, &CHANNELS))
        }
        10 => EXTEND.with([one]).arg(any(random, &FIELDS)).int(lease(random)).arg(limit.to_string()),
        11..=12 => {
            let keys = keys(random);
            let holders = keys.len();
            (0..holders).fold(RENEW.with(keys), |request, _| {
                let lease = if random.u8(..3) == 0 { 0 } else { lease(random) };
                request.arg(any(random, &FIELDS)).int(lease)
            })
        }
        13 => {
            let keys = keys(random);
            let holders = keys.len();
            (0..holders).fold(RELEASE_MANY.with(keys).arg("PUBLISH"), |request, _| {
                request.arg(any(random, &FIELDS)).arg(any(random, &CHANNELS))
            })
        }
        14 if random.bool() => MARK.with([any(random, &MARKS).into()]).int(60_000),
        14 => INSPECT.with([one]).int(1000),
        _ => PEEK.with(keys(random)),
    }
}

/// A real and a simulated server.
struct Both {
    client: Client,
    observer: redgrid_testkit::Observer,
    store: Store,
    /// Number of messages of the simulated server on each channel.
    messages: [u64; CHANNELS.len()],
}

impl Both {
    async fn time(&mut self) -> u64 {
        let time = self.observer.server_time_micros().await.unwrap();
        self.store.set_time(time);
        time
    }

    async fn compare(&mut self, request: Request) {
        self.time().await;
        let call = Call::of(&request, &Bytes::new());
        let real = self.client.run::<Reply>(request).await;
        let simulated = scripts::run(&mut self.store, &call);
        assert!(agree(&call, &real, &simulated), "{call:?}\nreal:      {real:?}\nsimulated: {simulated:?}");
        for message in self.store.take_published() {
            if let Some(at) = CHANNELS.iter().position(|channel| message.channel == channel.as_bytes()) {
                self.messages[at] += 1;
            }
        }
    }

    /// Lets a key expire on both servers; returns `false` if there is none.
    async fn expire_one(&mut self) -> bool {
        let time = self.time().await;
        let locks = self.store.keys().into_iter().filter(|(_, fields)| !fields.is_empty());
        let Some((key, fields)) = locks.last() else { return false };
        let limit = (time + 3_600_000_000).to_string();
        self.compare(EXTEND.with([key.clone()]).arg(fields[0].clone()).int(1).arg(limit)).await;
        let name = String::from_utf8(key.to_vec()).unwrap();
        wait_until(SOON, async || !self.observer.exists(&name).await.unwrap()).await;
        self.time().await;
        assert!(!self.store.exists(&key), "{name} has expired on the real server");
        true
    }

    async fn compare_keys(&mut self) {
        self.time().await;
        let real = self.observer.keys("*").await.unwrap();
        let simulated: Vec<_> =
            self.store.keys().into_iter().map(|(key, _)| String::from_utf8(key.to_vec()).unwrap()).collect();
        assert_eq!(real, simulated);
        for key in real.into_iter().filter(|key| !MARKS.contains(&key.as_str())) {
            let fields: Vec<Vec<u8>> = self.observer.query(&["HGETALL", &key]).await.unwrap();
            let pairs = self.store.hgetall(&key.clone().into());
            let simulated: Vec<Vec<u8>> =
                pairs.into_iter().flat_map(|(field, value)| [field.to_vec(), value.to_vec()]).collect();
            assert_eq!(fields, simulated, "{key}");
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn the_simulated_server_answers_as_a_real_one() {
    let server = server().await;
    let observer = server.observer().await.unwrap();
    let client = client(&server).await;
    let mut watches = Vec::new();
    for channel in CHANNELS {
        // No call writes to this key: only messages wake the watch.
        let watch = client.watch(channel.into(), "nothing".into());
        wait_until(SOON, async || watch.is_active()).await;
        watches.push(watch);
    }
    let mut end = client.watch("end".into(), "nothing".into());
    wait_until(SOON, async || end.is_active()).await;
    let mut store = Store::default();
    for channel in CHANNELS.into_iter().chain(["end"]) {
        store.subscribe(0, channel.into());
    }
    let mut both = Both { client, observer, store, messages: [0; CHANNELS.len()] };
    let mut random = fastrand::Rng::with_seed(7);
    let mut expired = 0;
    for round in 0..1500 {
        let time = both.time().await;
        both.compare(call(&mut random, time)).await;
        if round % 50 == 49 {
            expired += u32::from(both.expire_one().await);
            both.compare_keys().await;
        }
    }
    assert!(expired > 5, "some keys must expire: {expired}");
    // Messages keep their order over all channels: after this one, all others have arrived.
    let receivers: i64 = both.client.run(Request::command("PUBLISH").key("end").arg("0")).await.unwrap();
    assert_eq!(receivers, 1);
    while tokio::time::timeout(SOON, end.wake()).await.expect("the last message").messages == 0 {}
    for ((channel, watch), expected) in CHANNELS.iter().zip(&mut watches).zip(both.messages) {
        assert!(expected > 10, "{channel} had too few messages: {expected}");
        assert_eq!(watch.take().map(|wake| wake.messages), Some(expected), "{channel}");
    }
}
