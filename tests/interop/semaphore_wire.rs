//! The keys and messages of both sides for the same calls.

use std::time::Duration;

use redgrid_permit_expirable_semaphore::PermitExpirableSemaphore;
use redgrid_semaphore::Semaphore;
use redgrid_testkit::{Monitor, RedisServer};
use redgrid_tests::SOON;

use crate::fixture::{Fixture, scenarios};
use crate::permits::JavaPermits;

scenarios![
    the_same_calls_leave_the_same_number_and_messages,
    the_same_leased_calls_leave_the_same_keys_and_messages,
    nothing_of_ours_stays_in_javas_way,
];

/// The state of a semaphore: the number, the count of leases, and whether the number has a
/// lifetime.
type State = (Option<String>, i64, bool);

/// A server of its own, because all messages on it are recorded.
struct Wire {
    server: RedisServer,
    monitor: Monitor,
}

impl Wire {
    async fn start() -> Wire {
        let server = redgrid_tests::server().await;
        let monitor = Monitor::start(&server).await.unwrap().with_scripts();
        Wire { server, monitor }
    }

    /// Returns the messages for semaphores since the last call: channel and payload.
    async fn published(&mut self) -> Vec<(String, String)> {
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        let seen = self.monitor.take().await.unwrap();
        let published = seen.iter().filter(|command| command.name == "PUBLISH");
        let published = published.map(|command| (text(&command.args[0]), text(&command.args[1])));
        published.filter(|(channel, _)| channel.starts_with("redisson_sc:")).collect()
    }

    async fn state(&self, name: &str) -> State {
        let observer = self.server.observer().await.unwrap();
        let leases = observer.query(&["ZCARD", &format!("{{{name}}}:timeout")]).await.unwrap();
        let lifetime = observer.time_to_live(name).await.unwrap();
        (observer.get(name).await.unwrap(), leases, lifetime.is_some())
    }
}

fn messages(of: &str, payloads: &[&str]) -> Vec<(String, String)> {
    payloads.iter().map(|payload| (format!("redisson_sc:{{{of}}}"), (*payload).to_owned())).collect()
}

async fn the_same_calls_leave_the_same_number_and_messages(on: Fixture) {
    let mut wire = Wire::start().await;
    let redisson = on.own_redisson_at(&wire.server.url()).await;
    let mut java = JavaPermits::plain(redisson.actor(), "javas");
    let ours = Semaphore::plain(&redgrid_tests::client(&wire.server).await, "ours");

    assert!(java.is("trySetPermits", &[&4]).await);
    assert_eq!(wire.published().await, messages("javas", &["4"]));
    assert!(ours.try_set_permits(4).await.unwrap());
    assert_eq!(wire.published().await, messages("ours", &["4"]));
    assert!(!java.is("trySetPermits", &[&5]).await && !ours.try_set_permits(5).await.unwrap());
    // Taking permits publishes nothing.
    assert!(java.try_take(3).await);
    let three = ours.acquire_many(3).await.unwrap();
    assert_eq!(wire.published().await, []);
    assert_eq!(wire.state("javas").await, wire.state("ours").await);
    java.does("release", &[&3]).await;
    assert_eq!(wire.published().await, messages("javas", &["4"]));
    three.release().await.unwrap();
    assert_eq!(wire.published().await, messages("ours", &["4"]));
    java.does("addPermits", &[&-2]).await;
    ours.add_permits(-2).await.unwrap();
    java.does("release", &[&5]).await;
    ours.release(5).await.unwrap();
    let both =
        [messages("javas", &["2"]), messages("ours", &["2"]), messages("javas", &["7"]), messages("ours", &["7"])];
    assert_eq!(wire.published().await, both.concat());
    assert_eq!((java.number("drainPermits", &[]).await, ours.drain().await.unwrap()), (7, 7));
    assert_eq!(wire.published().await, []);
    for name in ["javas", "ours"] {
        assert_eq!(wire.state(name).await, (Some("0".to_owned()), 0, false), "{name}");
    }
    assert!(java.is("delete", &[]).await && ours.delete().await.unwrap());
    assert!(java.is("trySetPermits", &[&1, &SOON.as_millis()]).await);
    assert!(ours.try_set_permits(1).expires_in(SOON).await.unwrap());
    assert_eq!(wire.published().await, [messages("javas", &["1"]), messages("ours", &["1"])].concat());
    for name in ["javas", "ours"] {
        assert_eq!(wire.state(name).await, (Some("1".to_owned()), 0, true), "{name}");
    }
}

