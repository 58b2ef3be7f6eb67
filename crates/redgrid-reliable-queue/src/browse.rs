//! Parses the messages in the reply of browse.lua.

use std::marker::PhantomData;

use bytes::Bytes;
use redgrid_core::object::ObjectRef;
use redgrid_work::{MessageId, parse_millis, parse_state};

use crate::message::Message;

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
