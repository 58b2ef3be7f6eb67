//! The scripts of adders, the messages of rounds, and the names of keys.

use bytes::Bytes;
use redgrid_core::name::{companion, suffixed};
use redgrid_core::{IdempotentScript, Script};

pub(super) static OPEN: Script<3> = Script::new("adder/open", include_str!("../scripts/adder_open.lua"));
pub(super) static ENTER: Script<4> = Script::new("adder/enter", include_str!("../scripts/adder_enter.lua"));
pub(super) static ANSWER: IdempotentScript<3> =
    IdempotentScript::new("adder/answer", include_str!("../scripts/adder_answer.lua"));
pub(super) static ROUND_STATE: Script<3> =
    Script::new("adder/round-state", include_str!("../scripts/adder_round_state.lua"));
pub(super) static SAVE: Script<2> = Script::new("adder/save", include_str!("../scripts/adder_save.lua"));

/// The prefix of round ids of redgrid; those of Redisson are 32 hex digits. Members can detect that
/// a round of redgrid is over.
pub(super) const REDGRID_PREFIX: &str = "redgrid-";

/// The lifetime of a round's keys in milliseconds: 10 minutes, ten times as long as Redisson waits
/// for a sum.
///
/// They are deleted when all members have answered. A member of Redisson that was suspended adds to
/// them when it continues, and its commands set no lifetime.
pub(super) const ROUND_TTL_MS: i64 = 600_000;

/// The kind of a round.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum RoundKind {
    Sum,
    Reset,
}

impl RoundKind {
    /// Parses a message of the topic: the kind and the id of a round.
    pub(super) fn parse(message: &[u8]) -> Option<(RoundKind, &str)> {
        let (kind, id) = std::str::from_utf8(message).ok()?.split_once(':').filter(|(_, id)| !id.is_empty())?;
        match kind {
            "1" => Some((RoundKind::Sum, id)),
            "0" => Some((RoundKind::Reset, id)),
            _ => None,
        }
    }

    pub(super) fn message(self, id: &str) -> String {
        let kind = if self == RoundKind::Sum { "1" } else { "0" };
        format!("{kind}:{id}")
    }
}

/// The keys and the topic of an adder.
#[derive(Debug, Clone)]
pub(super) struct Keys {
    pub(super) key: Bytes,
    pub(super) topic: Bytes,
    pub(super) total: Bytes,
}

/// The keys and the channel of a round.
pub(super) struct RoundKeys {
    pub(super) counter: Bytes,
    pub(super) semaphore: Bytes,
    pub(super) round: Bytes,
    /// The channel that notifies Redisson of answers.
    pub(super) channel: Bytes,
}

impl Keys {
    pub(super) fn new(key: Bytes) -> Self {
        Keys { topic: suffixed(&key, "adder-topic"), total: companion("redgrid_adder", &key), key }
    }

    /// Returns the key of a member's last save.
    pub(super) fn saved(&self, member: &str) -> Bytes {
        [&companion("redgrid_adder_saved", &self.key)[..], b":", member.as_bytes()].concat().into()
    }

    pub(super) fn round(&self, id: &str) -> RoundKeys {
        let semaphore = suffixed(&self.key, &format!("{id}:semaphore"));
        RoundKeys {
            counter: suffixed(&self.key, &format!("{id}:counter")),
            channel: companion("redisson_sc", &semaphore),
            semaphore,
            round: [&companion("redgrid_adder_round", &self.key)[..], b":", id.as_bytes()].concat().into(),
        }
    }
}
