//! Tests of leases: margins, deadlines, the schedule and the wake-up.

use std::pin::pin;
use std::sync::Mutex;
use std::sync::atomic::AtomicUsize;
use std::task::{Context, Poll, Wake, Waker};

use super::*;
use crate::clock::Clock;

const MS: Duration = Duration::from_millis(1);
const SECOND: Duration = Duration::from_secs(1);

fn at_ms(millis: u64) -> Instant {
    Instant::MIN + Duration::from_millis(millis)
}

#[test]
fn the_deadline_is_before_the_servers_expiry_by_a_margin() {
    let sent = Instant::MIN + 1000 * MS;
    assert_eq!(deadline(sent, 30_000 * MS), sent + 28_500 * MS);
    assert_eq!(deadline(sent, 100 * MS), sent + 80 * MS);
}

#[test]
fn a_lease_with_its_margin_is_valid_as_long_as_requested() {
    for validity in [0, 1, 19, 20, 100, 379, 380, 381, 30_000, 2_592_000_000].map(|ms| ms * MS) {
        let lease = with_margin(validity);
        assert!(lease - margin(lease) >= validity, "{validity:?}");
        assert!(lease - margin(lease) <= validity + MS, "{validity:?}");
    }
}

#[test]
fn a_lease_is_renewed_after_a_third_and_more_often_towards_its_end() {
    let sent = Instant::MIN + 1000 * MS;
    for (lease, left, due) in [(30_000, 28_500, 10_000), (30_000, 6000, 3000), (100, 80, 33), (30_000, 10, 20)] {
        let next = next_renewal(lease * MS, sent + left * MS, sent);
        assert_eq!(next.since(sent).as_millis(), due, "{left} ms of {lease} ms are left");
    }
    assert_eq!([300, 60_000].map(|lease| retry_pause(lease * MS)), [10 * MS, 1000 * MS]);
}

#[test]
fn a_deadline_can_move_until_it_has_passed() {
    let deadline = Deadline::new(at_ms(10));
    assert!(!deadline.has_passed(at_ms(9)));
    assert!(deadline.extend(at_ms(20), at_ms(9)) && deadline.at() == at_ms(20));
    assert!(deadline.extend(at_ms(15), at_ms(9)) && deadline.at() == at_ms(20));
    assert!(deadline.set(at_ms(12), at_ms(9)) && deadline.at() == at_ms(12));
    deadline.lower(at_ms(11));
    deadline.lower(at_ms(30));
    assert_eq!(deadline.at(), at_ms(11));
    assert!(!deadline.extend(at_ms(30), at_ms(11)) && deadline.at() == at_ms(11));
    assert!(!Deadline::new(Instant::MAX).has_passed(at_ms(1)));
    assert_eq!(Deadline::new(Instant::MAX).at(), Instant::MAX);
}

/// The extending task reads its clock, possibly before the deadline. Before it stores the
/// extension, an observer marks the deadline as passed.
#[test]
fn an_extension_fails_once_an_observer_has_seen_the_deadline_pass() {
    for now in [at_ms(9), at_ms(10), at_ms(11)] {
        let deadline = Deadline::new(at_ms(10));
        assert!(deadline.has_passed(at_ms(10)));
        assert!(!deadline.extend(at_ms(20), now) && !deadline.set(at_ms(20), now), "{now:?}");
        assert!(deadline.has_passed(at_ms(9)) && deadline.at() == at_ms(10));
        deadline.lower(at_ms(5));
        assert!(deadline.has_passed(at_ms(1)) && deadline.at() == at_ms(5));
    }
}

struct Ending(u32, Mutex<Instant>);

impl Lease for Ending {
    type Id = u32;

    fn id(&self) -> u32 {
        self.0
    }

    fn next_end(&self) -> Instant {
        *self.1.lock().unwrap()
    }
}

fn at(seconds: u64) -> Instant {
    Instant::MIN + Duration::from_secs(seconds)
}

fn schedule(ends: [u64; 3]) -> (Schedule<Ending>, [Arc<Ending>; 3]) {
    let mut schedule = Schedule::default();
    let mut id = 0;
    let leases = ends.map(|end| {
        id += 1;
        Arc::new(Ending(id, Mutex::new(at(end))))
    });
    leases.iter().for_each(|lease| schedule.insert(Arc::clone(lease), at(u64::from(lease.0) * 10)));
    (schedule, leases)
}

