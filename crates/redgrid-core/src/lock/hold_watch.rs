//! The end of a hold, for tasks that watch it.

use std::collections::HashMap;
use std::pin::pin;
use std::sync::Arc;

use tokio::sync::Notify;

use super::error::LostReason;
use super::hold::Hold;
use crate::clock::Instant;
use crate::token::Token;

/// The watched holds of one server lease: maps the token of a hold to the notification of its end.
///
/// A hold that no task watches has no entry. Each hold has a notification of its own. If all holds
/// had a common notification, the release of one reader would wake the watchers of all readers.
pub(super) type EndWatchers = HashMap<u64, Arc<Notify>, foldhash::fast::RandomState>;

/// A view of a hold. It can be cloned for other tasks, and the hold can be released while views
/// exist.
#[derive(Clone)]
pub struct HoldWatch(pub(super) Arc<Hold>);

impl HoldWatch {
    /// Returns whether the hold is valid at this instant, by the local clock.
    pub fn is_held(&self) -> bool {
        self.0.is_held()
    }

    /// Returns the fencing token of the hold.
    pub fn token(&self) -> Token {
        Token::new(self.0.token)
    }

    /// Returns why the hold was lost; `None` if it is still valid or was released.
    pub fn lost_reason(&self) -> Option<LostReason> {
        self.0.lost()
    }

    /// Completes when the hold is lost, that is, no longer known to be valid. Returns the reason.
    /// If the hold is released instead, the future never completes.
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

    /// Completes when the hold has ended. Returns why the hold was lost, or `None` if it was
    /// released.
    ///
    /// # Cancel safety
    ///
    /// Dropping the future leaves nothing behind.
    pub async fn ended(&self) -> Option<LostReason> {
        self.0.ended().await;
        self.0.lost()
    }
}

impl Hold {
    /// Returns why the hold was lost; `None` if it is still valid or was released.
    pub(super) fn lost(&self) -> Option<LostReason> {
        self.lost_by(self.server_lease.clock.now())
    }

    /// Returns why the hold was lost; `None` while it is valid at `now`, and after it was released.
    ///
    /// A passed deadline counts as a loss even before the hold is marked as ended.
    pub(super) fn lost_by(&self, now: Instant) -> Option<LostReason> {
        match self.end.get() {
            Some(end) => *end,
            None => self.has_expired(now).then_some(LostReason::Expired),
        }
    }

    /// Returns the notification of the hold's end; `None` if the hold has ended. The notification
    /// is created on first use.
    fn notification(&self) -> Option<Arc<Notify>> {
        let mut inner = self.server_lease.inner();
        // If the hold ends after this check, `notify_ended` finds the entry that is added below,
        // because both functions lock the same mutex.
        if self.end.get().is_some() {
            return None;
        }
        Some(Arc::clone(inner.ended.get_or_insert_default().entry(self.token).or_default()))
    }

    /// Completes when the hold has ended, by release or loss.
    async fn ended(&self) {
        let Some(ended) = self.notification() else { return };
        loop {
            let mut notified = pin!(ended.notified());
            notified.as_mut().enable();
            if !self.is_held() {
                return;
            }
            tokio::select! {
                () = notified => {}
                // The renewal loop ends the hold when the deadline passes. If that loop is late,
                // this timer ends the wait.
                () = self.server_lease.clock.sleep_until(self.deadline()) => {}
            }
        }
    }
}
