//! Giving back: what is held, and everything at once when the client ends.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use futures_util::future::join;
use tokio::sync::oneshot;

use super::error::{LostReason, ReleaseError};
use super::fairness::{SubscriberCount, YieldPlan};
use super::handover::HandoverReason;
use super::hold::{Hold, Phase};
use super::inline_task::{BackgroundTask, InlineTask};
use super::lock_state::{AcquireFailure, Answers, Busy, send};
use super::protocol::LockProtocol;
use super::server_lease::ServerLease;
use super::table::Table;
use crate::clock::Instant;
use crate::connection::{Exchange, Persistence, Reply};
use crate::error::{Code, ServerError};
use crate::pinned::pinned;

/// How a name is given back.
#[derive(Clone, Copy, PartialEq, Eq)]
enum ReleaseMode {
    Release,
    /// While others of this process wait.
    Yield,
    /// It stays taken for so long.
    Retain(Duration),
}

/// The answer to a release, whichever way.
struct ReleaseReply {
    was_ours: bool,
    listeners: u64,
    unseen: bool,
    /// The release could not be published.
    refused: bool,
}

/// In place of whether a waiter is unseen: the server refused to publish the release.
const REFUSED: u64 = 2;

impl ReleaseReply {
    fn read(reply: Reply) -> Result<ReleaseReply, ServerError> {
        let (status, waiting) = match reply {
            Reply::Array(_) => reply.into_typed::<(u64, u64)>()?,
            status => (status.into_typed()?, 0),
        };
        let (unseen, refused) = (waiting == 1, waiting == REFUSED);
        Ok(ReleaseReply { was_ours: status > 0, listeners: status.saturating_sub(1), unseen, refused })
    }
}

/// Names given back by one script at shutdown.
pub(super) const BULK: usize = 500;

/// What becomes of a hold with one guard less.
pub(super) enum DropStep {
    /// Other guards of the same holder still live, or another task has the name now.
    Done,
    /// It had ended without us.
    Lost(LostReason),
    /// The last guard, and nobody of us waits: the server lease is to be released under this number.
    Release { id: u64, keep_until: Instant },
    /// The same, and its release has begun.
    ReleasingInline(InlineTask, ReleaseReceiver),
}

/// Who sees a release through.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum ReleasedBy {
    /// A task, in a moment. Until then a new request may still have what it would give back.
    Task,
    /// Its caller, at once, unless somebody of us waits for it.
    Caller,
}

/// Where the outcome of a release is told.
pub(super) type ReleaseReceiver = oneshot::Receiver<Result<(), ReleaseError>>;

/// Whether it matters to a kind who else listens: in a queue on the server, or where a hold is shared, nobody yields.
pub(super) fn yields_to_others(kind: &dyn LockProtocol) -> bool {
    kind.queue().is_none() && !kind.is_shared()
}

/// The first pause before a release that was not permitted is sent again, 100 ms, and the longest:
/// 1 s, as a shutdown waits for it.
const DENIED_PAUSE: Duration = Duration::from_millis(100);
const LONGEST_DENIED_PAUSE: Duration = Duration::from_secs(1);

/// Whether the server refused a release because the user lacks the permission, which may be granted
/// before the lease ends.
fn is_denied(error: &ReleaseError) -> bool {
    matches!(error, ReleaseError::Refused { source, .. } if source.code() == Some(Code::NoPermission))
}

/// What letting go of one guard leads to.
pub(super) enum DropOutcome {
    /// Other guards of the same holder still live, or another task has the name now.
    Done,
    /// It had ended without us.
    Lost(LostReason),
    /// The last guard, and nobody of us waits: the release is this work for a task, and it tells its outcome here.
    Release(BackgroundTask, ReleaseReceiver),
    /// The same for its caller: it has begun.
    Leaves(InlineTask, ReleaseReceiver),
}

