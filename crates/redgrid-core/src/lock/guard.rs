//! The armed proof of a hold, of which every guard is made.

use std::future::poll_fn;
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::task::Poll;
use std::time::Duration;

use futures_util::FutureExt;

use super::change_lease::Set;
use super::error::{AcquireError, ExtendError, LostReason, ReleaseError};
use super::hold::Hold;
use super::inline_task::InlineTask;
use super::pending_acquire::GRACE;
use super::protocol::{LockKeys, LockProtocol};
use super::release::{DropOutcome, ReleasedBy};
use super::table::{State, Table};
use super::terms::{self, AcquireRequest, LeaseMode};
use crate::clock::Instant;
use crate::config::{LONGEST_LEASE, SHORTEST_LEASE};
use crate::connection::Client;
use crate::error::ServerError;
use crate::name::Name;
use crate::observe::{About, Observed};
use crate::token::Token;

/// A guard that is a [`Grant`] underneath: what a condition gives back and takes again, whatever lock it is of.
pub trait FromHoldGuard: Sized {
    /// The grant, which goes on to hold.
    fn into_hold_guard(self) -> HoldGuard;

    /// The guard of a grant.
    fn from_hold_guard(grant: HoldGuard) -> Self;
}

/// A hold, and the means to end it. Dropping it gives the hold back in the background.
#[must_use = "dropping the grant gives the hold back"]
pub struct HoldGuard {
    client: Client,
    pub(super) hold: Arc<Hold>,
    /// It is the first guard of its hold, which is taken back when nobody polls for it.
    pub(super) is_first: bool,
    pub(super) armed: bool,
}

impl HoldGuard {
    /// The first guard of a hold, on its way to who asked for it. Counted under the table's lock, which every caller holds.
    pub(super) fn first(client: Client, hold: Arc<Hold>) -> Self {
        hold.guards.fetch_add(1, Ordering::AcqRel);
        HoldGuard { client, hold, is_first: true, armed: true }
    }

    /// A further guard, which its caller has at once. Counted in the same way.
    pub(super) fn further(client: Client, hold: Arc<Hold>) -> Self {
        hold.guards.fetch_add(1, Ordering::AcqRel);
        HoldGuard { client, hold, is_first: false, armed: true }
    }

    /// Takes what was offered; false when it was given to others meanwhile.
    pub(super) fn accept(&self) -> bool {
        if self.is_first {
            return self.hold.accept();
        }
        self.hold.set_given();
        true
    }

    /// The same for one of several that are wanted together.
    pub(super) fn reserve(&self) -> bool {
        !self.is_first || self.hold.reserve()
    }

    /// Hands a grant that was reserved as a [part](super::Ticket::part) to its caller. A grant that is released before keeps
    /// its name for no `at_least`.
    pub fn accept_member(&self) {
        self.accept();
    }

    /// The hold, left to whoever calls this to be given back; and whether this was its first guard.
    pub(super) fn disarm(mut self) -> (Arc<Hold>, bool) {
        self.armed = false;
        (Arc::clone(&self.hold), self.is_first)
    }

    pub(super) fn table(&self) -> &Arc<Table> {
        self.client.table()
    }

