//! Who asks the server for those who wait in a line.

use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use redgrid_core::author::ClientExt;
use redgrid_core::{Failure, OrderedSubscription, ServerError};

use crate::error::LimitError;
use crate::queue::{AHEAD, Batch, Limit, Offered, Queue};
use crate::told::{Told, Verdict, Wish};

/// So long before its time who waits is asked for: 60 ms, which leaves an answer as much time to come.
const EARLY: Duration = Duration::from_millis(60);

/// How long to wait at least before the same is asked again, where it is not due sooner: 5 ms.
const LEAST: Duration = Duration::from_millis(5);

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
    let mut hearing: Option<OrderedSubscription> = None;
    while !attendance.is_over() {
        let batch = queue.first();
        let wishes: Vec<Wish> = batch.asked.iter().map(|(_, wish)| *wish).collect();
        let told = tokio::select! {
            biased;
            // Who waits is told by the end of the attendance.
            () = &mut closing => return,
            told = queue.limit.ask(client, &wishes, batch.until) => told,
        };
        let Some((wish, wait)) = tell(&queue, batch, told) else { continue };
        if hearing.is_none() && wait > LISTENS {
            // Whose confirmation is a reason to look.
            let (key, channel) = queue.limit.place();
            hearing = Some(client.subscribe_ordered_unpolled([channel.clone()], key));
        }
        // Who hears of all changes looks for what nobody tells, such as a key that was deleted by hand, less often the longer it waits.
        let hears = L::IS_TOLD && hearing.as_ref().is_some_and(OrderedSubscription::is_active);
        let poll = client.poll_interval().max(if hears { wait / 8 } else { Duration::ZERO });
        let wake = clock.now() + pause(wish, wait).min(poll);
        tokio::select! {
            biased;
            () = &mut closing => return,
            () = hear(&mut hearing) => {}
            () = queue.changed.notified() => {}
            () = clock.sleep_until(wake) => {}
        }
    }
}

/// When to ask again for one who was told to wait for so long.
fn pause(wish: Wish, wait: Duration) -> Duration {
    // Whose bound is near can not be given anything ahead of his turn, or none comes before his bound.
    let early = if wish.ahead < AHEAD { Duration::ZERO } else { EARLY };
    // What is due sooner was not given ahead: there a look in between is worth while.
    let pause = if wait > early { wait - early } else { wait / 2 };
    pause.max(LEAST.min(wait)).max(Duration::from_millis(1))
}

/// Tells those who asked; the first who waits, and for how long, and none where it is to be asked again at once.
fn tell<L: Limit>(
    queue: &Arc<Queue<L>>,
    batch: Batch,
    told: Result<Option<Told>, ServerError>,
) -> Option<(Wish, Duration)> {
    let (now, name) = (queue.client.clock().now(), queue.limit.name());
    let (upto, Batch { asked, until, here }) = (batch.upto(), batch);
    queue.state().asking = None;
    let told = match told {
        Ok(Some(told)) if told.verdicts.len() == asked.len() => told,
        other => {
            let error = match other {
                Ok(None) => LimitError::RateNotSet { name: name.clone() },
                Ok(Some(told)) => {
                    let source = ServerError::Decode {
                        expected: "a verdict for each",
                        got: format!("{} for {}", told.verdicts.len(), asked.len()),
                    };
                    LimitError::of(&queue.client, name, source)
                }
                Err(source) => LimitError::of(&queue.client, name, source),
            };
            asked.into_iter().for_each(|(number, _)| queue.answer(number, Err(error.clone())));
            let behind = match error {
                // Those who stood behind had no contact either, for as long.
                LimitError::Failed(Failure::OutcomeUnknown { .. }) => {
                    let source = ServerError::NotSent { reason: "no server was reached in time".into() };
                    Failure::Unavailable { operation: LimitError::operation(name), source }.into()
                }
                LimitError::Failed(Failure::Unavailable { .. } | Failure::Unauthorized { .. }) => error,
                _ => return None,
            };
            queue.answer_each(upto..here, |one| one.ends_by(until), || Err(behind.clone()));
            return None;
        }
    };
    let mut first = None;
    for ((number, wish), verdict) in asked.into_iter().zip(&told.verdicts) {
        match verdict {
            Verdict::Taken { entry, after } => {
                let entry = queue.limit.entry(&told, *entry);
                queue.answer(number, Ok(Some(Offered::new(queue, now + *after, wish.permits, entry))));
            }
            Verdict::TooMany => {
                let (name, permits, most) = (name.clone(), wish.permits, told.most);
                queue.answer(number, Err(LimitError::TooManyPermits { name, permits, most }));
            }
            Verdict::NotNow if wish.waits => first = first.or(Some((number, wish))),
            Verdict::NotNow if told.again => {}
            Verdict::NotNow => queue.answer(number, Ok(None)),
        }
    }
    let mut state = queue.state();
    // Behind one who waits nobody is asked for: all who are here know.
    let seen = if first.is_some() { state.next } else { upto };
    state.seen = state.seen.max(seen);
    let (first, wish) = first?;
    // Another may be the first by now.
    let is_first = state.waiting.keys().next() == Some(&first);
    state.full = is_first && !told.again;
    if !state.full {
        return None;
    }
    drop(state);
    queue.answer_each(upto..seen, |one| !one.waits, || Ok(None));
    Some((wish, told.next))
}

async fn hear(hearing: &mut Option<OrderedSubscription>) {
    match hearing {
        Some(hearing) => {
            hearing.next().await;
            while hearing.take().is_some() {}
        }
        None => std::future::pending().await,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_was_told_to_wait_is_asked_for_early_but_not_all_the_time() {
        let ms = Duration::from_millis;
        let pause = |ahead, wait| pause(Wish { permits: 1, ahead: ms(ahead), waits: true }, ms(wait));
        assert_eq!((pause(100, 1000), pause(100, 101), pause(100, 61)), (ms(940), ms(41), ms(5)));
        // Nothing comes before his bound, or is given ahead.
        assert_eq!((pause(80, 81), pause(10, 60), pause(0, 3)), (ms(81), ms(60), ms(3)));
        assert_eq!((pause(100, 60), pause(100, 8), pause(100, 3), pause(100, 0)), (ms(30), ms(5), ms(3), ms(1)));
    }
}
