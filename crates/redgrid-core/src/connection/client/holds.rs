//! Holds: the way of every lock-like object.

use std::sync::Arc;
use std::time::Duration;

use super::Client;
use crate::clock::Instant;
use crate::lock::{
    AcquireError, AcquireRequest, AttachError, DetachedHold, HoldGuard, HolderId, LockKeys, LockProtocol, MultiOutcome,
    PendingAcquire, TakeoverFrom,
};
use crate::observe::{About, Done, Observed, count};

impl Client {
    /// Asks for a hold: the way of every lock-like object.
    ///
    /// # Errors
    ///
    /// [`AcquireError`] where it is clear at once that it can not be had.
    pub fn enter(
        &self,
        kind: &'static dyn LockProtocol,
        target: &Arc<LockKeys>,
        request: AcquireRequest,
    ) -> Result<PendingAcquire, AcquireError> {
        let entered = self.0.table.enter(self, kind, target, request);
        // Looked at in its place: a ticket is large, and each acquire has one.
        if let Err(error) = &entered {
            count::refused(kind.name(), error.outcome(), Duration::ZERO);
        }
        entered
    }

    /// Whether the holder has what [`Client::enter`] asks for, or the kind beside it: then it does not stand behind others.
    pub fn is_in(&self, kind: &'static dyn LockProtocol, target: &Arc<LockKeys>, holder: Option<HolderId>) -> bool {
        holder.is_some_and(|holder| self.0.table.is_in(kind, target, holder))
    }

    /// Whether this client holds the key, as this kind or the one beside it.
    pub fn holds(&self, kind: &'static dyn LockProtocol, target: &Arc<LockKeys>) -> bool {
        self.0.table.holds_key(kind, target)
    }

    /// Takes all of `targets` or none, by one look: none is waited for. They share a kind and a slot
    /// ([`Client::slot`]), and are several only where the kind takes many together. Given up at `until`.
    ///
    /// # Errors
    ///
    /// [`AcquireError`] says what is true then, of the names together.
    ///
    /// # Cancel safety
    ///
    /// Dropped early, what is granted goes back in the background.
    pub async fn take_all(
        &self,
        kind: &'static dyn LockProtocol,
        targets: Vec<Arc<LockKeys>>,
        request: AcquireRequest,
        until: Instant,
    ) -> Result<MultiOutcome, AcquireError> {
        self.0.table.acquire_all(self, kind, targets, request, until).await
    }

    /// Takes a name by force, and notifies its holders that they have lost it. `None` where `from` does not allow it.
    ///
    /// # Errors
    ///
    /// [`AcquireError`] says what is true then.
    ///
    /// # Cancel safety
    ///
    /// Dropped early, the name may be taken for a moment and is given back in the background.
    pub async fn take_over(
        &self,
        kind: &'static dyn LockProtocol,
        target: &Arc<LockKeys>,
        request: AcquireRequest,
        from: TakeoverFrom,
    ) -> Result<Option<HoldGuard>, AcquireError> {
        let releases = from != TakeoverFrom::Anybody;
        let observed = Observed::force(About { kind: kind.name(), name: &target.name }, releases);
        observed.around(self.0.table.take_over(self, kind, target, request, from)).await
    }

    /// Takes over a hold that another process has detached.
    ///
    /// # Errors
    ///
    /// [`AttachError`] says what is true then.
    ///
    /// # Cancel safety
    ///
    /// Dropped early, the hold may be taken over and is given back in the background.
    pub async fn attach(
        &self,
        kind: &'static dyn LockProtocol,
        target: &Arc<LockKeys>,
        detached: DetachedHold,
    ) -> Result<HoldGuard, AttachError> {
        self.0.table.attach(self, kind, target, detached, self.durability()).await
    }
}
