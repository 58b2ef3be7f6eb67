//! The task of a cache: it hears what others tell of the map, and pulses.

use std::future::pending;
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use redgrid_core::clock::Instant;
use redgrid_core::name::{companion, suffixed};
use redgrid_core::{BackgroundClient, ChannelEvent, Client, Request, Script, ServerError};

use crate::message::{self, Message};
use crate::near::{Near, Pulses, Told};

static PULSE: Script<1> = Script::new("local_cached_map/pulse", include_str!("scripts/pulse.lua"));
static RELEASE: Script<1> = Script::new("local_cached_map/release", include_str!("scripts/release.lua"));

/// Pulses in a bound: of four the cache outlives the loss of two.
const PULSES: u32 = 4;

/// So many pulses go on after the last read; then there are none until the next. They cover a pause between reads.
const UNWANTED: u32 = 4;

/// The longest for which others may disable keys: a minute; beyond it they have gone.
const DISABLED: Duration = Duration::from_secs(60);

/// How long an answer to others is tried: 5 s. They wait a few seconds for it.
const ANSWERED: Duration = Duration::from_secs(5);

/// The topic of a map, by whose messages Redisson's local caches and ours keep each other right.
pub(crate) fn topic(key: &[u8]) -> Bytes {
    suffixed(key, "topic")
}

/// The channel of this client's pulses.
fn own_channel(client: &str, key: &[u8]) -> Bytes {
    [&companion("redgrid_near", key)[..], b":", client.as_bytes()].concat().into()
}

/// Has the client's own task listen, until the last handle or the client has gone.
pub(crate) fn begin(client: &Client, key: &Bytes, near: &Arc<Near>) {
    let (near, key, own) = (Arc::clone(near), key.clone(), own_channel(client.id(), key));
    client.spawn_attached(|on| listen(near, key, own, on));
}

/// When it ends, however it does, nothing is given out any more.
struct Listening<'a>(&'a Near);

impl Drop for Listening<'_> {
    fn drop(&mut self) {
        self.0.fresh().end();
    }
}

async fn listen(near: Arc<Near>, key: Bytes, own: Bytes, on: BackgroundClient) {
    let mut hearing = on.subscribe_all_at_primary([topic(&key), own.clone()], &key);
    near.fresh().listen(hearing.generation());
    let _listening = Listening(&near);
    let mut closing = pin!(on.closing());
    let interval = near.options.max_stale / PULSES;
    let mut heart = Heart { pulses: Pulses::new(), on: on.clone(), key: key.clone(), own, interval };
    let mut beating: Option<Beat> = None;
    // At once, as soon as the channels are in force.
    let (mut due, mut unwanted) = (Instant::MAX, 0);
    while !near.is_left() && !on.is_closing() {
        let under_way = async {
            match &mut beating {
                Some(beat) => beat.await,
                None => pending().await,
            }
        };
        tokio::select! {
            biased;
            () = &mut closing => {}
            heard = hearing.next() => {
                if let ChannelEvent::Resync = heard {
                    // What was kept before is of another term. The one that begins is soon to be used.
                    due = on.clock().now();
                    near.clear();
                }
                take(&near, &mut heart, heard);
            }
            () = near.wake.notified() => {
                if unwanted >= UNWANTED {
                    due = due.min(on.clock().now());
                }
                unwanted = 0;
            }
            told = under_way => {
                beating = None;
                if let Err(error) = told {
                    tracing::debug!(%error, "a pulse of a local cache was not answered");
                }
            }
            () = on.clock().sleep_until(due) => {
                unwanted = if near.take_wanted() { 0 } else { unwanted + 1 };
                let now = on.clock().now();
                due = if unwanted >= UNWANTED { Instant::MAX } else { now + interval };
                // One that is late is given up: the next may be answered by another server.
                beating = near.fresh().present_term().map(|term| heart.beat(term, now));
            }
        }
    }
}

type Beat = Pin<Box<dyn Future<Output = Result<u64, ServerError>> + Send>>;

struct Heart {
    pulses: Pulses,
    on: BackgroundClient,
    key: Bytes,
    own: Bytes,
    interval: Duration,
}

