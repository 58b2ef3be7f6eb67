//! The armed handle of a hold, of which every guard is made.

use std::future::poll_fn;
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::task::Poll;
use std::time::Duration;

use futures_util::FutureExt;

use super::change_lease::LeaseChange;
use super::error::{AcquireError, ExtendError, LostReason, ReleaseError};
use super::hold::Hold;
use super::inline_task::InlineTask;
use super::pending_acquire::GRACE;
use super::protocol::{LockKeys, LockProtocol};
use super::release::{DropOutcome, ReleasedBy};
use super::table::{State, Table};
use super::terms::{self, AcquireRequest, LeaseMode};
use crate::author::ClientExt;
use crate::clock::Instant;
use crate::config::{LONGEST_LEASE, SHORTEST_LEASE};
use crate::connection::Client;
use crate::error::ServerError;
use crate::name::Name;
use crate::observe::{OpContext, OpSpan};
use crate::token::Token;

/// A guard that wraps a [`HoldGuard`].
///
/// A condition uses it to release and reacquire a lock of any kind.
pub trait FromHoldGuard: Sized {
    /// Returns the hold guard, which goes on to hold.
    fn into_hold_guard(self) -> HoldGuard;

    /// Wraps a hold guard.
    fn from_hold_guard(grant: HoldGuard) -> Self;
}

/// A hold, and the means to end it. Dropping it releases the hold in the background.
#[must_use = "dropping the guard releases the hold"]
pub struct HoldGuard {
    client: Client,
    pub(super) hold: Arc<Hold>,
    /// It is the first guard of its hold. The hold is revoked if its caller does not poll for it.
    pub(super) is_first: bool,
    pub(super) armed: bool,
}

impl HoldGuard {
    /// Creates the first guard of a hold, on its way to the caller that requested it.
    ///
    /// It is counted under the table's lock, which every caller holds.
    pub(super) fn first(client: Client, hold: Arc<Hold>) -> Self {
        hold.guards.fetch_add(1, Ordering::AcqRel);
        HoldGuard { client, hold, is_first: true, armed: true }
    }

    /// Creates a further guard, which its caller has at once.
    ///
    /// It is counted under the table's lock, which every caller holds.
    pub(super) fn further(client: Client, hold: Arc<Hold>) -> Self {
        hold.guards.fetch_add(1, Ordering::AcqRel);
        HoldGuard { client, hold, is_first: false, armed: true }
    }

    /// Accepts the offered hold. Returns false if it was revoked for other waiters meanwhile.
    pub(super) fn accept(&self) -> bool {
        if self.is_first {
            return self.hold.accept();
        }
        self.hold.set_given();
        true
    }

    /// Reserves the offered hold for a multi-key acquire. Returns false if it was revoked
    /// meanwhile.
    pub(super) fn reserve(&self) -> bool {
        !self.is_first || self.hold.reserve()
    }

    /// Hands a guard that was reserved as a [member](super::PendingAcquire::member) to its caller.
    ///
    /// A guard that is released before that does not keep its lock taken for `at_least`.
    pub fn accept_member(&self) {
        self.accept();
    }

    /// Disarms the guard. Returns the hold, which the caller must release, and whether it was the
    /// first guard.
    pub(super) fn disarm(mut self) -> (Arc<Hold>, bool) {
        self.armed = false;
        (Arc::clone(&self.hold), self.is_first)
    }

    pub(super) fn table(&self) -> &Arc<Table> {
        self.client.table()
    }

    /// Returns the name of the lock.
    pub fn name(&self) -> &Name {
        &self.hold.server_lease.keys.name
    }

    /// Returns the name of the lock with its key and channel.
    pub fn keys(&self) -> &Arc<LockKeys> {
        &self.hold.server_lease.keys
    }

