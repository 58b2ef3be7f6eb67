//! The keys of a queue, and the requests for its scripts.

use bytes::Bytes;
use redgrid_core::author::ClientExt;
use redgrid_core::clock::Instant;
use redgrid_core::name::companion;
use redgrid_core::{BulkScript, Client, IdempotentRequest, IdempotentScript, Request, Script};

use crate::message::MessageGroup;

/// Number of keys of a queue.
const KEYS: usize = 10;

static CHANGE: IdempotentScript<KEYS> = IdempotentScript::with_fast_path(
    "work/change",
    include_str!("scripts/fast_change.lua"),
    concat!(include_str!("scripts/state.lua"), include_str!("scripts/queue.lua"), include_str!("scripts/change.lua")),
);
static CLEAR: IdempotentScript<KEYS> = IdempotentScript::new("work/clear", include_str!("scripts/clear.lua"));
static SET: IdempotentScript<1> = IdempotentScript::new("work/set", include_str!("scripts/set.lua"));
static PAUSE: IdempotentScript<1> = IdempotentScript::new("work/pause", include_str!("scripts/pause.lua"));
static RECEIVE: Script<{ KEYS + 1 }> = Script::new(
    "work/receive",
    concat!(
        include_str!("scripts/state.lua"),
        include_str!("scripts/deliver.lua"),
        include_str!("scripts/fast_receive.lua"),
        include_str!("scripts/queue.lua"),
        include_str!("scripts/receive.lua")
    ),
);
static BROWSE: BulkScript =
    BulkScript::new("work/browse", concat!(include_str!("scripts/state.lua"), include_str!("scripts/browse.lua")));
static LIST: BulkScript =
    BulkScript::new("work/list", concat!(include_str!("scripts/state.lua"), include_str!("scripts/list.lua")));
static COUNTS: BulkScript =
    BulkScript::new("work/counts", concat!(include_str!("scripts/state.lua"), include_str!("scripts/counts.lua")));

/// The highest index of a page: larger integers are not exact in Lua.
const MAX_INDEX: u64 = 1 << 53;

/// How long, in addition to its timeouts, the server remembers the messages of a client's last
/// request. No retransmission is sent after that.
const REMEMBERED: std::time::Duration = std::time::Duration::from_secs(60);

/// The keys of one queue, and the channel that wakes its waiters.
#[derive(Debug)]
pub struct Keys {
    /// In the order in which the scripts expect them.
    all: [Bytes; KEYS],
    channel: Bytes,
    /// String with the messages of this client's last request.
    memory: Bytes,
}

impl Keys {
    /// Creates the keys. `all` are those of queue.lua, without that of the client's last change.
    pub fn new(client: &Client, all: impl IntoIterator<Item = Bytes>, channel: Bytes) -> Keys {
        let mut all = all.into_iter();
        let all: [Bytes; KEYS] = std::array::from_fn(|_| all.next().unwrap_or_default());
        let memory = [&companion("redgrid_once", &all[0])[..], b":", client.id().as_bytes(), b":receive"].concat();
        Keys { all, channel, memory: memory.into() }
    }

    /// Returns the hash with the settings. It is the primary key of the queue.
    pub fn queue(&self) -> &Bytes {
        &self.all[0]
    }

    pub(crate) fn channel(&self) -> &Bytes {
        &self.channel
    }

    pub(crate) fn change(&self) -> IdempotentRequest {
        CHANGE.with(self.all.clone()).publish_arg().arg(self.channel.clone())
    }

    /// Returns the request that drops all messages.
    pub fn clear(&self) -> IdempotentRequest {
        CLEAR.with(self.all.clone())
    }

    /// Returns the request that sets settings. The caller adds the arguments of set.lua.
    pub fn set(&self) -> IdempotentRequest {
        SET.with([self.queue().clone()])
    }

    /// Returns the request that pauses or resumes the queue.
    pub fn pause(&self, is_paused: bool) -> IdempotentRequest {
        let request = PAUSE.with([self.queue().clone()]).publish_arg().arg(self.channel.clone());
        request.int(i64::from(is_paused))
    }

    /// Returns the request for messages, with the arguments that precede those of the waiters.
    pub(crate) fn receive(
        &self,
        client: &Client,
        (number, last_answered): (u64, u64),
        receipt: &str,
        until: Instant,
    ) -> Request {
        let mut keys = [const { Bytes::new() }; KEYS + 1];
        keys[0] = self.memory.clone();
        keys[1..].clone_from_slice(&self.all);
        let lifetime = REMEMBERED + client.patience() + 2 * client.response_timeout();
        let request = RECEIVE.with(keys).deadline_arg().arg(number.to_string()).arg(lifetime.as_millis().to_string());
        let request =
            request.arg(last_answered.to_string()).arg(receipt.to_owned()).publish_arg().arg(self.channel.clone());
        request.not_after(until).late_reply_has_time().idempotent()
    }

    /// Returns the request for messages with their values. The caller adds the arguments of
    /// browse.lua.
    pub fn browse(&self) -> Request {
        BROWSE.with(self.all.iter().cloned())
    }

    /// Returns the request for a page of messages without their values.
    pub fn list(&self, group: MessageGroup, first: u64) -> Request {
        let [_, bodies, states, ready, delayed, flight, _, _, _, dead] = &self.all;
        let key = match group {
            MessageGroup::Ready => ready,
            MessageGroup::Delayed => delayed,
            MessageGroup::InFlight => flight,
            MessageGroup::Dead => dead,
        };
        LIST.with([bodies, states, key].map(Bytes::clone)).arg(group.name()).arg(first.min(MAX_INDEX).to_string())
    }

    /// Returns the request for the number of messages in each state.
    pub fn counts(&self) -> Request {
        COUNTS.with(self.all.iter().cloned())
    }
}