/// What became of a release.
pub(super) struct Released {
    pub(super) result: Result<(), ReleaseError>,
    /// Who waits elsewhere, where it was given back to everybody.
    pub(super) subscribers: Option<SubscriberCount>,
}

impl Table {
    /// Takes one guard off a hold; its release is for whoever drops it.
    pub(super) fn drop_guard(self: &Arc<Self>, hold: &Arc<Hold>, is_first: bool, by: ReleasedBy) -> DropOutcome {
        match self.drop_last_guard(hold, is_first, by) {
            DropStep::Done => DropOutcome::Done,
            DropStep::Lost(reason) => DropOutcome::Lost(reason),
            DropStep::ReleasingInline(flight, told) => DropOutcome::Leaves(flight, told),
            DropStep::Release { id, keep_until } => {
                let (tell, told) = oneshot::channel();
                DropOutcome::Release(
                    self.release_work(Some(id), Arc::clone(&hold.server_lease), keep_until, Some(tell)),
                    told,
                )
            }
        }
    }

    /// Takes one guard off a hold, its first one or another.
    pub(super) fn drop_last_guard(self: &Arc<Self>, hold: &Arc<Hold>, is_first: bool, by: ReleasedBy) -> DropStep {
        let mut state = self.state();
        if is_first && hold.is_revoked() {
            // Taken off when it was taken back.
            return hold.lost().map_or(DropStep::Done, DropStep::Lost);
        }
        if hold.guards.fetch_sub(1, Ordering::AcqRel) > 1 {
            return hold.lost().map_or(DropStep::Done, DropStep::Lost);
        }
        let now = self.now();
        let lost = hold.lost_by(now);
        hold.end(Phase::Released);
        let server_lease = &hold.server_lease;
        let (key, keep_until) = (server_lease.slot_key(), hold.retained_until());
        let slot = state.slots.get_mut(&key);
        let Some((slot, at)) = slot.and_then(|slot| slot.position(hold).map(|at| (slot, at))) else {
            Self::remove_if_idle(&mut state, &key);
            drop(state);
            if lost == Some(LostReason::Expired) && server_lease.is_over() {
                // Our clock says that it has ended. The server's key may live on for the margin: free it.
                self.spawn_background(self.release_work(None, Arc::clone(server_lease), keep_until, None));
            }
            return DropStep::Lost(lost.unwrap_or(LostReason::Gone));
        };
        slot.remove(at);
        if !slot.holds.is_empty() {
            // Others share it.
            if slot.holds.len() == 1 {
                server_lease.left_alone();
            }
            if slot.is_forgotten() {
                server_lease.stop_renewing();
            }
            return lost.map_or(DropStep::Done, DropStep::Lost);
        }
        let keep = keep_until > now;
        let passes_on = server_lease.may_hand_over(now) || self.passes_locally(slot).is_some();
        if !keep && server_lease.is_valid_locally_at(now) && passes_on && slot.next(now).is_some() {
            let answers = self.hand_over_next(&mut state, &key, HandoverReason::HandOver, now);
            drop(state);
            send(answers);
            return lost.map_or(DropStep::Done, DropStep::Lost);
        }
        let id = self.number();
        let leaves = by == ReleasedBy::Caller && lost.is_none() && slot.queue.is_empty() && !slot.loop_running;
        // In the hands of a task that has not begun, a new request may still adopt it; a lost one is not adopted.
        let queued = !leaves && !keep && lost.is_none();
        slot.busy = Busy::Release { id, server_lease: server_lease.id, queued };
        if leaves {
            // Visible as the exchange in flight of its name: who comes to wait for it has it go on in a task.
            let (tell, told) = oneshot::channel();
            let flight = InlineTask::observed(
                &self.core.unattended,
                self.begun_release(id, Arc::clone(server_lease), (keep_until, false), tell),
            );
            slot.register(server_lease.id, &flight);
            state.schedule.remove(server_lease.id);
            return DropStep::ReleasingInline(flight, told);
        }
        state.schedule.remove(server_lease.id);
        drop(state);
        match lost {
            Some(reason) => {
                self.spawn_background(self.release_work(Some(id), Arc::clone(server_lease), keep_until, None));
                DropStep::Lost(reason)
            }
            None => DropStep::Release { id, keep_until },
        }
    }

