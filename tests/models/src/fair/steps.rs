//! The steps: our scripts, a try of a Redisson client, and the passing of time.

use super::{AHEAD, Client, Fair, LEASE, Phase, Place, Request, State, THEIRS, WAIT};

impl Fair {
    /// Runs our script that acquires the lock, or adds a place.
    pub(super) fn acquire(&self, state: &mut State, request: Request, lost: bool) {
        let Request { id, field, not_after } = request;
        if self.rules.not_after && state.now > not_after {
            return;
        }
        self.remove_dead(state);
        let own = |place: &Place| place.id == id && place.field == field;
        let head = state.queue.first().is_none_or(own);
        let is_free = state.lock.is_none();
        if is_free && (head || !self.rules.only_the_head) {
            if !head {
                let before = state.queue.iter().take_while(|place| !own(place));
                state.overtaken |= before.filter(|place| state.lives(place)).count() > 0;
            }
            state.remove_place(WAIT, own);
            self.raise_scores(state);
            state.lock = Some((id, state.now + LEASE));
            let client = state.client(id);
            match client.phase {
                // A grant to a client that gave up is released. A dead client ignores its grant.
                Phase::GaveUp if client.again_at.is_none() => {
                    state.lock = None;
                    state.notify_head(false);
                }
                Phase::Requesting | Phase::Waiting => (client.phase, client.notified) = (Phase::Holding, false),
                _ => {}
            }
            return;
        }
        if !state.queue.iter().any(own) {
            let last = state.queue.last().map_or(state.now, |place| place.score);
            let kept = Some(state.now + 1);
            state.queue.push(Place { id, field, score: last + WAIT, kept });
            self.raise_scores(state);
        }
        let client = state.client(id);
        match client.phase {
            Phase::Requesting if !lost => {
                (client.phase, client.queued, client.kept_alive) = (Phase::Waiting, true, false);
            }
            // The client has given up, so this answer makes it give up again.
            Phase::GaveUp if client.again_at.is_none() && !lost && self.rules.gives_up_twice => {
                self.give_up(state, id, false);
            }
            _ => {}
        }
    }

    /// Runs our script that keeps a place alive and checks the lock.
    pub(super) fn keep_alive(&self, state: &mut State, id: u8) {
        let now = state.now;
        state.client(id).kept_alive = true;
        let Some(place) = state.queue.iter_mut().find(|place| place.id == id) else {
            if self.rules.enqueues_again {
                (state.client(id).phase, state.client(id).queued) = (Phase::Requesting, false);
            }
            return;
        };
        place.kept = Some(now + 1);
        let before = state.queue.first().copied();
        self.remove_dead(state);
        self.raise_scores(state);
        if state.lock.is_none() && self.rules.checks_by_itself {
            let head = state.queue.first().copied();
            if head.is_some_and(|head| head.id == id) {
                state.client(id).notified = true;
            } else if head != before {
                state.notify_head(false);
            }
        }
    }

    /// Removes dead places of ours, and a head of Redisson's after its score has passed.
    pub(super) fn remove_dead(&self, state: &mut State) {
        let now = state.now;
        let rules = self.rules;
        loop {
            let dead = |place: &Place| rules.removes_the_dead && place.kept.is_some_and(|kept| kept < now);
            let over = |at: usize, place: &Place| {
                at == 0 && rules.removes_theirs && place.kept.is_none() && place.score <= now
            };
            let Some(at) = state.queue.iter().enumerate().position(|(at, place)| dead(place) || over(at, place)) else {
                return;
            };
            let out = state.queue[at];
            state.dead_removed |= out.kept.is_some() && !state.lives(&out);
            if out.kept.is_some() {
                state.remove_place(WAIT, |place| *place == out);
            } else {
                state.queue.remove(at);
            }
        }
    }

    /// Raises the scores of our living places so that they outlast the places before them.
    pub(super) fn raise_scores(&self, state: &mut State) {
        if !self.rules.raises_scores {
            return;
        }
        let (now, mut floor, mut before) = (state.now, state.now, None);
        for place in &mut state.queue {
            let was = place.score;
            if place.kept.is_some_and(|kept| kept >= now) {
                floor += WAIT;
                place.score = place.score.max(floor);
            } else if place.kept.is_none() {
                floor += before.map_or(THEIRS, |before| was.saturating_sub(before).min(THEIRS));
            }
            before = Some(was);
        }
    }

    pub(super) fn give_up(&self, state: &mut State, id: u8, lost: bool) {
        if state.lock.is_some_and(|(holder, _)| holder == id) {
            state.lock = None;
        }
        state.remove_place(WAIT, |place| place.id == id);
        self.remove_dead(state);
        self.raise_scores(state);
        if state.lock.is_none() {
            state.notify_head(lost);
        }
    }

    /// Returns the state after a try of a Redisson client, by its clock.
    pub(super) fn after_try(&self, last: &State, id: u8) -> State {
        let mut state = last.clone();
        let now = state.now + AHEAD;
        while state.queue.first().is_some_and(|head| head.score <= now) {
            let out = state.queue.remove(0);
            state.removed_alive |= out.kept.is_some() && state.lives(&out) && state.clients[usize::from(out.id)].queued;
        }
        let head = state.queue.first().is_none_or(|head| head.id == id);
        if state.lock.is_none() && head {
            state.remove_place(0, |place| place.id == id);
            for place in &mut state.queue {
                place.score = place.score.saturating_sub(THEIRS);
            }
            state.lock = Some((id, state.now + LEASE));
            state.client(id).phase = Phase::Holding;
        } else if !state.queue.iter().any(|place| place.id == id) {
            let left = state.lock.map_or(0, |(_, until)| until.saturating_sub(state.now));
            let score = state.queue.last().map_or(now + left, |last| last.score) + THEIRS;
            state.queue.push(Place { id, field: 0, score, kept: None });
            state.client(id).phase = Phase::Waiting;
        }
        state
    }

    pub(super) fn tick(&self, state: &mut State) {
        state.now += 1;
        let now = state.now;
        for client in &mut state.clients {
            client.kept_alive = false;
        }
        if let Some((holder, until)) = state.lock {
            if state.client(holder).phase == Phase::Holding {
                state.lock = Some((holder, now + LEASE));
            } else if now > until {
                state.lock = None;
            }
        }
    }
}

impl State {
    pub(super) fn client(&mut self, id: u8) -> &mut Client {
        &mut self.clients[usize::from(id)]
    }

    pub(super) fn lives(&self, place: &Place) -> bool {
        matches!(self.clients[usize::from(place.id)].phase, Phase::Requesting | Phase::Waiting)
    }

    /// Removes a place, and subtracts the ticks that it had added from the scores of the places
    /// behind it.
    pub(super) fn remove_place(&mut self, wait: u8, which: impl Fn(&Place) -> bool) {
        let Some(at) = self.queue.iter().position(which) else { return };
        self.queue.remove(at);
        for place in &mut self.queue[at..] {
            place.score = place.score.saturating_sub(wait);
        }
    }

    pub(super) fn notify_head(&mut self, lost: bool) {
        if let (false, Some(head)) = (lost, self.queue.first().copied()) {
            let client = self.client(head.id);
            client.notified |= client.phase == Phase::Waiting && !client.theirs;
        }
    }
}
