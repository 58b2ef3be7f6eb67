//! The task that takes for those who wait in a line, listens, and puts back what is nobody's.

use std::pin::{Pin, pin};
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use redgrid_core::clock::Instant;
use redgrid_core::name::companion;
use redgrid_core::object::parts;
use redgrid_core::{Attendant, Hearing, ServerError};

use super::{Left, Line, Source, Taken};

/// How many one request takes: a server does nothing else meanwhile, and remembers them for a lost answer.
const AT_ONCE: usize = 100;

/// The first pause between looks for what nothing is told of, as Redisson's clients publish nothing, and the longest. It doubles while nothing is found.
const PAUSES: (Duration, Duration) = (Duration::from_millis(10), Duration::from_secs(1));

/// A request that takes is waited for as long as it is sent again, and one before it: 120 s, above 30 s each and what they wait for each other.
const LONGEST: Duration = Duration::from_secs(120);

/// The same of one that puts back.
const PUT_BACK: Duration = Duration::from_secs(40);

/// Added to how long the next has to wait, so that it is due when it is asked for.
const AFTER: Duration = Duration::from_millis(1);

/// A request that is under way, or due, for longer than this is overdue: 1 s, far above a round trip. Whose time is over then is not told
/// that there was nothing.
const OVERDUE: Duration = Duration::from_secs(1);

/// That somebody attends to a line; however it ends, nobody is left to wait for nothing.
pub(super) struct Attendance<S: Source> {
    pub(super) line: Arc<Line<S>>,
    pub(super) is_over: bool,
}

impl<S: Source> Attendance<S> {
    /// Ends it if nobody waits any more and nothing is left.
    fn is_over(&mut self) -> bool {
        let mut state = self.line.state();
        self.is_over = state.waiting.is_empty() && state.spare.is_empty();
        state.attended = !self.is_over;
        self.is_over
    }
}

impl<S: Source> Drop for Attendance<S> {
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

/// A request that is under way, for those below `upto`. It is late from `until` on.
struct Asking {
    upto: u64,
    until: Instant,
    answer: Pin<Box<dyn Future<Output = Result<Taken, ServerError>> + Send>>,
}

/// Takes and listens until nobody waits any more.
pub(super) async fn attend<S: Source>(mut attendance: Attendance<S>, on: Attendant) {
    let line = Arc::clone(&attendance.line);
    let clock = on.clock().clone();
    let mut closing = pin!(on.closing());
    let mut hearing: Option<Hearing> = None;
    let mut asking: Option<Asking> = None;
    let (mut pause, mut next_look, mut due) = (PAUSES.0, Instant::PAST, true);
    loop {
        line.hand_out();
        let (waits, seen, next, spare) = {
            let state = line.state();
            (state.waiting.len(), state.seen, state.next, !state.spare.is_empty())
        };
        if waits == 0 && asking.is_none() {
            if on.is_closing() {
                break;
            }
            if attendance.is_over() {
                return;
            }
            if spare && !line.put_back(&on).await {
                tokio::select! {
                    biased;
                    () = &mut closing => break,
                    () = line.changed.notified() => {}
                    () = clock.sleep_until(clock.now() + PAUSES.1) => {}
                }
            }
            continue;
        }
        if asking.is_none() && (due || seen < next || clock.now() >= next_look) {
            due = false;
            asking = Some(line.ask(&on, next));
        }
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
                    due = hint == 0;
                    let hinted = u64::try_from(hint).map_or(Duration::MAX, |hint| Duration::from_millis(hint) + AFTER);
                    next_look = clock.now() + pause.min(hinted);
                    {
                        let mut state = line.state();
                        (state.seen, state.fresh_until) = (upto, next_look + OVERDUE);
                    }
                    if !due {
                        line.let_go(upto, || Left::Nothing, |waiting| waiting.looks);
                    }
                    if hearing.is_none() && line.state().waiting.range(..upto).next().is_some() {
                        // Whose confirmation has it looked at once more.
                        hearing = Some(line.client.hear_only(line.source.channels(), line.source.key()));
                    }
                }
                Some(Err(error)) => {
                    line.state().seen = upto;
                    line.let_go(upto, || Left::Failed(error.clone()), |_| true);
                }
                None => line.let_go(upto, || Left::Failed(late()), |_| true),
            },
            () = hear(&mut hearing) => {
                while hearing.as_mut().and_then(Hearing::take).is_some() {}
                (due, pause) = (true, PAUSES.0);
            }
            () = line.changed.notified() => {}
            () = clock.sleep_until(next_look), if asking.is_none() => {}
        }
    }
    // Who comes from here on is told by the end of the attendance.
    line.let_go(u64::MAX, || Left::ShuttingDown, |_| true);
    tokio::select! {
        biased;
        items = last(asking) => line.takes(items),
        () = on.nearly_closed(Duration::MAX) => {
            let key = String::from_utf8_lossy(line.source.key()).into_owned();
            tracing::error!(key, "the client ends before it is known which elements were taken from a queue");
        }
    }
    line.put_back(&on).await;
}

