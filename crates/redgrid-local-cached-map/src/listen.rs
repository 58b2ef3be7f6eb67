//! The listener task of a cache: it receives invalidation messages and sends heartbeats.

use std::future::pending;
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use redgrid_core::author::ClientExt;
use redgrid_core::clock::Instant;
use redgrid_core::name::{companion, suffixed};
use redgrid_core::{BackgroundClient, ChannelEvent, Client, Request, Script, ServerError};

use crate::message::{self, Message};
use crate::near::{Heartbeats, MapState, NearCache};

static HEARTBEAT: Script<1> = Script::new("local_cached_map/heartbeat", include_str!("scripts/heartbeat.lua"));
static RELEASE: Script<1> = Script::new("local_cached_map/release", include_str!("scripts/release.lua"));
static ACKNOWLEDGE: Script<1> = Script::new("local_cached_map/acknowledge", include_str!("scripts/acknowledge.lua"));

/// Heartbeats per staleness bound. The cache stays valid if two of these four are lost.
const HEARTBEATS_PER_BOUND: u32 = 4;

/// Number of heartbeats that are sent after the last read. They cover a pause between reads. After
/// that, no heartbeat is sent until the next read.
const IDLE_HEARTBEATS: u32 = 4;

/// The longest time for which other clients may disable keys: a minute. After that, such a client
/// is considered gone.
const MAX_DISABLED_TIME: Duration = Duration::from_secs(60);

/// Time limit of an answer to another client: 5 s. Clients wait a few seconds for it.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(5);

/// Returns the topic of a map. Its messages keep Redisson's local caches and ours coherent.
pub(crate) fn topic(key: &[u8]) -> Bytes {
    suffixed(key, "topic")
}

/// Returns the channel of this client's heartbeats.
fn heartbeat_channel(client: &str, key: &[u8]) -> Bytes {
    [&companion("redgrid_near", key)[..], b":", client.as_bytes()].concat().into()
}

/// Starts the listener as a background task of the client. It ends with the last handle and with
/// the client.
pub(crate) fn start(client: &Client, key: &Bytes, near: &Arc<NearCache>) {
    let (near, key, own_channel) = (Arc::clone(near), key.clone(), heartbeat_channel(client.id(), key));
    client.spawn_attached(|background| listen(near, key, own_channel, background));
}

/// Ends the validity of all entries when the listener ends for any reason.
struct EndOnDrop<'a>(&'a NearCache);

impl Drop for EndOnDrop<'_> {
    fn drop(&mut self) {
        self.0.staleness().end();
    }
}

async fn listen(near: Arc<NearCache>, key: Bytes, own_channel: Bytes, background: BackgroundClient) {
    let mut subscription = background.subscribe_at_primary([topic(&key), own_channel.clone()], &key);
    near.staleness().set_subscription(subscription.generation());
    let _end_on_drop = EndOnDrop(&near);
    let mut closing = pin!(background.closing());
    let interval = near.options.max_stale / HEARTBEATS_PER_BOUND;
    let mut sender = HeartbeatSender {
        heartbeats: Heartbeats::new(),
        background: background.clone(),
        key: key.clone(),
        own_channel,
        interval,
    };
    let mut in_flight: Option<HeartbeatRequest> = None;
    // The first heartbeat is due as soon as the channels are active.
    let (mut due, mut idle_heartbeats) = (Instant::MAX, 0);
    while !near.is_stopped() && !background.is_closing() {
        let request = async {
            match &mut in_flight {
                Some(request) => request.await,
                None => pending().await,
            }
        };
        tokio::select! {
            biased;
            () = &mut closing => {}
            event = subscription.next() => {
                if let ChannelEvent::Resync = event {
                    // All entries are of an earlier generation. A heartbeat is sent at once,
                    // because the cache is likely to be read soon.
                    due = background.clock().now();
                    near.clear();
                }
                handle_event(&near, &mut sender, event);
            }
            () = near.wake.notified() => {
                if idle_heartbeats >= IDLE_HEARTBEATS {
                    due = due.min(background.clock().now());
                }
                idle_heartbeats = 0;
            }
            result = request => {
                in_flight = None;
                if let Err(error) = result {
                    tracing::debug!(%error, "a heartbeat of a local cache was not answered");
                }
            }
            () = background.clock().sleep_until(due) => {
                idle_heartbeats = if near.take_was_read() { 0 } else { idle_heartbeats + 1 };
                let is_last = idle_heartbeats >= IDLE_HEARTBEATS;
                near.publish(is_last);
                let now = background.clock().now();
                due = if is_last { Instant::MAX } else { now + interval };
                // An unanswered request is dropped: another server may answer the next one.
                in_flight = near.staleness().current_generation().map(|generation| sender.send(generation, now));
            }
        }
    }
}

type HeartbeatRequest = Pin<Box<dyn Future<Output = Result<u64, ServerError>> + Send>>;

