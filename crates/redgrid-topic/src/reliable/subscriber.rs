//! The state of a subscriber, its acknowledgements, and the renewal of its lease.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, Weak};
use std::time::Duration;

use bytes::Bytes;
use redgrid_core::author::ClientExt;
use redgrid_core::object::{ObjectError, ObjectRef};
use redgrid_core::{BackgroundClient, Client, Request, ServerError};
use tokio::sync::{Notify, oneshot};

use super::window::Window;
use super::{ACKNOWLEDGE, MessageId, REGISTER};

/// The options of a subscriber.
#[derive(Debug, Clone, Copy)]
pub(super) struct Options {
    pub(super) lease: Duration,
    pub(super) max_unacknowledged: usize,
    pub(super) poll_interval: Duration,
    pub(super) redelivery_delay: Duration,
    /// The label in metrics.
    pub(super) family: &'static str,
}

/// The state of a subscriber, shared by [`Deliveries`](super::Deliveries) and its
/// [`Delivery`](super::Delivery)s.
pub(super) struct Subscriber {
    pub(super) object_ref: ObjectRef,
    pub(super) keys: [Bytes; 2],
    pub(super) id: Bytes,
    pub(super) options: Options,
    pub(super) window: Mutex<Window>,
    /// Notified when a message was acknowledged or dropped, and when a resync was requested.
    pub(super) changed: Notify,
    /// The number of requests for a resync with the server.
    pub(super) resync_requests: AtomicU64,
    /// Whether a gap must be reported because the subscriber was missing on the server.
    pub(super) gap_pending: AtomicBool,
}

/// The position of a subscriber on the server: the id up to which all messages are acknowledged.
pub(super) enum ServerPosition {
    Existing(MessageId),
    New(MessageId),
    Missing,
}

impl Subscriber {
    pub(super) fn client(&self) -> &Client {
        self.object_ref.client()
    }

    pub(super) fn window(&self) -> MutexGuard<'_, Window> {
        self.window.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
    }

    /// Returns the request that renews the lease. If the subscriber is missing, the request
    /// registers it at `from`, unless `from` is empty.
    pub(super) fn register_request(&self, from: String) -> Request {
        let lease = i64::try_from(self.options.lease.as_millis()).unwrap_or(i64::MAX);
        REGISTER.with(self.keys.clone()).arg(self.id.clone()).int(lease).arg(from).idempotent()
    }

    /// Returns the request that acknowledges all messages up to `id`.
    pub(super) fn acknowledge_request(&self, id: MessageId) -> Request {
        ACKNOWLEDGE.with(self.keys.clone()).arg(self.id.clone()).arg(id.to_string()).idempotent()
    }

    pub(super) async fn acknowledge(&self, id: MessageId) -> Result<(), ObjectError> {
        let acknowledged_up_to = self.window().acknowledge(id);
        self.changed.notify_one();
        let Some(acknowledged_up_to) = acknowledged_up_to else { return Ok(()) };
        // The guard requests a resync even if this future is dropped.
        let resync = ResyncGuard(self);
        let is_acknowledged = self.object_ref.change::<bool>(self.acknowledge_request(acknowledged_up_to)).await?;
        if is_acknowledged {
            std::mem::forget(resync);
        }
        Ok(())
    }

    pub(super) fn schedule_redelivery(&self, id: MessageId) {
        let now = self.client().clock().now();
        self.window().schedule_redelivery(id, now, self.options.redelivery_delay);
        self.changed.notify_one();
    }

    pub(super) fn request_resync(&self) {
        self.resync_requests.fetch_add(1, Ordering::AcqRel);
        self.changed.notify_one();
    }
}

/// Requests a resync with the server when it is dropped.
struct ResyncGuard<'a>(&'a Subscriber);

impl Drop for ResyncGuard<'_> {
    fn drop(&mut self) {
        self.0.request_resync();
    }
}

pub(super) fn parse_position((status, last): (i64, String)) -> Result<ServerPosition, ServerError> {
    let last = MessageId::parse(&last)?;
    Ok(match status {
        0 => ServerPosition::Existing(last),
        1 => ServerPosition::New(last),
        _ => ServerPosition::Missing,
    })
}

/// Renews the lease of a subscriber in the background.
pub(super) struct Renewal {
    pub(super) request: Request,
    pub(super) interval: Duration,
    pub(super) subscriber: Weak<Subscriber>,
}

impl Renewal {
    pub(super) async fn run(self, background: BackgroundClient, mut ended: oneshot::Receiver<()>) {
        let mut due = background.clock().now() + self.interval;
        loop {
            tokio::select! {
                biased;
                () = background.closing() => return,
                _ = &mut ended => return,
                () = background.clock().sleep_until(due) => {}
            }
            let sent = background.clock().now();
            let until = sent + self.interval;
            tokio::select! {
                biased;
                () = background.closing() => return,
                _ = &mut ended => return,
                renewed = background.run_until::<(i64, String)>(self.request.clone(), until) => match renewed {
                    Ok((status, _)) if status < 0 => {
                        if let Some(subscriber) = self.subscriber.upgrade() {
                            subscriber.request_resync();
                        }
                    }
                    Ok(_) => {}
                    Err(error) => tracing::debug!(%error, "a subscriber was not renewed"),
                },
            }
            due = sent + self.interval;
        }
    }
}
