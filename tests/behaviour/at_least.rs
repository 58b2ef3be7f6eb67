//! Locks that stay taken for a minimum time after their release.

use std::time::Duration;

use redgrid_core::Client;
use redgrid_locks::{FairLock, Lock, LockGuard, ReadGuard, ReleaseError, RwLock, WriteGuard};
use redgrid_testkit::{Observer, wait_until};
use redgrid_tests::{SOON, client, server};

const KINDS: [&str; 4] = ["lock", "fair", "read", "write"];

/// The default lease of a renewed hold. It is long: in these tests, retained names are free long
/// before it ends.
const LEASE: Duration = Duration::from_secs(30);

enum Guard {
    Lock(LockGuard),
    Read(ReadGuard),
    Write(WriteGuard),
}

impl Guard {
    async fn release(self) -> Result<(), ReleaseError> {
        match self {
            Guard::Lock(guard) => guard.release().await,
            Guard::Read(guard) => guard.release().await,
            Guard::Write(guard) => guard.release().await,
        }
    }
}

/// Holds the name `kind` with a lock of this kind. The name is retained for `keep` after the
/// release.
async fn hold(client: &Client, kind: &str, keep: Duration) -> Guard {
    let read_write = RwLock::new(client, kind);
    match kind {
        "lock" => Guard::Lock(Lock::new(client, kind).acquire().hold_at_least(keep).await.unwrap()),
        "fair" => Guard::Lock(FairLock::new(client, kind).acquire().hold_at_least(keep).await.unwrap()),
        "read" => Guard::Read(read_write.read().hold_at_least(keep).await.unwrap()),
        _ => Guard::Write(read_write.write().hold_at_least(keep).await.unwrap()),
    }
}

async fn holder(observer: &Observer, key: &str) -> String {
    let fields: Vec<String> = observer.query(&["HKEYS", key]).await.unwrap();
    fields.into_iter().find(|field| field != "mode").expect("a holder")
}

async fn left(observer: &Observer, key: &str) -> Duration {
    observer.time_to_live(key).await.unwrap().unwrap_or_default()
}

/// Returns the key of a reader's re-entry level.
fn level(field: &str) -> String {
    format!("{{read}}:{field}:rwlock_timeout:1")
}

/// Sends a renewal as if it had been sent before the release, and had arrived after it.
async fn renewed_late(observer: &Observer, kind: &str, field: &str) {
    let lease = LEASE.as_millis().to_string();
    let renew = include_str!("../../crates/redgrid-locks/src/scripts/renew.lua");
    let read_renew = include_str!("../../crates/redgrid-locks/src/scripts/rw_renew.lua");
    match kind {
        "read" => observer.cmd(&["EVAL", read_renew, "2", kind, &level(field), field, &lease]).await,
        _ => observer.cmd(&["EVAL", renew, "1", kind, field, &lease]).await,
    }
    .unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_renewal_that_arrives_after_the_release_does_not_keep_the_name_longer() {
    let server = server().await;
    let (client, observer) = (client(&server).await, server.observer().await.unwrap());
    let keep = Duration::from_secs(10);
    for kind in KINDS {
        let guard = hold(&client, kind, keep).await;
        let field = holder(&observer, kind).await;
        guard.release().await.unwrap();
        renewed_late(&observer, kind, &field).await;
        let stays = left(&observer, kind).await;
        assert!(stays > Duration::ZERO && stays <= keep, "{kind}: {stays:?}");
        // Until then the lock cannot be acquired, and an inspection names the former holder.
        let state = Lock::new(&client, kind).inspect().await.unwrap().unwrap();
        assert!(field.starts_with(&state.holders[0].client), "{kind}: {state:?}");
        let writer = RwLock::new(&client, kind).try_write().await.unwrap();
        assert!(writer.is_none(), "{kind}");
    }
}

/// The script is idempotent: a second copy gets the same reply as the first one, and does not
/// retain the name for longer.
#[tokio::test(flavor = "multi_thread")]
async fn a_second_copy_of_the_release_keeps_the_name_no_longer() {
    let server = server().await;
    let (client, observer) = (client(&server).await, server.observer().await.unwrap());
    let keep = Duration::from_secs(10);
    for kind in ["lock", "read", "write"] {
        let guard = hold(&client, kind, keep).await;
        let field = holder(&observer, kind).await;
        guard.release().await.unwrap();
        let retain = include_str!("../../crates/redgrid-locks/src/scripts/retain.lua");
        let rw_retain = include_str!("../../crates/redgrid-locks/src/scripts/rw_retain.lua");
        let (level, kept) = match kind {
            "read" => (level(&field), level(&format!("{field}:kept"))),
            _ => (kind.to_owned(), kind.to_owned()),
        };
        let again = match kind {
            "lock" => vec!["EVAL", retain, "1", kind, &field, "20000"],
            _ => vec!["EVAL", rw_retain, "3", kind, &level, &kept, &field, "20000", "PUBLISH", "x"],
        };
        assert_eq!(observer.query::<i64>(&again).await.unwrap(), 1, "{kind}");
        assert!(left(&observer, kind).await <= keep, "{kind}");
    }
}

/// A full server accepts releases. It rejects scripts whose first write needs memory.
#[tokio::test(flavor = "multi_thread")]
async fn a_name_is_kept_no_longer_on_a_full_server() {
    let server = server().await;
    let (client, observer) = (client(&server).await, server.observer().await.unwrap());
    let keep = Duration::from_secs(3);
    let mut held = Vec::new();
    for kind in KINDS {
        held.push((kind, hold(&client, kind, keep).await));
    }
    server.out_of_memory(true).await.unwrap();
    for (kind, guard) in held {
        guard.release().await.unwrap_or_else(|error| panic!("{kind}: {error:?}"));
        let stays = left(&observer, kind).await;
        assert!(stays <= keep, "{kind}: {stays:?}");
    }
    server.out_of_memory(false).await.unwrap();
    wait_until(SOON, async || observer.keys("*").await.unwrap().is_empty()).await;
}
