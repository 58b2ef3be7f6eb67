//! Who asks the server for those who wait in a line.

use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use redgrid_core::{Hearing, ServerError};

use crate::error::LimitError;
use crate::queue::{Granted, Limit, Queue};
use crate::told::{Told, Verdict, Wish};

/// So long before its time who waits is asked for: 60 ms, which leaves an answer as much time to come.
const EARLY: Duration = Duration::from_millis(60);

/// Who waits for longer listens meanwhile: 200 ms.
const LISTENS: Duration = Duration::from_millis(200);

/// That somebody asks for those who wait; however it ends, nobody is left to wait for nothing.
pub(crate) struct Attendance<L: Limit> {
    queue: Arc<Queue<L>>,
    is_over: bool,
}

impl<L: Limit> Attendance<L> {
    pub(crate) fn new(queue: &Arc<Queue<L>>) -> Self {
        Attendance { queue: Arc::clone(queue), is_over: false }
    }

    /// Ends it if nobody waits any more.
    fn is_over(&mut self) -> bool {
        let mut state = self.queue.state();
        self.is_over = state.waiting.is_empty();
        state.attended = !self.is_over;
        state.full &= !self.is_over;
        self.is_over
    }
}

impl<L: Limit> Drop for Attendance<L> {
    fn drop(&mut self) {
        // After an orderly end another may attend already.
        if !self.is_over {
            let mut state = self.queue.state();
            (state.attended, state.full, state.asking) = (false, false, None);
            let waiting = std::mem::take(&mut state.waiting);
            drop(state);
            // Their answers end with their senders.
            drop(waiting);
        }
    }
}

/// Asks for those who wait until nobody does any more.
pub(crate) async fn attend<L: Limit>(mut attendance: Attendance<L>) {
    let queue = Arc::clone(&attendance.queue);
    let (client, clock) = (&queue.client, queue.client.clock());
    let mut closing = pin!(client.closing());
    let mut hearing: Option<Hearing> = None;
    while !attendance.is_over() {
        let (asked, until) = queue.first();
        let wishes: Vec<Wish> = asked.iter().map(|(_, wish)| *wish).collect();
        let told = tokio::select! {
            biased;
            // Who waits is told by the end of the attendance.
            () = &mut closing => return,
            told = queue.limit.ask(client, &wishes, until) => told,
        };
        let Some(wait) = tell(&queue, asked, told) else { continue };
        if hearing.is_none() && wait > LISTENS {
            // Whose confirmation is a reason to look.
            let (key, channel) = queue.limit.place();
            hearing = Some(client.hear_only([channel.clone()], key));
        }
        let wake = clock.now() + wait.saturating_sub(EARLY).min(client.poll_interval());
        tokio::select! {
            biased;
            () = &mut closing => return,
            () = hear(&mut hearing) => {}
            () = queue.changed.notified() => {}
            () = clock.sleep_until(wake) => {}
        }
    }
}

/// Tells those who asked; how long the first has to wait, and none where it is to be asked again at once.
fn tell<L: Limit>(
    queue: &Arc<Queue<L>>,
    asked: Vec<(u64, Wish)>,
    told: Result<Option<Told>, ServerError>,
) -> Option<Duration> {
    let (now, name) = (queue.client.clock().now(), queue.limit.name());
    let upto = asked.last().map_or(0, |(number, _)| number + 1);
    queue.state().asking = None;
    let told = match told {
        Ok(Some(told)) if told.verdicts.len() == asked.len() => told,
        other => {
            let error = match other {
                Ok(None) => LimitError::RateNotSet { name: name.clone() },
                Ok(Some(told)) => {
                    let source = ServerError::Decode { expected: "a verdict for each", got: format!("{told:?}") };
                    LimitError::of(&queue.client, name, source)
                }
                Err(source) => LimitError::of(&queue.client, name, source),
            };
            asked.into_iter().for_each(|(number, _)| queue.answer(number, Err(error.clone())));
            return None;
        }
    };
    let mut first = None;
    for ((number, wish), verdict) in asked.into_iter().zip(&told.verdicts) {
        match verdict {
            Verdict::Taken { entry, after } => {
                let entry = queue.limit.entry(&told, *entry);
                queue.answer(number, Ok(Some(Granted::new(queue, now + *after, wish.permits, entry))));
            }
            Verdict::TooMany => {
                let (name, permits, most) = (name.clone(), wish.permits, told.most);
                queue.answer(number, Err(LimitError::TooManyPermits { name, permits, most }));
            }
            Verdict::NotNow if wish.waits => first = first.or(Some(number)),
            Verdict::NotNow if told.again => {}
            Verdict::NotNow => queue.answer(number, Ok(None)),
        }
    }
    let mut state = queue.state();
    state.seen = state.seen.max(upto);
    // Another may be the first by now.
    let is_first = state.waiting.keys().next().copied() == first;
    state.full = first.is_some() && is_first && !told.again;
    state.full.then_some(told.next)
}

async fn hear(hearing: &mut Option<Hearing>) {
    match hearing {
        Some(hearing) => {
            hearing.next().await;
            while hearing.take().is_some() {}
        }
        None => std::future::pending().await,
    }
}
