//! Takes permits for one caller, which waits in the queue of its client.

use std::sync::Arc;
use std::time::Duration;

use redgrid_core::Failure;
use redgrid_core::author::ClientExt;
use redgrid_core::author::counts::{Decision, limit_decided};
use redgrid_core::clock::Instant;
use redgrid_core::wait_queue::WaitEnd;

use crate::error::LimitError;
use crate::rate::{MAX_PERMITS, MAX_PERMITS_EXPECTED};
use crate::waiters::{AcquireRequest, Granted, Limit, LimitQueue, Offered};

/// Takes permits as soon as they are available. Completes when they may be used. `family` is the
/// label in metrics.
pub(crate) async fn acquire<L: Limit>(
    queue: &Arc<LimitQueue<L>>,
    family: &'static str,
    permits: u64,
    timeout: Option<Duration>,
) -> Result<Granted<L>, LimitError> {
    let try_only = timeout.is_some_and(|timeout| timeout.is_zero());
    match take_counted(queue, family, permits, try_only, timeout).await? {
        Some(granted) => Ok(granted),
        None => {
            let name = queue.resource().limit.name().clone();
            Err(LimitError::TimedOut { name, waited: Duration::ZERO })
        }
    }
}

/// Takes permits if they are available now and no other caller waits.
pub(crate) async fn try_acquire<L: Limit>(
    queue: &Arc<LimitQueue<L>>,
    family: &'static str,
    permits: u64,
) -> Result<Option<Granted<L>>, LimitError> {
    take_counted(queue, family, permits, true, None).await
}

/// Takes permits, and counts the decision.
async fn take_counted<L: Limit>(
    queue: &Arc<LimitQueue<L>>,
    family: &'static str,
    permits: u64,
    try_only: bool,
    timeout: Option<Duration>,
) -> Result<Option<Granted<L>>, LimitError> {
    let clock = queue.client().clock();
    let began = clock.now();
    let result = take(queue, permits, try_only, timeout).await;
    let decision = match &result {
        Ok(Some(_)) => Decision::Allowed,
        Ok(None) | Err(LimitError::TimedOut { .. }) => Decision::Denied,
        // The limiter has not been asked: the caller made a mistake, or has shut the client down.
        Err(
            LimitError::TooManyPermits { .. }
            | LimitError::Failed(
                Failure::InvalidArgument { .. } | Failure::InvalidName(_) | Failure::ShuttingDown { .. },
            ),
        ) => return result,
        Err(_) => Decision::Unavailable,
    };
    limit_decided(family, decision, clock.now().since(began));
    result
}

async fn take<L: Limit>(
    queue: &Arc<LimitQueue<L>>,
    permits: u64,
    try_only: bool,
    timeout: Option<Duration>,
) -> Result<Option<Granted<L>>, LimitError> {
    let (client, name) = (queue.client(), queue.resource().limit.name());
    if !(1..=MAX_PERMITS).contains(&permits) {
        return Err(LimitError::argument(name, "permits", MAX_PERMITS_EXPECTED, permits));
    }
    let (clock, began) = (client.clock(), client.clock().now());
    // A caller that does not wait has the time limit of any other request.
    let timeout = if try_only { Some(client.patience()) } else { timeout };
    let until = timeout.map_or(Instant::MAX, |timeout| began + timeout);
    let request = AcquireRequest { permits, try_only, until };
    loop {
        let waiter = if try_only { queue.enter_unblocked(request) } else { Some(queue.enter(request)) };
        let Some(mut waiter) = waiter else { return Ok(None) };
        let offered = match waiter.ended_by(until).await {
            WaitEnd::Completed(acquired) => acquired?,
            WaitEnd::Failed(source) => return Err(LimitError::of(client, name, source)),
            WaitEnd::TimedOut if !try_only => {
                return Err(LimitError::TimedOut { name: name.clone(), waited: clock.now().since(began) });
            }
            WaitEnd::TimedOut | WaitEnd::NoReply => {
                return Err(LimitError::of(client, name, queue.resource().no_reply(waiter.id())));
            }
        };
        let Some(Offered { usable_at, granted }) = offered else { return Ok(None) };
        clock.sleep_until(usable_at).await;
        // If the caller did not take the permits in time, they were given back: enter the queue
        // again.
        if let Some(granted) = granted.take() {
            return Ok(Some(granted));
        }
    }
}
