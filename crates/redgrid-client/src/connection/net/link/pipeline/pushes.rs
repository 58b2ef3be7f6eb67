//! Distinguishes two kinds of received frames: answers to requests, and pushes.
//!
//! RESP3 marks messages and confirmations of subscriptions as pushes. RESP2 sends them as arrays
//! that begin with a name such as `message`. Such an array is treated as a push only on a
//! connection with subscriptions, because no reply to a request on such a connection begins in this
//! way.

use std::collections::VecDeque;

use bytes::Bytes;
use tokio::sync::oneshot;

use super::super::resp::Frame;
use super::{Answer, Pipeline, Queue, Unanswered, Waiting};
use crate::connection::trouble::NO_PROTOCOL;
use crate::connection::{Push, Reply};
use crate::error::ServerError;

/// The form of the answer to a request.
#[derive(Clone)]
pub(in super::super) enum Expects {
    Reply,
    /// One confirmation for each channel. The fields are the command name in lower case, and the
    /// channels that are not confirmed yet.
    Confirmations(&'static str, Vec<Bytes>),
    /// The reply to a PING with this token. The PING follows SUNSUBSCRIBE commands for these
    /// channels.
    ///
    /// Confirmations of SUNSUBSCRIBE cannot be counted instead: a server sends the same message
    /// when it ends a subscription by itself. After that it rejects a SUNSUBSCRIBE for the channel.
    Pong {
        token: Bytes,
        channels: Vec<Bytes>,
    },
}

impl Pipeline {
    /// Unsubscribes from sharded channels.
    ///
    /// The answer arrives when the server has processed the commands, whether or not it refused
    /// them.
    pub(in super::super) fn leave(&self, channels: &[Bytes]) -> Result<oneshot::Receiver<Answer>, Unanswered> {
        let mut queue = self.0.queue.lock();
        queue.check(1)?;
        for channel in channels {
            // Each channel has its own command: the server rejects a command with channels of
            // different slots.
            queue.encode(&["SUNSUBSCRIBE".into(), channel.clone()]);
        }
        let token = Bytes::from(format!("left {}", queue.encoded));
        let expects = Expects::Pong { token: token.clone(), channels: channels.to_vec() };
        let answer = queue.add(&["PING".into(), token], expects);
        drop(queue);
        self.0.more.notify_one();
        answer
    }
}

impl Queue {
    /// Returns the parts of a push. Any other frame is a reply, which is returned as `Err`.
    pub(super) fn push(&self, frame: Frame) -> Result<Vec<Reply>, Reply> {
        match frame {
            Frame::Push(parts) => Ok(parts),
            Frame::Reply(Reply::Array(parts)) if self.has_subscriptions && is_push(&parts) => Ok(parts),
            Frame::Reply(reply) => Err(reply),
        }
    }
}

pub(super) enum Pushed {
    Message(Push),
    /// All confirmations of this request have arrived.
    Confirmed(Waiting),
    Nothing,
}

const MESSAGES: [&[u8]; 3] = [b"message", b"pmessage", b"smessage"];
const SUBSCRIBED: [&[u8]; 3] = [b"subscribe", b"psubscribe", b"ssubscribe"];
const UNSUBSCRIBED: [&[u8]; 3] = [b"unsubscribe", b"punsubscribe", b"sunsubscribe"];

/// Returns whether an array has the form in which RESP2 sends pushes.
fn is_push(parts: &[Reply]) -> bool {
    let Some(Reply::Bytes(kind)) = parts.first() else { return false };
    [MESSAGES, SUBSCRIBED, UNSUBSCRIBED].iter().flatten().any(|push| *push == &kind[..])
}

/// Classifies a push. `waiting` are the outstanding requests, the oldest first.
///
/// # Errors
///
/// The reason why the connection must end.
pub(super) fn sort(parts: Vec<Reply>, waiting: &mut VecDeque<Waiting>) -> Result<Pushed, String> {
    let mut fields = parts.into_iter().map(|part| match part {
        Reply::Bytes(bytes) => bytes,
        Reply::Int(n) => n.to_string().into(),
        _ => Bytes::new(),
    });
    let mut next = || fields.next().unwrap_or_default();
    let kind = next();
    Ok(match &kind[..] {
        b"message" => Pushed::Message(Push::Message { channel: next(), payload: next() }),
        b"smessage" => Pushed::Message(Push::ShardedMessage { channel: next(), payload: next() }),
        b"pmessage" => Pushed::Message(Push::PatternMessage { pattern: next(), channel: next(), payload: next() }),
        kind if SUBSCRIBED.contains(&kind) || UNSUBSCRIBED.contains(&kind) => {
            let channel = next();
            let confirmed = waiting.front_mut().is_some_and(|first| first.confirm(kind, &channel));
            match waiting.front() {
                Some(Waiting { expects: Expects::Confirmations(_, missing), .. })
                    if confirmed && missing.is_empty() =>
                {
                    waiting.pop_front().map_or(Pushed::Nothing, Pushed::Confirmed)
                }
                _ if confirmed => Pushed::Nothing,
                _ if kind == b"sunsubscribe" && waiting.iter().any(|one| one.leaves(&channel)) => Pushed::Nothing,
                _ if kind == b"sunsubscribe" => Pushed::Message(Push::Lost { channel }),
                _ => return Err(NO_PROTOCOL.into()),
            }
        }
        _ => Pushed::Nothing,
    })
}

impl Waiting {
    /// Returns whether a reply answers this request.
    ///
    /// The result is `false` if the reply is the error of a SUNSUBSCRIBE that was sent before the
    /// request's PING. It is `None` if the reply violates the protocol.
    pub(super) fn is_answered_by(&self, reply: &Reply) -> Option<bool> {
        match (&self.expects, reply) {
            (Expects::Reply, _) | (Expects::Confirmations(..), Reply::Error(_)) => Some(true),
            (Expects::Confirmations(..), _) => None,
            (Expects::Pong { .. }, Reply::Error(error)) => Some(refuses_ping(error)),
            (Expects::Pong { token, .. }, reply) => is_pong(reply, token).then_some(true),
        }
    }

