//! Tests of server leases and holds.

use super::super::table::LockState;
use super::super::takeover::TakeoverFrom;
use super::*;
use crate::connection::Request;
use crate::name::Name;

struct Never;

impl LockProtocol for Never {
    fn name(&self) -> &'static str {
        "never"
    }

    fn acquire(&self, _: HoldArgs<'_>) -> Request {
        unreachable!("no request is sent")
    }

    fn take_over(&self, claim: HoldArgs<'_>, _: &str, _: &TakeoverFrom) -> Request {
        self.acquire(claim)
    }

    fn release(&self, claim: HoldArgs<'_>) -> Request {
        self.acquire(claim)
    }

    fn release_yielding(&self, claim: HoldArgs<'_>) -> Request {
        self.acquire(claim)
    }

    fn retain(&self, claim: HoldArgs<'_>) -> Request {
        self.acquire(claim)
    }

    fn extend(&self, claim: HoldArgs<'_>) -> Request {
        self.acquire(claim)
    }

    fn renew(&self, claims: &[HoldArgs<'_>]) -> Request {
        self.acquire(claims[0])
    }

    fn release_many(&self, claims: &[HoldArgs<'_>]) -> Request {
        self.acquire(claims[0])
    }
}

/// A server lease of 10 s that begins at `now`.
fn server_lease(clock: &Clock, now: Instant) -> Arc<ServerLease> {
    let keys =
        LockKeys { name: Name::new("a").unwrap(), key: Bytes::from("a"), channel: Bytes::new(), more: Box::default() };
    let granted = GrantReply {
        id: 7,
        token: 1_700_000_000_000_000,
        sent: now,
        received: now,
        retransmission_ends: None,
        lease: Duration::from_secs(10),
        durability: Durability::Primary,
        handover_ends: now,
        node: NodeId("node".into()),
    };
    Arc::new(ServerLease::new(granted, &LockId::of(&Never, &Arc::new(keys)), &Never, clock.clone()))
}

fn hold(server_lease: &Arc<ServerLease>, lease: LeaseMode, now: Instant) -> Hold {
    Hold::new(Arc::clone(server_lease), now, now, Arc::new(AcquireRequest::with_lease(lease)))
}

#[tokio::test]
async fn tokens_rise_however_many_owners_there_were() {
    let clock = Clock::runtime();
    let now = clock.now();
    let server_lease = server_lease(&clock, now);
    let renewed = LeaseMode::Renewed(Duration::from_secs(10));
    for former in [0, 1, u64::from(u32::MAX) - 1, u64::from(u32::MAX)] {
        server_lease.owners.store(former, Ordering::Relaxed);
        let (before, after) = (hold(&server_lease, renewed, now), hold(&server_lease, renewed, now));
        assert_eq!((before.token, after.token), (server_lease.token + former, server_lease.token + former + 1));
    }
}

#[tokio::test(start_paused = true)]
async fn a_hold_ends_once_and_says_how() {
    let clock = Clock::runtime();
    let now = clock.now();
    let server_lease = server_lease(&clock, now);
    let released = hold(&server_lease, LeaseMode::Fixed(Duration::from_secs(5)), now);
    assert!(released.is_held() && released.lost_by(now).is_none());
    assert!(released.end(None) && !released.end(Some(LostReason::Gone)));
    assert!(!released.is_held() && released.lost_by(now).is_none());
    let lost = hold(&server_lease, LeaseMode::Fixed(Duration::from_secs(5)), now);
    tokio::time::advance(Duration::from_secs(5)).await;
    assert!(!lost.is_held());
    assert_eq!(lost.lost(), Some(LostReason::Expired), "although it is not marked yet");
    assert!(server_lease.is_valid_locally(), "its lease is longer");
}

/// A client may hold a hundred thousand locks. Beside these, each takes its keys and its places in
/// the tables: about 1,000 bytes in all.
#[test]
#[cfg(target_pointer_width = "64")]
fn a_held_lock_is_small() {
    let sizes = [size_of::<LockState>(), size_of::<ServerLease>(), size_of::<Hold>()];
    let clock = size_of::<Clock>();
    assert!(sizes[0] <= 200 && sizes[1] <= 152 + clock && sizes[2] <= 72, "{sizes:?}");
}
