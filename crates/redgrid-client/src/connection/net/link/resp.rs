//! Commands and replies as bytes: RESP2 and RESP3, the protocol of Redis and Valkey.
//!
//! Source: <https://redis.io/docs/latest/develop/reference/protocol-spec/>.

use bytes::{BufMut, Bytes, BytesMut};
use redis_protocol::resp2::decode::decode_bytes_mut as decode_resp2;
use redis_protocol::resp2::types::BytesFrame as Resp2;
use redis_protocol::resp3::decode::complete::decode_bytes_mut as decode_resp3;
use redis_protocol::resp3::types::BytesFrame as Resp3;

use crate::connection::Reply;
use crate::error::ServerError;

pub(super) fn encode(out: &mut BytesMut, command: &[Bytes]) {
    header(out, b'*', command.len());
    for arg in command {
        header(out, b'$', arg.len());
        out.put_slice(arg);
        out.put_slice(b"\r\n");
    }
}

fn header(out: &mut BytesMut, kind: u8, count: usize) {
    out.put_u8(kind);
    out.put_slice(itoa::Buffer::new().format(count).as_bytes());
    out.put_slice(b"\r\n");
}

/// A frame sent by the server.
#[derive(Debug)]
pub(super) enum Frame {
    Reply(Reply),
    /// Unrequested messages, and confirmations of subscriptions. With RESP2, both arrive as arrays
    /// in a `Reply`.
    Push(Vec<Reply>),
}

/// Takes the first frame from `buffer`; `None` while the frame is incomplete.
///
/// # Errors
///
/// The bytes are not valid in the protocol.
pub(super) fn decode(buffer: &mut BytesMut, is_resp2: bool) -> Result<Option<Frame>, NoProtocol> {
    match buffer.first() {
        None => return Ok(None),
        // Errors are decoded here and not by redis-protocol, because their text may contain bytes
        // that are not UTF-8, such as the bytes of a key.
        Some(b'-') => {
            let Some(end) = line_end(buffer) else { return Ok(None) };
            let line = buffer.split_to(end);
            let message = String::from_utf8_lossy(&line[1..end - 2]).into_owned();
            return Ok(Some(Frame::Reply(Reply::Error(ServerError::refused(message)))));
        }
        Some(_) => {}
    }
    if is_resp2 {
        let decoded = decode_resp2(buffer).map_err(|_| NoProtocol)?;
        return Ok(decoded.map(|(frame, ..)| Frame::Reply(of_resp2(frame))));
    }
    let decoded = decode_resp3(buffer).map_err(|_| NoProtocol)?;
    Ok(decoded.map(|(frame, ..)| match frame {
        Resp3::Push { data, .. } => Frame::Push(data.into_iter().map(of_resp3).collect()),
        frame => Frame::Reply(of_resp3(frame)),
    }))
}

/// Returns the end of the first line, including its CRLF.
fn line_end(bytes: &[u8]) -> Option<usize> {
    bytes.windows(2).position(|two| two == b"\r\n").map(|at| at + 2)
}

/// Finds the end of a frame that arrives in many pieces, without examining complete values again.
pub(super) struct Scan {
    /// Start of the next value.
    at: usize,
    /// Number of values still missing.
    missing: u64,
}

impl Scan {
    pub(super) fn new() -> Self {
        Scan { at: 0, missing: 1 }
    }