struct HeartbeatSender {
    heartbeats: Heartbeats,
    background: BackgroundClient,
    key: Bytes,
    own_channel: Bytes,
    interval: Duration,
}

impl HeartbeatSender {
    /// Returns the request of a heartbeat. The age of the heartbeat counts from `now`, which is
    /// before the request is sent.
    fn send(&mut self, generation: u64, now: Instant) -> HeartbeatRequest {
        let number = self.heartbeats.send(generation, now);
        let request =
            HEARTBEAT.with([self.key.clone()]).publish_arg().arg(self.own_channel.clone()).arg(number.to_string());
        let (background, until) = (self.background.clone(), now + 2 * self.interval);
        Box::pin(async move { background.run_until(request.idempotent(), until).await })
    }
}

fn handle_event(near: &NearCache, sender: &mut HeartbeatSender, event: ChannelEvent) {
    let (channel, payload) = match event {
        ChannelEvent::Message { channel, payload } => (channel, payload),
        ChannelEvent::Resync => return,
    };
    if channel > 0 {
        let Some((number, map)) = parse_heartbeat(&payload) else { return };
        let Some(heartbeat) = sender.heartbeats.receive(number) else { return };
        let now = sender.background.clock().now();
        if sender.heartbeats.has_map_expired(&heartbeat, &map, now) || heartbeat.previous_missing {
            near.clear();
        } else if map == MapState::Absent {
            near.map_is_absent();
        }
        near.staleness().renew(&heartbeat, &map, near.options.max_stale);
        near.heartbeat_received();
        return;
    }
    match message::parse(&payload) {
        Some(Message::Invalidate(hashes)) => near.invalidate(hashes),
        Some(Message::Clear { release }) => {
            near.clear();
            if let Some(request) = release {
                let semaphore = clear_semaphore(&sender.key, &request);
                let channel = companion("redisson_sc", &semaphore);
                answer(sender, RELEASE.with([semaphore]).publish_arg().arg(channel));
            }
        }
        Some(Message::Disable { request, hashes, all, duration }) => {
            near.disable(&hashes, all, sender.background.clock().now() + duration.min(MAX_DISABLED_TIME));
            let channel = suffixed(&sender.key, &format!("{request}:topic"));
            let answer_request = ACKNOWLEDGE.with([sender.key.clone()]).publish_arg().arg(channel);
            answer(sender, answer_request.arg(message::ACKNOWLEDGED));
        }
        Some(Message::Enable { hashes, all }) => near.enable(&hashes, all),
        Some(Message::Ignored) => {}
        None => {
            tracing::debug!("a message on the topic of a map is none of Redisson's");
            near.clear();
        }
    }
}

/// Sends an answer to another client in the background.
fn answer(sender: &HeartbeatSender, request: Request) {
    let background = sender.background.clone();
    let until = background.clock().now() + ANSWER_TIMEOUT;
    tokio::spawn(async move {
        if let Err(error) = background.run_until::<redgrid_core::Reply>(request, until).await {
            tracing::debug!(%error, "a reply to another client of a local cache was not sent");
        }
    });
}

/// Returns the `RedissonSemaphore` of `LocalCacheListener.getClearSemaphore`. It is not a companion
/// key, and has a slot of its own.
fn clear_semaphore(key: &[u8], request: &[u8; 16]) -> Bytes {
    let hex: String = request.iter().map(|byte| format!("{byte:02x}")).collect();
    [key, b":clear:", hex.as_bytes()].concat().into()
}

fn parse_heartbeat(payload: &[u8]) -> Option<(u64, MapState)> {
    let (number, ttl) = std::str::from_utf8(payload).ok()?.split_once(' ')?;
    let map = match ttl.parse::<i64>().ok()? {
        -2 => MapState::Absent,
        -1 => MapState::Exists(None),
        left => MapState::Exists(Some(Duration::from_millis(left.max(0) as u64))),
    };
    Some((number.parse().ok()?, map))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_heartbeat_reports_the_lifetime_of_the_map() {
        assert_eq!(parse_heartbeat(b"7 -2"), Some((7, MapState::Absent)));
        assert_eq!(parse_heartbeat(b"8 -1"), Some((8, MapState::Exists(None))));
        assert_eq!(parse_heartbeat(b"9 1500"), Some((9, MapState::Exists(Some(Duration::from_millis(1500))))));
        assert_eq!((parse_heartbeat(b"x -1"), parse_heartbeat(b"7")), (None, None));
    }

    #[test]
    fn channels_are_in_the_slot_of_the_map_and_named_as_redissons() {
        assert_eq!(topic(b"stock"), "{stock}:topic");
        assert_eq!(heartbeat_channel("c1", b"stock"), "redgrid_near:{stock}:c1");
        assert_eq!(clear_semaphore(b"stock", &[0xab; 16]), format!("stock:clear:{}", "ab".repeat(16)));
    }
}
