//! Replies of a server, and their conversion to Rust values.

use std::collections::HashMap;
use std::fmt;
use std::hash::Hash;
use std::str::FromStr;

use bytes::Bytes;

use crate::error::ServerError;

/// A reply of a server. An error inside a list stays an element of the list; it does not make the
/// whole reply an error.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub enum Reply {
    /// No value.
    Nil,
    /// A whole number.
    Int(i64),
    /// A string of bytes, or a status such as `OK`.
    Bytes(Bytes),
    /// A floating point number (RESP3).
    Double(f64),
    /// A boolean (RESP3).
    Bool(bool),
    /// A list or a set.
    Array(Vec<Reply>),
    /// A map (RESP3).
    Map(Vec<(Reply, Reply)>),
    /// An error inside a list, from a script or a pipeline.
    Error(ServerError),
}

impl Reply {
    /// Converts the reply to `T`.
    ///
    /// # Errors
    ///
    /// [`ServerError::Decode`] names the expected and the actual reply.
    pub fn into_typed<T: FromReply>(self) -> Result<T, ServerError> {
        T::from_reply(self)
    }

    /// Returns the error of a reply that does not fit its type. A reply that is an error is
    /// returned as that error.
    pub(crate) fn misfit(self, expected: &'static str) -> ServerError {
        match self {
            Reply::Error(error) => error,
            other => ServerError::Decode { expected, got: other.to_string() },
        }
    }
}

/// Maximum length of a text that an error quotes, in bytes. A longer text could be a whole stored
/// value, so the error shows only its length.
const SHOWN_TEXT: usize = 40;

/// Maximum number of list elements that an error shows.
const SHOWN_ELEMENTS: usize = 8;

/// Formats the reply briefly, for errors. Of a long text, only the length is shown.
impl fmt::Display for Reply {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Reply::Nil => f.write_str("nil"),
            Reply::Int(number) => number.fmt(f),
            Reply::Double(number) => number.fmt(f),
            Reply::Bool(is) => is.fmt(f),
            Reply::Error(error) => write!(f, "the error `{error}`"),
            Reply::Bytes(bytes) => match std::str::from_utf8(bytes) {
                Ok(text) if text.len() <= SHOWN_TEXT => write!(f, "{text:?}"),
                _ => write!(f, "{} bytes", bytes.len()),
            },
            Reply::Array(elements) => write!(f, "[{}]", listed(elements.iter().map(Reply::to_string))),
            Reply::Map(pairs) => {
                write!(f, "{{{}}}", listed(pairs.iter().map(|(key, value)| format!("{key}: {value}"))))
            }
        }
    }
}

/// Joins the first elements of a list, and the number of the others.
fn listed(mut elements: impl ExactSizeIterator<Item = String>) -> String {
    let mut shown: Vec<_> = elements.by_ref().take(SHOWN_ELEMENTS).collect();
    if elements.len() > 0 {
        shown.push(format!("and {} more", elements.len()));
    }
    shown.join(", ")
}

/// A type to which a [`Reply`] can be converted.
pub trait FromReply: Sized {
    /// Converts the reply to the value.
    ///
    /// # Errors
    ///
    /// [`ServerError::Decode`] if the reply does not fit the type. A reply that is an error is
    /// returned as that error.
    fn from_reply(reply: Reply) -> Result<Self, ServerError>;
}

impl FromReply for Reply {
    fn from_reply(reply: Reply) -> Result<Self, ServerError> {
        Ok(reply)
    }
}

/// Accepts any reply that is not an error.
impl FromReply for () {
    fn from_reply(reply: Reply) -> Result<Self, ServerError> {
        match reply {
            Reply::Error(error) => Err(error),
            _ => Ok(()),
        }
    }
}

/// Converts the text of a number.
fn parsed<T: FromStr>(reply: Reply, expected: &'static str) -> Result<T, ServerError> {
    match reply {
        Reply::Bytes(text) => {
            let number = std::str::from_utf8(&text).ok().and_then(|text| text.parse().ok());
            number.ok_or_else(|| Reply::Bytes(text).misfit(expected))
        }
        other => Err(other.misfit(expected)),
    }
}

impl FromReply for i64 {
    fn from_reply(reply: Reply) -> Result<Self, ServerError> {
        match reply {
            Reply::Int(n) => Ok(n),
            other => parsed(other, "a whole number"),
        }
    }
}

impl FromReply for u64 {
    fn from_reply(reply: Reply) -> Result<Self, ServerError> {
        const EXPECTED: &str = "a whole number of 0 or more";
        match reply {
            Reply::Int(n) => u64::try_from(n).map_err(|_| Reply::Int(n).misfit(EXPECTED)),
            other => parsed(other, EXPECTED),
        }
    }
}

impl FromReply for f64 {
    fn from_reply(reply: Reply) -> Result<Self, ServerError> {
        match reply {
            Reply::Double(x) => Ok(x),
            other => parsed(other, "a number"),
        }
    }
}

/// Converts `1` and `OK` to true, and `0` to false.
impl FromReply for bool {
    fn from_reply(reply: Reply) -> Result<Self, ServerError> {
        match reply {
            Reply::Bool(truth) => Ok(truth),
            Reply::Int(0) => Ok(false),
            Reply::Int(1) => Ok(true),
            Reply::Bytes(text) if &text[..] == b"OK" => Ok(true),
            other => Err(other.misfit("0 or 1")),
        }
    }
}