    /// Returns the protocol of the lock.
    pub fn protocol(&self) -> &'static dyn LockProtocol {
        self.hold.server_lease.protocol
    }

    /// Returns the fencing token of this hold.
    pub fn token(&self) -> Token {
        Token::new(self.hold.token)
    }

    /// Returns the holder field on the server.
    pub fn field(&self) -> &[u8] {
        self.hold.server_lease.field()
    }

    /// Returns whether the hold is valid at this instant, by the local clock.
    pub fn is_held(&self) -> bool {
        self.hold.is_held()
    }

    /// Returns how the hold ended without being released, if it did.
    pub fn lost_reason(&self) -> Option<LostReason> {
        self.hold.lost()
    }

    /// Returns how long the hold is valid without a further confirmation; zero when it has ended.
    pub fn remaining(&self) -> Duration {
        if self.is_held() { self.hold.deadline().since(self.hold.server_lease.clock.now()) } else { Duration::ZERO }
    }

    /// Returns a view of the hold for other tasks.
    pub fn watch(&self) -> HoldWatch {
        HoldWatch(Arc::clone(&self.hold))
    }

    /// Returns another guard of the same hold, without a request; `None` when the hold has ended.
    pub fn clone_guard(&self) -> Option<HoldGuard> {
        let state = self.table().state();
        let again = self.is_held().then(|| HoldGuard::further(self.client.clone(), Arc::clone(&self.hold)));
        drop(state);
        again
    }

    /// Returns the request that was granted.
    pub fn request(&self) -> &AcquireRequest {
        &self.hold.request
    }

    /// Requests a hold of another kind on the same key, under this one.
    ///
    /// Returns `None` if other holders have the key. The same holds if tasks share this hold that
    /// the new one would exclude.
    ///
    /// # Errors
    ///
    /// [`AcquireError`] says what is true then; `Lost` when this hold has ended.
    ///
    /// # Cancel safety
    ///
    /// Dropping the future leaves this hold as it is. A grant of the server is released in the
    /// background.
    pub async fn convert(
        &self,
        kind: &'static dyn LockProtocol,
        request: AcquireRequest,
    ) -> Result<Option<HoldGuard>, AcquireError> {
        match self.table().enter_converting(&self.client, &self.hold, kind, request)? {
            Some(ticket) => ticket.outcome().await,
            None => Ok(None),
        }
    }

    /// Returns whether this is the last guard of its hold: releasing it releases the hold.
    pub fn is_last(&self) -> bool {
        self.hold.guards.load(Ordering::Acquire) == 1
    }

    /// Returns the client through which the lock is held.
    pub fn client(&self) -> &Client {
        &self.client
    }

    /// Returns whether other tasks of this process share the same grant of the server.
    pub fn is_shared(&self) -> bool {
        self.table().is_shared(&self.hold)
    }

    /// Completes when no other task shares the grant any more.
    ///
    /// # Cancel safety
    ///
    /// Dropping the future changes nothing.
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

    /// Returns for how long the lock stays taken by this hold, even if the hold is released
    /// earlier.
    pub fn retained_for(&self) -> Duration {
        self.hold.retained_until().since(self.hold.server_lease.clock.now())
    }

    /// Drops the retention for `at_least`: another hold of the lock keeps it taken.
    ///
    /// This has an effect only on the last guard of the hold.
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
    /// [`ExtendError`] says which lease is valid then.
    ///
    /// # Cancel safety
    ///
    /// If the future is dropped early, the new lease may or may not be in force. The earlier end of
    /// the two leases is valid.
    pub fn extend(&self, lease: Duration) -> impl Future<Output = Result<(), ExtendError>> + Send {
        extend(self.table(), &self.hold, lease)
    }

    /// Returns a handle that extends the hold and does not keep it.
    pub fn extender(&self) -> Extender {
        Extender { client: self.client.clone(), hold: Arc::clone(&self.hold) }
    }

    /// Releases the hold and waits for the reply, for `response_timeout` at most.
    ///
    /// After that, and if the future is dropped, the release goes on in the background. It ends
    /// when the server has no lease of the hold any more. That includes the lease of an
    /// [`extend`](HoldGuard::extend) that was not answered.
    ///
    /// # Errors
    ///
    /// [`ReleaseError::Lost`] when the hold had ended before; [`ReleaseError::OutcomeUnknown`]
    /// without a reply in time; [`ReleaseError::Refused`] when the server refused the release.
    ///
    /// # Cancel safety
    ///
    /// If the future is dropped early, the release goes on in the background.
    pub fn release(self) -> impl Future<Output = Result<(), ReleaseError>> + Send + use<> {
        let op = OpSpan::release(op_context(&self.hold), self.hold.token);
        op.instrument(self.release_and_wait())
    }

    async fn release_and_wait(mut self) -> Result<(), ReleaseError> {
        self.armed = false;
        let name = self.hold.server_lease.keys.name.clone();
        let (inline_task, mut told) = match self.table().drop_guard(&self.hold, self.is_first, ReleasedBy::Caller) {
            DropOutcome::Done => return Ok(()),
            DropOutcome::Lost(reason) => return Err(ReleaseError::Lost { name, reason }),
            DropOutcome::Release(work, told) => {
                self.table().spawn_background(work);
                (None, told)
            }
            DropOutcome::Leaves(inline_task, told) => {
                (Some(InlineRelease(Arc::clone(self.table()), inline_task)), told)
            }
        };
        let core = &self.table().core;
        let until = core.clock.now() + core.settings.response_timeout + GRACE;
        let mut outcome = poll_fn(|cx| match &inline_task {
            Some(InlineRelease(_, inline_task)) if inline_task.poll(cx) => Poll::Pending,
            _ => Pin::new(&mut told).poll(cx),
        });
        // A caller that sends its own request over a live connection is woken by that request if no
        // reply arrives in time. Most replies arrive earlier and need no timer of their own.
        let alone = inline_task.is_some() && core.is_connected(&self.hold.server_lease.keys.key);
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
                // Boxed, as it is rare: every release would reserve space for it.
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

    /// Stops the renewal and leaves the hold to its lease.
    pub fn forget(mut self) {
        self.armed = false;
        self.table().stop_renewing(&self.hold, self.is_first);
    }
}