    /// The release of a server lease as work that goes on until the server has answered or the lease has ended. While it has not
    /// begun, a new request may adopt the server lease; then there is nothing to do.
    pub(super) fn release_work(
        self: &Arc<Self>,
        id: Option<u64>,
        server_lease: Arc<ServerLease>,
        keep_until: Instant,
        tell: Option<oneshot::Sender<Result<(), ReleaseError>>>,
    ) -> BackgroundTask {
        let table = Arc::clone(self);
        pinned(|| async move {
            let result = match table.begin_release(id, &server_lease) {
                None => Ok(()),
                Some(give_way) => table.release_and_report(id, &server_lease, (keep_until, give_way)).await,
            };
            if let Some(tell) = tell {
                let _ = tell.send(result);
            }
        })
    }

    /// The same of a release that has begun, while others of us waited or not.
    pub(super) fn begun_release(
        self: &Arc<Self>,
        id: u64,
        server_lease: Arc<ServerLease>,
        how: (Instant, bool),
        tell: oneshot::Sender<Result<(), ReleaseError>>,
    ) -> BackgroundTask {
        let table = Arc::clone(self);
        pinned(|| async move {
            let _ = tell.send(table.release_and_report(Some(id), &server_lease, how).await);
        })
    }

    /// The release leaves now: whether others of us wait; `None` when the server lease was adopted meanwhile. Without a number it is
    /// a server lease that its name has lost already.
    pub(super) fn begin_release(&self, id: Option<u64>, server_lease: &Arc<ServerLease>) -> Option<bool> {
        let mut state = self.state();
        let Some(id) = id else { return Some(false) };
        let slot = state.slots.get_mut(&server_lease.slot_key())?;
        match &mut slot.busy {
            Busy::Release { id: present, queued, .. } if *present == id => *queued = false,
            _ => return None,
        }
        // Most have nobody waiting: then no clock is read.
        let give_way = !slot.queue.is_empty() && slot.next(self.now()).is_some();
        state.schedule.remove(server_lease.id);
        Some(give_way)
    }

    async fn release(
        self: &Arc<Self>,
        server_lease: &Arc<ServerLease>,
        keep_until: Instant,
        give_way: bool,
    ) -> Released {
        let mut way = self.release_mode(keep_until, give_way);
        if server_lease.kind.queue().is_some() {
            if let ReleaseMode::Retain(_) = way {
                self.take_out_served_of(server_lease);
            } else if let Some(released) =
                Box::pin(self.release_and_pass(server_lease, server_lease.lease_ends())).await
            {
                return released;
            }
        }
        let mut until = self.sent_until(server_lease, way);
        let own = self.core.hub.own(&server_lease.target.channel);
        // Beside each other, so that nobody waits for the replica's count; where none listen there, it is not asked.
        let channel = (&server_lease.target.channel, &server_lease.target.key);
        let counting = if yields_to_others(server_lease.kind) { self.core.hub.copied(&[channel]) } else { None };
        let (mut asked, copied) = match counting {
            None => (self.send_release(server_lease, way, until).await, None),
            Some(counting) => {
                let (asked, copied) = Box::pin(join(self.send_release(server_lease, way, until), counting)).await;
                (asked, copied.first().copied())
            }
        };
        while asked.result.is_err() && server_lease.lease_ends() > until && self.now() >= until {
            // A renewal was on its way when this began, or less is to be kept by now.
            way = self.release_mode(keep_until, give_way);
            until = self.sent_until(server_lease, way);
            let again = Box::pin(self.send_release(server_lease, way, until)).await;
            asked = Exchange { unanswered_until: again.unanswered_until.max(asked.unanswered_until), ..again };
        }
        let denied = |error: &ServerError| error.code() == Some(Code::NoPermission);
        if way == ReleaseMode::Yield && asked.result.as_ref().is_err_and(denied) {
            // Perhaps it was only the mark that may not be read.
            asked = self.send_release(server_lease, ReleaseMode::Release, until).await;
        }
        self.release_late_copies(server_lease, asked.sent, keep_until);
        if let ReleaseMode::Retain(_) = way {
            self.end_retained(server_lease, keep_until);
        }
        let answer = asked.result.clone().and_then(ReleaseReply::read);
        let is_free = !matches!(way, ReleaseMode::Retain(_));
        let audience = answer.as_ref().ok().filter(|answer| answer.was_ours && is_free);
        let audience = audience.map(|answer| {
            let (listeners, unseen) = (answer.listeners, answer.unseen);
            let unannounced = answer.refused.then_some(self.core.settings.poll_interval);
            SubscriberCount { listeners, unseen, unannounced, own, ..SubscriberCount::default() }.with(copied)
        });
        let result = released(server_lease, &asked, answer.map(|answer| answer.was_ours));
        Released { result, subscribers: audience }
    }

