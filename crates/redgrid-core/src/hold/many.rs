//! Many names at once: all of them or none, by one script for those that share a slot of the server.
//!
//! Each is a tenure of its own, as if it had been asked for alone: renewed, lost, entered again and handed on like any other.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use tokio::sync::oneshot;

use super::attempt::{Verdict, failure_of, judge};
use super::error::AcquireError;
use super::grant::Grant;
use super::kind::{Claim, HoldKind, Target};
use super::slot::{Answers, Busy, Failure, Slot, SlotKey, send};
use super::state::Hold;
use super::succession::Arrival;
use super::table::{State, Table, entered_again};
use super::tenure::{Granted, Tenure};
use super::terms::{self, Wish};
use super::ticket::{GRACE, told, unanswered};
use super::together::Bundle;
use crate::clock::Instant;
use crate::connection::{Client, CommitError, Exchange, Persistence, Progress, jittered};
use crate::error::ServerError;

/// Names taken in under one hold of the table's lock, so that others get at it in between.
const PART: usize = 500;

/// What one look at many names found.
pub enum Many {
    /// All are ours, in the order in which they were asked for.
    All(Bundle),
    /// None is ours by this look.
    Busy {
        /// Where in the list the name is that is taken.
        at: usize,
        /// Somebody has it, or waits for it here. Otherwise it is just being asked for or given back in this process.
        theirs: bool,
    },
}

/// What was found in the process.
enum Found {
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

type Entered = Vec<(usize, Grant)>;
type Wanted = Vec<(usize, Option<Instant>)>;

/// Names of one kind and slot, and for whom.
struct Look {
    client: Client,
    kind: &'static dyn HoldKind,
    targets: Vec<Arc<Target>>,
    wish: Wish,
    until: Instant,
    progress: Arc<Progress>,
}

impl Look {
    fn key(&self, at: usize) -> SlotKey {
        SlotKey::of(self.kind, &self.targets[at])
    }

    fn name(&self, at: usize) -> crate::Name {
        self.targets[at].name.clone()
    }
}

/// One request for all that is wanted.
struct Ask {
    /// The place of each name, its number and its field.
    claims: Vec<(usize, u64, Bytes)>,
    asked: Exchange,
}

impl Ask {
    /// What the server said, and of which name it did where that concerns one: its place in the list.
    fn verdict(&self) -> (Verdict, usize) {
        let reply = || self.asked.result.clone();
        // The answer of a script for one name does not say which.
        let place = |nth: u64| {
            let at = usize::try_from(nth).ok().and_then(|nth| self.claims.get(nth.checked_sub(1)?));
            at.map_or(self.claims[0].0, |claim| claim.0)
        };
        let refused = reply().and_then(|reply| reply.into_typed::<(i64, u64, u64, String)>());
        if let Ok((REFUSED, _, nth, text)) = refused {
            return (Verdict::Failed(failure_of(ServerError::refused(text))), place(nth));
        }
        let nth = reply().and_then(|reply| reply.into_typed::<(i64, u64, i64, u64)>()).map_or(1, |(.., nth)| nth);
        (judge(&self.asked), place(nth))
    }

    /// Each name with its field.
    fn fields(&self, look: &Look) -> Vec<(Arc<Target>, Bytes)> {
        self.claims.iter().map(|(at, _, field)| (Arc::clone(&look.targets[*at]), field.clone())).collect()
    }
}

/// The status of an answer that refuses all because of one.
const REFUSED: i64 = 3;

impl Table {
    /// Takes all of `targets` or none. They share a slot of the server; several only where the kind takes many.
    pub(crate) async fn take_all(
        self: &Arc<Self>,
        client: &Client,
        kind: &'static dyn HoldKind,
        targets: Vec<Arc<Target>>,
        wish: Wish,
        until: Instant,
    ) -> Result<Many, AcquireError> {
        let Some((first, key)) = targets.first().map(|target| (target.name.clone(), target.key.clone())) else {
            return Ok(Many::All(Bundle::of(Vec::new())));
        };
        let (answer, outcome) = oneshot::channel();
        let patience = self.now() + self.core.settings.patience();
        let over = until.min(patience + wish.durability.timeout()) + GRACE;
        let progress = Arc::new(Progress::default());
        let (until, seen) = (until.min(patience), Arc::clone(&progress));
        let look = Look { client: client.clone(), kind, targets, wish, until, progress };
        let table = Arc::clone(self);
        // A task of its own: whoever asked may leave. Then what was granted goes back where it is dropped.
        self.hand_over(Box::pin(async move {
            let _ = answer.send(table.look_at_all(&look).await);
        }));
        tokio::select! {
            biased;
            answer = outcome => answer.unwrap_or_else(|_| Err(told(&self.core, Failure::ShuttingDown, first))),
            () = self.core.clock.sleep_until(over) => Err(told(&self.core, unanswered(&self.core, &seen, &key), first)),
        }
    }

