//! Every few steps that callers and the loop can make, in any order, against what each is owed.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Wake, Waker};

use super::*;

const TIMEOUT: Duration = Duration::from_secs(1);

/// From where one comes to where he is told in time.
const PATIENCE: Duration = Duration::from_secs(2);

#[derive(Default)]
struct Flag(AtomicBool);

impl Wake for Flag {
    fn wake(self: Arc<Self>) {
        self.0.store(true, Ordering::Relaxed);
    }
}

/// One who asks, as he is to himself.
struct Caller {
    number: usize,
    ask: u32,
    until: Instant,
    /// Woken, if he is told: that of his last poll.
    flag: Arc<Flag>,
    left_queue: bool,
    /// How many batches left before his.
    batch: u64,
}

impl Caller {
    fn is_woken(&self) -> bool {
        self.flag.0.load(Ordering::Relaxed)
    }
}

#[derive(Default)]
struct World {
    seats: Seats<u32, u32>,
    callers: [Option<Caller>; 4],
    /// What is under way, and left together each time; nothing where it was given up.
    batches: VecDeque<Option<Vec<u32>>>,
    /// How many batches were told.
    told: u64,
    driver: Arc<Flag>,
    now: Instant,
    asked: u32,
    ended: bool,
}

impl World {
    fn step(&mut self, caller: usize, what: u8) {
        match (what, self.callers[caller].is_some()) {
            (0..=3, false) => self.enters(caller),
            (0..=3, true) => self.polls(caller),
            (4, true) => self.leaves(caller),
            (5, _) => self.expires(),
            (6, _) => self.looks_for_deserters(),
            (7..=9, _) => self.drives(),
            _ => return,
        }
        self.is_right();
    }

    fn enters(&mut self, caller: usize) {
        let flag = Arc::<Flag>::default();
        self.asked += 1;
        let (ask, until) = (self.asked, self.now + PATIENCE);
        let number = self.seats.take(ask, until, Some(Waker::from(Arc::clone(&flag))));
        self.callers[caller] = Some(Caller { number, ask, until, flag, left_queue: false, batch: 0 });
    }

    fn polls(&mut self, caller: usize) {
        let Some(who) = &mut self.callers[caller] else { return };
        // Half of them with another waker, as one who is in another task by now.
        if fastrand::bool() {
            who.flag = Arc::default();
        }
        let told = self.seats.told(who.number, Some(&Waker::from(Arc::clone(&who.flag)))).0;
        let Poll::Ready(told) = told else { return };
        match told {
            Ok(answer) => assert_eq!(answer, who.ask, "another's answer"),
            Err(ServerError::NotSent { .. } | ServerError::ShuttingDown) => {
                assert!(!who.left_queue && (self.ended || who.until <= self.now), "before its time");
            }
            Err(_) => assert!(who.left_queue && (self.ended || who.until + TIMEOUT <= self.now), "before its time"),
        }
        self.callers[caller] = None;
    }

    fn leaves(&mut self, caller: usize) {
        if let Some(who) = self.callers[caller].take() {
            let (_, driver) = self.seats.leave(who.number);
            driver.into_iter().for_each(Waker::wake);
        }
    }

    fn expires(&mut self) {
        self.now = self.now + Duration::from_millis(700);
        if !self.batches.is_empty() {
            let (late, next) = self.seats.expire(self.now, TIMEOUT);
            late.wake();
            let owed = |who: &Caller| if who.left_queue { who.until + TIMEOUT } else { who.until };
            let first = self.callers.iter().flatten().filter(|who| !who.is_woken()).map(owed).min();
            assert!(first.is_none_or(|first| next <= first && first > self.now), "looks again too late");
            assert!(next > self.now, "looks again at once, and again");
            assert!(!self.is_awaited() || next <= self.now + PATIENCE, "too late for who comes meanwhile");
            self.looks_for_deserters();
        }
    }