/// Extends a hold without keeping it: its last guard releases it all the same.
pub struct Extender {
    client: Client,
    hold: Arc<Hold>,
}

impl Extender {
    /// Sets the lease, as [`HoldGuard::extend`].
    ///
    /// # Errors
    ///
    /// As [`HoldGuard::extend`].
    ///
    /// # Cancel safety
    ///
    /// As [`HoldGuard::extend`].
    pub async fn extend(&self, lease: Duration) -> Result<(), ExtendError> {
        extend(self.client.table(), &self.hold, lease).await
    }
}

fn op_context(hold: &Hold) -> OpContext<'_> {
    OpContext { kind: hold.server_lease.protocol.name(), name: &hold.server_lease.keys.name }
}

/// Sets the lease of `hold`, and counts and logs that.
fn extend(
    table: &Arc<Table>,
    hold: &Arc<Hold>,
    lease: Duration,
) -> impl Future<Output = Result<(), ExtendError>> + Send {
    OpSpan::extend(op_context(hold), hold.token).instrument(set_lease(table, hold, lease))
}

async fn set_lease(table: &Arc<Table>, hold: &Arc<Hold>, lease: Duration) -> Result<(), ExtendError> {
    let server_lease = &hold.server_lease;
    let name = || server_lease.keys.name.clone();
    if lease < SHORTEST_LEASE || lease > LONGEST_LEASE {
        return Err(ExtendError::InvalidArgument { name: name(), expected: "100 ms to 30 days", got: lease });
    }
    if let Some(reason) = hold.lost() {
        return Err(ExtendError::Lost { name: name(), reason });
    }
    let now = server_lease.clock.now();
    let fixed = matches!(hold.request.lease, LeaseMode::Fixed(_));
    // The lock stays taken for `at_least`, however early the hold is to end.
    let on_server = if fixed {
        let keep = hold.retained_until().since(now);
        AcquireRequest { lease: LeaseMode::Fixed(lease), at_least: keep, ..AcquireRequest::clone(&hold.request) }
            .server_lease(Duration::ZERO)
    } else {
        lease
    };
    let shorter = if fixed { now + lease < hold.ends() } else { terms::deadline(now, lease) < server_lease.deadline() };
    if shorter && server_lease.is_renewed() {
        // The next renewal would lengthen it again. A renewed hold is not shortened but released.
        return Ok(());
    }
    let set = if shorter {
        if fixed {
            hold.set_end(now, lease, now);
            table.owner_moved(&mut table.state(), hold);
        }
        if table.is_shared(hold) {
            // The server keeps the lease for the tasks that share it; this hold ends locally.
            return Ok(());
        }
        table.shorten(server_lease, on_server, hold.request.durability).await
    } else {
        table.lengthen(server_lease, on_server, hold.request.durability).await
    };
    match set {
        LeaseChange::Done { sent } => {
            if fixed && !shorter {
                hold.set_end(sent, lease, server_lease.clock.now());
                table.owner_moved(&mut table.state(), hold);
            }
            match hold.lost() {
                Some(reason) => Err(ExtendError::Lost { name: name(), reason }),
                None => Ok(()),
            }
        }
        LeaseChange::Gone => {
            table.mark_lost(&mut table.state(), server_lease, LostReason::Gone);
            Err(ExtendError::Lost { name: name(), reason: hold.lost().unwrap_or(LostReason::Gone) })
        }
        LeaseChange::TooLate => {
            let source = ServerError::not_sent("the server found the request too late");
            Err(ExtendError::NotExtended { name: name(), source })
        }
        LeaseChange::Failed(source) => Err(ExtendError::of(name(), source)),
        LeaseChange::NotDurable(source) => Err(ExtendError::NotDurable { name: name(), source }),
    }
}

