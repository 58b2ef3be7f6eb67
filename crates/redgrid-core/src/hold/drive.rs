//! The loop of a name that more than one waits for, or that others hold: only the first of the queue talks to the server.
//!
//! Try; if taken, watch the channel; try again when the subscription is confirmed, and from then on at every message, gap,
//! look of the poll that finds the key gone, and when the lease that was told has run out. After a stretch of ours others
//! go first: then only the end of the turn, or silence, is a reason to try.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use tokio::sync::Notify;

use super::attempt::Attempt;
use super::table::{Busy, Place, SlotKey, Table};
use super::turn::Turn;
use crate::clock::Instant;
use crate::wait::Watch;

/// How much later than asked for a timer fires on a machine that is not busy: its resolution is 1 ms.
const LATE: Duration = Duration::from_millis(2);

enum Step {
    /// Nobody waits any more.
    Done,
    /// We hold the name, or something of ours is in flight: wait for a change. From `listen_at` on the end of the stretch is
    /// near, and what others do is to be heard.
    Local {
        listen_at: Instant,
    },
    Try(Box<Attempt>),
    /// Others go first.
    Yield,
}

/// What the loop knows of a name.
struct Course {
    key: SlotKey,
    place: Place,
    channel: Bytes,
    mark: Bytes,
    changed: Arc<Notify>,
    watch: Option<Watch>,
    turn: Option<Turn>,
}

impl Course {
    /// The subscription, begun where there is none.
    fn watch(&mut self) -> &mut Watch {
        let Course { place, channel, key, mark, watch, .. } = self;
        watch.get_or_insert_with(|| place.hub.watch_contended(channel.clone(), key.1.clone(), mark.clone()))
    }

    /// Whether everybody had a turn.
    fn turn_is_over(&mut self) -> bool {
        let heard = self.place.hub.heard(&self.channel);
        self.turn.as_mut().is_none_or(|turn| turn.is_over(heard))
    }
}

impl Table {
    pub(super) async fn drive(self: Arc<Self>, key: SlotKey) {
        let Some(mut course) = self.course(key) else { return };
        loop {
            match self.step(&mut course) {
                Step::Done => return,
                Step::Local { listen_at } => {
                    if course.watch.is_none() && self.now() >= listen_at {
                        course.watch();
                    }
                    let listen_at = if course.watch.is_none() { listen_at } else { Instant::NEVER };
                    tokio::select! {
                        () = course.changed.notified() => {}
                        () = self.core.clock.sleep_until(listen_at) => {}
                    }
                }
                Step::Try(attempt) => {
                    if let Some(left) = self.try_for(*attempt).await {
                        self.until_worth_a_try(&mut course, left, false).await;
                    }
                }
                Step::Yield => self.until_worth_a_try(&mut course, Duration::MAX, true).await,
            }
        }
    }

    fn course(&self, key: SlotKey) -> Option<Course> {
        let state = self.state();
        let slot = state.slots.get(&key)?;
        let (place, changed) = (slot.place.clone(), Arc::clone(&slot.changed));
        let (channel, mark) = (slot.target.channel.clone(), slot.target.mark.clone());
        Some(Course { key, place, channel, mark, changed, watch: None, turn: None })
    }

    fn step(self: &Arc<Self>, course: &mut Course) -> Step {
        let mut state = self.state();
        let Some(slot) = state.slots.get_mut(&course.key) else { return Step::Done };
        slot.contended = false;
        slot.queue.retain(|entry| !entry.answer.is_closed());
        if slot.queue.is_empty() {
            slot.driven = false;
            slot.turn = None;
            Self::sweep(&mut state, &course.key);
            return Step::Done;
        }
        if let Some(tenure) = &slot.tenure {
            course.turn = None;
            let half = self.stretch(&slot.place) / 2;
            return Step::Local { listen_at: tenure.stretch_ends - half };
        }
        if slot.busy != Busy::No || slot.asking {
            return Step::Local { listen_at: Instant::NEVER };
        }
        if let Some(turn) = slot.turn.take() {
            course.turn = Some(turn);
            slot.contended = true;
            return Step::Yield;
        }
        match self.attempt_of(&course.key, slot) {
            Some(attempt) => {
                slot.asking = true;
                Step::Try(Box::new(attempt))
            }
            None => Step::Local { listen_at: Instant::NEVER },
        }
    }

    /// Waits until another try may succeed, or nobody waits any more. The name is taken for `left`; without a probe, silence
    /// is a reason to try while others go first.
    async fn until_worth_a_try(&self, course: &mut Course, left: Duration, mut probe: bool) {
        let until = self.now() + left.min(Duration::from_secs(3600));
        let mut quiet_since = self.now();
        course.watch();
        loop {
            if course.turn.is_some() && course.turn_is_over() {
                course.turn = None;
                return;
            }
            let silence = match &course.turn {
                Some(turn) if probe => quiet_since + turn.silence(course.place.hub.heard(&course.channel)),
                _ => Instant::NEVER,
            };
            let Course { watch, changed, turn, key, .. } = &mut *course;
            let Some(watch) = watch else { return };
            tokio::select! {
                _ = watch.wake() => {
                    if turn.is_none() {
                        return;
                    }
                    // Each message, and each reason to look, is followed by one probe when it stays silent.
                    (quiet_since, probe) = (self.now(), true);
                }
                () = self.core.clock.sleep_until(until) => return,
                () = self.core.clock.sleep_until(silence) => {
                    let late = self.now().since(silence);
                    if late <= LATE {
                        return;
                    }
                    // Who is woken late on a busy machine may not take the lateness of others for silence.
                    quiet_since = silence + late * 3;
                }
                () = changed.notified() => if self.nobody_waits(key) { return },
            }
        }
    }

    fn nobody_waits(&self, key: &SlotKey) -> bool {
        let state = self.state();
        state.slots.get(key).is_none_or(|slot| slot.queue.iter().all(|entry| entry.answer.is_closed()))
    }
}