    /// The release of a server lease that has begun, to its end.
    async fn release_and_report(
        self: &Arc<Self>,
        id: Option<u64>,
        server_lease: &Arc<ServerLease>,
        (keep_until, give_way): (Instant, bool),
    ) -> Result<(), ReleaseError> {
        let released = self.release(server_lease, keep_until, give_way).await;
        if released.result.as_ref().is_err_and(is_denied) {
            self.spawn_background(Box::pin(Arc::clone(self).release_denied(Arc::clone(server_lease), keep_until)));
        }
        self.release_answered(id, server_lease, released.subscribers);
        released.result
    }

    /// Releases what the user was not permitted to release, as soon as permissions are back, until
    /// the lease ends. Only the server lease's own field is removed: a holder that has come since is not
    /// touched. Until `keep_until` the name stays taken.
    async fn release_denied(self: Arc<Self>, server_lease: Arc<ServerLease>, keep_until: Instant) {
        let mut pause = DENIED_PAUSE;
        loop {
            let again = self.now() + pause;
            if again >= server_lease.lease_ends() || self.is_closed() {
                return;
            }
            self.core.clock.sleep_until(again).await;
            let way = self.release_mode(keep_until, false);
            let asked = self.send_release(&server_lease, way, server_lease.lease_ends()).await;
            if asked.result.is_ok() {
                return;
            }
            pause = (pause * 2).min(LONGEST_DENIED_PAUSE);
        }
    }

    /// Ends at `keep_until` what was kept, where the lifetime of its key may not.
    fn end_retained(self: &Arc<Self>, server_lease: &ServerLease, keep_until: Instant) {
        let field = server_lease.copied_field();
        if let Some(request) = server_lease.kind.end_retained(server_lease.claim(&field, Duration::ZERO)) {
            let (table, until) = (Arc::clone(self), keep_until + server_lease.lease());
            self.spawn_background(Box::pin(async move {
                table.core.clock.sleep_until(keep_until).await;
                table.core.give_back(request, until, Persistence::ToTheEnd).await;
            }));
        }
    }

    pub(super) fn is_waited_for(&self, server_lease: &ServerLease) -> bool {
        let now = self.now();
        self.state().slots.get_mut(&server_lease.slot_key()).is_some_and(|slot| slot.next(now).is_some())
    }

    /// How a name is given back that stays taken until `keep_until`, as of now.
    fn release_mode(&self, keep_until: Instant, give_way: bool) -> ReleaseMode {
        // Most keep nothing: then no clock is read.
        let keep = if keep_until == Instant::PAST { Duration::ZERO } else { keep_until.since(self.now()) };
        match (keep.is_zero(), give_way) {
            (false, _) => ReleaseMode::Retain(keep),
            (true, true) => ReleaseMode::Yield,
            (true, false) => ReleaseMode::Release,
        }
    }