    fn about(&self) -> About<'_> {
        About { kind: self.hold.server_lease.kind.name(), name: self.name() }
    }

    /// What is held.
    pub fn name(&self) -> &Name {
        &self.hold.server_lease.target.name
    }

    /// The same, with its key and channel.
    pub fn keys(&self) -> &Arc<LockKeys> {
        &self.hold.server_lease.target
    }

    /// The kind of the hold.
    pub fn protocol(&self) -> &'static dyn LockProtocol {
        self.hold.server_lease.kind
    }

    /// The fencing token of this hold.
    pub fn token(&self) -> Token {
        Token::new(self.hold.token)
    }

    /// The holder field on the server.
    pub fn field(&self) -> &[u8] {
        self.hold.server_lease.field()
    }

    /// Whether the hold may be believed at this instant, by our own clock.
    pub fn is_held(&self) -> bool {
        self.hold.is_held()
    }

    /// How it ended without us, if it did.
    pub fn lost_reason(&self) -> Option<LostReason> {
        self.hold.lost()
    }

    /// How long it may be believed without a further confirmation; zero when it has ended.
    pub fn remaining(&self) -> Duration {
        if self.is_held() { self.hold.deadline().since(self.hold.server_lease.clock.now()) } else { Duration::ZERO }
    }

    /// A view of the hold for other tasks.
    pub fn watch(&self) -> HoldWatch {
        HoldWatch(Arc::clone(&self.hold))
    }

    /// Another grant of the same hold, without asking anybody; `None` when it has ended.
    pub fn clone_guard(&self) -> Option<HoldGuard> {
        let state = self.table().state();
        let again = self.is_held().then(|| HoldGuard::further(self.client.clone(), Arc::clone(&self.hold)));
        drop(state);
        again
    }

    /// What was asked for.
    pub fn request(&self) -> &AcquireRequest {
        &self.hold.request
    }

    /// Asks for a hold of another kind on the same key, under this one. `None` where others have it, or share this one and
    /// could not be inside then.
    ///
    /// # Errors
    ///
    /// [`AcquireError`] says what is true then; `Lost` when this one has ended.
    ///
    /// # Cancel safety
    ///
    /// Dropping it leaves this hold as it is; what the server had granted goes back in the background.
    pub async fn convert(
        &self,
        kind: &'static dyn LockProtocol,
        wish: AcquireRequest,
    ) -> Result<Option<HoldGuard>, AcquireError> {
        match self.table().enter_converting(&self.client, &self.hold, kind, wish)? {
            Some(ticket) => ticket.outcome().await,
            None => Ok(None),
        }
    }

    /// Whether it is the last of its hold: releasing it gives the hold back.
    pub fn is_last(&self) -> bool {
        self.hold.guards.load(Ordering::Acquire) == 1
    }

    /// The client it is held through.
    pub fn client(&self) -> &Client {
        &self.client
    }

    /// Whether others of this process share the same grant of the server.
    pub fn is_shared(&self) -> bool {
        self.table().is_shared(&self.hold)
    }

    /// Completes when nobody shares it any more.
    ///
    /// # Cancel safety
    ///
    /// Dropping it changes nothing.
    pub async fn unshared(&self) {
        let alone = self.hold.server_lease.alone();
        loop {
            let mut told = pin!(alone.notified());
            told.as_mut().enable();
            if !self.is_shared() {
                return;
            }
            told.await;
        }
    }

    /// For how long the name stays taken by it, whatever becomes of it.
    pub fn retained_for(&self) -> Duration {
        self.hold.retained_until().since(self.hold.server_lease.clock.now())
    }

    /// Releases without keeping the name for what was asked for as `at_least`: another hold of the name does. Only where this is
    /// its last grant.
    pub fn drop_retention(&self) {
        if self.hold.guards.load(Ordering::Acquire) == 1 {
            self.hold.drop_retention();
        }
    }

    /// Completes when the hold is no longer certain.
    pub async fn lost(&self) -> LostReason {
        self.watch().lost().await
    }

    /// Sets the lease to `lease` from now on.
    ///
    /// # Errors
    ///
    /// [`ExtendError`] says what may be believed then.
    ///
    /// # Cancel safety
    ///
    /// Dropped early, the new lease may or may not be in force; the earlier end of the two is believed.
    pub fn extend(&self, lease: Duration) -> impl Future<Output = Result<(), ExtendError>> + Send {
        Observed::extend(self.about(), self.hold.token).around(set_lease(self.table(), &self.hold, lease))
    }

    /// What extends the hold and does not keep it.
    pub fn extender(&self) -> Extender {
        Extender { client: self.client.clone(), hold: Arc::clone(&self.hold) }
    }

    /// Gives it back and waits for the answer, for `timeout` at most. After that, and if this is
    /// dropped, the release goes on in the background until the server has no lease of it any more:
    /// also none of an [`extend`](Grant::extend) that was not answered.
    ///
    /// # Errors
    ///
    /// [`ReleaseError::Lost`] when it had ended before; [`ReleaseError::OutcomeUnknown`] without an
    /// answer in time.
    ///
    /// # Cancel safety
    ///
    /// Dropped early, the release goes on in the background.
    pub fn release(self) -> impl Future<Output = Result<(), ReleaseError>> + Send + use<> {
        let observed = Observed::release(self.about(), self.hold.token);
        observed.around(self.release_and_wait())
    }

    async fn release_and_wait(mut self) -> Result<(), ReleaseError> {
        self.armed = false;
        let name = self.hold.server_lease.target.name.clone();
        let (flight, mut told) = match self.table().drop_guard(&self.hold, self.is_first, ReleasedBy::Caller) {
            DropOutcome::Done => return Ok(()),
            DropOutcome::Lost(reason) => return Err(ReleaseError::Lost { name, reason }),
            DropOutcome::Release(work, told) => {
                self.table().spawn_background(work);
                (None, told)
            }
            DropOutcome::Leaves(flight, told) => (Some(InlineRelease(Arc::clone(self.table()), flight)), told),
        };
        let core = &self.table().core;
        let until = core.clock.now() + core.settings.timeout + GRACE;
        let mut outcome = poll_fn(|cx| match &flight {
            Some(InlineRelease(_, flight)) if flight.poll(cx) => Poll::Pending,
            _ => Pin::new(&mut told).poll(cx),
        });
        // Who sends it by himself over a connection that is up is woken by his exchange when an
        // answer does not come in time: most have theirs by then, and need no timer of their own.
        let alone = flight.is_some() && core.is_connected(&self.hold.server_lease.target.key);
        let mut polled = false;
        let first = poll_fn(|cx| match outcome.poll_unpin(cx) {
            Poll::Ready(released) => Poll::Ready(Some(released)),
            Poll::Pending if !alone || std::mem::replace(&mut polled, true) => Poll::Ready(None),
            Poll::Pending => Poll::Pending,
        });
        let released = match first.await {
            Some(released) => released.ok(),
            None => {
                let bounded = async {
                    tokio::select! {
                        biased;
                        released = &mut outcome => Some(released.ok()),
                        () = core.clock.sleep_until(until) => None,
                    }
                };
                // Boxed, as it is rare: every release would have room for it.
                let Some(released) = Box::pin(bounded).await else {
                    let source =
                        ServerError::unknown("no answer came in time; the release goes on until the lease ends");
                    return Err(ReleaseError::OutcomeUnknown { name, source });
                };
                released
            }
        };
        released.unwrap_or_else(|| Err(ReleaseError::OutcomeUnknown { name, source: self.client.ended() }))
    }

    /// Stops renewing and leaves the hold to its lease.
    pub fn forget(mut self) {
        self.armed = false;
        self.table().stop_renewing(&self.hold, self.is_first);
    }
}

