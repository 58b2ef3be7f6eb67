//! Passing along the server's queue inside a process: as long as the places at its head are ours, who leaves hands on to the next of
//! them without asking.
//!
//! The server says in one answer which of our places stand at the head, up to the first of somebody else: a *run*. Nobody gets between two
//! of them, since who comes lines up at the end. So the name passes along the run under the holder field that has it, and one word
//! reports all who were served meanwhile, has all who came meanwhile line up, and learns the run anew. A run is believed as long as a
//! stretch may last: whoever takes the name by force waits for that.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;

use super::cleanup::DeferredRelease;
use super::error::LostReason;
use super::handover::HandoverReason;
use super::handover_window::LONGEST;
use super::lock_state::{Answers, Busy, LockId, LockState, RequestStatus, Waiter, send};
use super::protocol::{PassArgs, ReleaseAfterPass, ServerQueue};
use super::release::{Released, released};
use super::server_lease::ServerLease;
use super::table::{State, Table};
use super::terms::AcquireRequest;
use crate::clock::Instant;
use crate::connection::{Exchange, Persistence, Progress, Reply};
use crate::error::ServerError;

/// What is known of our places at the head of the server's queue while we have its name.
#[derive(Default)]
pub(super) struct LocalPass {
    /// The numbers of those that are next, in their order. Some may have left since that was told.
    next: VecDeque<u64>,
    /// When the word left by which that was told.
    told: Option<Instant>,
    /// The numbers of those that were served, and stand in the queue until that is said.
    served: Vec<u64>,
    /// A word is under way.
    asking: bool,
    /// Those of whom it says that they were served.
    saying: Vec<u64>,
    /// The server lease with this number is nobody's until that is answered, and goes on then by what had made it free.
    waits: Option<(u64, HandoverReason)>,
    /// The server lease that is not passed along any more, as a word of it was not answered.
    ended: Option<u64>,
}

impl LocalPass {
    pub(super) fn is_asking(&self) -> bool {
        self.asking
    }

    /// The place with this number is not at the head any more.
    pub(super) fn lost(&mut self, number: u64) {
        self.next.retain(|next| *next != number);
    }
}

/// One word about a run.
struct PassRequest {
    server_lease: Arc<ServerLease>,
    queue: &'static dyn ServerQueue,
    served: Vec<u64>,
    new: Vec<New>,
    /// Nobody of us is inside.
    frees: bool,
}

/// A request that lines up.
struct New {
    request: u64,
    number: u64,
    seen: Arc<RequestStatus>,
    wish: Arc<AcquireRequest>,
}

/// What the server said to it.
enum PassReply {
    Held(VecDeque<u64>),
    GivenBack,
    NotOurs,
}

impl PassReply {
    fn read(reply: Reply) -> Result<PassReply, ServerError> {
        let parts: Vec<u64> = reply.into_typed()?;
        match &parts[..] {
            [1, _, next @ ..] => Ok(PassReply::Held(next.iter().copied().collect())),
            [0, ..] => Ok(PassReply::NotOurs),
            [3, ..] => Ok(PassReply::GivenBack),
            _ => Err(ServerError::unknown("an answer of another kind")),
        }
    }
}

impl LockState {
    /// Has the next of the run be the next of the queue; false where none is known.
    fn promote_next_of_pass(&mut self, now: Instant) -> bool {
        let Some(run) = self.local_pass.as_mut().filter(|run| run.told.is_some_and(|told| now < told + LONGEST)) else {
            return false;
        };
        while let Some(number) = run.next.front() {
            let is_it = |entry: &Waiter| {
                let place = &entry.seen.position;
                place.is_inside() && place.number(entry.id) == *number && !entry.answer.is_closed() && entry.until > now
            };
            if let Some(entry) = self.queue.iter().position(is_it).and_then(|at| self.queue.remove(at)) {
                self.queue.push_front(entry);
                return true;
            }
            run.next.pop_front();
        }
        false
    }

    /// Begins anew for a server lease whose acquire left at `sent`.
    pub(super) fn begin_local_pass(&mut self) {
        if let Some(run) = &mut self.local_pass {
            (run.next, run.told, run.ended) = (VecDeque::new(), None, None);
        }
    }
}

