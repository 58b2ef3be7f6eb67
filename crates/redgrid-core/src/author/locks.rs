//! Methods of a client for lock-like objects.

use std::future::poll_fn;
use std::pin::Pin;
use std::sync::Arc;
use std::task::Poll;
use std::time::Duration;

use redgrid_client::ServerError;
use tokio::sync::oneshot;

use super::{ClientExt, Sealed};
use crate::clock::Instant;
use crate::lock::{
    AcquireError, AcquireRequest, AttachError, DetachedHold, HoldGuard, HolderId, InlineTask, LockKeys, LockProtocol,
    MultiOutcome, Takeover, TakeoverFrom,
};
use crate::observe::count::Labels;
use crate::observe::{OpContext, OpSpan};
use crate::service::ClientParts;
use crate::unpolled::Offer;

/// Methods of [`Client`](crate::Client) for lock-like objects. No other type implements this trait.
///
/// To acquire a single hold, use [`PendingAcquire::start`](crate::lock::PendingAcquire::start).
pub trait LockExt: Sealed {
    /// Executes an acquire of several steps. `start` creates the acquire; its argument is the
    /// remaining wait time.
    ///
    /// If the caller does not poll the future, a task of the client continues the acquire after at
    /// most half a second. Without that task, an acquire that is not polled would keep the grants
    /// of its earlier steps, and block other callers.
    ///
    /// After the acquire succeeds, the caller has up to one second to poll the future and take the
    /// grant. After that the grant is dropped, and the next poll restarts the acquire with the
    /// remaining part of `wait`. Dropping the future drops the acquire. The inner `Result` is the
    /// result of the acquire.
    fn drive_acquire<T, E, F>(
        &self,
        wait: Option<Duration>,
        mut start: impl FnMut(Option<Duration>) -> F + Send,
    ) -> impl Future<Output = Result<Result<T, E>, NotDriven>> + Send
    where
        T: Send + 'static,
        E: Send + 'static,
        F: Future<Output = Result<T, E>> + Send + 'static,
    {
        let client = self.client();
        async move {
            let (began, mut left) = (client.clock().now(), wait);
            loop {
                let (mut answer, mut outcome) = oneshot::channel();
                let (acquire, unpolled) = (start(left), Arc::clone(&client.holdings().unpolled));
                let work = Box::pin(async move {
                    tokio::select! {
                        biased;
                        () = answer.closed() => {}
                        outcome = acquire => {
                            let _ = answer.send(outcome.map(|granted| Offer::new(&unpolled, granted)));
                        }
                    }
                });
                let flight = InlineTask::observed(&client.holdings().unpolled, work);
                let outcome = poll_fn(|cx| match flight.poll(cx) {
                    true => Poll::Pending,
                    false => Pin::new(&mut outcome).poll(cx),
                });
                match outcome.await {
                    Ok(Ok(offer)) => {
                        if let Some(granted) = offer.take() {
                            return Ok(Ok(granted));
                        }
                    }
                    Ok(Err(error)) => return Ok(Err(error)),
                    Err(_) => return Err(NotDriven::Ended(client.ended())),
                }
                left = wait.map(|wait| wait.saturating_sub(client.clock().now().since(began)));
                if left.is_some_and(|left| left.is_zero()) {
                    return Err(NotDriven::TimedOut);
                }
            }
        }
    }

    /// Returns whether the holder already holds the key, as a lock of this kind or of the paired
    /// kind. (The read lock and the write lock of a read-write lock are paired.)
    ///
    /// If so, an acquire by this holder does not queue behind other requests.
    fn is_in(&self, kind: &'static dyn LockProtocol, target: &Arc<LockKeys>, holder: Option<HolderId>) -> bool {
        holder.is_some() && self.client().table().holds_key(kind, target, holder)
    }

    /// Returns whether this client holds the key, as a lock of this kind or of the paired kind (see
    /// [`LockExt::is_in`]).
    fn holds(&self, kind: &'static dyn LockProtocol, target: &Arc<LockKeys>) -> bool {
        self.client().table().holds_key(kind, target, None)
    }

    /// Acquires all of `targets` or none, with a single attempt and without waiting.
    ///
    /// The targets must share a kind and a slot ([`Client::slot`](crate::Client::slot)). If there
    /// are several, the kind must support multi-key acquires. The attempt ends at `until`. If the
    /// future is dropped before it completes, and a grant arrives later, the client releases the
    /// grant in the background.
    fn take_all(
        &self,
        kind: &'static dyn LockProtocol,
        targets: Vec<Arc<LockKeys>>,
        request: AcquireRequest,
        until: Instant,
    ) -> impl Future<Output = Result<MultiOutcome, AcquireError>> + Send {
        self.client().table().acquire_all(self.client(), kind, targets, request, until)
    }

    /// Takes over a lock by force, and notifies its former holders of the loss.
    ///
    /// If the future is dropped before it completes, the takeover may still succeed. In that case
    /// the client releases the lock in the background.
    fn take_over(
        &self,
        kind: &'static dyn LockProtocol,
        target: &Arc<LockKeys>,
        request: AcquireRequest,
        from: TakeoverFrom,
    ) -> impl Future<Output = Result<Takeover, AcquireError>> + Send {
        let client = self.client();
        async move {
            let releases = from != TakeoverFrom::Anybody;
            let labels = Labels { kind: kind.name(), family: target.family };
            let observed = OpSpan::force(OpContext { labels, name: &target.name }, releases);
            observed.instrument(client.table().take_over(client, kind, target, request, from)).await
        }
    }

    /// Takes over a hold that another process has detached.
    ///
    /// If the future is dropped after its first poll, the takeover continues in the background. If
    /// the takeover then succeeds, the hold is released.
    fn attach(
        &self,
        kind: &'static dyn LockProtocol,
        target: &Arc<LockKeys>,
        detached: DetachedHold,
    ) -> impl Future<Output = Result<HoldGuard, AttachError>> + Send {
        self.client().table().attach(self.client(), kind, target, detached, self.client().durability())
    }
}

/// Reason why [`LockExt::drive_acquire`] ended without a result of the acquire.
#[derive(Debug, Clone, PartialEq, Eq)]
// Not `#[non_exhaustive]`: only implementations of object types use it.
pub enum NotDriven {
    /// The wait time has passed.
    TimedOut,
    /// The client or its runtime has ended; see [`ClientExt::ended`].
    Ended(ServerError),
}
