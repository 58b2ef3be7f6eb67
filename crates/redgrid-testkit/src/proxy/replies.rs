//! Assigns replies to requests.

use std::collections::{HashMap, HashSet, VecDeque};

use bytes::Bytes;
use tokio::sync::oneshot;

use crate::resp::elements;

/// The unanswered requests of one connection, and its subscriptions.
///
/// Replies arrive in the order of the requests, with messages in between. Commands that subscribe
/// or unsubscribe are the exception: the server sends one confirmation for each channel.
#[derive(Debug, Default)]
pub(crate) struct Replies {
    waiting: VecDeque<Request>,
    /// The subscribed channels of each family (`subscribe`, `psubscribe`, `ssubscribe`).
    channels: HashMap<&'static str, HashSet<Bytes>>,
    /// Whether a push frame has arrived. After the first one, an array is never a message.
    pushes: bool,
}

/// A request that was sent to the server.
#[derive(Debug)]
struct Request {
    confirmations: Confirmations,
    fate: Fate,
    answered: Option<oneshot::Sender<()>>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Confirmations {
    /// An ordinary command: one reply.
    None,
    /// The number of missing confirmations.
    Left(usize),
    /// Unsubscribing from everything in a family: one confirmation for each channel, counted when
    /// the first one arrives.
    All(&'static str),
}

/// The handling of a reply.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Fate {
    Deliver,
    Swallow,
    Cut,
}

/// The type of a frame from the server.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Incoming {
    /// Something published on a channel.
    Message,
    /// A reply, or another frame that is never dropped.
    Reply(Fate),
}

impl Replies {
    /// Records a request; must be called before its bytes are sent. `answered` receives a value
    /// when the reply arrives, and is dropped if there will be no reply.
    pub(crate) fn sent(&mut self, parts: &[Bytes], fate: Fate, answered: Option<oneshot::Sender<()>>) {
        let Some(name) = parts.first() else { return };
        let name = String::from_utf8_lossy(name).to_ascii_lowercase();
        let confirmations = match confirmation(&name) {
            None => Confirmations::None,
            Some((_, family)) if parts.len() == 1 => Confirmations::All(family),
            Some(_) => Confirmations::Left(parts.len() - 1),
        };
        self.waiting.push_back(Request { confirmations, fate, answered });
    }

    /// Classifies a frame from the server.
    pub(crate) fn received(&mut self, frame: &Bytes) -> Incoming {
        let is_push = frame.first() == Some(&b'>');
        self.pushes |= is_push;
        // In RESP2, messages are ordinary arrays. But only a connection with subscriptions receives
        // messages, and such a connection receives no other arrays.
        if (is_push || !self.pushes && (self.is_subscribed() || self.is_subscribing()))
            && let Some(parts) = elements(frame)
            && let Some(kind) = parts.first().and_then(|kind| std::str::from_utf8(kind).ok())
        {
            if MESSAGES.contains(&kind) {
                return Incoming::Message;
            }
            if let Some((verb, family)) = confirmation(kind) {
                return Incoming::Reply(self.confirmed(verb, family, parts.get(1)));
            }
        }
        if is_push {
            // Invalidations and similar: not a reply.
            return Incoming::Reply(Fate::Deliver);
        }
        Incoming::Reply(self.answer())
    }

    /// Removes the oldest request: its reply (or last confirmation) has arrived.
    fn answer(&mut self) -> Fate {
        let Some(request) = self.waiting.pop_front() else { return Fate::Deliver };
        if let Some(answered) = request.answered {
            // The receiver may be gone; then no waiter needs the notification.
            let _ = answered.send(());
        }
        request.fate
    }

    fn confirmed(&mut self, verb: &str, family: &'static str, channel: Option<&Bytes>) -> Fate {
        let channels = self.channels.entry(family).or_default();
        let before = channels.len();
        if let Some(channel) = channel {
            if verb.is_empty() {
                channels.insert(channel.clone())
            } else {
                channels.remove(channel)
            };
        }
        let Some(request) = self.waiting.front_mut() else { return Fate::Deliver };
        let fate = request.fate;
        let left = match request.confirmations {
            Confirmations::Left(left) => left,
            Confirmations::All(of) if of == family => before.max(1),
            // The server unsubscribed the client by itself; the request still waits for its own
            // reply.
            _ => return Fate::Deliver,
        };
        request.confirmations = Confirmations::Left(left.saturating_sub(1));
        match (left > 1, fate) {
            (false, _) => self.answer(),
            // The connection is cut after the last confirmation, when the whole command was
            // executed.
            (true, Fate::Cut | Fate::Deliver) => Fate::Deliver,
            (true, Fate::Swallow) => Fate::Swallow,
        }
    }

