//! The task that takes for those who wait in a line, listens, and puts back what is nobody's.

use std::pin::{Pin, pin};
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use redgrid_core::author::ClientExt;
use redgrid_core::clock::Instant;
use redgrid_core::name::companion;
use redgrid_core::object::chunks;
use redgrid_core::{BackgroundClient, OrderedSubscription, ServerError};

use super::{Items, Left, Line, Source, Taken};

/// How many one request takes: a server does nothing else meanwhile, and remembers them for a lost answer.
const AT_ONCE: usize = 100;

/// The first pause between looks for what nothing is told of, as Redisson's clients publish nothing, and the longest. It doubles while nothing is found.
const PAUSES: (Duration, Duration) = (Duration::from_millis(10), Duration::from_secs(1));

/// A request that takes is waited for as long as it is sent again, and one before it: 120 s, above 30 s each and what they wait for each other.
const LONGEST: Duration = Duration::from_secs(120);

/// The same of one that puts back.
const PUT_BACK: Duration = Duration::from_secs(40);

/// The first pause before what could not be put back is put back again, and the longest.
const AGAIN: (Duration, Duration) = (Duration::from_secs(1), Duration::from_secs(30));

/// So long before somebody's time is over there is a look for it: 50 ms, above a round trip of most.
const LAST_LOOK: Duration = Duration::from_millis(50);

/// Added to how long the next has to wait, so that it is due when it is asked for.
const AFTER: Duration = Duration::from_millis(1);

/// A request that is under way, or due, for longer than this is overdue: 1 s, far above a round trip. Whose time is over then is not told
/// that there was nothing.
const OVERDUE: Duration = Duration::from_secs(1);

/// That somebody attends to a line; however it ends, nobody is left to wait for nothing, and what is lost is told.
pub(super) struct Attendance<S: Source> {
    pub(super) line: Arc<Line<S>>,
    pub(super) is_over: bool,
}

impl<S: Source> Attendance<S> {
    /// Ends it if nobody waits any more and nothing is left.
    fn is_over(&mut self) -> bool {
        let mut state = self.line.state();
        self.is_over = state.waiting.is_empty() && state.spare.is_empty() && state.given.is_empty();
        state.attended = !self.is_over;
        self.is_over
    }
}

impl<S: Source> Drop for Attendance<S> {
    fn drop(&mut self) {
        // After an orderly end another may attend already.
        if self.is_over {
            return;
        }
        let mut state = self.line.state();
        state.attended = false;
        let waiting = std::mem::take(&mut state.waiting);
        let elements = std::mem::take(&mut state.spare).len() + std::mem::take(&mut state.returning).len();
        drop(state);
        // Their answers end with their senders.
        drop(waiting);
        if elements > 0 {
            let key = self.line.key();
            tracing::error!(
                key,
                elements,
                "the client ends before elements of a queue that nobody has were put back: they are lost"
            );
        }
    }
}

/// A request that is under way, for those below `upto`. It is late from `until` on.
struct UnderWay<T> {
    upto: u64,
    until: Instant,
    answer: Pin<Box<dyn Future<Output = Result<T, ServerError>> + Send>>,
}