    /// Returns whether the frame at the start of `buffer` is complete or invalid.
    ///
    /// Between two calls, the caller may only append data to `buffer`.
    pub(super) fn is_whole(&mut self, buffer: &[u8]) -> bool {
        while self.missing > 0 {
            let rest = buffer.get(self.at..).unwrap_or_default();
            let Some(end) = line_end(rest) else { return false };
            // An empty line is invalid.
            let (kind, count) = rest[..end - 2].split_first().unwrap_or((&b'?', &[]));
            let count = std::str::from_utf8(count).ok().and_then(|count| count.parse::<i64>().ok());
            let count = count.and_then(|count| u64::try_from(count).ok());
            let (length, values) = match (kind, count) {
                (b'$' | b'=' | b'!', Some(bytes)) => (bytes.saturating_add(2), 0),
                (b'*' | b'~' | b'>', Some(values)) => (0, values),
                (b'%', Some(pairs)) => (0, pairs.saturating_mul(2)),
                // An attribute. Its pairs are followed by the value that the attribute describes.
                (b'|', Some(pairs)) => (0, pairs.saturating_mul(2).saturating_add(1)),
                (b'$' | b'*' | b'+' | b'-' | b':' | b'_' | b'#' | b',' | b'(', _) => (0, 0),
                _ => return true,
            };
            let next = usize::try_from(length).ok().and_then(|length| (self.at + end).checked_add(length));
            let Some(next) = next.filter(|next| *next <= buffer.len()) else { return false };
            self.at = next;
            self.missing = (self.missing - 1).saturating_add(values);
        }
        true
    }
}

/// Bytes that are neither RESP2 nor RESP3.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct NoProtocol;

fn of_resp2(frame: Resp2) -> Reply {
    match frame {
        Resp2::SimpleString(data) | Resp2::BulkString(data) => Reply::Bytes(data),
        Resp2::Error(message) => Reply::Error(ServerError::refused(&*message)),
        Resp2::Integer(n) => Reply::Int(n),
        Resp2::Array(items) => Reply::Array(items.into_iter().map(of_resp2).collect()),
        Resp2::Null => Reply::Nil,
    }
}

