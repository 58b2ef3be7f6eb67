//! A message in the queue.

use std::marker::PhantomData;
use std::time::SystemTime;

use bytes::Bytes;
use redgrid_codecs::Decode;
use redgrid_core::object::{ObjectError, ObjectRef};
use redgrid_work::body::{self, Headers};
use redgrid_work::{MessageId, MessageState};

/// A message: its metadata, and its value, which is decoded on request.
pub struct Message<T, C> {
    pub(crate) id: MessageId,
    pub(crate) attempts: u32,
    pub(crate) priority: u8,
    pub(crate) pushed_at: SystemTime,
    pub(crate) state: MessageState,
    pub(crate) object_ref: ObjectRef,
    pub(crate) bytes: Bytes,
    pub(crate) codec: C,
    pub(crate) values: PhantomData<fn() -> T>,
}

impl<T, C> Message<T, C> {
    /// Returns the id of the message.
    pub fn id(&self) -> MessageId {
        self.id
    }

    /// Returns the number of deliveries of the message.
    pub fn attempts(&self) -> u32 {
        self.attempts
    }

    /// Returns the priority of the message, 0 to 9; higher ones are received first.
    pub fn priority(&self) -> u8 {
        self.priority
    }

    /// Returns when the message was pushed, by the server's clock, in whole milliseconds.
    pub fn pushed_at(&self) -> SystemTime {
        self.pushed_at
    }

    /// Returns the state of the message at the time of the reply.
    pub fn state(&self) -> &MessageState {
        &self.state
    }

    /// Returns the headers of the message, in the order in which they were added.
    ///
    /// # Errors
    ///
    /// [`ObjectError::Decode`] if the stored bytes are not a message.
    pub fn headers(&self) -> Result<Vec<(String, String)>, ObjectError> {
        Ok(self.decode()?.0)
    }

    /// Decodes the value of the message.
    ///
    /// # Errors
    ///
    /// [`ObjectError::Decode`] if the value is not a `T`, or the stored bytes are not a message.
    /// Only this message is affected, and it is unchanged.
    pub fn value(&self) -> Result<T, ObjectError>
    where
        C: Decode<T>,
    {
        let (_, value) = self.decode()?;
        self.object_ref.decoded(&self.codec, &value, || Some(format!("message {}", self.id)))
    }

    fn decode(&self) -> Result<(Headers, Bytes), ObjectError> {
        let (name, _) = self.object_ref.name_and_key()?;
        let at = || Some(format!("message {}", self.id));
        body::decode(&self.bytes)
            .ok_or_else(|| ObjectError::decode(name, at(), "the frame of reliable queues".into(), NoMessage))
    }
}

/// The error for bytes that are not a message.
#[derive(Debug, thiserror::Error)]
#[error("the headers before its value are not in the format of a reliable queue")]
struct NoMessage;

redgrid_core::debug_fields!([T, C] Message<T, C>, |it|
    id: it.id, attempts: it.attempts, priority: it.priority, pushed_at: it.pushed_at, state: it.state
);
