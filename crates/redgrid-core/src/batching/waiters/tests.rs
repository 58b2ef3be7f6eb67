//! Random sequences of steps by the callers and by the loop. After each step, the guarantees to
//! each caller are checked.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Wake, Waker};

use super::*;

const TIMEOUT: Duration = Duration::from_secs(1);

/// Time from the start of a request to its deadline.
const CALL_TIMEOUT: Duration = Duration::from_secs(2);

#[derive(Default)]
struct Flag(AtomicBool);

impl Wake for Flag {
    fn wake(self: Arc<Self>) {
        self.0.store(true, Ordering::Relaxed);
    }
}

/// A caller in the model.
struct Caller {
    index: usize,
    request: u32,
    until: Instant,
    /// Set when the waker of the last poll is called.
    flag: Arc<Flag>,
    was_sent: bool,
    /// The number of this request's batch: how many batches were formed before it.
    batch: u64,
}

impl Caller {
    fn is_woken(&self) -> bool {
        self.flag.0.load(Ordering::Relaxed)
    }
}

#[derive(Default)]
struct World {
    waiters: WaiterSlab<u32, u32>,
    callers: [Option<Caller>; 4],
    /// The batches in flight, in order; `None` for a batch that was given up.
    batches: VecDeque<Option<Vec<u32>>>,
    /// Number of completed batches.
    finished: u64,
    driver: Arc<Flag>,
    now: Instant,
    submitted: u32,
    ended: bool,
}

impl World {
    fn step(&mut self, caller: usize, action: u8) {
        match (action, self.callers[caller].is_some()) {
            (0..=3, false) => self.submit(caller),
            (0..=3, true) => self.poll(caller),
            (4, true) => self.cancel(caller),
            (5, _) => self.expire(),
            (6, _) => self.check_abandoned(),
            (7..=9, _) => self.drive(),
            _ => return,
        }
        self.check_invariants();
    }

    fn submit(&mut self, caller: usize) {
        let flag = Arc::<Flag>::default();
        self.submitted += 1;
        let (request, until) = (self.submitted, self.now + CALL_TIMEOUT);
        let index = self.waiters.enqueue(request, until, Some(Waker::from(Arc::clone(&flag))));
        self.callers[caller] = Some(Caller { index, request, until, flag, was_sent: false, batch: 0 });
    }

    fn poll(&mut self, caller: usize) {
        let Some(who) = &mut self.callers[caller] else { return };
        // Half of the polls use another waker, like a caller that has moved to another task.
        if fastrand::bool() {
            who.flag = Arc::default();
        }
        let polled = self.waiters.poll_result(who.index, Some(&Waker::from(Arc::clone(&who.flag)))).0;
        let Poll::Ready(result) = polled else { return };
        match result {
            Ok(answer) => assert_eq!(answer, who.request, "another's answer"),
            Err(ServerError::NotSent { .. } | ServerError::ShuttingDown) => {
                assert!(!who.was_sent && (self.ended || who.until <= self.now), "before its time");
            }
            Err(_) => assert!(who.was_sent && (self.ended || who.until + TIMEOUT <= self.now), "before its time"),
        }
        self.callers[caller] = None;
    }

    fn cancel(&mut self, caller: usize) {
        if let Some(who) = self.callers[caller].take() {
            let (_, driver) = self.waiters.cancel(who.index);
            driver.into_iter().for_each(Waker::wake);
        }
    }

    fn expire(&mut self) {
        self.now = self.now + Duration::from_millis(700);
        if !self.batches.is_empty() {
            let (to_wake, next) = self.waiters.expire(self.now, TIMEOUT);
            to_wake.wake();
            let deadline = |who: &Caller| if who.was_sent { who.until + TIMEOUT } else { who.until };
            let first = self.callers.iter().flatten().filter(|who| !who.is_woken()).map(deadline).min();
            assert!(first.is_none_or(|first| next <= first && first > self.now), "the next check is too late");
            assert!(next > self.now, "the next check is not in the future");
            assert!(
                !self.is_awaited() || next <= self.now + CALL_TIMEOUT,
                "the next check is too late for new callers"
            );
            self.check_abandoned();
        }
    }

