//! All who wait for one latch through one client: one task looks and listens for them.
//!
//! Those who came between two looks are a group: they go on together, woken by one call, and have nothing of their own but a place
//! in their group.

use std::collections::BTreeMap;
use std::fmt;
use std::pin::{Pin, pin};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock};
use std::time::Duration;

use redgrid_core::clock::Instant;
use redgrid_core::{ChannelEvent, Client, OrderedSubscription, ServerError};
use tokio::sync::Notify;

use crate::keys::Keys;
use crate::rounds::{Over, Rounds};
use crate::scripts::Look;

/// So many polls apart are looks for which nothing is told: 5. The poll sees by itself when the key is gone; what is left for them
/// is a round that ended and was followed by another while every message was lost.
const POLLS: u32 = 5;

/// The same while no messages come in: at most 1 s.
const LOOK_UNSUBSCRIBED: Duration = Duration::from_secs(1);

/// A look that is under way, or due, for longer than this is overdue: 1 s, far above a round trip. Whose time is over then is not told
/// that the latch was closed.
const OVERDUE: Duration = Duration::from_secs(1);

/// Added to what a round has left to live, so that it is over when it is looked at.
const AFTER: Duration = Duration::from_millis(2);

/// Why a wait is over.
#[derive(Debug, Clone)]
pub(crate) enum Left {
    Over,
    Failed(ServerError),
    ShuttingDown,
}

/// Those who wait for one latch through one client.
pub(crate) struct Line {
    client: Client,
    keys: Arc<Keys>,
    state: Mutex<State>,
    /// Somebody has come, or the last one has left.
    changed: Notify,
}

#[derive(Default)]
struct State {
    /// Those who wait, by the numbers of their groups, and how many of each have not left.
    groups: BTreeMap<u64, (Arc<Group>, usize)>,
    /// The group of whoever comes next.
    next: u64,
    /// For those below a look was answered.
    seen: u64,
    /// Those below are in the round, where that is known.
    placed: u64,
    round: Option<u64>,
    /// Rounds that a count-down of this client has ended, and of which the attendant does not know.
    ended: Vec<u64>,
    /// Until then it is as good as contact.
    fresh_until: Instant,
    attended: bool,
}

/// Those who came between two looks.
#[derive(Default)]
struct Group {
    left: OnceLock<Left>,
    told: Notify,
}

/// One who waits. Dropped, it has left.
pub(crate) struct Place {
    line: Arc<Line>,
    group: Arc<Group>,
    number: u64,
}

impl Line {
    /// That of a latch.
    pub(crate) fn of(client: &Client, keys: &Arc<Keys>) -> Arc<Line> {
        client.shared(&keys.count, || Line {
            client: client.clone(),
            keys: Arc::clone(keys),
            state: Mutex::default(),
            changed: Notify::new(),
        })
    }

    /// Comes to wait.
    pub(crate) fn enter(self: &Arc<Self>) -> Place {
        let mut state = self.state();
        let (number, group, is_first) = state.enter();
        let begins = !std::mem::replace(&mut state.attended, true);
        drop(state);
        match begins {
            true => self.client.run_in_background(attend(Attendance { line: Arc::clone(self), is_over: false })),
            // A look for the first is one for all of the group.
            false if is_first => self.changed.notify_one(),
            false => {}
        }
        Place { line: Arc::clone(self), group, number }
    }

    /// A count-down of this client has ended a round, 0 where that has no number: its answer says so before the message may have
    /// come, or where that is lost.
    pub(crate) fn ended(&self, round: u64) {
        let mut state = self.state();
        if !state.attended {
            return;
        }
        let gone = state.ends(round);
        drop(state);
        wake(&gone);
        self.changed.notify_one();
    }

    /// A look is sent, for all who are here: those below.
    fn asks(&self) -> u64 {
        let overdue = self.client.clock().now() + OVERDUE;
        let mut state = self.state();
        state.fresh_until = state.fresh_until.min(overdue);
        state.next += 1;
        state.next
    }

    /// Lets go those below `number`.
    fn let_go(&self, number: u64, left: &Left) {
        let gone = self.state().leaving(number, left);
        wake(&gone);
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
    }
}

impl State {
    /// One comes: the number of its group, that group, and whether it is the first of it.
    fn enter(&mut self) -> (u64, Arc<Group>, bool) {
        let (group, here) = self.groups.entry(self.next).or_default();
        *here += 1;
        (self.next, Arc::clone(group), *here == 1)
    }