/// A release that its caller polls. If it is dropped early, a task continues it.
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
    /// Reschedules the server lease after the own lease of a hold was changed.
    fn owner_moved(&self, state: &mut State, hold: &Arc<Hold>) {
        let lock = state.locks.get(&hold.server_lease.lock_id());
        if let Some(lock) = lock.filter(|lock| lock.position(hold).is_some()) {
            let first = lock.holds.iter().map(|hold| hold.deadline_of_its_own()).min();
            hold.server_lease.set_owner_due(first.unwrap_or(Instant::MAX));
            state.schedule.moved(hold.server_lease.id);
            self.wake_renewal(&state.schedule);
        }
    }

    fn stop_renewing(&self, hold: &Arc<Hold>, is_first: bool) {
        let mut state = self.state();
        if hold.count_off(is_first) == Some(0) {
            let lock = state.locks.get(&hold.server_lease.lock_id()).filter(|lock| lock.has(&hold.server_lease));
            if lock.is_none_or(|lock| lock.is_forgotten()) {
                hold.server_lease.stop_renewing();
            } else if matches!(hold.request.lease, LeaseMode::Renewed(_)) {
                // Other tasks share it and keep it renewed: this hold has the lease confirmed until
                // now.
                let now = self.now();
                hold.set_end(now, terms::with_margin(hold.server_lease.deadline().since(now)), now);
                self.owner_moved(&mut state, hold);
            }
            // If the hold was lost before, the state of its lock was kept for this guard alone.
            Self::remove_if_idle(&mut state, &hold.server_lease.lock_id());
        }
    }
}

/// A view of a hold, cloneable for other tasks. It does not keep the hold.
#[derive(Clone)]
pub struct HoldWatch(Arc<Hold>);

impl HoldWatch {
    /// Returns whether the hold is valid at this instant, by the local clock.
    pub fn is_held(&self) -> bool {
        self.0.is_held()
    }

    /// Returns the fencing token of the hold.
    pub fn token(&self) -> Token {
        Token::new(self.0.token)
    }

    /// Returns how the hold ended without being released, if it did.
    pub fn lost_reason(&self) -> Option<LostReason> {
        self.0.lost()
    }

    /// Completes when the hold is no longer certain. It never completes if the hold was released
    /// before.
    ///
    /// # Cancel safety
    ///
    /// Dropping the future leaves nothing behind.
    pub async fn lost(&self) -> LostReason {
        self.0.ended().await;
        match self.0.lost() {
            Some(reason) => reason,
            None => std::future::pending().await,
        }
    }

    /// Completes when the hold has ended, and returns the reason of a loss; `None` after a release.
    ///
    /// # Cancel safety
    ///
    /// Dropping the future leaves nothing behind.
    pub async fn ended(&self) -> Option<LostReason> {
        self.0.ended().await;
        self.0.lost()
    }
}
