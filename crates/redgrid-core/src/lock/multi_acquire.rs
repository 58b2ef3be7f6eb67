//! Many names at once: all of them or none, by one script for those that share a slot of the server.
//!
//! Each is a server lease of its own, as if it had been asked for alone: renewed, lost, entered again and handed on like any other.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use tokio::sync::oneshot;

use super::attempt::{AcquireReply, failure_of, parse_reply};
use super::error::AcquireError;
use super::guard::HoldGuard;
use super::handover::InstallOutcome;
use super::hold::Hold;
use super::lock_state::{AcquireFailure, Answers, Busy, LockId, LockState, send};
use super::multi_release::MultiGrant;
use super::pending_acquire::{GRACE, into_acquire_error, no_answer};
use super::protocol::{HoldArgs, LockKeys, LockProtocol};
use super::server_lease::{GrantReply, ServerLease};
use super::table::{State, Table, reenter};
use super::terms::{self, AcquireRequest};
use crate::clock::Instant;
use crate::connection::{Client, CommitError, Exchange, Persistence, Progress, jittered};
use crate::error::ServerError;

/// Names taken in under one hold of the table's lock, so that others get at it in between.
const CHUNK: usize = 500;

/// What one look at many names found.
pub enum MultiOutcome {
    /// All are ours, in the order in which they were asked for.
    All(MultiGrant),
    /// None is ours by this look.
    Busy {
        /// Where in the list the name is that is taken.
        at: usize,
        /// Somebody has it, or waits for it here. Otherwise it is just being asked for or given back in this process.
        theirs: bool,
    },
}

/// What was found in the process.
enum LocalCheck {
    Busy {
        at: usize,
        theirs: bool,
    },
    /// Others are just being told that a stretch of ours is over: not before then.
    NotBefore(Instant),
    /// Nobody here has or wants the rest: it is ours to ask for.
    Reserved(Reserved),
}

/// Names that nobody else of this process asks for meanwhile.
struct Reserved {
    /// Those whose holder is in already, with their places.
    entered: Entered,
    /// The others, and until when a stretch goes on that has been begun.
    wanted: Wanted,
}

type Entered = Vec<(usize, HoldGuard)>;
type Wanted = Vec<(usize, Option<Instant>)>;

/// Names of one kind and slot, and for whom.
struct MultiRequest {
    client: Client,
    kind: &'static dyn LockProtocol,
    targets: Vec<Arc<LockKeys>>,
    wish: AcquireRequest,
    until: Instant,
    progress: Arc<Progress>,
}

impl MultiRequest {
    fn key(&self, at: usize) -> LockId {
        LockId::of(self.kind, &self.targets[at])
    }

    fn name(&self, at: usize) -> crate::Name {
        self.targets[at].name.clone()
    }
}

/// One request for all that is wanted.
struct MultiCall {
    /// The place of each name, its number and its field.
    claims: Vec<(usize, u64, Bytes)>,
    asked: Exchange,
}

impl MultiCall {
    /// What the server said, and of which name it did where that concerns one: its place in the list.
    fn verdict(&self) -> (AcquireReply, usize) {
        let reply = || self.asked.result.clone();
        // The answer of a script for one name does not say which.
        let place = |nth: u64| {
            let at = usize::try_from(nth).ok().and_then(|nth| self.claims.get(nth.checked_sub(1)?));
            at.map_or(self.claims[0].0, |claim| claim.0)
        };
        let refused = reply().and_then(|reply| reply.into_typed::<(i64, u64, u64, String)>());
        if let Ok((REFUSED, _, nth, text)) = refused {
            return (AcquireReply::Failed(failure_of(ServerError::refused(text))), place(nth));
        }
        let nth = reply().and_then(|reply| reply.into_typed::<(i64, u64, i64, u64)>()).map_or(1, |(.., nth)| nth);
        (parse_reply(&self.asked), place(nth))
    }

    /// Each name with its field.
    fn fields(&self, look: &MultiRequest) -> Vec<(Arc<LockKeys>, Bytes)> {
        self.claims.iter().map(|(at, _, field)| (Arc::clone(&look.targets[*at]), field.clone())).collect()
    }
}

/// The status of an answer that refuses all because of one.
const REFUSED: i64 = 3;

