//! All who wait for one latch through one client: one task looks and listens for them.

use std::collections::BTreeMap;
use std::fmt;
use std::pin::{Pin, pin};
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

use redgrid_core::clock::Instant;
use redgrid_core::{Client, Heard, Hearing, ServerError};
use tokio::sync::{Notify, oneshot};

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
    /// In the order in which they came.
    waiting: BTreeMap<u64, oneshot::Sender<Left>>,
    /// The number of whoever comes next.
    next: u64,
    /// For those below a look was answered.
    seen: u64,
    /// Until then it is as good as contact.
    fresh_until: Instant,
    attended: bool,
}

/// One who waits. Dropped, it has left.
pub(crate) struct Place {
    line: Arc<Line>,
    number: u64,
    answer: oneshot::Receiver<Left>,
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
        let (sender, answer) = oneshot::channel();
        let mut state = self.state();
        let number = state.next;
        state.next += 1;
        state.waiting.insert(number, sender);
        let begins = !std::mem::replace(&mut state.attended, true);
        drop(state);
        match begins {
            true => self.client.run_in_background(attend(Attendance { line: Arc::clone(self), is_over: false })),
            false => self.changed.notify_one(),
        }
        Place { line: Arc::clone(self), number, answer }
    }

    /// A look is sent.
    fn asks(&self) {
        let overdue = self.client.clock().now() + OVERDUE;
        let mut state = self.state();
        state.fresh_until = state.fresh_until.min(overdue);
    }

    /// Lets go those below `number`.
    fn let_go(&self, number: u64, left: &Left) {
        let mut state = self.state();
        let staying = state.waiting.split_off(&number);
        let going = std::mem::replace(&mut state.waiting, staying);
        drop(state);
        for answer in going.into_values() {
            // Who has left in between needs no answer.
            let _ = answer.send(left.clone());
        }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
    }
}

impl Place {
    /// Completes when the wait is over.
    pub(crate) async fn left(&mut self) -> Left {
        // Without an answer, what attends to the line has ended with the client.
        (&mut self.answer).await.unwrap_or(Left::ShuttingDown)
    }

    /// Whether a look has found the latch closed since this one came, and none is overdue.
    pub(crate) fn has_contact(&self) -> bool {
        let (now, state) = (self.line.client.clock().now(), self.line.state());
        self.number < state.seen && now <= state.fresh_until
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        let mut state = self.line.state();
        state.waiting.remove(&self.number);
        let is_last = state.waiting.is_empty();
        drop(state);
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
        self.is_over = state.waiting.is_empty();
        state.attended = !self.is_over;
        self.is_over
    }
}

impl Drop for Attendance {
    fn drop(&mut self) {
        // After an orderly end another may attend already.
        if !self.is_over {
            let mut state = self.line.state();
            state.attended = false;
            let waiting = std::mem::take(&mut state.waiting);
            drop(state);
            // Their answers end with their senders.
            drop(waiting);
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
    let mut hearing: Option<Hearing> = None;
    // The look that is under way, and whom it is for.
    let mut asking: Option<(u64, Asking)> = None;
    // Those below are in a round.
    let mut placed = 0;
    let mut next_look = Instant::PAST;
    loop {
        if attendance.is_over() {
            return;
        }
        let (seen, next) = {
            let state = line.state();
            (state.seen, state.next)
        };
        if asking.is_none() && (rounds.is_due() || seen < next || clock.now() >= next_look) {
            rounds.asks();
            line.asks();
            let (client, keys) = (client.clone(), Arc::clone(&line.keys));
            asking = Some((next, Box::pin(async move { keys.look(&client).await })));
        }
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
                        let hears = hearing.as_ref().is_some_and(Hearing::in_force);
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
                            hearing = Some(client.hear(channels, &line.keys.count));
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
                    heard = hearing.as_mut().and_then(Hearing::take);
                }
            }
            () = line.changed.notified() => {}
            () = clock.sleep_until(next_look), if asking.is_none() => {}
        }
    }
}

fn take(rounds: &mut Rounds, heard: Heard) -> Over {
    let number = match heard {
        Heard::Message { channel: 0, payload } => std::str::from_utf8(&payload).ok().and_then(|text| text.parse().ok()),
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

async fn hear(hearing: &mut Option<Hearing>) -> Heard {
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