async fn the_same_leased_calls_leave_the_same_keys_and_messages(on: Fixture) {
    const LEASE: Duration = Duration::from_secs(60);
    let mut wire = Wire::start().await;
    let redisson = on.own_redisson_at(&wire.server.url()).await;
    let mut java = JavaPermits::leased(redisson.actor(), "javas");
    let ours = PermitExpirableSemaphore::new(&redgrid_tests::client(&wire.server).await, "ours");
    java.does("setPermits", &[&3]).await;
    assert_eq!(wire.published().await, messages("javas", &["3"]));
    ours.set_permits(3).await.unwrap();
    assert_eq!(wire.published().await, messages("ours", &["3"]));
    let id = java.does("acquire", &[&1, &LEASE.as_millis()]).await;
    let permit = ours.acquire().lease(LEASE).await.unwrap();
    assert_eq!(wire.published().await, []);
    assert_eq!((wire.state("javas").await, wire.state("ours").await), wire_of("2", 1));
    // Each lease ends at its time, plus redgrid's margin.
    let observer = wire.server.observer().await.unwrap();
    let mut ends = Vec::new();
    for name in ["javas", "ours"] {
        let key = format!("{{{name}}}:timeout");
        let leases: Vec<(Vec<u8>, i64)> = observer.query(&["ZRANGE", &key, "0", "-1", "WITHSCORES"]).await.unwrap();
        assert!(leases.len() == 1 && leases[0].0.len() == 16, "{leases:?}");
        ends.push(leases[0].1);
    }
    assert!(ends[1].abs_diff(ends[0]) < 10_000, "{ends:?}");
    java.does("release", &[&id]).await;
    permit.release().await.unwrap();
    assert_eq!(wire.published().await, [messages("javas", &["3"]), messages("ours", &["3"])].concat());
    assert_eq!((wire.state("javas").await, wire.state("ours").await), wire_of("3", 0));
    java.does("addPermits", &[&1]).await;
    ours.add_permits(1).await.unwrap();
    // Java publishes how many permits are new, and Rust publishes how many are left. Both wake
    // every waiter that can be served.
    assert_eq!(wire.published().await, [messages("javas", &["1"]), messages("ours", &["4"])].concat());
    assert_eq!((wire.state("javas").await, wire.state("ours").await), wire_of("4", 0));
    java.does("setPermits", &[&2]).await;
    ours.set_permits(2).await.unwrap();
    assert_eq!(wire.published().await, [messages("javas", &["2"]), messages("ours", &["2"])].concat());
    assert!(java.is("delete", &[]).await && ours.delete().await.unwrap());
    for name in ["javas", "ours"] {
        assert_eq!(wire.state(name).await, (None, 0, false), "{name}");
    }
}

/// The expected state of both sides: a number without a lifetime, and this many leases.
fn wire_of(number: &str, leases: i64) -> (State, State) {
    let state = (Some(number.to_owned()), leases, false);
    (state.clone(), state)
}

/// No key of redgrid's own stays, except the last reply to a client, which has a lifetime.
async fn nothing_of_ours_stays_in_javas_way(on: Fixture) {
    let mut java = on.leased();
    let client = on.client().await;
    let ours = Semaphore::new(&client, &on.name, 2);
    ours.acquire().await.unwrap().release().await.unwrap();
    let plain = Semaphore::plain(&client, &on.name);
    plain.acquire_many(2).await.unwrap().release().await.unwrap();
    assert_eq!(java.counts().await, (2, 0, 2));
    let pattern = format!("*{}*", on.name);
    let left = on.observer.keys(&pattern).await.unwrap();
    let ours = format!("redgrid_once:{{{}}}", on.name);
    let (answers, others): (Vec<_>, Vec<_>) = left.into_iter().partition(|key| key.starts_with(&ours));
    assert_eq!(others, [on.name.as_str()]);
    for answer in answers {
        assert!(on.observer.time_to_live(&answer).await.unwrap().is_some(), "{answer}");
    }
    assert!(java.is("delete", &[]).await);
}
