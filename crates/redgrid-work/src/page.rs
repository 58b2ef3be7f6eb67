//! Pages of messages without their values, for tools of operators.

use std::time::SystemTime;

use bytes::Bytes;

use crate::body;
use crate::message::{MessageId, MessageState, parse_millis, parse_state};

/// A page of messages.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct MessagePage {
    /// The number of messages in the group.
    pub total: u64,
    /// At most 100 messages.
    pub messages: Vec<MessageSummary>,
}

/// A message without its value.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct MessageSummary {
    /// The id.
    pub id: MessageId,
    /// The number of deliveries.
    pub attempts: u32,
    /// The priority, 0 to 9.
    pub priority: u8,
    /// When the message was pushed, by the server's clock.
    pub pushed_at: SystemTime,
    /// Its state. The end of a delay or visibility may be over: a receive or a change then moves
    /// the message.
    pub state: MessageState,
    /// The size of the message with its headers and one byte of framing, in bytes.
    pub size: u64,
    /// The headers. `None` if the message has more than 16 KiB, its headers have more than 4 KiB,
    /// or the stored bytes are not a message.
    pub headers: Option<Vec<(String, String)>>,
}

/// Parses the reply of list.lua.
pub fn parse_page(reply: &[Bytes]) -> Option<MessagePage> {
    let (total, messages) = reply.split_first()?;
    let messages = messages.chunks(9).map(parse_message).collect::<Option<_>>()?;
    Some(MessagePage { total: number(total)?, messages })
}

fn parse_message(fields: &[Bytes]) -> Option<MessageSummary> {
    let [id, attempts, priority, pushed, state, until, reason, size, headers] = fields else { return None };
    Some(MessageSummary {
        id: MessageId::read(id)?,
        attempts: number(attempts)?,
        priority: number(priority)?,
        pushed_at: parse_millis(pushed)?,
        state: parse_state(state, until, reason)?,
        size: number(size)?,
        headers: body::decode(headers).map(|(headers, _)| headers),
    })
}

fn number<N: std::str::FromStr>(text: &[u8]) -> Option<N> {
    std::str::from_utf8(text).ok()?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_reply_is_parsed_completely_or_not_at_all() {
        let headers = body::encode(&[("trace".to_owned(), "7".to_owned())], b"");
        let bytes = |text: &'static str| Bytes::from_static(text.as_bytes());
        let mut reply = vec![bytes("5")];
        reply.extend(["0000000000000007", "2", "4", "1000", "flight", "2000", "", "300"].map(bytes));
        reply.push(headers);
        let page = parse_page(&reply).expect("a page");
        let message = &page.messages[0];
        assert_eq!((page.total, message.id.0, message.attempts, message.priority, message.size), (5, 7, 2, 4, 300));
        assert_eq!(message.headers, Some(vec![("trace".to_owned(), "7".to_owned())]));
        assert!(matches!(message.state, MessageState::InFlight { .. }));
        reply[9] = Bytes::new();
        assert_eq!(parse_page(&reply).expect("a page").messages[0].headers, None);
        assert_eq!(parse_page(&[]), None);
        assert_eq!(parse_page(&reply[..9]), None);
        reply[5] = bytes("nowhere");
        assert_eq!(parse_page(&reply), None);
    }
}