fn ids(leases: Vec<Arc<Ending>>) -> Vec<u32> {
    leases.iter().map(|lease| lease.0).collect()
}

#[test]
fn a_due_lease_is_taken_once_with_those_due_soon() {
    let (mut schedule, _) = schedule([100, 100, 100]);
    assert_eq!(schedule.next(), at(10));
    assert_eq!(ids(schedule.take_due(at(9), at(25), 9)), [0; 0], "none is due yet");
    assert_eq!(ids(schedule.take_due(at(10), at(25), 9)), [1, 2]);
    assert_eq!(schedule.next(), at(30), "those in flight are not due");
    schedule.reschedule(1, at(12));
    schedule.reschedule(7, at(1));
    assert_eq!(ids(schedule.take_due(at(40), at(40), 1)), [1], "the first one, and no more than requested");
    assert!(schedule.remove(3).is_some() && schedule.remove(3).is_none());
    assert_eq!((schedule.len(), schedule.next()), (2, at(100)));
}

#[test]
fn a_moved_end_is_found_at_its_new_time() {
    let (mut schedule, leases) = schedule([40, 50, 60]);
    *leases[0].1.lock().unwrap() = at(70);
    *leases[2].1.lock().unwrap() = at(45);
    schedule.moved(3);
    assert_eq!(ids(schedule.ended(at(44), at(44))), [0; 0]);
    assert_eq!(ids(schedule.ended(at(50), at(50))), [3, 2]);
    assert_eq!(ids(schedule.ended(at(69), at(69))), [0; 0], "each is returned once");
    assert_eq!(ids(schedule.ended(at(70), at(70))), [1]);
}

#[derive(Default)]
struct Woken(AtomicUsize);

impl Wake for Woken {
    fn wake(self: Arc<Self>) {
        self.0.fetch_add(1, Ordering::Relaxed);
    }
}

#[tokio::test(start_paused = true)]
async fn a_sleeper_is_woken_for_an_earlier_time_and_not_for_a_later_one() {
    const S: Duration = Duration::from_secs(1);
    let (alarm, clock, woken) = (Wakeup::default(), Clock::runtime(), Arc::new(Woken::default()));
    let (begin, waker) = (clock.now(), Waker::from(Arc::clone(&woken)));
    alarm.bring_forward(begin + S);
    alarm.elapsed(&clock).await;
    assert_eq!(clock.now(), begin, "it was not set, and rings at once");
    alarm.set(Instant::MAX);
    let mut rings = pin!(alarm.elapsed(&clock));
    let mut poll = || rings.as_mut().poll(&mut Context::from_waker(&waker));
    assert_eq!(poll(), Poll::Pending);
    for (seconds, times) in [(10, 1), (11, 1), (10, 1), (12, 1), (5, 2), (7, 2)] {
        alarm.bring_forward(begin + seconds * S);
        assert_eq!(woken.0.load(Ordering::Relaxed), times, "at {seconds} s");
        assert_eq!(poll(), Poll::Pending);
    }
    tokio::time::advance(5 * S).await;
    assert_eq!(poll(), Poll::Ready(()));
}
#[test]
fn the_window_is_ten_round_trips_within_its_bounds() {
    assert_eq!(handover_window(None, Duration::from_micros(80)), 10 * MS);
    assert_eq!(handover_window(None, 3 * MS), 30 * MS);
    assert_eq!(handover_window(None, SECOND), LONGEST_WINDOW);
    assert_eq!(handover_window(Some(Duration::ZERO), SECOND), Duration::ZERO);
    assert_eq!(handover_window(Some(SECOND), MS), LONGEST_WINDOW);
}

#[test]
fn a_renewal_is_overdue_a_response_timeout_after_it_was_due() {
    // Confirmed at 0, so it is due after 10 s, and the deadline is after 28.5 s.
    let (lease, deadline) = (30 * SECOND, deadline(Instant::MIN, 30 * SECOND));
    let overdue = Overdue::default();
    let begins = |at, response_timeout| overdue.begins(lease, deadline, at_ms(at), response_timeout);
    assert_eq!([12_999, 13_000, 28_000].map(|at| begins(at, 3 * SECOND)), [false, true, false], "counted once");
    overdue.confirmed();
    // A sixth of the lease is shorter.
    assert_eq!([14_999, 15_000].map(|at| begins(at, 20 * SECOND)), [false, true]);
}