    /// One of a group leaves, if that was not let go: whether nobody is left.
    fn leave(&mut self, number: u64) -> bool {
        if let Some((_, here)) = self.groups.get_mut(&number) {
            *here -= 1;
            if *here == 0 {
                self.groups.remove(&number);
            }
        }
        self.groups.is_empty()
    }

    /// Whether somebody has come for whom no look was answered.
    fn is_behind(&self) -> bool {
        self.groups.last_key_value().is_some_and(|(last, _)| *last >= self.seen)
    }

    /// Those below `placed` are in the round, if that is known.
    fn is_placed(&mut self, placed: u64, round: Option<u64>) {
        (self.placed, self.round) = (placed, round.filter(|round| *round > 0));
    }

    /// A round is over: those who are in it go on, and nobody else.
    fn ends(&mut self, round: u64) -> Vec<Arc<Group>> {
        self.ended.push(round);
        match self.round == Some(round) {
            true => self.leaving(self.placed, &Left::Over),
            false => Vec::new(),
        }
    }

    /// Nobody attends any more: takes out all, to be woken.
    fn close(&mut self) -> Vec<Arc<Group>> {
        (self.attended, self.round, self.ended) = (false, None, Vec::new());
        let gone = self.leaving(u64::MAX, &Left::ShuttingDown);
        // One of them may be about to leave: who comes now is of none of their groups.
        self.next += 1;
        gone
    }

    /// Takes out those below `number`, to be woken.
    fn leaving(&mut self, number: u64, left: &Left) -> Vec<Arc<Group>> {
        let staying = self.groups.split_off(&number);
        let going = std::mem::replace(&mut self.groups, staying);
        let tell = |(group, _): (Arc<Group>, usize)| {
            // Nobody else tells: they are taken out once.
            let _ = group.left.set(left.clone());
            group
        };
        going.into_values().map(tell).collect()
    }
}

fn wake(gone: &[Arc<Group>]) {
    gone.iter().for_each(|group| group.told.notify_waiters());
}

impl Place {
    /// Completes when the wait is over.
    pub(crate) async fn left(&self) -> Left {
        loop {
            // Begun before the look at it: who tells in between wakes this one, too.
            let told = self.group.told.notified();
            if let Some(left) = self.group.left.get() {
                return left.clone();
            }
            told.await;
        }
    }

    /// Whether a look has found the latch closed since this one came, and none is overdue.
    pub(crate) fn has_contact(&self) -> bool {
        let (now, state) = (self.line.client.clock().now(), self.line.state());
        self.number < state.seen && now <= state.fresh_until
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        if self.group.left.get().is_some() {
            return;
        }
        let is_last = self.line.state().leave(self.number);
        if is_last {
            self.line.changed.notify_one();
        }
    }
}

/// That somebody attends to a line; however it ends, nobody is left to wait for nothing.
struct Attendance {
    line: Arc<Line>,
    is_over: bool,
}

impl Attendance {
    /// Ends it if nobody waits any more.
    fn is_over(&mut self) -> bool {
        let mut state = self.line.state();
        self.is_over = state.groups.is_empty();
        state.attended = !self.is_over;
        if self.is_over {
            (state.round, state.ended) = (None, Vec::new());
        }
        self.is_over
    }
}

impl Drop for Attendance {
    fn drop(&mut self) {
        // After an orderly end another may attend already.
        if !self.is_over {
            let gone = self.line.state().close();
            wake(&gone);
        }
    }
}

type Asking = Pin<Box<dyn Future<Output = Result<Look, ServerError>> + Send>>;