impl FromReply for Bytes {
    fn from_reply(reply: Reply) -> Result<Self, ServerError> {
        match reply {
            Reply::Bytes(bytes) => Ok(bytes),
            Reply::Int(n) => Ok(n.to_string().into()),
            other => Err(other.misfit("a string")),
        }
    }
}

impl FromReply for String {
    fn from_reply(reply: Reply) -> Result<Self, ServerError> {
        let bytes = Bytes::from_reply(reply)?;
        String::from_utf8(bytes.to_vec()).map_err(|_| Reply::Bytes(bytes).misfit("UTF-8 text"))
    }
}

impl<T: FromReply> FromReply for Option<T> {
    fn from_reply(reply: Reply) -> Result<Self, ServerError> {
        match reply {
            Reply::Nil => Ok(None),
            other => T::from_reply(other).map(Some),
        }
    }
}

impl<T: FromReply> FromReply for Vec<T> {
    fn from_reply(reply: Reply) -> Result<Self, ServerError> {
        match reply {
            Reply::Array(items) => items.into_iter().map(T::from_reply).collect(),
            Reply::Map(pairs) => pairs.into_iter().flat_map(|(k, v)| [k, v]).map(T::from_reply).collect(),
            other => Err(other.misfit("a list")),
        }
    }
}

/// Converts a RESP3 map, or the flat list of alternating keys and values that scripts and RESP2
/// return.
impl<K: FromReply + Eq + Hash, V: FromReply> FromReply for HashMap<K, V> {
    fn from_reply(reply: Reply) -> Result<Self, ServerError> {
        let is_flat = matches!(&reply, Reply::Array(items) if items.len() % 2 == 0);
        if !is_flat && !matches!(reply, Reply::Map(_)) {
            return Err(reply.misfit("pairs"));
        }
        Ok(pairs(reply)?.into_iter().collect())
    }
}

/// Converts a RESP3 map, or a flat list of alternating keys and values.
fn pairs<A: FromReply, B: FromReply>(reply: Reply) -> Result<Vec<(A, B)>, ServerError> {
    let (mut flat, mut pairs) = (Vec::<Reply>::from_reply(reply)?.into_iter(), Vec::new());
    while let (Some(one), Some(other)) = (flat.next(), flat.next()) {
        pairs.push((A::from_reply(one)?, B::from_reply(other)?));
    }
    Ok(pairs)
}

/// Pairs in the server's order.
///
/// With RESP3, some commands return a list of pairs. In all other cases the reply is a flat list of
/// alternating values.
#[derive(Debug, Clone, PartialEq)]
// Not `#[non_exhaustive]`: callers destructure it as `Pairs(pairs)`.
pub struct Pairs<A = Bytes, B = Bytes>(pub Vec<(A, B)>);

impl<A: FromReply, B: FromReply> FromReply for Pairs<A, B> {
    fn from_reply(reply: Reply) -> Result<Self, ServerError> {
        match reply {
            Reply::Array(pairs) if pairs.iter().all(|pair| matches!(pair, Reply::Array(_))) => {
                pairs.into_iter().map(FromReply::from_reply).collect::<Result<_, _>>().map(Pairs)
            }
            flat => pairs(flat).map(Pairs),
        }
    }
}

macro_rules! tuple_from_reply {
    ($len:literal, $($part:ident),+) => {
        impl<$($part: FromReply),+> FromReply for ($($part,)+) {
            fn from_reply(reply: Reply) -> Result<Self, ServerError> {
                match reply {
                    Reply::Array(items) if items.len() == $len => {
                        let mut items = items.into_iter();
                        Ok(($($part::from_reply(items.next().unwrap_or(Reply::Nil))?,)+))
                    }
                    other => Err(other.misfit(concat!("a list of ", $len))),
                }
            }
        }
    };
}

tuple_from_reply!(2, A, B);
tuple_from_reply!(3, A, B, C);
tuple_from_reply!(4, A, B, C, D);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_reply_in_an_error_is_short_and_no_debug_text() {
        let misfit = |reply: Reply| reply.misfit("a number").to_string();
        assert!(misfit(Reply::Bytes("ten".into())).contains("\"ten\""));
        assert!(misfit(Reply::Bytes(vec![b'x'; 41].into())).contains("41 bytes"));
        let list = misfit(Reply::Array((0..10).map(Reply::Int).chain([Reply::Nil]).collect()));
        assert!(list.contains("[0, 1, 2, 3, 4, 5, 6, 7, and 3 more]"), "{list}");
        assert!(misfit(Reply::Map(vec![(Reply::Bytes("a".into()), Reply::Bool(true))])).contains("{\"a\": true}"));
    }

    #[test]
    fn an_unexpected_reply_names_the_expected_and_the_received_type() {
        let error = Reply::Nil.into_typed::<i64>().unwrap_err();
        assert_eq!(error.to_string(), "unexpected reply: expected a whole number, got nil");
        let long = Reply::Bytes(Bytes::from("é".repeat(200))).into_typed::<i64>().unwrap_err();
        assert!(long.to_string().len() < 200);
    }

    #[test]
    fn pairs_come_from_maps_and_from_flat_lists() {
        let flat = Reply::Array(vec![Reply::Bytes("a".into()), Reply::Int(1)]);
        let map = Reply::Map(vec![(Reply::Bytes("a".into()), Reply::Int(1))]);
        let want = HashMap::from([("a".to_string(), 1_i64)]);
        assert_eq!(flat.into_typed::<HashMap<String, i64>>().unwrap(), want);
        assert_eq!(map.into_typed::<HashMap<String, i64>>().unwrap(), want);
    }
}