    /// Returns whether this request unsubscribes from a sharded channel.
    fn leaves(&self, channel: &Bytes) -> bool {
        matches!(&self.expects, Expects::Pong { channels, .. } if channels.contains(channel))
    }

    fn confirm(&mut self, kind: &[u8], channel: &[u8]) -> bool {
        let Expects::Confirmations(command, missing) = &mut self.expects else { return false };
        let at = missing.iter().position(|missing| missing == channel).filter(|_| command.as_bytes() == kind);
        at.map(|at| missing.swap_remove(at)).is_some()
    }
}

/// Returns whether `reply` answers a PING with `token`. With RESP2 the answer is an array of two
/// elements.
fn is_pong(reply: &Reply, token: &Bytes) -> bool {
    match reply {
        Reply::Bytes(text) => text == token,
        Reply::Array(parts) => matches!(parts.last(), Some(Reply::Bytes(text)) if text == token),
        _ => false,
    }
}

/// Returns whether the error rejects the PING, and not a command that was sent before it. Errors
/// quote the command name with `'` or a backtick.
fn refuses_ping(error: &ServerError) -> bool {
    let ServerError::Refused { message, .. } = error else { return false };
    let message = message.to_ascii_lowercase();
    ["'ping'", "`ping`"].iter().any(|named| message.contains(named))
}

/// Returns why the connection must end after a reply that answers no request.
///
/// If the reply is an error, the server refuses the connection: it sends the reason, and then
/// closes the connection.
pub(super) fn unasked(reply: Reply) -> String {
    match reply {
        Reply::Error(ServerError::Refused { message, .. } | ServerError::Unauthorized { message }) => message,
        _ => NO_PROTOCOL.into(),
    }
}
