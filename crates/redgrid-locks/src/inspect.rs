//! Looking at a lock without taking it.

use std::sync::Arc;
use std::time::Duration;

use redgrid_core::clock::Instant;
use redgrid_core::lock::LockKeys;
use redgrid_core::name::companion;
use redgrid_core::{Client, Script, ServerError};

#[cfg(doc)]
use crate::lock::Lock;
use crate::scripts::KEPT;

static PLACES: Script<2> = Script::new("fair/places", include_str!("scripts/fair_places.lua"));
pub(crate) static INSPECT: Script<1> = Script::new("lock/inspect", include_str!("scripts/inspect.lua"));

/// Holders that are read of one lock. The server is busy for about 1 ms with them.
pub(crate) const MOST: i64 = 1000;

/// A held lock as the server sees it.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct LockState {
    /// Who holds it: one for an ordinary lock. At most 1,000; where there are more, a random choice of them.
    pub holders: Vec<LockHolder>,
    /// How many hold it.
    pub holder_count: u64,
    /// How long the lease still lasts; `None` for a key without a lifetime, which no client of ours or Redisson's makes.
    pub remaining: Option<Duration>,
}

/// A holder as the server knows it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LockHolder {
    /// The id of its client, a UUID; the whole field where it is not in Redisson's form.
    pub client: String,
    /// The number behind it: of the grant for this toolkit, of the thread for Redisson.
    pub number: Option<u64>,
    /// How often it has entered, as far as the server knows: always 1 for this toolkit.
    pub entries: u64,
}

impl LockHolder {
    /// The holder with this field, as another tool shows it: `<client id>:<number>`, for
    /// [`force_release_if`](Lock::force_release_if).
    pub fn from_field(field: &str) -> Self {
        LockHolder::of(field, 1)
    }

    /// The field that the holder has on the server.
    pub fn field(&self) -> String {
        self.number.map_or_else(|| self.client.clone(), |number| format!("{}:{number}", self.client))
    }

    /// The holder with this field. A lock that is kept for its `hold_at_least` still names the holder that released it.
    pub(crate) fn of(field: &str, entries: u64) -> Self {
        let field = field.strip_suffix(KEPT).unwrap_or(field);
        let form = field.rsplit_once(':').and_then(|(id, number)| Some((id, number.parse().ok()?)));
        let (client, number) = form.map_or((field, None), |(id, number)| (id, Some(number)));
        LockHolder { client: client.to_owned(), number, entries }
    }
}

/// One who waits in the queue of a fair lock.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LockWaiter {
    /// The id of its client, a UUID; the whole field where it is not in Redisson's form.
    pub client: String,
    /// The number with which it will hold: of the request for this toolkit, of the thread for Redisson.
    pub number: Option<u64>,
    /// Whether it is of this toolkit.
    pub ours: bool,
}

/// Who waits for a fair lock, the next one in front.
pub(crate) async fn waiting(client: &Client, target: &Arc<LockKeys>) -> Result<Vec<LockWaiter>, ServerError> {
    let keys = [companion("redisson_lock_queue", &target.key), companion("redgrid_fair", &target.key)];
    let parts: Vec<String> = client.run(PLACES.with(keys).idempotent()).await?;
    let waiter = |pair: &[String]| {
        let [field, ours] = pair else { return None };
        let LockHolder { client, number, .. } = LockHolder::of(field, 1);
        Some(LockWaiter { client, number, ours: ours == "1" })
    };
    Ok(parts.chunks(2).filter_map(waiter).collect())
}

pub(crate) async fn state(client: &Client, target: &Arc<LockKeys>) -> Result<Option<LockState>, ServerError> {
    let parts: Vec<String> = client.run(INSPECT.with([target.key.clone()]).int(MOST).idempotent()).await?;
    let mut parts = parts.into_iter();
    let left: i64 = parts.next().and_then(|left| left.parse().ok()).unwrap_or(-2);
    let mut holder_count: u64 = parts.next().and_then(|count| count.parse().ok()).unwrap_or_default();
    let mut holders = Vec::new();
    while let (Some(field), Some(count)) = (parts.next(), parts.next()) {
        // What a read-write lock says of itself is no holder.
        let is_mode = field == "mode" && matches!(count.as_str(), "read" | "write");
        if is_mode {
            holder_count = holder_count.saturating_sub(1);
        } else {
            holders.push(LockHolder::of(&field, count.parse().unwrap_or(1)));
        }
    }
    let remaining = u64::try_from(left).ok().map(Duration::from_millis);
    Ok((holder_count > 0).then_some(LockState { holders, holder_count, remaining }))
}

pub(crate) async fn until_free(
    client: &Client,
    target: &Arc<LockKeys>,
    within: Option<Duration>,
) -> Result<bool, ServerError> {
    let clock = client.clock();
    let until = within.map_or(Instant::MAX, |within| clock.now() + within);
    let wait = async {
        let Some(mut held) = state(client, target).await? else { return Ok(true) };
        let mut watch = client.watch(target.channel.clone(), target.key.clone());
        loop {
            let least = Duration::from_millis(1);
            let expires = held.remaining.map_or(Instant::MAX, |left| clock.now() + left.max(least));
            tokio::select! {
                _ = watch.wake() => {}
                () = clock.sleep_until(expires) => {}
            }
            match state(client, target).await? {
                None => return Ok(true),
                Some(now) => held = now,
            }
        }
    };
    tokio::select! {
        biased;
        seen = wait => seen,
        () = clock.sleep_until(until) => Ok(false),
    }
}
