//! Holds: the common path of all lock-like objects.

use std::sync::Arc;
use std::time::Duration;

use super::Client;
use crate::clock::Instant;
use crate::lock::{
    AcquireError, AcquireRequest, AttachError, DetachedHold, HoldGuard, HolderId, LockKeys, LockProtocol, MultiOutcome,
    PendingAcquire, TakeoverFrom,
};
use crate::observe::{OpContext, OpSpan, Outcome, count};

impl Client {
    /// Starts an acquire of a hold. All lock-like objects use this method.
    ///
    /// # Errors
    ///
    /// [`AcquireError`] if the request is rejected immediately.
    pub fn enter(
        &self,
        kind: &'static dyn LockProtocol,
        target: &Arc<LockKeys>,
        request: AcquireRequest,
    ) -> Result<PendingAcquire, AcquireError> {
        let entered = self.0.table.enter(self, kind, target, request);
        // Borrowed, not moved: `PendingAcquire` is large, and each acquire has one.
        if let Err(error) = &entered {
            count::refused(kind.name(), error.outcome(), Duration::ZERO);
        }
        entered
    }

    /// Returns whether the holder already holds the key in this mode or in its paired mode.
    ///
    /// An acquire with [`Client::enter`] then does not queue behind other requests.
    pub fn is_in(&self, kind: &'static dyn LockProtocol, target: &Arc<LockKeys>, holder: Option<HolderId>) -> bool {
        holder.is_some_and(|holder| self.0.table.is_in(kind, target, holder))
    }

    /// Returns whether this client holds the key, in this mode or in its paired mode.
    pub fn holds(&self, kind: &'static dyn LockProtocol, target: &Arc<LockKeys>) -> bool {
        self.0.table.holds_key(kind, target)
    }

    /// Acquires all of `targets` or none, with a single attempt and without waiting.
    ///
    /// The targets share a kind and a slot ([`Client::slot`]). More than one target needs a kind
    /// that supports multi-key acquires. The attempt is given up at `until`.
    ///
    /// # Errors
    ///
    /// [`AcquireError`] describes the resulting state of all names together.
    ///
    /// # Cancel safety
    ///
    /// If the future is dropped early, a grant is released in the background.
    pub async fn take_all(
        &self,
        kind: &'static dyn LockProtocol,
        targets: Vec<Arc<LockKeys>>,
        request: AcquireRequest,
        until: Instant,
    ) -> Result<MultiOutcome, AcquireError> {
        self.0.table.acquire_all(self, kind, targets, request, until).await
    }

    /// Takes a name over by force and notifies its holders that they have lost it.
    ///
    /// Returns `None` if `from` does not allow the takeover.
    ///
    /// # Errors
    ///
    /// [`AcquireError`] describes the resulting state.
    ///
    /// # Cancel safety
    ///
    /// If the future is dropped early, the name may be taken for a moment; it is released in the
    /// background.
    pub async fn take_over(
        &self,
        kind: &'static dyn LockProtocol,
        target: &Arc<LockKeys>,
        request: AcquireRequest,
        from: TakeoverFrom,
    ) -> Result<Option<HoldGuard>, AcquireError> {
        let releases = from != TakeoverFrom::Anybody;
        let op = OpSpan::force(OpContext { kind: kind.name(), name: &target.name }, releases);
        op.instrument(self.0.table.take_over(self, kind, target, request, from)).await
    }

    /// Takes over a hold that another process has detached.
    ///
    /// # Errors
    ///
    /// [`AttachError`] describes the resulting state.
    ///
    /// # Cancel safety
    ///
    /// If the future is dropped early, the hold may be taken over; it is released in the
    /// background.
    pub async fn attach(
        &self,
        kind: &'static dyn LockProtocol,
        target: &Arc<LockKeys>,
        detached: DetachedHold,
    ) -> Result<HoldGuard, AttachError> {
        self.0.table.attach(self, kind, target, detached, self.durability()).await
    }
}