impl Table {
    /// Takes all of `targets` or none. They share a slot of the server; several only where the kind takes many.
    pub(crate) async fn acquire_all(
        self: &Arc<Self>,
        client: &Client,
        kind: &'static dyn LockProtocol,
        targets: Vec<Arc<LockKeys>>,
        wish: AcquireRequest,
        until: Instant,
    ) -> Result<MultiOutcome, AcquireError> {
        let Some((first, key)) = targets.first().map(|target| (target.name.clone(), target.key.clone())) else {
            return Ok(MultiOutcome::All(MultiGrant::of(Vec::new())));
        };
        let (answer, outcome) = oneshot::channel();
        let patience = self.now() + self.core.settings.patience();
        let over = until.min(patience + wish.durability.timeout()) + GRACE;
        let progress = Arc::new(Progress::default());
        let (until, seen) = (until.min(patience), Arc::clone(&progress));
        let look = MultiRequest { client: client.clone(), kind, targets, wish, until, progress };
        let table = Arc::clone(self);
        // A task of its own: whoever asked may leave. Then what was granted goes back where it is dropped.
        self.spawn_background(Box::pin(async move {
            let _ = answer.send(table.try_all(&look).await);
        }));
        tokio::select! {
            biased;
            answer = outcome => answer.unwrap_or_else(|_| Err(into_acquire_error(&self.core, AcquireFailure::ShuttingDown, first))),
            () = self.core.clock.sleep_until(over) => Err(into_acquire_error(&self.core, no_answer(&self.core, &seen, &key), first)),
        }
    }

    async fn try_all(self: &Arc<Self>, look: &MultiRequest) -> Result<MultiOutcome, AcquireError> {
        let mut waited = false;
        let reserved = loop {
            match self.reserve(look, waited)? {
                LocalCheck::Busy { at, theirs } => return Ok(MultiOutcome::Busy { at, theirs }),
                LocalCheck::NotBefore(instant) => self.core.clock.sleep_until(instant).await,
                LocalCheck::Reserved(reserved) => break reserved,
            }
            waited = true;
        };
        let Reserved { entered, wanted } = reserved;
        if wanted.is_empty() {
            return Ok(MultiOutcome::All(MultiGrant::of(entered.into_iter().map(|(_, grant)| grant).collect())));
        }
        let stretch = self.handover_window(look.kind, &look.key(wanted[0].0));
        let lease = look.wish.server_lease(stretch);
        let mut late = false;
        loop {
            let ask = self.send_multi(look, &wanted, lease).await;
            let (asked, first) = (&ask.asked, ask.claims[0].0);
            let (verdict, at) = ask.verdict();
            match verdict {
                AcquireReply::TooLate if !late => {
                    self.schedule_cleanup_of_all(look, &ask, lease, false);
                    late = true;
                }
                AcquireReply::TooLate => {
                    self.schedule_cleanup_of_all(look, &ask, lease, false);
                    self.unreserve(look, &wanted);
                    let why = ServerError::not_sent("the server found the request too late, twice: its clock jumps");
                    return Err(into_acquire_error(&self.core, AcquireFailure::Unavailable(why), look.name(first)));
                }
                AcquireReply::Busy(_) => {
                    self.schedule_cleanup_of_all(look, &ask, lease, false);
                    self.unreserve(look, &wanted);
                    return Ok(MultiOutcome::Busy { at, theirs: true });
                }
                AcquireReply::Failed(failure) => {
                    let failure = if asked.unanswered_until.is_some() { failure.unknown() } else { failure };
                    self.schedule_cleanup_of_all(look, &ask, lease, matches!(failure, AcquireFailure::Unknown(_)));
                    self.unreserve(look, &wanted);
                    return Err(into_acquire_error(&self.core, failure, look.name(at)));
                }
                AcquireReply::Granted { token, .. } => {
                    let key = &look.targets[first].key;
                    if let Err(error) = self.core.commit(asked, look.wish.durability, key).await {
                        // Before it is told, or asked for again: the names are not to be found taken by what goes back.
                        self.clean_up_all(look, &ask, lease).await;
                        if error.is_passing() && self.now() < look.until {
                            tokio::time::sleep(jittered(self.core.settings.retry_delay)).await;
                            continue;
                        }
                        self.unreserve(look, &wanted);
                        return Err(self.not_durable(error, look.name(first)));
                    }
                    let shortest = lease.min(look.wish.lease.duration());
                    if self.now() >= terms::deadline(asked.sent, shortest) {
                        self.schedule_cleanup_of_all(look, &ask, lease, true);
                        self.unreserve(look, &wanted);
                        let why = ServerError::unknown("the answer came when the lease had ended");
                        return Err(into_acquire_error(&self.core, AcquireFailure::Unknown(why), look.name(first)));
                    }
                    return self.install_all(look, &ask, (entered, wanted), token, (lease, stretch));
                }
            }
        }
    }

