//! Methods of [`HoldGuard`] for authors of guard types.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use bytes::Bytes;
use redgrid_client::Client;

use super::acquire::HoldGuard;
use super::error::LostReason;
use super::hold::Hold;
use super::hold_watch::HoldWatch;
use super::protocol::{AcquireRequest, LockKeys, LockProtocol};
use super::table::Table;
use crate::lease::{LeaseMode, with_margin};
use crate::name::Name;
use crate::token::Token;

/// A guard that wraps a [`HoldGuard`].
///
/// Through this trait, the `Condition` of `redgrid-barrier` releases and reacquires a lock of any
/// kind.
pub trait FromHoldGuard: Sized {
    /// Unwraps the hold guard. The hold continues.
    fn into_hold_guard(self) -> HoldGuard;

    /// Wraps a hold guard.
    fn from_hold_guard(grant: HoldGuard) -> Self;
}

impl HoldGuard {
    /// Creates an additional guard of a hold. Unlike a first guard, it does not have to be
    /// accepted.
    ///
    /// The mutex of the table must be locked: it protects the number of guards.
    pub(super) fn further(client: Client, hold: Arc<Hold>) -> Self {
        hold.guards.fetch_add(1, Ordering::AcqRel);
        HoldGuard { client, hold, is_first: false, armed: true }
    }

    /// Accepts a guard that was reserved by
    /// [`PendingAcquire::member`](super::PendingAcquire::member).
    ///
    /// If the guard is released before this call, `at_least` has no effect: the lock does not stay
    /// taken.
    pub fn accept_member(&self) {
        self.accept();
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
    pub fn field(&self) -> Bytes {
        self.table().core.field(self.hold.server_lease.id)
    }

    /// Returns whether the hold is valid at this instant, by the local clock.
    pub fn is_held(&self) -> bool {
        self.hold.is_held()
    }

    /// Returns why the hold was lost; `None` while it is valid, and after it was released.
    pub fn lost_reason(&self) -> Option<LostReason> {
        self.hold.lost()
    }

    /// Returns for how long the hold stays valid if no renewal is confirmed; zero if the hold has
    /// ended.
    pub fn remaining(&self) -> Duration {
        if self.is_held() { self.hold.deadline().since(self.hold.server_lease.clock.now()) } else { Duration::ZERO }
    }

    /// Returns a view of the hold for other tasks.
    pub fn watch(&self) -> HoldWatch {
        HoldWatch(Arc::clone(&self.hold))
    }

    /// Returns another guard of the same hold, without a request; `None` if the hold has ended.
    pub fn clone_guard(&self) -> Option<HoldGuard> {
        let state = self.table().state();
        let again = self.is_held().then(|| HoldGuard::further(self.client.clone(), Arc::clone(&self.hold)));
        drop(state);
        again
    }

    /// Returns the acquire options of the hold.
    pub fn request(&self) -> &AcquireRequest {
        &self.hold.request
    }

    /// Returns whether this is the last guard of its hold. Releasing the last guard releases the
    /// hold.
    pub fn is_last(&self) -> bool {
        self.hold.guards.load(Ordering::Acquire) == 1
    }

    /// Returns the client through which the lock is held.
    pub fn client(&self) -> &Client {
        &self.client
    }

    /// Returns for how long the lock stays taken by this hold, even if the hold is released
    /// earlier.
    pub fn retained_for(&self) -> Duration {
        self.hold.retained_until().since(self.hold.server_lease.clock.now())
    }

    /// Cancels the `hold_at_least` of this hold, because another hold keeps the lock taken for that
    /// time. So the release of this hold frees the lock.
    ///
    /// This has an effect only on the last guard of the hold.
    pub fn drop_retention(&self) {
        if self.is_last() {
            self.hold.retained_elsewhere.store(true, Ordering::Release);
        }
    }

    /// Completes when the hold is no longer known to be valid, and returns the reason.
    pub async fn lost(&self) -> LostReason {
        self.watch().lost().await
    }

    /// Stops the renewal, so that the hold ends with its lease.
    pub fn forget(mut self) {
        self.armed = false;
        self.table().stop_renewing(&self.hold, self.is_first);
    }
}

impl Table {
    fn stop_renewing(&self, hold: &Arc<Hold>, is_first: bool) {
        let mut state = self.state();
        if hold.count_off(is_first) == Some(0) {
            let lock = state.locks.get(&hold.server_lease.lock_id()).filter(|lock| lock.has(&hold.server_lease));
            if lock.is_none_or(|lock| lock.is_forgotten()) {
                hold.server_lease.stop_renewing();
            } else if matches!(hold.request.lease, LeaseMode::Renewed(_)) {
                // Other tasks share the server lease, so it is still renewed. But this hold ends
                // when the server lease would end without a further renewal.
                let now = self.now();
                hold.set_end(now, with_margin(hold.server_lease.deadline().since(now)), now);
                self.owner_moved(&mut state, hold);
            }
            // If the hold was lost before, this guard may have been the only reason to keep the
            // lock state.
            state.remove_if_idle(&hold.server_lease.lock_id());
        }
    }
}
