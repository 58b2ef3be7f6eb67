//! Parses the messages in the reply of browse.lua.

use std::marker::PhantomData;

use bytes::Bytes;
use redgrid_core::object::ObjectRef;

use crate::message::{Message, MessageId, MessageState, parse_millis};

pub(crate) fn read<T, C: Clone>(parts: &[Bytes], object_ref: &ObjectRef, codec: &C) -> Option<Message<T, C>> {
    let [id, attempts, priority, pushed, at, until, reason, bytes] = parts else { return None };
    let number = |text: &Bytes| std::str::from_utf8(text).ok()?.parse::<u32>().ok();
    Some(Message {
        id: MessageId::read(id)?,
        attempts: number(attempts)?,
        priority: u8::try_from(number(priority)?).ok()?,
        pushed_at: parse_millis(pushed)?,
        state: parse_state(at, until, reason)?,
        object_ref: object_ref.clone(),
        bytes: bytes.clone(),
        codec: codec.clone(),
        values: PhantomData,
    })
}

/// Parses the state of a message: its name, its end, and the reason of a dead letter.
pub(crate) fn parse_state(name: &[u8], until: &[u8], reason: &[u8]) -> Option<MessageState> {
    let until = parse_millis(until)?;
    Some(match name {
        b"ready" => MessageState::Ready,
        b"delayed" => MessageState::Delayed { until },
        b"flight" => MessageState::InFlight { until },
        b"dead" => MessageState::Dead { since: until, reason: String::from_utf8_lossy(reason).into_owned() },
        _ => return None,
    })
}
