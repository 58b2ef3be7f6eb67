//! All who wait for messages of one queue through one client, in the order in which they came: one task asks and listens for them.

use std::collections::BTreeMap;
use std::pin::{Pin, pin};
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

use redgrid_core::clock::Instant;
use redgrid_core::{ChannelEvent, Offer, OrderedSubscription, ServerError};
use tokio::sync::{Notify, oneshot};

use crate::ask::{Answer, Given, MOST, Wish, ask};
use crate::desk::Desk;

/// So many polls apart are looks for which nothing is told: 5. Messages are told by who pushes, and what time brings by the look before.
const POLLS: u32 = 5;

/// The same while no messages come in: at most 1 s.
const LOOK_UNSUBSCRIBED: Duration = Duration::from_secs(1);

/// Added to the time in which something is due, so that it is when it is asked for.
const AFTER: Duration = Duration::from_millis(1);

/// How long the subscription outlives the last who waits: 1 s. Who works on a message mostly comes again.
const LINGERS: Duration = Duration::from_secs(1);

/// Why a wait is over.
#[derive(Debug)]
pub(crate) enum Left {
    /// Messages; the caller has a second to take them.
    Given(Offer<Granted>),
    /// No message was there at once, or came within the time of the wait.
    Nothing,
    Failed(ServerError),
    ShuttingDown,
}

/// Messages on their way to who asked. What is not taken out goes back.
#[derive(Debug)]
pub(crate) struct Granted {
    desk: Arc<Desk>,
    given: Vec<Given>,
}

impl Granted {
    pub(crate) fn take(mut self) -> Vec<Given> {
        std::mem::take(&mut self.given)
    }
}

impl Drop for Granted {
    fn drop(&mut self) {
        let given = std::mem::take(&mut self.given);
        self.desk.give_back(given.into_iter().map(|given| given.receipt).collect());
    }
}

/// Those who wait for messages of one queue through one client.
#[derive(Default)]
pub(crate) struct Line {
    state: Mutex<State>,
    /// Somebody has come.
    changed: Notify,
}

#[derive(Default)]
struct State {
    /// In the order in which they came.
    waiting: BTreeMap<u64, Waiting>,
    /// The number of whoever comes next.
    next: u64,
    attended: bool,
    /// When the server last answered a request of this line.
    answered: Option<Instant>,
}

struct Waiting {
    wish: Wish,
    /// Leaves with nothing where there is nothing.
    at_once: bool,
    answer: oneshot::Sender<Left>,
}

/// One who waits. Dropped, it has left.
pub(crate) struct Seat {
    desk: Arc<Desk>,
    number: u64,
    answer: oneshot::Receiver<Left>,
}

impl Line {
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
    }
}

impl Desk {
    /// Comes to wait, or to take what is there `at_once`.
    pub(crate) fn enter(self: &Arc<Self>, wish: Wish, at_once: bool) -> Seat {
        let (sender, answer) = oneshot::channel();
        let mut state = self.line.state();
        let number = state.next;
        state.next += 1;
        state.waiting.insert(number, Waiting { wish, at_once, answer: sender });
        let begins = !std::mem::replace(&mut state.attended, true);
        drop(state);
        match begins {
            true => self.client.run_in_background(attend(Attendance { desk: Arc::clone(self), is_over: false })),
            false => self.line.changed.notify_one(),
        }
        Seat { desk: Arc::clone(self), number, answer }
    }
}

impl Seat {
    /// The end of a wait whose time is over: [`Left::Nothing`] if there was contact with the server.
    pub(crate) fn timed_out(&self) -> Left {
        let answered = self.desk.line.state().answered.unwrap_or(Instant::MIN);
        let failure = self.desk.client.out_of_contact(self.desk.keys.queue(), answered);
        failure.map_or(Left::Nothing, Left::Failed)
    }