impl<S: Source> Line<S> {
    /// Puts back what nobody wants. What could not be is the line's again; told is whether all is done.
    async fn put_back(&self, on: &Attendant) -> bool {
        let spare: Vec<(u64, Bytes)> = std::mem::take(&mut self.state().spare).into_iter().collect();
        let all: Vec<&[(u64, Bytes)]> = parts(&spare, |(_, item)| item.len()).collect();
        // The last first: the first are to be in front of them.
        for (at, part) in all.iter().enumerate().rev() {
            let items: Vec<Bytes> = part.iter().map(|(_, item)| item.clone()).collect();
            let unique = companion("redgrid_queue_back", self.source.key());
            let unique = [&unique[..], b":", uuid::Uuid::new_v4().to_string().as_bytes()].concat();
            let request = self.source.put_back(unique.into(), &items);
            match on.run_once_until::<Vec<i64>>(request, on.clock().now() + PUT_BACK).await {
                Ok(_) => {}
                Err(error @ (ServerError::Unknown { .. } | ServerError::Decode { .. })) => {
                    let key = String::from_utf8_lossy(self.source.key()).into_owned();
                    tracing::error!(key, elements = items.len(), %error, "it is not known whether elements of a queue that nobody has were put back");
                }
                Err(error) => {
                    let key = String::from_utf8_lossy(self.source.key()).into_owned();
                    tracing::warn!(key, elements = items.len(), %error, "elements of a queue that nobody has were not put back yet");
                    self.state().spare.extend(all[..=at].iter().flat_map(|part| part.iter().cloned()));
                    return false;
                }
            }
        }
        true
    }

    /// Sends a request for those who wait; who comes later has the number `next` or a higher one.
    fn ask(&self, on: &Attendant, next: u64) -> Asking {
        let now = on.clock().now();
        let (most, upto) = {
            let mut state = self.state();
            state.fresh_until = state.fresh_until.min(now + OVERDUE);
            let most = state.waiting.len().clamp(1, AT_ONCE);
            (most, state.waiting.keys().nth(most).copied().unwrap_or(next))
        };
        let (client, request) = (self.client.clone(), self.source.take(most));
        let answer = Box::pin(async move { client.run_once_until(request, now + LONGEST).await });
        Asking { upto, until: now + on.patience(), answer }
    }
}

/// The answer; or nothing, whenever that is late by as long as a call may be without contact: all who wait by then are told.
async fn answered(asking: &mut Option<Asking>, on: &Attendant) -> (u64, Option<Result<Taken, ServerError>>) {
    let Some(Asking { upto, until, answer }) = asking else { return std::future::pending().await };
    let (upto, answer) = tokio::select! {
        biased;
        answer = answer => (*upto, answer),
        () = on.clock().sleep_until(*until) => {
            *until = on.clock().now() + on.patience();
            return (u64::MAX, None);
        }
    };
    *asking = None;
    (upto, Some(answer))
}

/// What the last request takes.
async fn last(asking: Option<Asking>) -> Vec<Bytes> {
    match asking {
        Some(asking) => asking.answer.await.map(|(items, _)| items).unwrap_or_default(),
        None => Vec::new(),
    }
}

fn late() -> ServerError {
    ServerError::Unknown { reason: "no answer came in time; what is taken goes to others, or back".into() }
}

async fn hear(hearing: &mut Option<Hearing>) {
    match hearing {
        Some(hearing) => drop(hearing.next().await),
        None => std::future::pending().await,
    }
}
