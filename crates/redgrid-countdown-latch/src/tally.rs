//! Count-downs of one latch through one client: those that come while one is under way go together.
//!
//! What acts once goes one after another, so of very many at once the last would wait for as many round trips. Each is told what
//! was left as if it had gone in its turn.

use std::fmt;
use std::sync::Arc;

use redgrid_core::clock::Instant;
use redgrid_core::{BatchExecutor, Batcher, Client, ServerError};

use crate::keys::Keys;
use crate::line::Line;

/// Those who count one latch down through one client.
pub(crate) struct Tally(Batcher<CountDowns>);

struct CountDowns {
    client: Client,
    keys: Arc<Keys>,
}

impl Tally {
    /// That of a latch.
    pub(crate) fn of(client: &Client, keys: &Arc<Keys>) -> Arc<Tally> {
        let count_downs = || CountDowns { client: client.clone(), keys: Arc::clone(keys) };
        client.shared(&keys.count, || Tally(Batcher::new(count_downs())))
    }

    /// What is left.
    pub(crate) async fn count_down(&self, client: &Client, by: i64) -> Result<u64, ServerError> {
        self.0.submit(client, by).await?
    }
}

impl BatchExecutor for CountDowns {
    type Request = i64;
    type Reply = Result<u64, ServerError>;

    fn max_prefix<'a>(&self, asks: impl Iterator<Item = &'a i64>) -> usize {
        let sums = asks.scan(0_i64, |sum, by| {
            *sum = sum.checked_add(*by)?;
            Some(())
        });
        sums.count()
    }

    async fn execute(&self, batch: Vec<i64>, until: Instant) -> Vec<Self::Reply> {
        let counted = self.keys.count_down(&self.client, batch.iter().sum(), until).await;
        if let Ok((_, Some(round))) = counted {
            // Who waits here goes on by this answer, if the message is not there before: by a look, where the round has no number.
            Line::of(&self.client, &self.keys).ended(round);
        }
        let mut before = counted.map(|(before, _)| before);
        let told = batch.into_iter().map(|by| {
            let after = before.clone().map(|before| before.saturating_sub(by));
            before.clone_from(&after);
            // It may have been below 0 by somebody's hand.
            after.map(|after| u64::try_from(after).unwrap_or(0))
        });
        told.collect()
    }
}

impl fmt::Debug for Tally {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Tally").finish_non_exhaustive()
    }
}