    /// Completes when the wait is over.
    pub(crate) async fn left(&mut self) -> Left {
        // Without an answer, what attends to the line has ended with the client.
        (&mut self.answer).await.unwrap_or(Left::ShuttingDown)
    }
}

impl Drop for Seat {
    fn drop(&mut self) {
        self.desk.line.state().waiting.remove(&self.number);
    }
}

/// That somebody attends to a line; however it ends, nobody is left to wait for nothing.
struct Attendance {
    desk: Arc<Desk>,
    is_over: bool,
}

impl Attendance {
    fn nobody_waits(&self) -> bool {
        self.desk.line.state().waiting.is_empty()
    }

    /// Ends it if nobody waits.
    fn is_over(&mut self) -> bool {
        let mut state = self.desk.line.state();
        self.is_over = state.waiting.is_empty();
        state.attended = !self.is_over;
        self.is_over
    }
}

impl Drop for Attendance {
    fn drop(&mut self) {
        // After an orderly end another may attend already.
        if !self.is_over {
            let mut state = self.desk.line.state();
            state.attended = false;
            let waiting = std::mem::take(&mut state.waiting);
            drop(state);
            // Their answers end with their senders.
            drop(waiting);
        }
    }
}

/// A request that is under way.
struct Asking {
    /// Those below had come when it left.
    upto: u64,
    /// Whom it asks for, and how much.
    for_whom: Vec<(u64, usize)>,
    answer: Pin<Box<dyn Future<Output = Result<Answer, ServerError>> + Send>>,
}

/// Asks and listens until nobody waits any more. A request that has left is waited for: what it is given goes to somebody, or back.
async fn attend(mut attendance: Attendance) {
    let desk = Arc::clone(&attendance.desk);
    let clock = desk.client.clock();
    let mut closing = pin!(desk.client.closing());
    let mut hearing: Option<OrderedSubscription> = None;
    let mut asking: Option<Asking> = None;
    // There is a reason to ask; those below had come when it was asked last.
    let (mut is_due, mut seen, mut next_look) = (false, 0, Instant::MIN);
    // When what was told since then is due: its answer need not know of that.
    let mut told = Instant::MAX;
    let mut lingers_until = Instant::MIN;
    loop {
        let nobody = attendance.nobody_waits();
        if asking.is_none() && nobody && clock.now() >= lingers_until && attendance.is_over() {
            return;
        }
        let next = desk.line.state().next;
        if asking.is_none() && !nobody && (is_due || seen < next || clock.now() >= next_look) {
            (is_due, told) = (false, Instant::MAX);
            asking = begin(&desk);
        }
        let wake = if nobody { lingers_until } else { next_look };
        tokio::select! {
            // In this order: at a shutdown requests fail as well, and messages may come without end.
            biased;
            // Who waits is told by the end of the attendance, and so is who comes meanwhile.
            () = &mut closing => return,
            (upto, for_whom, answer) = answered(&mut asking) => {
                seen = upto;
                match answer {
                    Ok(answer) => {
                        desk.line.state().answered = Some(clock.now());
                        let (due, more) = (answer.due, answer.more);
                        let all_given = hand_out(&desk, upto, &for_whom, answer);
                        is_due |= more || all_given;
                        if attendance.nobody_waits() {
                            lingers_until = match hearing {
                                Some(_) => clock.now() + LINGERS,
                                None => Instant::MIN,
                            };
                        } else if hearing.is_none() {
                            // Whose confirmation has it asked once more.
                            hearing = Some(desk.client.subscribe_ordered_unpolled([desk.keys.channel().clone()], desk.keys.queue()));
                        }
                        let poll = desk.client.poll_interval();
                        let within = match hearing.as_ref().is_some_and(OrderedSubscription::is_active) {
                            true => poll * POLLS,
                            false => poll.min(LOOK_UNSUBSCRIBED),
                        };
                        next_look = told.min(clock.now() + within.min(due.map_or(Duration::MAX, |due| due + AFTER)));
                    }
                    Err(error) => let_go(&desk, upto, |_| true, || Left::Failed(error.clone())),
                }
            }
            heard = hear(&mut hearing) => {
                let mut heard = Some(heard);
                while let Some(one) = heard {
                    match due_of(&one) {
                        Some(due) => {
                            told = told.min(clock.now() + due + AFTER);
                            next_look = next_look.min(told);
                        }
                        None => is_due = true,
                    }
                    heard = hearing.as_mut().and_then(OrderedSubscription::take);
                }
            }
            () = desk.line.changed.notified() => {}
            () = clock.sleep_until(wake), if asking.is_none() => {}
        }
    }
}