    async fn look_at_all(self: &Arc<Self>, look: &Look) -> Result<Many, AcquireError> {
        let mut waited = false;
        let reserved = loop {
            match self.reserve(look, waited)? {
                Found::Busy { at, theirs } => return Ok(Many::Busy { at, theirs }),
                Found::NotBefore(instant) => self.core.clock.sleep_until(instant).await,
                Found::Reserved(reserved) => break reserved,
            }
            waited = true;
        };
        let Reserved { entered, wanted } = reserved;
        if wanted.is_empty() {
            return Ok(Many::All(Bundle::of(entered.into_iter().map(|(_, grant)| grant).collect())));
        }
        let stretch = self.stretch(look.kind, &look.key(wanted[0].0));
        let lease = look.wish.server_lease(stretch);
        let mut late = false;
        loop {
            let ask = self.ask_for_all(look, &wanted, lease).await;
            let (asked, first) = (&ask.asked, ask.claims[0].0);
            let (verdict, at) = ask.verdict();
            match verdict {
                Verdict::TooLate if !late => {
                    self.settle_all(look, &ask, lease, false);
                    late = true;
                }
                Verdict::TooLate => {
                    self.settle_all(look, &ask, lease, false);
                    self.unreserve(look, &wanted);
                    let why = ServerError::not_sent("the server found the request too late, twice: its clock jumps");
                    return Err(told(&self.core, Failure::Unavailable(why), look.name(first)));
                }
                Verdict::Busy(_) => {
                    self.settle_all(look, &ask, lease, false);
                    self.unreserve(look, &wanted);
                    return Ok(Many::Busy { at, theirs: true });
                }
                Verdict::Failed(failure) => {
                    let failure = if asked.unanswered_until.is_some() { failure.unknown() } else { failure };
                    self.settle_all(look, &ask, lease, matches!(failure, Failure::Unknown(_)));
                    self.unreserve(look, &wanted);
                    return Err(told(&self.core, failure, look.name(at)));
                }
                Verdict::Granted { token, .. } => {
                    let key = &look.targets[first].key;
                    if let Err(error) = self.core.commit(asked, look.wish.durability, key).await {
                        // Before it is told, or asked for again: the names are not to be found taken by what goes back.
                        self.settled_all(look, &ask, lease).await;
                        if error.is_passing() && self.now() < look.until {
                            tokio::time::sleep(jittered(self.core.settings.retry_delay)).await;
                            continue;
                        }
                        self.unreserve(look, &wanted);
                        return Err(self.not_durable(error, look.name(first)));
                    }
                    let shortest = lease.min(look.wish.lease.duration());
                    if self.now() >= terms::deadline(asked.sent, shortest) {
                        self.settle_all(look, &ask, lease, true);
                        self.unreserve(look, &wanted);
                        let why = ServerError::unknown("the answer came when the lease had ended");
                        return Err(told(&self.core, Failure::Unknown(why), look.name(first)));
                    }
                    return self.all_arrive(look, &ask, (entered, wanted), token, (lease, stretch));
                }
            }
        }
    }

    fn not_durable(&self, error: CommitError, name: crate::Name) -> AcquireError {
        told(&self.core, Failure::NotDurable(error), name)
    }