    fn check_abandoned(&mut self) {
        if self.batches.is_empty() {
            return;
        }
        loop {
            self.driver = Arc::default();
            let waker = Waker::from(Arc::clone(&self.driver));
            let abandoned = self.waiters.poll_abandoned(&Context::from_waker(&waker)).0;
            let expected = (0..self.batches.len()).find(|index| self.is_abandoned(*index));
            match abandoned {
                Poll::Ready(index) => {
                    assert_eq!(Some(index), expected, "a caller waits for it, or it was given up");
                    self.batches[index] = None;
                }
                Poll::Pending => break assert_eq!(None, expected, "no caller waits for it"),
            }
        }
    }

    /// Returns whether the batch at `index` has no waiting caller, and was not given up yet.
    fn is_abandoned(&self, index: usize) -> bool {
        let waits = |who: &Caller| who.was_sent && who.batch == self.finished + index as u64 && self.is_in_flight(who);
        self.batches[index].is_some() && !self.callers.iter().flatten().any(waits)
    }

    fn is_awaited(&self) -> bool {
        self.callers.iter().flatten().any(|who| who.was_sent && self.is_in_flight(who))
    }

    fn is_in_flight(&self, who: &Caller) -> bool {
        matches!(self.waiters.slots[who.index], Waiter::InFlight { .. })
    }

    fn drive(&mut self) {
        self.check_abandoned();
        if self.batches.len() > usize::from(fastrand::bool())
            && let Some(answers) = self.batches.pop_front()
        {
            self.finished += 1;
            self.waiters.complete_batch(answers.unwrap_or_default()).wake();
            return;
        }
        self.waiters.reject_expired(self.now).wake();
        let waiting = |who: &&mut Caller| !who.was_sent && who.until > self.now;
        let mut first: Vec<_> = self.callers.iter_mut().flatten().filter(waiting).collect();
        first.sort_by_key(|who| who.request);
        let most = fastrand::usize(1..4);
        let requests = self.waiters.take_batch(|requests| requests.take(most).count());
        first.truncate(most);
        let requests = requests.map(|(requests, ..)| requests).unwrap_or_default();
        assert_eq!(requests, first.iter().map(|who| who.request).collect::<Vec<_>>());
        let batch = self.finished + self.batches.len() as u64;
        first.into_iter().for_each(|who| (who.was_sent, who.batch) = (true, batch));
        self.batches.extend((!requests.is_empty()).then_some(Some(requests)));
    }

    /// Checks four invariants: a caller with a result is woken, each caller has a slot of its own,
    /// no free slot is lost, and an abandoned batch wakes the loop.
    fn check_invariants(&self) {
        let all = &self.waiters;
        for who in self.callers.iter().flatten() {
            let waiter = &all.slots[who.index];
            assert!(!matches!(waiter, Waiter::Free | Waiter::Cancelled), "the caller's slot is free or cancelled");
            assert!(!matches!(waiter, Waiter::Done(_)) || who.is_woken(), "its call is done, and it was not woken");
            let shares = self.callers.iter().flatten().filter(|other| other.index == who.index).count();
            assert_eq!(shares, 1);
        }
        let free = all.slots.iter().filter(|waiter| matches!(waiter, Waiter::Free)).count();
        assert_eq!(free, all.free.len());
        let is_forgotten = all.driver_waker.is_some() && (0..self.batches.len()).any(|index| self.is_abandoned(index));
        assert!(!is_forgotten || self.driver.0.load(Ordering::Relaxed), "an abandoned batch has not woken the driver");
    }

    /// Finishes the run without new callers. The loop gives each caller its result or, with
    /// `ended`, fails all callers.
    fn finish(mut self, ended: bool) {
        self.ended = ended;
        if ended {
            self.waiters.fail_all().wake();
        }
        while !ended && (!self.batches.is_empty() || self.callers.iter().flatten().any(|who| !who.is_woken())) {
            self.drive();
            self.check_invariants();
        }
        (0..4).for_each(|caller| self.poll(caller));
        assert!(self.callers.iter().all(Option::is_none), "a caller got no result");
        assert_eq!(self.waiters.free.len() + self.waiters.queue.len(), self.waiters.slots.len());
    }
}

#[test]
fn each_caller_gets_its_own_result_in_time_in_any_order_of_events() {
    for seed in 0..20_000 {
        fastrand::seed(seed);
        let mut world = World { now: Instant::MIN + TIMEOUT, ..World::default() };
        for _ in 0..50 {
            world.step(fastrand::usize(..4), fastrand::u8(..10));
        }
        world.finish(seed % 4 == 0);
    }
}