/// Takes and listens until nobody waits any more.
pub(super) async fn attend<S: Source>(mut attendance: Attendance<S>, on: BackgroundClient) {
    let line = Arc::clone(&attendance.line);
    let clock = on.clock().clone();
    let mut closing = pin!(on.closing());
    let mut hearing: Option<OrderedSubscription> = None;
    let (mut asking, mut putting): (Option<UnderWay<Taken>>, Option<UnderWay<Vec<i64>>>) = (None, None);
    let (mut pause, mut next_look, mut due) = (PAUSES.0, Instant::MIN, true);
    let (mut again, mut next_back) = (AGAIN.0, Instant::MIN);
    loop {
        line.take_again(clock.now());
        line.hand_out();
        let unclaimed_until = line.unclaimed_until();
        let (waits, seen, next, spare) = {
            let state = line.state();
            (state.waiting.len(), state.seen, state.next, !state.spare.is_empty())
        };
        // One at a time: what is put back is to be in front of what is taken next.
        if asking.is_none() && putting.is_none() {
            if waits == 0 {
                if on.is_closing() {
                    break;
                }
                if attendance.is_over() {
                    return;
                }
                if clock.now() >= next_back {
                    putting = line.put_back(&on);
                }
            } else if due || seen < next || clock.now() >= next_look {
                due = false;
                asking = line.ask(&on, next);
                if asking.is_none() {
                    // The client has gone.
                    break;
                }
            }
        }
        let is_idle = asking.is_none() && putting.is_none();
        tokio::select! {
            // In this order: at a shutdown requests fail as well, and messages may come without end.
            biased;
            () = &mut closing => break,
            (upto, answer) = answered(&mut asking, &on) => match answer {
                Some(Ok((items, hint))) => {
                    let found = !items.is_empty();
                    line.takes(items);
                    line.hand_out();
                    pause = if found { PAUSES.0 } else { (pause * 2).min(PAUSES.1) };
                    // What was told meanwhile need not have been seen.
                    due |= hint == 0;
                    let hinted = u64::try_from(hint).map_or(Duration::MAX, |hint| Duration::from_millis(hint) + AFTER);
                    next_look = line.next_look(clock.now(), pause.min(hinted));
                    {
                        let mut state = line.state();
                        (state.seen, state.fresh_until) = (upto, next_look + OVERDUE);
                    }
                    if !due {
                        line.let_go(upto, || Left::Nothing, |waiting| waiting.looks);
                    }
                    if hearing.is_none() && line.state().waiting.range(..upto).next().is_some() {
                        // Whose confirmation has it looked at once more.
                        hearing = line.client.upgrade().map(|client| client.subscribe_ordered_unpolled(line.source.channels(), line.source.key()));
                    }
                }
                Some(Err(error)) => {
                    line.tell(&error);
                    line.state().seen = upto;
                    line.let_go(upto, || Left::Failed(error.clone()), |_| true);
                }
                None => line.let_go(u64::MAX, || Left::Failed(late()), |_| true),
            },
            (_, answer) = answered(&mut putting, &on) => match answer {
                Some(answer) if line.returned(&answer) => {
                    (again, next_back, due) = (AGAIN.0, Instant::MIN, true);
                }
                Some(_) => {
                    next_back = clock.now() + again;
                    again = (again * 2).min(AGAIN.1);
                }
                None => line.let_go(u64::MAX, || Left::Failed(late()), |_| true),
            },
            () = hear(&mut hearing) => {
                while hearing.as_mut().and_then(OrderedSubscription::take).is_some() {}
                (due, pause) = (true, PAUSES.0);
            }
            () = line.changed.notified() => {}
            () = clock.wait_until(unclaimed_until) => {}
            () = clock.sleep_until(next_look), if is_idle && waits > 0 => {}
            () = clock.sleep_until(next_back), if is_idle && waits == 0 && spare => {}
        }
    }
    // Who comes from here on is told by the end of the attendance.
    line.let_go(u64::MAX, || Left::ShuttingDown, |_| true);
    let asked = async {
        let Some(asking) = asking else { return };
        tokio::select! {
            biased;
            answer = asking.answer => match answer {
                Ok((items, _)) => line.takes(items),
                Err(error) => line.tell(&error),
            },
            () = on.nearly_closed(Duration::MAX) => {
                let key = line.key();
                tracing::error!(key, "the client ends before it is known which elements were taken from a queue");
            }
        }
    };
    let put = async {
        match putting {
            Some(putting) => line.returned(&putting.answer.await),
            None => true,
        }
    };
    tokio::join!(asked, put);
    line.take_again(Instant::MAX);
    while let Some(putting) = line.put_back(&on) {
        if !line.returned(&putting.answer.await) {
            // Told by the end of the attendance.
            break;
        }
    }
}

impl<S: Source> Line<S> {
    fn key(&self) -> String {
        String::from_utf8_lossy(self.source.key()).into_owned()
    }

    /// When it is looked again at the latest: after a pause, and shortly before somebody's time is over.
    fn next_look(&self, now: Instant, pause: Duration) -> Instant {
        let state = self.state();
        let last = state.waiting.values().map(|waiting| waiting.until - LAST_LOOK).filter(|last| *last > now).min();
        let last = last.map_or(Instant::MAX, |last| last.max(now + PAUSES.0));
        last.min(now + pause)
    }