/// Extends a hold that others keep: the last of its guards releases it all the same.
pub struct Extender {
    client: Client,
    hold: Arc<Hold>,
}

impl Extender {
    /// As [`Grant::extend`].
    ///
    /// # Errors
    ///
    /// As [`Grant::extend`].
    ///
    /// # Cancel safety
    ///
    /// As [`Grant::extend`].
    pub async fn extend(&self, lease: Duration) -> Result<(), ExtendError> {
        let server_lease = &self.hold.server_lease;
        let about = About { kind: server_lease.kind.name(), name: &server_lease.target.name };
        Observed::extend(about, self.hold.token).around(set_lease(self.client.table(), &self.hold, lease)).await
    }
}

async fn set_lease(table: &Arc<Table>, hold: &Arc<Hold>, lease: Duration) -> Result<(), ExtendError> {
    let server_lease = &hold.server_lease;
    let name = || server_lease.target.name.clone();
    if lease < SHORTEST_LEASE || lease > LONGEST_LEASE {
        return Err(ExtendError::InvalidArgument { name: name(), expected: "100 ms to 30 days", got: lease });
    }
    if let Some(reason) = hold.lost() {
        return Err(ExtendError::Lost { name: name(), reason });
    }
    let now = server_lease.clock.now();
    let fixed = matches!(hold.request.lease, LeaseMode::Fixed(_));
    // The name stays taken for `at_least`, however early the hold is to end.
    let on_server = if fixed {
        let keep = hold.retained_until().since(now);
        AcquireRequest { lease: LeaseMode::Fixed(lease), at_least: keep, ..AcquireRequest::clone(&hold.request) }
            .server_lease(Duration::ZERO)
    } else {
        lease
    };
    let shorter = if fixed { now + lease < hold.ends() } else { terms::deadline(now, lease) < server_lease.deadline() };
    if shorter && server_lease.is_renewed() {
        // The next renewal would lengthen it again: a renewed hold is not shortened, it is released.
        return Ok(());
    }
    let set = if shorter {
        if fixed {
            hold.set_end(now, lease, now);
            table.owner_moved(&mut table.state(), hold);
        }
        if table.is_shared(hold) {
            // The server keeps it for the others; ours ends here.
            return Ok(());
        }
        table.shorten(server_lease, on_server, hold.request.durability).await
    } else {
        table.lengthen(server_lease, on_server, hold.request.durability).await
    };
    match set {
        Set::Done { sent } => {
            if fixed && !shorter {
                hold.set_end(sent, lease, server_lease.clock.now());
                table.owner_moved(&mut table.state(), hold);
            }
            match hold.lost() {
                Some(reason) => Err(ExtendError::Lost { name: name(), reason }),
                None => Ok(()),
            }
        }
        Set::Gone => {
            table.mark_lost(&mut table.state(), server_lease, LostReason::Gone);
            Err(ExtendError::Lost { name: name(), reason: hold.lost().unwrap_or(LostReason::Gone) })
        }
        Set::TooLate => {
            let source = ServerError::not_sent("the server found the request too late");
            Err(ExtendError::NotExtended { name: name(), source })
        }
        Set::Failed(source) => Err(ExtendError::of(name(), source)),
        Set::NotDurable(source) => Err(ExtendError::NotDurable { name: name(), source }),
    }
}