impl Table {
    /// The queue on the server along which the server lease of this name is passed, if it is.
    pub(super) fn passes_locally(&self, slot: &LockState) -> Option<&'static dyn ServerQueue> {
        let queue = slot.protocol.queue().filter(|_| self.core.settings.stretch != Some(Duration::ZERO))?;
        let server_lease = slot.server_lease.as_ref().filter(|server_lease| server_lease.is_valid_locally())?;
        let ended = slot.local_pass.as_ref().is_some_and(|run| run.ended == Some(server_lease.id));
        (!ended && !matches!(slot.busy, Busy::Release { .. })).then_some(queue)
    }

    /// Whether the next of the queue may have our server lease. Otherwise the server is asked who is next.
    pub(super) fn is_next(
        self: &Arc<Self>,
        state: &mut State,
        key: &LockId,
        server_lease: &Arc<ServerLease>,
        basis: HandoverReason,
    ) -> bool {
        let now = self.now();
        let Some(slot) = state.slots.get_mut(key) else { return false };
        if slot.promote_next_of_pass(now) {
            return true;
        }
        slot.busy = Busy::AdjustingLease(server_lease.id);
        let asks = slot.local_pass.as_ref().is_some_and(|run| run.asking) || self.send_pass(state, key, true);
        let Some(slot) = state.slots.get_mut(key) else { return false };
        match slot.local_pass.as_mut().filter(|_| asks) {
            Some(run) => run.waits = Some((server_lease.id, basis)),
            None => self.release_unclaimed_grant(slot, server_lease, Instant::PAST),
        }
        false
    }

    /// The request has our server lease now by its place.
    pub(super) fn served(self: &Arc<Self>, slot: &mut LockState, entry: &Waiter, now: Instant) {
        let place = &entry.seen.position;
        if !place.is_inside() {
            return;
        }
        let number = place.number(entry.id);
        place.left();
        let run = slot.local_pass.get_or_insert_default();
        run.lost(number);
        run.served.push(number);
        if entry.seen.may_be_executed(now) {
            // An earlier word for it may be carried out late, and make it a place that nobody wants.
            self.take_out(slot, number, (entry.seen.may_execute_until(), false));
        }
    }

    /// Gives a server lease back by a word that says who was served, where somebody was and nothing has said so. `None` where it is given back
    /// as any other.
    pub(super) async fn release_and_pass(
        self: &Arc<Self>,
        server_lease: &ServerLease,
        until: Instant,
    ) -> Option<Released> {
        let queue = server_lease.kind.queue()?;
        let served = {
            let mut state = self.state();
            let slot = state.slots.get_mut(&server_lease.slot_key()).filter(|slot| slot.has_id(server_lease.id))?;
            let run = slot.local_pass.as_mut().filter(|run| !(run.saying.is_empty() && run.served.is_empty()))?;
            // A word that is under way may not have left yet: what it says is said here, too.
            run.saying.iter().copied().chain(std::mem::take(&mut run.served)).collect::<Vec<_>>()
        };
        let (field, fields) = (server_lease.copied_field(), self.fields(served.iter().copied()));
        let along =
            PassArgs { served: &fields, new: &[], kept: self.position_ttl(), gives_back: ReleaseAfterPass::Yes };
        let request = queue.pass(server_lease.claim(&field, Duration::ZERO), &along);
        let asked = self.core.exchange(request, until, Persistence::ToTheEnd, &Progress::default()).await;
        let told = asked.result.clone().and_then(PassReply::read);
        if told.is_err() {
            let mut state = self.state();
            let slot = state.slots.get_mut(&server_lease.slot_key())?;
            slot.local_pass.get_or_insert_default().served.extend(served);
            self.take_out_served(slot);
            // It may be this word alone that the server refuses.
            return None;
        }
        self.release_late_copies(server_lease, asked.sent, Instant::PAST);
        self.given_back_along(server_lease, &asked);
        let was_ours = told.map(|told| matches!(told, PassReply::GivenBack));
        Some(Released { result: released(server_lease, &asked, was_ours), subscribers: None })
    }

    /// A word was answered that gave the name back: what is remembered of it is its release.
    fn given_back_along(&self, server_lease: &ServerLease, answered: &Exchange) {
        let release = server_lease.kind.release(server_lease.claim(&server_lease.copied_field(), Duration::ZERO));
        self.core.given_back.remember(Arc::new(release), answered);
    }

    fn fields(&self, numbers: impl Iterator<Item = u64>) -> Vec<Bytes> {
        numbers.map(|number| self.core.field(number)).collect()
    }

    /// Those that were served, and of which nothing was said, are taken out of the queue one by one.
    pub(super) fn take_out_served(self: &Arc<Self>, slot: &mut LockState) {
        let served = slot.local_pass.as_mut().map(|run| std::mem::take(&mut run.served)).unwrap_or_default();
        for number in served {
            self.take_out(slot, number, (Instant::PAST, true));
        }
    }

    /// The same for a server lease that is given back in another way.
    pub(super) fn take_out_served_of(self: &Arc<Self>, server_lease: &ServerLease) {
        let mut state = self.state();
        if let Some(slot) = state.slots.get_mut(&server_lease.slot_key()).filter(|slot| slot.has_id(server_lease.id)) {
            self.take_out_served(slot);
        }
    }

    fn take_out(self: &Arc<Self>, slot: &LockState, number: u64, (limit, at_once): (Instant, bool)) {
        let (kind, target, field) = (slot.protocol, Arc::clone(&slot.keys), self.core.field(number));
        let (keep_until, lease) = (Instant::PAST, self.core.settings.watchdog_lease);
        self.schedule_cleanup(DeferredRelease { kind, target, field, limit, at_once, keep_until, lease });
    }

    /// Reports who was served, has those line up who have come, and asks who is next, where there is something to say and no other word
    /// under way.
    pub(super) fn send_pass(self: &Arc<Self>, state: &mut State, key: &LockId, frees: bool) -> bool {
        let now = self.now();
        let depth = usize::try_from(self.core.settings.fair_depth).unwrap_or(usize::MAX);
        let Some(slot) = state.slots.get_mut(key) else { return false };
        let Some((queue, server_lease)) = self.passes_locally(slot).zip(slot.server_lease.clone()) else {
            return false;
        };
        let run = slot.local_pass.get_or_insert_default();
        if run.asking {
            return false;
        }
        let waits =
            slot.queue.iter().filter(|entry| !entry.request.once && entry.until > now && !entry.answer.is_closed());
        let outside =
            waits.take(depth).filter(|entry| !entry.seen.position.is_inside() && !entry.seen.position.is_asking());
        let new: Vec<New> = outside.map(New::of).collect();
        if new.is_empty() && run.served.is_empty() && !frees {
            return false;
        }
        run.asking = true;
        let served = std::mem::take(&mut run.served);
        run.saying.clone_from(&served);
        self.spawn_background(Box::pin(
            Arc::clone(self).run_pass(key.clone(), PassRequest { server_lease, queue, served, new, frees }),
        ));
        true
    }

    async fn run_pass(self: Arc<Self>, key: LockId, word: PassRequest) {
        let field = word.server_lease.copied_field();
        let (served, new) =
            (self.fields(word.served.iter().copied()), self.fields(word.new.iter().map(|new| new.number)));
        let gives_back = if word.frees { ReleaseAfterPass::UnlessNext } else { ReleaseAfterPass::No };
        let along = PassArgs { served: &served, new: &new, kept: self.position_ttl(), gives_back };
        let request = word.queue.pass(word.server_lease.claim(&field, Duration::ZERO), &along);
        let until = (self.now() + self.core.settings.patience()).min(word.server_lease.deadline());
        let asked = self.core.exchange(request, until, Persistence::Retries, &Progress::default()).await;
        self.passed(&key, word, &asked);
    }

    /// Takes in what was told.
    fn passed(self: &Arc<Self>, key: &LockId, word: PassRequest, asked: &Exchange) {
        let told = asked.result.clone().and_then(PassReply::read);
        let PassRequest { server_lease, served, new, frees, .. } = word;
        let mut state = self.state();
        let mut answers = Answers::new();
        for new in &new {
            self.enqueued(&state, &server_lease, new, (asked, told.is_ok()));
        }
        let Some(slot) = state.slots.get_mut(key) else { return };
        let run = slot.local_pass.get_or_insert_default();
        run.asking = false;
        run.saying.clear();
        if told.is_ok() {
            slot.contact = asked.received;
        } else {
            run.served.extend(served);
        }
        // A server lease that is being fitted to wishes waits for something else.
        let waits = run.waits.take().filter(|(id, _)| slot.busy == Busy::AdjustingLease(*id)).map(|(_, basis)| basis);
        if waits.is_some() {
            slot.busy = Busy::No;
        }
        if !slot.has(&server_lease) {
            self.take_out_served(slot);
            // What we have by now waited for the end of this word.
            if let Some(basis) = waits {
                answers = self.hand_over_next(&mut state, key, basis, self.now());
            }
            self.go_on(&mut state, key);
            drop(state);
            return send(answers);
        }
        let run = slot.local_pass.get_or_insert_default();
        match told {
            Ok(PassReply::Held(next)) => {
                (run.next, run.told) = (next, Some(asked.sent));
                // A copy that comes late could give back what somebody has got meanwhile.
                let may_be_undone = frees && asked.is_repeat();
                if may_be_undone {
                    run.ended = Some(server_lease.id);
                }
                if let Some(basis) = waits {
                    match may_be_undone || (frees && !slot.promote_next_of_pass(asked.received)) {
                        true => self.release_unclaimed_grant(slot, &server_lease, Instant::PAST),
                        false => answers = self.hand_over_next(&mut state, key, basis, self.now()),
                    }
                }
                self.send_pass(&mut state, key, false);
                self.go_on(&mut state, key);
            }
            Ok(PassReply::NotOurs) if !frees => {
                self.mark_lost(&mut state, &server_lease, LostReason::Gone);
            }
            Ok(PassReply::GivenBack | PassReply::NotOurs) => {
                state.schedule.remove(server_lease.id);
                drop(state);
                self.release_late_copies(&server_lease, asked.sent, Instant::PAST);
                self.given_back_along(&server_lease, asked);
                return self.release_answered(None, &server_lease, None);
            }
            Err(error) => {
                tracing::debug!(name = %server_lease.target.name, %error, "not passed along");
                run.ended = Some(server_lease.id);
                self.take_out_served(slot);
                if waits.is_some() {
                    self.release_unclaimed_grant(slot, &server_lease, Instant::PAST);
                }
                self.go_on(&mut state, key);
            }
        }
        drop(state);
        send(answers);
    }

    /// What a word means for one who was to line up by it: it has its place, or nobody knows.
    fn enqueued(
        self: &Arc<Self>,
        state: &State,
        server_lease: &ServerLease,
        new: &New,
        (asked, is_known): (&Exchange, bool),
    ) {
        let New { request, number, seen, wish } = new;
        let slot = state.slots.get(&server_lease.slot_key());
        let is_its_own = seen.position.number(*request) == *number;
        let is_it = |entry: &Waiter| entry.id == *request && !entry.answer.is_closed();
        if is_its_own {
            asked.unanswered_until.into_iter().for_each(|until| seen.set_maybe_executed(until));
            if slot.is_some_and(|slot| slot.queue.iter().any(is_it)) {
                return seen.position.landed(is_known);
            }
            seen.position.left();
        }
        // It waits no more, or lines up under another number. What we have under this one is given back with the hold.
        if slot.is_none_or(|slot| !slot.has_id(*number)) {
            let (kind, target, field) = (server_lease.kind, Arc::clone(&server_lease.target), self.core.field(*number));
            let (limit, lease) = (asked.unanswered_until.unwrap_or(Instant::PAST), wish.lease.duration());
            let limit = limit.max(seen.may_execute_until());
            self.schedule_cleanup(DeferredRelease {
                kind,
                target,
                field,
                limit,
                at_once: true,
                keep_until: Instant::PAST,
                lease,
            });
        }
    }
}

impl New {
    /// A word for the place of this request leaves.
    fn of(entry: &Waiter) -> New {
        entry.seen.position.asked();
        let number = entry.seen.position.number(entry.id);
        New { request: entry.id, number, seen: Arc::clone(&entry.seen), wish: Arc::clone(&entry.request) }
    }
}