    /// Until when it is sent that way: to the end of the lease, but what is to be kept is soon less.
    fn sent_until(&self, server_lease: &ServerLease, way: ReleaseMode) -> Instant {
        match way {
            ReleaseMode::Retain(_) => server_lease.lease_ends().min(self.now() + self.core.settings.timeout),
            ReleaseMode::Release | ReleaseMode::Yield => server_lease.lease_ends(),
        }
    }

    async fn send_release(&self, server_lease: &ServerLease, way: ReleaseMode, until: Instant) -> Exchange {
        let request = {
            let field = server_lease.copied_field();
            match way {
                ReleaseMode::Release => server_lease.kind.release(server_lease.claim(&field, Duration::ZERO)),
                ReleaseMode::Yield => server_lease.kind.release_yielding(server_lease.claim(&field, Duration::ZERO)),
                ReleaseMode::Retain(keep) => server_lease.kind.retain(server_lease.claim(&field, keep)),
            }
        };
        self.core.give_back(request, until, Persistence::ToTheEnd).await
    }

    pub(super) fn release_answered(
        self: &Arc<Self>,
        id: Option<u64>,
        server_lease: &Arc<ServerLease>,
        audience: Option<SubscriberCount>,
    ) {
        let key = server_lease.slot_key();
        let mut state = self.state();
        let (now, mut answers) = (self.now(), Answers::new());
        // Who shares goes first for nobody: others say themselves that they wait. Those of us who wait beside are others, too.
        let beside = u64::from(state.waits_in_paired_mode(server_lease.kind, &server_lease.target));
        let audience = audience.filter(|_| !server_lease.kind.is_shared());
        let audience = audience.map(|told| SubscriberCount { listeners: told.listeners + beside, ..told });
        let audience = audience.map(|told| state.phantoms.without(&key, told, now));
        let Some(slot) = state.slots.get_mut(&key) else { return };
        slot.contact = now;
        slot.completed(server_lease.id);
        if matches!(slot.busy, Busy::Release { id: present, .. } if Some(present) == id) {
            slot.busy = Busy::No;
        }
        if slot.has(server_lease) {
            slot.server_lease = None;
            let turn = audience.and_then(|audience| YieldPlan::after(audience, self.round_trip(&key)));
            if slot.next(now).is_some() {
                slot.yield_plan = turn.map(Box::new);
                if turn.is_some() {
                    // Others go first: that is an answer.
                    answers = slot.reject_try_waiters();
                }
            } else if let Some(turn) = turn {
                self.remember_yield(&mut state, &key, turn, server_lease.stretch_ends);
            }
        }
        server_lease.end();
        self.go_on(&mut state, &key);
        drop(state);
        send(answers);
    }