    fn looks_for_deserters(&mut self) {
        if self.batches.is_empty() {
            return;
        }
        loop {
            self.driver = Arc::default();
            let waker = Waker::from(Arc::clone(&self.driver));
            let deserted = self.seats.deserted(&Context::from_waker(&waker)).0;
            let expected = (0..self.batches.len()).find(|place| self.is_deserted(*place));
            match deserted {
                Poll::Ready(place) => {
                    assert_eq!(Some(place), expected, "somebody waits for it, or it was given up");
                    self.batches[place] = None;
                }
                Poll::Pending => break assert_eq!(None, expected, "nobody waits for it"),
            }
        }
    }

    /// Whether nobody waits for a batch, and nobody was told so.
    fn is_deserted(&self, place: usize) -> bool {
        let waits = |who: &Caller| who.left_queue && who.batch == self.told + place as u64 && self.is_under_way(who);
        self.batches[place].is_some() && !self.callers.iter().flatten().any(waits)
    }

    fn is_awaited(&self) -> bool {
        self.callers.iter().flatten().any(|who| who.left_queue && self.is_under_way(who))
    }

    fn is_under_way(&self, who: &Caller) -> bool {
        matches!(self.seats.seats[who.number], Seat::UnderWay { .. })
    }

    fn drives(&mut self) {
        self.looks_for_deserters();
        if self.batches.len() > usize::from(fastrand::bool())
            && let Some(answers) = self.batches.pop_front()
        {
            self.told += 1;
            self.seats.tell(answers.unwrap_or_default()).wake();
            return;
        }
        self.seats.refuse_late(self.now).wake();
        let waiting = |who: &&mut Caller| !who.left_queue && who.until > self.now;
        let mut first: Vec<_> = self.callers.iter_mut().flatten().filter(waiting).collect();
        first.sort_by_key(|who| who.ask);
        let most = fastrand::usize(1..4);
        let asks = self.seats.leaving(|asks| asks.take(most).count());
        first.truncate(most);
        let asks = asks.map(|(asks, ..)| asks).unwrap_or_default();
        assert_eq!(asks, first.iter().map(|who| who.ask).collect::<Vec<_>>());
        let batch = self.told + self.batches.len() as u64;
        first.into_iter().for_each(|who| (who.left_queue, who.batch) = (true, batch));
        self.batches.extend((!asks.is_empty()).then_some(Some(asks)));
    }

    /// Who is told is woken; each has a seat of his own; none is lost.
    fn is_right(&self) {
        let all = &self.seats;
        for who in self.callers.iter().flatten() {
            let seat = &all.seats[who.number];
            assert!(!matches!(seat, Seat::Free | Seat::Left), "his seat is another's, or nobody's");
            assert!(!matches!(seat, Seat::Told(_)) || who.is_woken(), "told, and asleep");
            let shares = self.callers.iter().flatten().filter(|other| other.number == who.number).count();
            assert_eq!(shares, 1);
        }
        let free = all.seats.iter().filter(|seat| matches!(seat, Seat::Free)).count();
        assert_eq!(free, all.free.len());
        let for_nobody = all.driver.is_some() && (0..self.batches.len()).any(|place| self.is_deserted(place));
        assert!(!for_nobody || self.driver.0.load(Ordering::Relaxed), "drives for nobody");
    }

    /// Nobody comes any more: the loop tells all, or ends and tells all.
    fn ends(mut self, ended: bool) {
        self.ended = ended;
        if ended {
            self.seats.end().wake();
        }
        while !ended && (!self.batches.is_empty() || self.callers.iter().flatten().any(|who| !who.is_woken())) {
            self.drives();
            self.is_right();
        }
        (0..4).for_each(|caller| self.polls(caller));
        assert!(self.callers.iter().all(Option::is_none), "somebody was not told");
        assert_eq!(self.seats.free.len() + self.seats.queue.len(), self.seats.seats.len());
    }
}

#[test]
fn each_is_told_his_own_in_time_and_woken_for_it_whatever_happens_in_whatever_order() {
    for seed in 0..20_000 {
        fastrand::seed(seed);
        let mut world = World { now: Instant::PAST + TIMEOUT, ..World::default() };
        for _ in 0..50 {
            world.step(fastrand::usize(..4), fastrand::u8(..10));
        }
        world.ends(seed % 4 == 0);
    }
}