impl Heart {
    /// A pulse, counted from before it leaves.
    fn beat(&mut self, term: u64, now: Instant) -> Beat {
        let number = self.pulses.send(term, now);
        let request = PULSE.with([self.key.clone()]).publish_here().arg(self.own.clone()).arg(number.to_string());
        let (on, until) = (self.on.clone(), now + 2 * self.interval);
        Box::pin(async move { on.run_until(request.idempotent(), until).await })
    }
}

fn take(near: &Near, heart: &mut Heart, heard: ChannelEvent) {
    let (channel, payload) = match heard {
        ChannelEvent::Message { channel, payload } => (channel, payload),
        ChannelEvent::Resync => return,
    };
    if channel > 0 {
        let Some((number, told)) = read_pulse(&payload) else { return };
        let Some(pulse) = heart.pulses.hear(number) else { return };
        if heart.pulses.is_over(&pulse, &told, heart.on.clock().now()) || pulse.others_missing {
            near.clear();
        } else if told == Told::Absent {
            near.vanish();
        }
        near.fresh().renew(&pulse, &told, near.options.max_stale);
        near.beaten();
        return;
    }
    match message::read(&payload) {
        Some(Message::Invalidate(hashes)) => near.invalidate(hashes),
        Some(Message::Clear { release }) => {
            near.clear();
            if let Some(request) = release {
                let semaphore = clear_semaphore(&heart.key, &request);
                let channel = companion("redisson_sc", &semaphore);
                answer(heart, RELEASE.with([semaphore]).publish_here().arg(channel));
            }
        }
        Some(Message::Disable { request, hashes, all, lasts }) => {
            near.disable(&hashes, all, heart.on.clock().now() + lasts.min(DISABLED));
            let channel = suffixed(&heart.key, &format!("{request}:topic"));
            answer(heart, ACKNOWLEDGE.with([heart.key.clone()]).publish_here().arg(channel).arg(message::ACKNOWLEDGED));
        }
        Some(Message::Enable { hashes, all }) => near.enable(&hashes, all),
        Some(Message::Other) => {}
        None => {
            tracing::debug!("a message on the topic of a map is none of Redisson's");
            near.clear();
        }
    }
}

static ACKNOWLEDGE: Script<1> = Script::new("local_cached_map/acknowledge", include_str!("scripts/acknowledge.lua"));

/// Answers others in the background.
fn answer(heart: &Heart, request: Request) {
    let on = heart.on.clone();
    let until = on.clock().now() + ANSWERED;
    tokio::spawn(async move {
        if let Err(error) = on.run_until::<redgrid_core::Reply>(request, until).await {
            tracing::debug!(%error, "another client's question about a local cache was not answered");
        }
    });
}

/// `RedissonSemaphore` of `LocalCacheListener.getClearSemaphore`: it is no companion, and has a slot of its own.
fn clear_semaphore(key: &[u8], request: &[u8; 16]) -> Bytes {
    let hex: String = request.iter().map(|byte| format!("{byte:02x}")).collect();
    [key, b":clear:", hex.as_bytes()].concat().into()
}

fn read_pulse(payload: &[u8]) -> Option<(u64, Told)> {
    let (number, left) = std::str::from_utf8(payload).ok()?.split_once(' ')?;
    let told = match left.parse::<i64>().ok()? {
        -2 => Told::Absent,
        -1 => Told::There(None),
        left => Told::There(Some(Duration::from_millis(left.max(0) as u64))),
    };
    Some((number.parse().ok()?, told))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pulse_says_how_long_the_map_is_there() {
        assert_eq!(read_pulse(b"7 -2"), Some((7, Told::Absent)));
        assert_eq!(read_pulse(b"8 -1"), Some((8, Told::There(None))));
        assert_eq!(read_pulse(b"9 1500"), Some((9, Told::There(Some(Duration::from_millis(1500))))));
        assert_eq!((read_pulse(b"x -1"), read_pulse(b"7")), (None, None));
    }

    #[test]
    fn channels_are_in_the_slot_of_the_map_and_named_as_redissons() {
        assert_eq!(topic(b"stock"), "{stock}:topic");
        assert_eq!(own_channel("c1", b"stock"), "redgrid_near:{stock}:c1");
        assert_eq!(clear_semaphore(b"stock", &[0xab; 16]), format!("stock:clear:{}", "ab".repeat(16)));
    }
}