    /// Keeps the others of this process from asking for the names, all or none.
    fn reserve(self: &Arc<Self>, look: &Look, waited: bool) -> Result<Found, AcquireError> {
        let now = self.now();
        let mut state = self.state();
        if state.closed {
            return Err(told(&self.core, Failure::ShuttingDown, look.name(0)));
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
                    match recent.others_turn(now) {
                        _ if !look.wish.once => return Ok(Found::Busy { at, theirs: true }),
                        Some(_) if recent.turn.is_wanted() => return Ok(Found::Busy { at, theirs: true }),
                        Some(until) => not_before = not_before.max(until),
                        None => {}
                    }
                }
                wanted.push((at, continued));
                continue;
            };
            if let Some(known) = entered_again(slot, &look.wish, target) {
                entered.push((at, known?));
                continue;
            }
            slot.queue.retain(|entry| !entry.answer.is_closed());
            let alone = slot.queue.is_empty() && slot.tenure.is_none() && slot.busy == Busy::No && !slot.asking;
            if !alone {
                return Ok(Found::Busy { at, theirs: slot.is_taken() || !slot.queue.is_empty() });
            }
            wanted.push((at, None));
        }
        if not_before > now && !waited {
            return Ok(Found::NotBefore(not_before));
        }
        for (at, _) in &wanted {
            let (kind, target) = (look.kind, &look.targets[*at]);
            let slot =
                state.slots.entry(look.key(*at)).or_insert_with(|| Box::new(Slot::new(kind, Arc::clone(target), now)));
            slot.asking = true;
        }
        let entered = entered.into_iter().map(|(at, hold)| (at, Grant::further(look.client.clone(), hold))).collect();
        Ok(Found::Reserved(Reserved { entered, wanted }))
    }

    /// The names are not ours: whoever came for one of them meanwhile asks for it.
    fn unreserve(self: &Arc<Self>, look: &Look, wanted: &[(usize, Option<Instant>)]) {
        let now = self.now();
        for part in wanted.chunks(PART) {
            let mut state = self.state();
            for (at, _) in part {
                self.asked(&mut state, &look.key(*at), now);
            }
        }
    }

    /// An attempt for this name is over.
    fn asked(self: &Arc<Self>, state: &mut State, key: &SlotKey, now: Instant) {
        if let Some(slot) = state.slots.get_mut(key) {
            slot.asking = false;
            slot.contact = now;
        }
        self.go_on(state, key);
    }

    async fn ask_for_all(&self, look: &Look, wanted: &[(usize, Option<Instant>)], lease: Duration) -> Ask {
        let number = |(at, _): &(usize, Option<Instant>)| {
            let id = self.number();
            (*at, id, self.core.field(id))
        };
        let claims: Vec<_> = wanted.iter().map(number).collect();
        let each: Vec<_> =
            claims.iter().map(|(at, _, field)| Claim { target: &look.targets[*at], field, lease }).collect();
        let request = match look.kind.together() {
            Some(together) if each.len() > 1 => together.acquire_many(&each),
            _ => look.kind.acquire(each[0]),
        };
        let asked = self.core.exchange(request, look.until, Persistence::Retries, &look.progress).await;
        Ask { claims, asked }
    }

    /// All were granted: each name is a tenure now, and the caller its first owner.
    fn all_arrive(
        self: &Arc<Self>,
        look: &Look,
        ask: &Ask,
        (mut grants, wanted): (Entered, Wanted),
        token: u64,
        (lease, stretch): (Duration, Duration),
    ) -> Result<Many, AcquireError> {
        let (sent, now) = (ask.asked.sent, self.now());
        let (mut robbed, mut closed) = (None, false);
        let claimed: Vec<_> = ask.claims.iter().zip(&wanted).collect();
        for part in claimed.chunks(PART) {
            let (mut answers, mut unwanted) = (Answers::new(), Vec::new());
            let mut state = self.state();
            for ((at, id, field), (_, continued)) in part {
                let ends = continued.unwrap_or(sent + stretch);
                let granted = Granted::by(&ask.asked, *id, field.clone(), token, (lease, look.wish.durability), ends);
                let (key, target) = (look.key(*at), Arc::clone(&look.targets[*at]));
                let tenure = Arc::new(Tenure::new(granted, &key, target, look.kind, self.core.clock.clone()));
                let wish = state.shared(&look.wish);
                match self.arrive(&mut state, &key, &tenure, sent) {
                    Arrival::Ours { slot, schedule } => {
                        let hold = self.own((schedule, slot), &tenure, (sent, now), wish);
                        hold.reserve();
                        grants.push((*at, Grant::first(look.client.clone(), hold)));
                        answers.extend(slot.tell_lookers());
                        slot.queue.iter().for_each(|entry| entry.seen.set_busy());
                    }
                    Arrival::Superseded => {
                        robbed = Some(*at);
                        unwanted.push(tenure);
                    }
                    Arrival::Closed => {
                        closed = true;
                        unwanted.push(tenure);
                    }
                }
                self.asked(&mut state, &key, now);
            }
            drop(state);
            send(answers);
            unwanted.iter().for_each(|tenure| self.give_back(tenure));
        }
        grants.sort_by_key(|(at, _)| *at);
        let bundle = Bundle::of(grants.into_iter().map(|(_, grant)| grant).collect());
        match robbed {
            _ if closed => Err(told(&self.core, Failure::ShuttingDown, look.name(0))),
            Some(at) => Ok(Many::Busy { at, theirs: true }),
            None => Ok(Many::All(bundle)),
        }
    }

    /// Gives back what copies of a request for many names may have taken: now, where that may be, and when no copy can be
    /// carried out any more.
    fn settle_all(self: &Arc<Self>, look: &Look, ask: &Ask, lease: Duration, at_once: bool) {
        let limit = ask.asked.unanswered_until;
        if limit.is_none() && !at_once {
            return;
        }
        let (table, kind, claims) = (Arc::clone(self), look.kind, ask.fields(look));
        self.hand_over(Box::pin(async move {
            let limit = limit.unwrap_or(Instant::PAST);
            if at_once && table.give_back_all(kind, &claims, limit, lease).await >= limit {
                return;
            }
            table.core.clock.sleep_until(limit).await;
            table.give_back_all(kind, &claims, limit, lease).await;
        }));
    }

    /// The same, waiting for the first release as long as one answer may take.
    async fn settled_all(self: &Arc<Self>, look: &Look, ask: &Ask, lease: Duration) {
        let (limit, claims) = (ask.asked.unanswered_until.unwrap_or(Instant::PAST), ask.fields(look));
        let until = self.now() + self.core.settings.timeout;
        let left = tokio::select! {
            left = self.give_back_all(look.kind, &claims, limit, lease) => left,
            () = self.core.clock.sleep_until(until) => Instant::PAST,
        };
        if left < limit || left == Instant::PAST {
            self.settle_all(look, ask, lease, left == Instant::PAST);
        }
    }
}