/// Looks and listens until nobody waits any more.
async fn attend(mut attendance: Attendance) {
    let line = Arc::clone(&attendance.line);
    let (client, clock) = (&line.client, line.client.clock());
    let mut closing = pin!(client.closing());
    let mut rounds = Rounds::default();
    let mut hearing: Option<OrderedSubscription> = None;
    // The look that is under way, and whom it is for.
    let mut asking: Option<(u64, Asking)> = None;
    // Those below are in a round.
    let mut placed = 0;
    let mut next_look = Instant::MIN;
    loop {
        let (is_behind, ended) = {
            let mut state = line.state();
            (state.is_behind(), std::mem::take(&mut state.ended))
        };
        for round in ended {
            if let Over::Placed | Over::All = rounds.hears_end(round) {
                line.let_go(placed, &Left::Over);
            }
        }
        if line.state().groups.is_empty() {
            // Those who were let go first, and then what their end has to be told to the server.
            tokio::task::yield_now().await;
        }
        if attendance.is_over() {
            return;
        }
        if asking.is_none() && (rounds.is_due() || is_behind || clock.now() >= next_look) {
            rounds.asks();
            let upto = line.asks();
            let (client, keys) = (client.clone(), Arc::clone(&line.keys));
            asking = Some((upto, Box::pin(async move { keys.look(&client).await })));
        }
        line.state().is_placed(placed, rounds.round());
        tokio::select! {
            // In this order: at a shutdown looks fail as well, and messages may come without end.
            biased;
            // Who waits is told by the end of the attendance, and so is who comes meanwhile.
            () = &mut closing => return,
            (upto, answer) = answered(&mut asking) => {
                match answer {
                    Ok(look) => {
                        match rounds.sees(&look) {
                            Over::All => line.let_go(upto, &Left::Over),
                            Over::Placed => line.let_go(placed, &Left::Over),
                            Over::Nobody => {}
                        }
                        // Where the round could not be told, they stay those of the look before.
                        if look.is_open || look.round.is_some() {
                            placed = upto;
                        }
                        let hears = hearing.as_ref().is_some_and(OrderedSubscription::is_active);
                        let poll = client.poll_interval();
                        let within = match hears && look.round.is_some() {
                            true => poll * POLLS,
                            false => poll.min(LOOK_UNSUBSCRIBED),
                        };
                        let ends_in = look.ends_in.map_or(Duration::MAX, |left| left + AFTER);
                        next_look = clock.now() + within.min(ends_in);
                        line.state().fresh_until = next_look + OVERDUE;
                        if hearing.is_none() && !look.is_open {
                            // Whose confirmation has it looked at once more.
                            let channels = [line.keys.over.clone()].into_iter().chain(line.keys.channel.clone());
                            hearing = Some(client.subscribe_ordered(channels, &line.keys.count));
                        }
                    }
                    Err(error) => {
                        rounds.fails();
                        line.let_go(upto, &Left::Failed(error));
                    }
                }
                line.state().seen = upto;
            }
            heard = hear(&mut hearing) => {
                let mut heard = Some(heard);
                while let Some(one) = heard {
                    if let Over::Placed | Over::All = take(&mut rounds, one) {
                        line.let_go(placed, &Left::Over);
                    }
                    heard = hearing.as_mut().and_then(OrderedSubscription::take);
                }
            }
            () = line.changed.notified() => {}
            () = clock.sleep_until(next_look), if asking.is_none() => {}
        }
    }
}

fn take(rounds: &mut Rounds, heard: ChannelEvent) -> Over {
    let number = match heard {
        ChannelEvent::Message { channel: 0, payload } => {
            std::str::from_utf8(&payload).ok().and_then(|text| text.parse().ok())
        }
        // Redisson's, or none at all.
        _ => None,
    };
    match number {
        Some(number) => rounds.hears_end(number),
        None => {
            rounds.doubts();
            Over::Nobody
        }
    }
}

async fn hear(hearing: &mut Option<OrderedSubscription>) -> ChannelEvent {
    match hearing {
        Some(hearing) => hearing.next().await,
        None => std::future::pending().await,
    }
}

async fn answered(asking: &mut Option<(u64, Asking)>) -> (u64, Result<Look, ServerError>) {
    let Some((upto, look)) = asking else { return std::future::pending().await };
    let answer = look.await;
    let upto = *upto;
    *asking = None;
    (upto, answer)
}

impl fmt::Debug for Line {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Line").field("keys", &self.keys).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_answer_that_ends_a_round_lets_go_those_who_are_in_it_and_nobody_else() {
        let mut state = State { next: 2, ..State::default() };
        state.groups = (0..=2).map(|number| (number, (Arc::default(), 1))).collect();
        assert!(state.ends(7).is_empty(), "no look has told the round");
        state.is_placed(2, Some(7));
        assert!(state.ends(6).is_empty(), "of an earlier one");
        assert_eq!(state.ends(7).len(), 2);
        assert_eq!(state.groups.keys().collect::<Vec<_>>(), [&2], "who came later has not been looked for");
        assert!(state.ends(7).is_empty(), "once");
        // A round of Redisson's has no number to be told by.
        state.is_placed(3, Some(0));
        assert!(state.ends(0).is_empty());
        assert_eq!(state.ended, [7, 6, 7, 7, 0], "the attendant is told of all, and looks where it has no number");
    }

    #[test]
    fn whoever_comes_when_the_attendant_has_ended_stays_although_one_of_those_before_leaves_late() {
        let mut state = State::default();
        let (former, ..) = state.enter();
        assert_eq!(state.close().len(), 1);
        let (_, group, is_first) = state.enter();
        assert!(is_first && group.left.get().is_none());
        // It had not been told when it was dropped.
        assert!(!state.leave(former), "another waits");
        assert!(state.is_behind());
    }
}