/// A request for the first of those who wait; none where they have left meanwhile.
fn begin(desk: &Arc<Desk>) -> Option<Asking> {
    let state = desk.line.state();
    let (mut room, mut for_whom, mut wishes) = (MOST, Vec::new(), Vec::new());
    for (number, waiting) in &state.waiting {
        let most = waiting.wish.most.min(room);
        if most == 0 {
            break;
        }
        room -= most;
        for_whom.push((*number, most));
        wishes.push(Wish { most, ..waiting.wish });
    }
    let upto = state.next;
    drop(state);
    let is_one = !wishes.is_empty();
    is_one.then(|| Asking { upto, for_whom, answer: Box::pin(ask(Arc::clone(desk), wishes)) })
}

/// Gives each what is his; whether all got as much as they asked for, so that more may be there for others.
fn hand_out(desk: &Arc<Desk>, upto: u64, for_whom: &[(u64, usize)], answer: Answer) -> bool {
    let mut all_given = true;
    let more = answer.more;
    for ((number, most), given) in for_whom.iter().zip(answer.given) {
        all_given &= given.len() == *most;
        if given.is_empty() {
            continue;
        }
        let granted = Granted { desk: Arc::clone(desk), given };
        let waiting = desk.line.state().waiting.remove(number);
        if let Some(waiting) = waiting {
            // Who has left in between gives it back by not taking it.
            let _ = waiting.answer.send(Left::Given(desk.client.offer(granted)));
        }
    }
    if !all_given && !more {
        let_go(desk, upto, |waiting| waiting.at_once, || Left::Nothing);
    }
    all_given
}

/// Lets those below `number` go of whom it is true.
fn let_go(desk: &Arc<Desk>, number: u64, who: impl Fn(&Waiting) -> bool, left: impl Fn() -> Left) {
    let mut state = desk.line.state();
    let gone: Vec<u64> =
        state.waiting.range(..number).filter(|(_, waiting)| who(waiting)).map(|(number, _)| *number).collect();
    let going: Vec<_> = gone.iter().filter_map(|number| state.waiting.remove(number)).collect();
    drop(state);
    for waiting in going {
        let _ = waiting.answer.send(left());
    }
}

/// In what time something is due by what was heard; `None` where it is to be asked for at once.
fn due_of(heard: &ChannelEvent) -> Option<Duration> {
    let ChannelEvent::Message { payload, .. } = heard else { return None };
    let millis: u64 = std::str::from_utf8(payload).ok()?.parse().ok()?;
    (millis > 0).then(|| Duration::from_millis(millis))
}

async fn hear(hearing: &mut Option<OrderedSubscription>) -> ChannelEvent {
    match hearing {
        Some(hearing) => hearing.next().await,
        None => std::future::pending().await,
    }
}

type Answered = (u64, Vec<(u64, usize)>, Result<Answer, ServerError>);

async fn answered(asking: &mut Option<Asking>) -> Answered {
    let Some(under_way) = asking else { return std::future::pending().await };
    let answer = under_way.answer.as_mut().await;
    let (upto, for_whom) = (under_way.upto, std::mem::take(&mut under_way.for_whom));
    *asking = None;
    (upto, for_whom, answer)
}