    fn is_subscribed(&self) -> bool {
        self.channels.values().any(|channels| !channels.is_empty())
    }

    fn is_subscribing(&self) -> bool {
        self.waiting.front().is_some_and(|request| request.confirmations != Confirmations::None)
    }
}

/// Splits `unsubscribe` into `un` and the family `subscribe`, `ssubscribe` into `` and
/// `ssubscribe`.
fn confirmation(kind: &str) -> Option<(&'static str, &'static str)> {
    Some(match kind {
        "subscribe" => ("", "subscribe"),
        "unsubscribe" => ("un", "subscribe"),
        "psubscribe" => ("", "psubscribe"),
        "punsubscribe" => ("un", "psubscribe"),
        "ssubscribe" => ("", "ssubscribe"),
        "sunsubscribe" => ("un", "ssubscribe"),
        _ => return None,
    })
}

/// The first words of messages: published to a channel, to a pattern, or to a sharded channel.
const MESSAGES: [&str; 3] = ["message", "pmessage", "smessage"];

#[cfg(test)]
mod tests {
    use super::*;

    const REPLY: Incoming = Incoming::Reply(Fate::Deliver);

    fn request(replies: &mut Replies, words: &str, fate: Fate) {
        let parts: Vec<Bytes> = words.split(' ').map(|word| Bytes::copy_from_slice(word.as_bytes())).collect();
        replies.sent(&parts, fate, None);
    }

    fn frame(kind: char, words: &str) -> Bytes {
        let words: Vec<&str> = words.split(' ').collect();
        let body: String = words.iter().map(|word| format!("${}\r\n{word}\r\n", word.len())).collect();
        format!("{kind}{}\r\n{body}", words.len()).into()
    }

    #[test]
    fn replies_meet_their_requests_around_pushes() {
        let mut replies = Replies::default();
        request(&mut replies, "SUBSCRIBE a b", Fate::Deliver);
        request(&mut replies, "EVALSHA x", Fate::Swallow);
        request(&mut replies, "LRANGE list 0 -1", Fate::Cut);
        assert_eq!(replies.received(&frame('>', "subscribe a 1")), REPLY);
        assert_eq!(replies.received(&frame('>', "message a hello")), Incoming::Message);
        assert_eq!(replies.received(&frame('>', "subscribe b 2")), REPLY);
        assert_eq!(replies.received(&":1\r\n".into()), Incoming::Reply(Fate::Swallow));
        assert_eq!(replies.received(&frame('*', "message is data")), Incoming::Reply(Fate::Cut));
        assert_eq!(replies.received(&"+extra\r\n".into()), REPLY);
    }

    #[test]
    fn messages_are_arrays_in_the_older_protocol() {
        let mut replies = Replies::default();
        request(&mut replies, "PSUBSCRIBE a*", Fate::Deliver);
        request(&mut replies, "PING", Fate::Swallow);
        assert_eq!(replies.received(&frame('*', "psubscribe a* 1")), REPLY);
        assert_eq!(replies.received(&frame('*', "pmessage a* a hello")), Incoming::Message);
        assert_eq!(replies.received(&frame('*', "pong nothing")), Incoming::Reply(Fate::Swallow));
    }

    #[test]
    fn an_array_that_looks_like_a_message_is_a_reply_without_subscriptions() {
        let mut replies = Replies::default();
        request(&mut replies, "LRANGE list 0 -1", Fate::Swallow);
        assert_eq!(replies.received(&frame('*', "message a b")), Incoming::Reply(Fate::Swallow));
    }

    #[test]
    fn unsubscribing_from_everything_takes_as_many_replies_as_there_were_channels() {
        let mut replies = Replies::default();
        request(&mut replies, "SUBSCRIBE a b", Fate::Deliver);
        request(&mut replies, "UNSUBSCRIBE", Fate::Deliver);
        request(&mut replies, "PING", Fate::Swallow);
        for confirmation in ["subscribe a 1", "subscribe b 2", "unsubscribe a 1", "unsubscribe b 0"] {
            assert_eq!(replies.received(&frame('*', confirmation)), REPLY);
        }
        assert_eq!(replies.received(&"+PONG\r\n".into()), Incoming::Reply(Fate::Swallow));
    }

    #[test]
    fn a_refused_subscription_is_one_reply() {
        let mut replies = Replies::default();
        request(&mut replies, "SUBSCRIBE a b", Fate::Swallow);
        request(&mut replies, "PING", Fate::Deliver);
        assert_eq!(replies.received(&"-NOPERM no\r\n".into()), Incoming::Reply(Fate::Swallow));
        assert_eq!(replies.received(&"+PONG\r\n".into()), REPLY);
    }
}