    fn not_durable(&self, error: CommitError, name: crate::Name) -> AcquireError {
        into_acquire_error(&self.core, AcquireFailure::NotDurable(error), name)
    }

    /// Keeps the others of this process from asking for the names, all or none.
    fn reserve(self: &Arc<Self>, look: &MultiRequest, waited: bool) -> Result<LocalCheck, AcquireError> {
        let now = self.now();
        let mut state = self.state();
        if state.closed {
            return Err(into_acquire_error(&self.core, AcquireFailure::ShuttingDown, look.name(0)));
        }
        let mut entered: Vec<(usize, Arc<Hold>)> = Vec::new();
        let mut wanted = Vec::with_capacity(look.targets.len());
        let mut not_before = Instant::PAST;
        for (at, target) in look.targets.iter().enumerate() {
            let key = look.key(at);
            let Some(slot) = state.slots.get_mut(&key) else {
                // Names that we have just let go of: their turn is waited for in a queue, not by a look.
                let recent = state.recent(&key, now);
                let continued = recent.map(|recent| recent.stretch_ends).filter(|ends| *ends > now);
                if let Some(recent) = recent.filter(|_| continued.is_none()) {
                    match recent.yields_until(now) {
                        _ if !look.wish.once => return Ok(LocalCheck::Busy { at, theirs: true }),
                        Some(_) if recent.turn.is_wanted() => return Ok(LocalCheck::Busy { at, theirs: true }),
                        Some(until) => not_before = not_before.max(until),
                        None => {}
                    }
                }
                wanted.push((at, continued));
                continue;
            };
            if let Some(known) = reenter(slot, &look.wish, target) {
                entered.push((at, known?));
                continue;
            }
            slot.queue.retain(|entry| !entry.answer.is_closed());
            let alone = slot.queue.is_empty() && slot.server_lease.is_none() && slot.busy == Busy::No && !slot.asking;
            if !alone {
                return Ok(LocalCheck::Busy { at, theirs: slot.is_taken() || !slot.queue.is_empty() });
            }
            wanted.push((at, None));
        }
        if not_before > now && !waited {
            return Ok(LocalCheck::NotBefore(not_before));
        }
        for (at, _) in &wanted {
            let (kind, target) = (look.kind, &look.targets[*at]);
            let slot = state
                .slots
                .entry(look.key(*at))
                .or_insert_with(|| Box::new(LockState::new(kind, Arc::clone(target), now)));
            slot.asking = true;
        }
        let entered =
            entered.into_iter().map(|(at, hold)| (at, HoldGuard::further(look.client.clone(), hold))).collect();
        Ok(LocalCheck::Reserved(Reserved { entered, wanted }))
    }

    /// The names are not ours: whoever came for one of them meanwhile asks for it.
    fn unreserve(self: &Arc<Self>, look: &MultiRequest, wanted: &[(usize, Option<Instant>)]) {
        let now = self.now();
        for part in wanted.chunks(CHUNK) {
            let mut state = self.state();
            for (at, _) in part {
                self.asked(&mut state, &look.key(*at), now);
            }
        }
    }

    /// An attempt for this name is over.
    fn asked(self: &Arc<Self>, state: &mut State, key: &LockId, now: Instant) {
        if let Some(slot) = state.slots.get_mut(key) {
            slot.asking = false;
            slot.contact = now;
        }
        self.go_on(state, key);
    }

    async fn send_multi(&self, look: &MultiRequest, wanted: &[(usize, Option<Instant>)], lease: Duration) -> MultiCall {
        let number = |(at, _): &(usize, Option<Instant>)| {
            let id = self.number();
            (*at, id, self.core.field(id))
        };
        let claims: Vec<_> = wanted.iter().map(number).collect();
        let each: Vec<_> =
            claims.iter().map(|(at, _, field)| HoldArgs { target: &look.targets[*at], field, lease }).collect();
        let request = match look.kind.multi_key() {
            Some(together) if each.len() > 1 => together.acquire_many(&each),
            _ => look.kind.acquire(each[0]),
        };
        let asked = self.core.exchange(request, look.until, Persistence::Retries, &look.progress).await;
        MultiCall { claims, asked }
    }

