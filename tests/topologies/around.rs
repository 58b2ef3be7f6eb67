//! Objects around a lock on every topology: fences, detached holds, elections, segments.

use redgrid_core::Token;
use redgrid_locks::{AttachError, Election, Fence, FenceError, Lock, SegmentedLock};
use redgrid_tests::SOON;

use crate::fixture::{Clause, Fixture};

macro_rules! clauses {
    ($($name:ident),* $(,)?) => {
        pub(crate) fn scenarios() -> Vec<Clause> {
            vec![$(Clause { name: concat!("around::", stringify!($name)), run: |fixture| Box::pin($name(fixture)) }),*]
        }
    };
}

clauses![
    a_fence_accepts_writes_of_the_newest_holder,
    a_hold_goes_to_another_process_once,
    observers_see_one_leader_at_a_time,
    segments_are_held_one_by_one,
];

async fn a_fence_accepts_writes_of_the_newest_holder(on: Fixture) {
    let (one, two) = (on.client().await, on.client().await);
    let tag = format!("{{{}}}", on.name);
    let early = Lock::new(&one, &on.name).acquire().await.unwrap();
    let stale: Token = early.token();
    early.release().await.unwrap();
    let held = Lock::new(&two, &on.name).acquire().timeout(SOON).await.unwrap();
    let (first, second) = (Fence::new(&one, &tag), Fence::new(&two, &tag));
    first.check_and_set(stale).await.unwrap();
    second.set(format!("{tag}:value"), "new", held.token()).await.unwrap();
    second.hash_set(format!("{tag}:hash"), "field", "new", held.token()).await.unwrap();
    assert_eq!(second.increment(format!("{tag}:sum"), 2, held.token()).await.unwrap(), 2);
    assert!(second.delete(format!("{tag}:hash"), held.token()).await.unwrap());
    let refused = first.set(format!("{tag}:value"), "old", stale).await;
    assert!(matches!(&refused, Err(FenceError::Stale { highest, .. }) if *highest == held.token()), "{refused:?}");
    assert!(matches!(first.check_and_set(stale).await, Err(FenceError::Stale { .. })));
    assert_eq!(first.highest().await.unwrap(), Some(held.token()));
    assert_eq!(on.observer.get::<String>(&format!("{tag}:value")).await.unwrap().as_deref(), Some("new"));
    held.release().await.unwrap();
}

async fn a_hold_goes_to_another_process_once(on: Fixture) {
    let (one, two) = (on.client().await, on.client().await);
    let guard = Lock::new(&one, &on.name).acquire().await.unwrap();
    let detached = guard.detach().await.unwrap();
    assert!(Lock::new(&one, &on.name).try_acquire().await.unwrap().is_none());
    let guard = Lock::new(&two, &on.name).attach(&detached).await.unwrap();
    assert_eq!((guard.token(), guard.is_held()), (detached.token(), true));
    let again = Lock::new(&one, &on.name).attach(&detached).await;
    assert!(matches!(again, Err(AttachError::Gone { .. })), "{again:?}");
    let fixed = guard.detach().await.unwrap();
    let guard = Lock::new(&one, &on.name).attach(&fixed).await.unwrap();
    guard.release().await.unwrap();
    let fixed = Lock::new(&one, &on.name).acquire().lease(SOON).timeout(SOON).await.unwrap();
    let fixed = Lock::new(&two, &on.name).attach(&fixed.detach().await.unwrap()).await.unwrap();
    assert!(fixed.remaining() > SOON / 4 && fixed.remaining() < SOON, "{:?}", fixed.remaining());
    fixed.release().await.unwrap();
}

async fn observers_see_one_leader_at_a_time(on: Fixture) {
    let clients = [on.client().await, on.client().await];
    let elections = clients.each_ref().map(|client| Election::new(client, &on.name));
    let mut changes = elections[0].observe();
    let mut change = async || tokio::time::timeout(SOON, changes.next()).await.unwrap().unwrap();
    assert_eq!(change().await, None);
    for election in [&elections[1], &elections[0]] {
        let leadership = election.campaign().proclaim(on.name.clone()).timeout(SOON).await.unwrap();
        let leader = change().await.expect("a leader");
        assert_eq!((leader.id_text(), leader.term), (on.name.clone(), leadership.term()));
        leadership.resign().await.unwrap();
        assert_eq!(change().await, None);
    }
    // The end of a leadership is also observed when a shutdown releases all locks at once.
    let leadership = elections[1].campaign().timeout(SOON).await.unwrap();
    assert_eq!(change().await.map(|leader| leader.term), Some(leadership.term()));
    clients[1].shutdown(SOON).await.unwrap();
    assert_eq!(change().await, None);
}

async fn segments_are_held_one_by_one(on: Fixture) {
    let (one, two) = (on.client().await, on.client().await);
    let (here, there) = (SegmentedLock::new(&one, &on.name, 3), SegmentedLock::new(&two, &on.name, 3));
    let (mut first, mut second) = (here.segments_for(1), there.segments_for(1));
    let mut held = Vec::new();
    for turn in 0..3 {
        let segments = if turn % 2 == 0 { &mut first } else { &mut second };
        held.push(segments.next().await.unwrap().unwrap());
    }
    let mut seen: Vec<_> = held.iter().map(|segment| segment.index()).collect();
    seen.sort();
    assert_eq!(seen, [0, 1, 2], "each segment is held once");
    for segment in held {
        segment.release().await.unwrap();
    }
    for guard in there.acquire_all().await.unwrap() {
        guard.release().await.unwrap();
    }
}
