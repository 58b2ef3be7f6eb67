//! Tests of server leases and holds.

use std::pin::pin;
use std::sync::atomic::AtomicUsize;
use std::task::{Context, Poll, Wake, Waker};

use redgrid_client::Request;

use super::super::hold_watch::HoldWatch;
use super::super::table::LockState;
use super::super::takeover::TakeoverFrom;
use super::*;
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

/// Creates a server lease of 10 s that begins at `now`.
fn server_lease(clock: &Clock, now: Instant) -> Arc<ServerLease> {
    let keys = LockKeys {
        name: Name::new("a").unwrap(),
        key: Bytes::from("a"),
        channel: Bytes::new(),
        more: Box::default(),
        family: "",
    };
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
    Hold::new(Arc::clone(server_lease), now, now, Arc::new(AcquireRequest::new(lease, Durability::Primary)))
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

/// A client can hold a hundred thousand locks. The memory of one lock is about 1,000 bytes: the
/// three structs below, its keys, and its entries in the tables.
#[test]
#[cfg(target_pointer_width = "64")]
fn a_held_lock_is_small() {
    let sizes = [size_of::<LockState>(), size_of::<ServerLease>(), size_of::<Hold>()];
    let clock = size_of::<Clock>();
    assert!(sizes[0] <= 208 && sizes[1] <= 152 + clock, "{sizes:?}");
    // An id of a span, and without the feature `tracing` nothing.
    let span = if cfg!(feature = "tracing") { 8 } else { 0 };
    assert!(sizes[2] <= 72 + span, "{sizes:?}");
}

/// A waker that counts its calls.
#[derive(Default)]
struct Wakes(AtomicUsize);

impl Wake for Wakes {
    fn wake(self: Arc<Self>) {
        self.0.fetch_add(1, Ordering::Relaxed);
    }
}

#[tokio::test(start_paused = true)]
async fn the_end_of_one_reader_wakes_no_other() {
    const READERS: usize = 1000;
    let clock = Clock::runtime();
    let now = clock.now();
    let server_lease = server_lease(&clock, now);
    let renewed = LeaseMode::Renewed(Duration::from_secs(10));
    let readers: Vec<_> = (0..READERS).map(|_| Arc::new(hold(&server_lease, renewed, now))).collect();
    let wakes = Arc::new(Wakes::default());
    let waker = Waker::from(Arc::clone(&wakes));
    let mut context = Context::from_waker(&waker);
    let mut watchers: Vec<_> =
        readers.iter().map(|reader| Box::pin(async { HoldWatch(Arc::clone(reader)).ended().await })).collect();
    for watcher in &mut watchers {
        assert!(watcher.as_mut().poll(&mut context).is_pending());
    }
    for (nth, (reader, watcher)) in readers.iter().zip(&mut watchers).enumerate() {
        assert!(reader.end(None));
        assert_eq!(wakes.0.load(Ordering::Relaxed), nth + 1);
        assert_eq!(watcher.as_mut().poll(&mut context), Poll::Ready(None));
    }
    HoldWatch(Arc::clone(&readers[0])).ended().await;
    assert!(server_lease.inner().ended.as_ref().unwrap().is_empty(), "watching an ended hold leaves nothing behind");
}

#[tokio::test(start_paused = true)]
async fn a_watcher_is_notified_of_its_own_hold_alone() {
    let clock = Clock::runtime();
    let now = clock.now();
    let renewed = LeaseMode::Renewed(Duration::from_secs(10));
    // Both orders: the watcher of B begins to wait before A ends, or after A has ended.
    for is_between in [false, true] {
        let server_lease = server_lease(&clock, now);
        let [a, b] = [(); 2].map(|()| HoldWatch(Arc::new(hold(&server_lease, renewed, now))));
        let wakes = Arc::new(Wakes::default());
        let waker = Waker::from(Arc::clone(&wakes));
        let mut context = Context::from_waker(&waker);
        let (mut lost_a, mut lost_b) = (Box::pin(a.lost()), Box::pin(b.lost()));
        assert!(lost_a.as_mut().poll(&mut Context::from_waker(Waker::noop())).is_pending());
        if !is_between {
            assert!(lost_b.as_mut().poll(&mut context).is_pending());
        }
        assert!(a.0.end(None));
        assert!(lost_b.as_mut().poll(&mut context).is_pending());
        assert!(b.0.end(Some(LostReason::Gone)) && !b.0.end(Some(LostReason::Expired)));
        assert_eq!(wakes.0.load(Ordering::Relaxed), 1, "once");
        assert_eq!(lost_b.as_mut().poll(&mut context), Poll::Ready(LostReason::Gone));
        assert!(lost_a.as_mut().poll(&mut context).is_pending(), "A was released");
    }
}

/// A waker that polls its own `HoldWatch` when it is called.
struct PollsInline(HoldWatch, Mutex<Vec<bool>>);

impl Wake for PollsInline {
    fn wake(self: Arc<Self>) {
        let is_free = self.0.0.server_lease.inner.try_lock().is_ok();
        self.1
            .lock()
            .unwrap()
            .push(is_free && pin!(self.0.ended()).poll(&mut Context::from_waker(Waker::noop())).is_ready());
    }
}

#[tokio::test(start_paused = true)]
async fn a_waker_may_poll_the_same_hold() {
    let clock = Clock::runtime();
    let now = clock.now();
    let hold = hold(&server_lease(&clock, now), LeaseMode::Renewed(Duration::from_secs(10)), now);
    let watch = HoldWatch(Arc::new(hold));
    let inline = Arc::new(PollsInline(watch.clone(), Mutex::default()));
    let waker = Waker::from(Arc::clone(&inline));
    let mut ended = pin!(watch.ended());
    assert!(ended.as_mut().poll(&mut Context::from_waker(&waker)).is_pending());
    assert!(watch.0.end(Some(LostReason::Gone)));
    assert_eq!(*inline.1.lock().unwrap(), [true]);
}