    /// Tells of a request that may have taken.
    fn tell(&self, error: &ServerError) {
        if is_unknown(error) {
            tracing::error!(key = self.key(), %error, "it is not known whether elements of a queue were taken: what was is lost");
        }
    }

    /// Puts back what nobody wants, if there is something; of much a part. [`Line::returned`] ends it.
    fn put_back(&self, on: &BackgroundClient) -> Option<UnderWay<Vec<i64>>> {
        let items: Vec<Bytes> = {
            let mut state = self.state();
            let spare: Vec<(u64, Bytes)> = std::mem::take(&mut state.spare).into_iter().collect();
            // The last first: the first are to be in front of them.
            let last = chunks(&spare, |(_, item)| item.len()).last().map_or(0, <[_]>::len);
            let (stays, goes) = spare.split_at(spare.len() - last);
            state.spare = stays.iter().cloned().collect();
            state.returning = goes.iter().cloned().collect();
            state.returning.values().cloned().collect()
        };
        if items.is_empty() {
            return None;
        }
        let unique = companion("redgrid_queue_back", self.source.key());
        let unique = [&unique[..], b":", uuid::Uuid::new_v4().to_string().as_bytes()].concat();
        let (on, request) = (on.clone(), self.source.put_back(unique.into(), &items));
        let (now, patience) = (on.clock().now(), on.contact_timeout());
        let answer = Box::pin(async move { on.run_exactly_once_until(request, now + PUT_BACK).await });
        Some(UnderWay { upto: 0, until: now + patience, answer })
    }

    /// What was on its way back is there, or the line's again; told is whether it is done.
    fn returned(&self, answer: &Result<Vec<i64>, ServerError>) -> bool {
        let Err(error) = answer else {
            self.state().returning.clear();
            return true;
        };
        let (key, is_unknown) = (self.key(), is_unknown(error));
        let elements = {
            let mut state = self.state();
            let returning: Items = std::mem::take(&mut state.returning);
            let elements = returning.len();
            if !is_unknown {
                state.spare.extend(returning);
            }
            elements
        };
        if is_unknown {
            tracing::error!(key, elements, %error, "it is not known whether elements of a queue that nobody has were put back");
        } else {
            tracing::warn!(key, elements, %error, "elements of a queue that nobody has were not put back yet");
        }
        is_unknown
    }

    /// Sends a request for those who wait, unless the client has gone; who comes later has the number `next` or a higher one.
    fn ask(&self, on: &BackgroundClient, next: u64) -> Option<UnderWay<Taken>> {
        let (client, now) = (self.client.upgrade()?, on.clock().now());
        let (most, upto) = {
            let mut state = self.state();
            state.fresh_until = state.fresh_until.min(now + OVERDUE);
            let most = state.waiting.len().clamp(1, AT_ONCE);
            (most, state.waiting.keys().nth(most).copied().unwrap_or(next))
        };
        let request = self.source.take(most);
        let answer = Box::pin(async move { client.run_exactly_once_until(request, now + LONGEST).await });
        Some(UnderWay { upto, until: now + on.contact_timeout(), answer })
    }
}

/// The answer; or nothing, whenever that is late by as long as a call may be without contact: all who wait by then are told.
async fn answered<T>(slot: &mut Option<UnderWay<T>>, on: &BackgroundClient) -> (u64, Option<Result<T, ServerError>>) {
    let Some(UnderWay { upto, until, answer }) = slot else { return std::future::pending().await };
    let (upto, answer) = tokio::select! {
        biased;
        answer = answer => (*upto, answer),
        () = on.clock().sleep_until(*until) => {
            *until = on.clock().now() + on.contact_timeout();
            return (*upto, None);
        }
    };
    *slot = None;
    (upto, Some(answer))
}

fn is_unknown(error: &ServerError) -> bool {
    matches!(error, ServerError::Unknown { .. } | ServerError::Decode { .. })
}

fn late() -> ServerError {
    ServerError::Unknown { reason: "no answer came in time; what is taken goes to others, or back".into() }
}

async fn hear(hearing: &mut Option<OrderedSubscription>) {
    match hearing {
        Some(hearing) => drop(hearing.next().await),
        None => std::future::pending().await,
    }
}