/// A release that its caller polls; dropped early, a task goes on with it.
struct InlineRelease(Arc<Table>, InlineTask);

impl Drop for InlineRelease {
    fn drop(&mut self) {
        if let Some(work) = self.1.take() {
            self.0.spawn_background(work);
        }
    }
}

impl Drop for HoldGuard {
    fn drop(&mut self) {
        if self.armed
            && let DropOutcome::Release(work, _) = self.table().drop_guard(&self.hold, self.is_first, ReleasedBy::Task)
        {
            self.table().spawn_background(work);
        }
    }
}

impl Table {
    /// The owner's own lease ends at another time now.
    fn owner_moved(&self, state: &mut State, hold: &Arc<Hold>) {
        let slot = state.slots.get(&hold.server_lease.slot_key());
        if let Some(slot) = slot.filter(|slot| slot.position(hold).is_some()) {
            let first = slot.holds.iter().map(|hold| hold.deadline_of_its_own()).min();
            hold.server_lease.set_owner_due(first.unwrap_or(Instant::NEVER));
            state.schedule.moved(hold.server_lease.id);
            self.wake_renewal(&state.schedule);
        }
    }

    fn stop_renewing(&self, hold: &Arc<Hold>, is_first: bool) {
        let mut state = self.state();
        let is_counted = !(is_first && hold.is_revoked());
        if is_counted && hold.guards.fetch_sub(1, Ordering::AcqRel) == 1 {
            let slot = state.slots.get(&hold.server_lease.slot_key()).filter(|slot| slot.has(&hold.server_lease));
            if slot.is_none_or(|slot| slot.is_forgotten()) {
                hold.server_lease.stop_renewing();
            } else if matches!(hold.request.lease, LeaseMode::Renewed(_)) {
                // Others share it and have it renewed: this one has what was confirmed until now.
                let now = self.now();
                hold.set_end(now, terms::with_margin(hold.server_lease.deadline().since(now)), now);
                self.owner_moved(&mut state, hold);
            }
            // It may have been lost before: then its name is remembered for this guard alone.
            Self::remove_if_idle(&mut state, &hold.server_lease.slot_key());
        }
    }
}

/// A view of a hold: cloneable, for other tasks. It does not keep the hold.
#[derive(Clone)]
pub struct HoldWatch(Arc<Hold>);

impl HoldWatch {
    /// Whether the hold may be believed at this instant, by our own clock.
    pub fn is_held(&self) -> bool {
        self.0.is_held()
    }

    /// The fencing token of the hold.
    pub fn token(&self) -> Token {
        Token::new(self.0.token)
    }

    /// How it ended without being released, if it did.
    pub fn lost_reason(&self) -> Option<LostReason> {
        self.0.lost()
    }

    /// Completes when the hold is no longer certain. Never, if it was released before.
    ///
    /// # Cancel safety
    ///
    /// Dropping it leaves nothing behind.
    pub async fn lost(&self) -> LostReason {
        self.0.ended().await;
        match self.0.lost() {
            Some(reason) => reason,
            None => std::future::pending().await,
        }
    }

    /// Completes when the hold has ended, by release or loss; tells which.
    ///
    /// # Cancel safety
    ///
    /// Dropping it leaves nothing behind.
    pub async fn ended(&self) -> Option<LostReason> {
        self.0.ended().await;
        self.0.lost()
    }
}
