//! Taking a lock away from one holder.

use std::fmt::Write as _;
use std::time::Duration;

use bytes::Bytes;
use redgrid_core::Client;
use redgrid_locks::{
    AcquireError, Election, FairLock, FencedLock, ForcedRelease, Lock, LockHolder, NextWaiter, RwLock,
};

use super::outcome::{ActionError, ActionOutcome, ActionReport, Failed, Refusal};
use super::{Actions, Reason, Subject};
use crate::Failure;
use crate::error::InspectError;
use crate::holder::{HolderField, HolderView};
use crate::inspector::Inspector;
use crate::lock::{LockKind, LockView};

/// The most holders that the record and a refusal name.
const MAX_NAMED: usize = 5;

/// The pauses before a waiter is woken again, in all 15 s. A takeover that is not released ends
/// after 5 s. After an unanswered request it may have begun some seconds later.
const WAKE_PAUSES: [Duration; 3] = [Duration::from_secs(1), Duration::from_secs(5), Duration::from_secs(9)];

impl Actions {
    /// Takes a lock of any kind away from one holder: a plain, fair or fenced lock, the lock of a
    /// reader or a writer, or the leadership of an election.
    ///
    /// `holder` is the [field](HolderView::field) of a holder that [`Inspector::lock`] returned.
    /// Comparison and release are one step on the server: another holder keeps the lock. A redgrid
    /// holder is notified a round trip later. A Redisson holder notices the loss when it unlocks.
    /// The lock is free half a second later; the lock of a reader at once.
    ///
    /// # Errors
    ///
    /// [`ActionError`]: the action was not begun. The outcome is [`Refusal::Free`] or
    /// [`Refusal::HeldByAnother`] if this holder does not have the lock.
    ///
    /// # Cancel safety
    ///
    /// See [`Actions`].
    pub async fn force_release(
        &self,
        lock: impl AsRef<str>,
        holder: impl AsRef<str>,
        reason: &Reason,
    ) -> Result<ActionReport, ActionError> {
        let view = self.inspector.lock(lock).await?;
        if let LockKind::NotALock { type_name, .. } = view.kind {
            return Err(ActionError::NotALock { name: view.name, type_name });
        }
        let holder = holder.as_ref().to_owned();
        if HolderField::parse(holder.as_bytes()).is_none() {
            let expected = "the field of a holder, such as `<uuid>:<number>`";
            let failure = Failure::invalid_argument(view.name, "holder", expected, format!("{holder:?}"));
            return Err(InspectError::from(failure).into());
        }
        let subject = Subject {
            action: "force a lock",
            object: Bytes::copy_from_slice(view.name.as_bytes()),
            target: holder.clone(),
            before: describe(&view),
        };
        let inspector = self.inspector.clone();
        self.act(subject, reason, async move {
            match force(inspector.client(), &view, &LockHolder::from_field(holder)).await {
                Ok(ForcedRelease::Done) => ActionOutcome::Done { count: 1 },
                Ok(ForcedRelease::Free) => ActionOutcome::Refused(Refusal::Free),
                Ok(_) => ActionOutcome::Refused(present_holders(&inspector, &view.name).await),
                Err(error) => error.outcome(),
            }
        })
        .await
    }
}

/// Frees the lock in the way of its kind, so that its waiters are woken.
async fn force(client: &Client, view: &LockView, holder: &LockHolder) -> Result<ForcedRelease, AcquireError> {
    let name = view.name.as_str();
    match view.kind {
        // A reader may have become a writer since it was seen: its field names the read only.
        LockKind::ReadWrite => RwLock::new(client, name).force_release_field(holder.field()).await,
        LockKind::Fair => FairLock::new(client, name).force_release_if(holder).await,
        LockKind::Election => Election::new(client, name).depose_if(holder).await,
        _ => {
            let freed = match view.token {
                Some(_) => FencedLock::new(client, name).force_release_if(holder).await,
                None => Lock::new(client, name).force_release_if(holder).await,
            };
            match &freed {
                Ok(ForcedRelease::Done) => wake_next(FairLock::new(client, name), false).await,
                Err(error) if error.is_unknown() => wake_next(FairLock::new(client, name), true).await,
                _ => {}
            }
            freed
        }
    }
}

/// Wakes the first waiter of a lock that was freed as a plain or fenced one. A fair lock looks like
/// that if it had no waiters when it was read, whatever keys an earlier use of the name has left.
///
/// If the takeover could not be released yet, the lock is still held. Then this is tried again in
/// the background, unless the lock has no waiters: later waiters see how soon the takeover ends.
/// With `may_begin_later`, the takeover may still be executed, and a waiter may enter before it.
async fn wake_next(lock: FairLock, may_begin_later: bool) {
    let is_over = move |woken: Result<NextWaiter, AcquireError>| match woken {
        Ok(NextWaiter::Notified) => true,
        Ok(NextWaiter::Absent) => !may_begin_later,
        _ => false,
    };
    if is_over(lock.wake_next().await) {
        return;
    }
    tokio::spawn(async move {
        for pause in WAKE_PAUSES {
            tokio::time::sleep(pause).await;
            if is_over(lock.wake_next().await) {
                return;
            }
        }
    });
}

/// Names the holders that have the lock now.
async fn present_holders(inspector: &Inspector, name: &str) -> Refusal {
    let holders = inspector.lock(name).await.map(|view| view.holders).unwrap_or_default();
    Refusal::HeldByAnother { holders: holders.iter().take(MAX_NAMED).map(HolderView::field).collect() }
}

/// Describes the lock before the action, for the record.
fn describe(view: &LockView) -> String {
    if !view.is_held() {
        return "free".to_owned();
    }
    let holders = view.holders.iter().take(MAX_NAMED);
    let named: Vec<_> = holders.map(|holder| format!("{} ({})", holder.field(), holder.state.as_str())).collect();
    let mut text = format!("held by {}", named.join(", "));
    if view.holder_count > MAX_NAMED as u64 {
        // Writing to a `String` cannot fail.
        let _ = write!(text, " and {} more", view.holder_count - MAX_NAMED as u64);
    }
    match view.lease_left {
        Some(left) => text.push_str(&format!("; {} ms left", left.as_millis())),
        None => text.push_str("; without a lifetime"),
    }
    if let Some(waiting) = view.waiting_clients {
        let _ = write!(text, "; {waiting} clients wait");
    }
    text
}