    /// All were granted: each name is a server lease now, and the caller its first owner.
    fn install_all(
        self: &Arc<Self>,
        look: &MultiRequest,
        ask: &MultiCall,
        (mut grants, wanted): (Entered, Wanted),
        token: u64,
        (lease, stretch): (Duration, Duration),
    ) -> Result<MultiOutcome, AcquireError> {
        let (sent, now) = (ask.asked.sent, self.now());
        let (mut robbed, mut closed) = (None, false);
        let claimed: Vec<_> = ask.claims.iter().zip(&wanted).collect();
        for part in claimed.chunks(CHUNK) {
            let (mut answers, mut unwanted) = (Answers::new(), Vec::new());
            let mut state = self.state();
            for ((at, id, field), (_, continued)) in part {
                let ends = continued.unwrap_or(sent + stretch);
                let granted =
                    GrantReply::by(&ask.asked, *id, field.clone(), token, (lease, look.wish.durability), ends);
                let (key, target) = (look.key(*at), Arc::clone(&look.targets[*at]));
                let server_lease =
                    Arc::new(ServerLease::new(granted, &key, target, look.kind, self.core.clock.clone()));
                let wish = state.shared(&look.wish);
                match self.install_grant(&mut state, &key, &server_lease, sent) {
                    InstallOutcome::Ours { slot, schedule } => {
                        let hold = self.create_hold((schedule, slot), &server_lease, (sent, now), wish);
                        hold.reserve();
                        grants.push((*at, HoldGuard::first(look.client.clone(), hold)));
                        answers.extend(slot.reject_try_waiters());
                        slot.queue.iter().for_each(|entry| entry.seen.set_busy());
                    }
                    InstallOutcome::Superseded => {
                        robbed = Some(*at);
                        unwanted.push(server_lease);
                    }
                    InstallOutcome::Closed => {
                        closed = true;
                        unwanted.push(server_lease);
                    }
                }
                self.asked(&mut state, &key, now);
            }
            drop(state);
            send(answers);
            unwanted.iter().for_each(|server_lease| self.give_back(server_lease));
        }
        grants.sort_by_key(|(at, _)| *at);
        let bundle = MultiGrant::of(grants.into_iter().map(|(_, grant)| grant).collect());
        match robbed {
            _ if closed => Err(into_acquire_error(&self.core, AcquireFailure::ShuttingDown, look.name(0))),
            Some(at) => Ok(MultiOutcome::Busy { at, theirs: true }),
            None => Ok(MultiOutcome::All(bundle)),
        }
    }

    /// Gives back what copies of a request for many names may have taken: now, where that may be, and when no copy can be
    /// carried out any more.
    fn schedule_cleanup_of_all(self: &Arc<Self>, look: &MultiRequest, ask: &MultiCall, lease: Duration, at_once: bool) {
        let limit = ask.asked.unanswered_until;
        if limit.is_none() && !at_once {
            return;
        }
        let (table, kind, claims) = (Arc::clone(self), look.kind, ask.fields(look));
        self.spawn_background(Box::pin(async move {
            let limit = limit.unwrap_or(Instant::PAST);
            if at_once && table.give_back_all(kind, &claims, limit, lease).await >= limit {
                return;
            }
            table.core.clock.sleep_until(limit).await;
            table.give_back_all(kind, &claims, limit, lease).await;
        }));
    }

    /// The same, waiting for the first release as long as one answer may take.
    async fn clean_up_all(self: &Arc<Self>, look: &MultiRequest, ask: &MultiCall, lease: Duration) {
        let (limit, claims) = (ask.asked.unanswered_until.unwrap_or(Instant::PAST), ask.fields(look));
        let until = self.now() + self.core.settings.timeout;
        let left = tokio::select! {
            left = self.give_back_all(look.kind, &claims, limit, lease) => left,
            () = self.core.clock.sleep_until(until) => Instant::PAST,
        };
        if left < limit || left == Instant::PAST {
            self.schedule_cleanup_of_all(look, ask, lease, left == Instant::PAST);
        }
    }
}