    /// Refuses new requests, wakes those who wait, ends all holds and gives them back in bulk. Returns the work that is
    /// still to be done for it.
    pub(crate) fn close(self: &Arc<Self>) -> Vec<BackgroundTask> {
        let mut state = self.state();
        state.closed = true;
        let mut waiting = Vec::new();
        let mut flights = Vec::new();
        for slot in state.slots.values_mut() {
            for entry in slot.queue.drain(..) {
                self.release_position(slot.protocol, &slot.keys, (entry.id, &entry.seen), &entry.request);
                waiting.push(entry.answer);
            }
            self.take_out_served(slot);
            slot.notify_loop();
            // What its caller polls is driven to its end from here: the caller may stop to poll.
            flights.extend(slot.inline_tasks.drain(..).map(|(_, flight)| flight));
        }
        let server_leases = state.schedule.drain();
        let mut held = Vec::new();
        for server_lease in server_leases.into_iter().filter(|server_lease| server_lease.end()) {
            let key = server_lease.slot_key();
            let Some(slot) = state.slots.get_mut(&key).filter(|slot| slot.has(&server_lease)) else { continue };
            slot.server_lease = None;
            // What was forgotten is left to its lease.
            let forgotten = slot.is_forgotten();
            let keep_until =
                slot.holds.iter().map(|hold| hold.retained_after_shutdown()).max().unwrap_or(Instant::PAST);
            for hold in slot.holds.drain(..) {
                hold.end(Phase::ShutDown);
            }
            if !forgotten {
                held.push((server_lease, keep_until));
            }
            Self::remove_if_idle(&mut state, &key);
        }
        drop(state);
        for answer in waiting {
            let _ = answer.send(Err(AcquireFailure::ShuttingDown));
        }
        let now = self.now();
        let (keeping, plain): (Vec<_>, Vec<_>) = held
            .into_iter()
            .partition(|(server_lease, keep_until)| *keep_until > now || server_lease.retransmission_ends().is_some());
        let mut work: Vec<BackgroundTask> =
            flights.into_iter().filter_map(|flight: InlineTask| flight.take()).collect();
        for (server_lease, keep_until) in keeping {
            let table = Arc::clone(self);
            work.push(Box::pin(async move {
                table.release(&server_lease, keep_until, false).await;
            }));
        }
        let mut plain: Vec<_> = plain.into_iter().map(|(server_lease, _)| server_lease).collect();
        let place = |server_lease: &Arc<ServerLease>| {
            (server_lease.kind.name(), self.core.topology.slot(&server_lease.target.key))
        };
        plain.sort_by_key(place);
        let together = |a: &Arc<ServerLease>, b: &Arc<ServerLease>| place(a) == place(b);
        for group in plain.chunk_by(together) {
            for part in group.chunks(BULK) {
                let (table, part) = (Arc::clone(self), part.to_vec());
                work.push(Box::pin(async move { table.release_many(&part).await }));
            }
        }
        work
    }

    async fn release_many(&self, server_leases: &[Arc<ServerLease>]) {
        let Some(first) = server_leases.first() else { return };
        let fields: Vec<_> = server_leases.iter().map(|server_lease| server_lease.copied_field()).collect();
        let each = server_leases.iter().zip(&fields);
        let claims: Vec<_> = each.map(|(server_lease, field)| server_lease.claim(field, Duration::ZERO)).collect();
        let request = first.kind.release_many(&claims);
        let until = self.now() + self.core.settings.patience();
        let asked = self.core.give_back(request, until, Persistence::Together).await;
        if asked.result.is_err() && server_leases.len() > 1 {
            // One bad name refuses them all, and so do names on both sides of a migration: one by one, then.
            for server_lease in server_leases {
                self.send_release(server_lease, ReleaseMode::Release, until).await;
            }
        }
    }
}

/// What an answer to a release says: whether it was ours, where it could be asked.
pub(super) fn released(
    server_lease: &ServerLease,
    asked: &Exchange,
    was_ours: Result<bool, ServerError>,
) -> Result<(), ReleaseError> {
    let name = || server_lease.target.name.clone();
    let (in_time, repeat) = (asked.received <= server_lease.deadline(), asked.is_repeat());
    let unclear =
        |what: &'static str| Err(ReleaseError::OutcomeUnknown { name: name(), source: ServerError::unknown(what) });
    match was_ours {
        // A late copy of its acquire may have put it back after the lease, with others in between.
        Ok(true) if !in_time && server_lease.retransmission_ends().is_some() => {
            unclear("the lease may have ended in between")
        }
        Ok(true) => Ok(()),
        // An earlier copy of this release may have done it; nobody else can have had it before the deadline.
        Ok(false) if repeat && in_time => Ok(()),
        Ok(false) if repeat => unclear("the lease ended before the release was answered"),
        Ok(false) => Err(ReleaseError::Lost { name: name(), reason: LostReason::Gone }),
        Err(source @ ServerError::Refused { .. }) => Err(ReleaseError::Refused { name: name(), source }),
        Err(source) => Err(ReleaseError::OutcomeUnknown { name: name(), source }),
    }
}
