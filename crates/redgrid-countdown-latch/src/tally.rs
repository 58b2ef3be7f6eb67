//! Count-downs of one latch through one client: those that come while one is under way go together.
//!
//! What acts once goes one after another, so of very many at once the last would wait for as many round trips. The first goes by
//! itself; those that come meanwhile are one request, and each is told what was left as if it had gone in its turn.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard};

use redgrid_core::clock::Instant;
use redgrid_core::{Client, ServerError};
use tokio::sync::oneshot;

use crate::keys::Keys;

type Told = Result<u64, ServerError>;

/// Those who count one latch down through one client.
pub(crate) struct Tally {
    client: Client,
    keys: Arc<Keys>,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    /// In the order in which they came.
    waiting: BTreeMap<u64, One>,
    /// The number of whoever comes next.
    next: u64,
    /// Somebody counts down, and sees to those who wait then.
    busy: bool,
}

/// One who waits.
struct One {
    by: i64,
    until: Instant,
    answer: oneshot::Sender<Told>,
}

impl Tally {
    /// That of a latch.
    pub(crate) fn of(client: &Client, keys: &Arc<Keys>) -> Arc<Tally> {
        client.shared(&keys.count, || Tally { client: client.clone(), keys: Arc::clone(keys), state: Mutex::default() })
    }

    /// What is left.
    pub(crate) async fn count_down(self: Arc<Self>, by: i64) -> Told {
        let until = self.client.clock().now() + self.client.patience();
        match self.enter(by, until) {
            Some(place) => place.told(until).await,
            None => {
                let _first = First(Arc::clone(&self));
                let before = self.keys.count_down(&self.client, by, until).await?;
                Ok(left(before, by))
            }
        }
    }

    /// A place among those who wait; none for the first.
    fn enter(self: &Arc<Self>, by: i64, until: Instant) -> Option<Place> {
        let mut state = self.state();
        if !std::mem::replace(&mut state.busy, true) {
            return None;
        }
        let (sender, answer) = oneshot::channel();
        let number = state.next;
        state.next += 1;
        state.waiting.insert(number, One { by, until, answer: sender });
        drop(state);
        Some(Place { tally: Arc::clone(self), number, answer })
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
    }
}

/// What is left of a count; it may have been below 0 by somebody's hand.
fn left(before: i64, by: i64) -> u64 {
    u64::try_from(before.saturating_sub(by)).unwrap_or(0)
}

/// The place of one who waits. Dropped before its request is made up, it does not count.
struct Place {
    tally: Arc<Tally>,
    number: u64,
    answer: oneshot::Receiver<Told>,
}

impl Place {
    async fn told(mut self, until: Instant) -> Told {
        // Who was not on its way is told so.
        let ended = |_| Err(ServerError::Unknown { reason: "the client is shut down".into() });
        let clock = self.tally.client.clock().clone();
        tokio::select! {
            biased;
            told = &mut self.answer => return told.unwrap_or_else(ended),
            () = clock.wait_until(until) => {}
        }
        if self.leave() {
            return Err(ServerError::NotSent { reason: "those before it were not answered in time".into() });
        }
        // On its way, for as long as the last of those it goes with may take.
        (&mut self.answer).await.unwrap_or_else(ended)
    }

    /// Whether it was still to be sent.
    fn leave(&self) -> bool {
        self.tally.state().waiting.remove(&self.number).is_some()
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        self.leave();
    }
}

/// The one that goes by itself. When it is answered, or given up, those who came meanwhile are seen to in the background.
struct First(Arc<Tally>);

impl Drop for First {
    fn drop(&mut self) {
        let mut state = self.0.state();
        state.busy = !state.waiting.is_empty();
        let others = state.busy;
        drop(state);
        if others {
            self.0.client.run_in_background(serve(Serving { tally: Arc::clone(&self.0), is_over: false }));
        }
    }
}

/// That somebody sees to those who wait; however it ends, nobody waits for nothing.
struct Serving {
    tally: Arc<Tally>,
    is_over: bool,
}

impl Serving {
    /// Those who wait, as many as fit into one count, and their sum; it is over when nobody does.
    fn group(&mut self) -> Option<(i64, Vec<One>)> {
        let mut state = self.tally.state();
        let (mut sum, mut group) = (0_i64, Vec::new());
        while let Some(first) = state.waiting.first_entry() {
            let Some(more) = sum.checked_add(first.get().by) else { break };
            sum = more;
            group.push(first.remove());
        }
        self.is_over = group.is_empty();
        state.busy = !self.is_over;
        (!self.is_over).then_some((sum, group))
    }
}

impl Drop for Serving {
    fn drop(&mut self) {
        // After an orderly end another may have come first already.
        if !self.is_over {
            let mut state = self.tally.state();
            state.busy = false;
            let waiting = std::mem::take(&mut state.waiting);
            drop(state);
            for one in waiting.into_values() {
                let _ = one.answer.send(Err(ServerError::NotSent { reason: "the client is shut down".into() }));
            }
        }
    }
}

async fn serve(mut serving: Serving) {
    let tally = Arc::clone(&serving.tally);
    while let Some((sum, group)) = serving.group() {
        let until = group.iter().map(|one| one.until).max().unwrap_or(Instant::PAST);
        let mut before = tally.keys.count_down(&tally.client, sum, until).await;
        for One { by, answer, .. } in group {
            // Who has left needs no answer.
            let _ = answer.send(before.clone().map(|before| left(before, by)));
            before = before.map(|before| before.saturating_sub(by));
        }
    }
}

impl fmt::Debug for Tally {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Tally").field("keys", &self.keys).finish_non_exhaustive()
    }
}
