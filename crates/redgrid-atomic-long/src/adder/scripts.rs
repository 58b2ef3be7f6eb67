//! What is asked of the server, and what its answers mean.

use bytes::Bytes;
use redgrid_core::name::{companion, suffixed};
use redgrid_core::{IdempotentScript, Script};

pub(super) static OPEN: Script<3> = Script::new("adder/open", include_str!("../scripts/adder_open.lua"));
pub(super) static ENTER: Script<4> = Script::new("adder/enter", include_str!("../scripts/adder_enter.lua"));
pub(super) static ANSWER: IdempotentScript<3> =
    IdempotentScript::new("adder/answer", include_str!("../scripts/adder_answer.lua"));
pub(super) static LOOK: Script<3> = Script::new("adder/look", include_str!("../scripts/adder_look.lua"));
pub(super) static SAVE: Script<2> = Script::new("adder/save", include_str!("../scripts/adder_save.lua"));

/// What rounds of redgrid's own begin with; those of Redisson are 32 hex digits. Of these it is known when they are over.
pub(super) const OURS: &str = "redgrid-";

/// How long a round's keys live by themselves: 10 minutes, ten times as long as Redisson waits for a sum. They are deleted when all have
/// answered; a member of Redisson that was stopped adds to them when it goes on, and its commands set no lifetime.
pub(super) const LIVES: i64 = 600_000;

/// What is asked of those who count.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Asked {
    Sum,
    Reset,
}

impl Asked {
    /// A message of the topic: what is asked, and the round.
    pub(super) fn read(message: &[u8]) -> Option<(Asked, &str)> {
        let (asked, id) = std::str::from_utf8(message).ok()?.split_once(':').filter(|(_, id)| !id.is_empty())?;
        match asked {
            "1" => Some((Asked::Sum, id)),
            "0" => Some((Asked::Reset, id)),
            _ => None,
        }
    }

    pub(super) fn message(self, id: &str) -> String {
        let asked = if self == Asked::Sum { "1" } else { "0" };
        format!("{asked}:{id}")
    }
}

/// The names of an adder on the server.
#[derive(Debug, Clone)]
pub(super) struct Keys {
    pub(super) key: Bytes,
    pub(super) topic: Bytes,
    pub(super) total: Bytes,
}

/// Those of a round.
pub(super) struct RoundKeys {
    pub(super) counter: Bytes,
    pub(super) semaphore: Bytes,
    pub(super) round: Bytes,
    /// Where Redisson is told of answers.
    pub(super) channel: Bytes,
}

impl Keys {
    pub(super) fn new(key: Bytes) -> Self {
        Keys { topic: suffixed(&key, "adder-topic"), total: companion("redgrid_adder", &key), key }
    }

    /// What a member has saved.
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