fn of_resp3(frame: Resp3) -> Reply {
    match frame {
        Resp3::BlobString { data, .. }
        | Resp3::SimpleString { data, .. }
        | Resp3::BigNumber { data, .. }
        | Resp3::VerbatimString { data, .. } => Reply::Bytes(data),
        Resp3::ChunkedString(data) => Reply::Bytes(data),
        Resp3::SimpleError { data, .. } => Reply::Error(ServerError::refused(&*data)),
        Resp3::BlobError { data, .. } => {
            Reply::Error(ServerError::refused(String::from_utf8_lossy(&data).into_owned()))
        }
        Resp3::Boolean { data, .. } => Reply::Bool(data),
        Resp3::Null | Resp3::Hello { .. } => Reply::Nil,
        Resp3::Number { data, .. } => Reply::Int(data),
        Resp3::Double { data, .. } => Reply::Double(data),
        Resp3::Array { data, .. } | Resp3::Push { data, .. } => Reply::Array(data.into_iter().map(of_resp3).collect()),
        Resp3::Set { data, .. } => Reply::Array(data.into_iter().map(of_resp3).collect()),
        Resp3::Map { data, .. } => Reply::Map(data.into_iter().map(|(k, v)| (of_resp3(k), of_resp3(v))).collect()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_command_is_a_list_of_strings() {
        let mut out = BytesMut::new();
        encode(&mut out, &["SET", "k", "-12", "\r\n\0", ""].map(Bytes::from));
        assert_eq!(&out[..], b"*5\r\n$3\r\nSET\r\n$1\r\nk\r\n$3\r\n-12\r\n$3\r\n\r\n\0\r\n$0\r\n\r\n");
    }

    #[test]
    fn a_frame_is_taken_when_all_of_it_is_there() {
        let whole = b"*2\r\n$3\r\nabc\r\n:7\r\n";
        for end in 0..whole.len() {
            for is_resp2 in [false, true] {
                let mut part = BytesMut::from(&whole[..end]);
                assert!(decode(&mut part, is_resp2).unwrap().is_none());
                assert_eq!(part.len(), end, "nothing is taken");
                part.extend_from_slice(&whole[end..]);
                part.extend_from_slice(b"+OK\r\n");
                let Ok(Some(Frame::Reply(reply))) = decode(&mut part, is_resp2) else { panic!("no reply") };
                assert_eq!(reply, Reply::Array(vec![Reply::Bytes("abc".into()), Reply::Int(7)]));
                assert_eq!(&part[..], b"+OK\r\n");
            }
        }
    }

    #[test]
    fn a_scan_finds_the_end_of_a_frame_that_comes_in_pieces() {
        for whole in [
            "*2\r\n$3\r\nabc\r\n*2\r\n:7\r\n$0\r\n\r\n",
            "%1\r\n+a\r\n~2\r\n_\r\n#t\r\n",
            "|1\r\n+ttl\r\n:3\r\n$2\r\n\r\n\r\n",
            "*3\r\n$-1\r\n*-1\r\n,1.5\r\n",
            "=5\r\ntxt:a\r\n",
            "-ERR no\r\n",
        ] {
            let mut scan = Scan::new();
            for end in 0..whole.len() {
                assert!(!scan.is_whole(&whole.as_bytes()[..end]), "{whole:?} to {end}");
            }
            assert!(scan.is_whole(whole.as_bytes()), "{whole:?}");
            assert!(Scan::new().is_whole(format!("{whole}+OK\r\n").as_bytes()));
        }
        assert!(Scan::new().is_whole(b"HTTP/1.1 400 Bad Request\r\n") && Scan::new().is_whole(b"\r\n"));
    }

    #[test]
    fn an_error_may_contain_bytes_that_are_no_text() {
        let frame = decode(&mut BytesMut::from(&b"-ERR no key '\xff'\r\n"[..]), true).unwrap().unwrap();
        let Frame::Reply(Reply::Error(ServerError::Refused { message, .. })) = frame else { panic!("{frame:?}") };
        assert!(message.starts_with("ERR no key"), "{message}");
    }

    #[test]
    fn only_a_push_is_a_push() {
        let frame = |bytes: &[u8]| decode(&mut BytesMut::from(bytes), false).unwrap().unwrap();
        assert!(matches!(frame(b">3\r\n$7\r\nmessage\r\n$1\r\na\r\n$1\r\nb\r\n"), Frame::Push(_)));
        assert!(matches!(frame(b"*3\r\n$7\r\nmessage\r\n$1\r\na\r\n$1\r\nb\r\n"), Frame::Reply(_)));
    }

    #[test]
    fn other_bytes_than_the_protocol_are_an_error() {
        for is_resp2 in [false, true] {
            assert_eq!(decode(&mut BytesMut::from("HTTP/1.1 400 Bad Request\r\n"), is_resp2).err(), Some(NoProtocol));
        }
    }

    #[test]
    fn values_of_both_protocols_are_replies() {
        let reply = |bytes: &[u8], is_resp2| match decode(&mut BytesMut::from(bytes), is_resp2) {
            Ok(Some(Frame::Reply(reply))) => reply,
            other => panic!("{other:?}"),
        };
        for is_resp2 in [true, false] {
            assert_eq!(reply(b":-3\r\n", is_resp2), Reply::Int(-3));
            assert_eq!(reply(b"$0\r\n\r\n", is_resp2), Reply::Bytes("".into()));
            assert_eq!(reply(b"*0\r\n", is_resp2), Reply::Array(Vec::new()));
            assert!(matches!(reply(b"-ERR no\r\n", is_resp2), Reply::Error(ServerError::Refused { .. })));
        }
        assert_eq!(reply(b"$-1\r\n", true), Reply::Nil);
        assert_eq!(reply(b"*-1\r\n", true), Reply::Nil);
        assert_eq!(reply(b"_\r\n", false), Reply::Nil);
        assert_eq!(reply(b"#t\r\n", false), Reply::Bool(true));
        assert_eq!(reply(b",1.5\r\n", false), Reply::Double(1.5));
        let pair = (Reply::Bytes("a".into()), Reply::Int(1));
        assert_eq!(reply(b"%1\r\n+a\r\n:1\r\n", false), Reply::Map(vec![pair]));
        assert_eq!(reply(b"~1\r\n:1\r\n", false), Reply::Array(vec![Reply::Int(1)]));
    }
}
