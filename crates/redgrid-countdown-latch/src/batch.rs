//! Count-downs of one latch through one client. Count-downs that are requested while one is in
//! flight are combined.
//!
//! Requests that are executed exactly once run one after another. Without combining, the last of
//! very many count-downs would wait for as many round trips. Each caller receives the count as if
//! its count-down had been executed alone.

use std::sync::Arc;

use redgrid_core::author::{BatchExecutor, Batcher, ClientExt};
use redgrid_core::clock::Instant;
use redgrid_core::wait_queue::NextPoll;
use redgrid_core::{Client, ServerError};

use crate::keys::Keys;
use crate::waiters::LatchWaiters;

/// The count-downs of one latch through one client.
pub(crate) struct CountDownBatcher(Batcher<CountDowns>);

struct CountDowns {
    client: Client,
    keys: Arc<Keys>,
}

impl CountDownBatcher {
    /// Returns the batcher of a latch.
    pub(crate) fn of(client: &Client, keys: &Arc<Keys>) -> Arc<CountDownBatcher> {
        let count_downs = || CountDowns { client: client.clone(), keys: Arc::clone(keys) };
        client.shared(&keys.count, || CountDownBatcher(Batcher::new(count_downs())))
    }

    /// Decrements the count, and returns the remaining count.
    pub(crate) async fn count_down(&self, client: &Client, by: i64) -> Result<u64, ServerError> {
        self.0.submit(client, by).await?
    }
}

impl BatchExecutor for CountDowns {
    type Request = i64;
    type Reply = Result<u64, ServerError>;

    fn max_prefix<'a>(&self, requests: impl Iterator<Item = &'a i64>) -> usize {
        let sums = requests.scan(0_i64, |sum, by| {
            *sum = sum.checked_add(*by)?;
            Some(())
        });
        sums.count()
    }

    async fn execute(&self, batch: Vec<i64>, until: Instant) -> Vec<Self::Reply> {
        let counted = self.keys.count_down(&self.client, batch.iter().sum(), until).await;
        if let Ok((_, Some(round))) = counted {
            let queue = LatchWaiters::of(&self.client, &self.keys);
            if queue.resource().round_ended(&queue, round) == NextPoll::Now {
                queue.poll_soon();
            }
        }
        let mut before = counted.map(|(before, _)| before);
        let replies = batch.into_iter().map(|by| {
            let after = before.clone().map(|before| before.saturating_sub(by));
            before.clone_from(&after);
            // An administrator may have set the count below 0.
            after.map(|after| u64::try_from(after).unwrap_or(0))
        });
        replies.collect()
    }
}

redgrid_core::debug_fields!(CountDownBatcher, |_it| );
