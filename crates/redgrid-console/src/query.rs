//! The parameters of a page, from the query of its address or the body of a form.

use std::borrow::Cow;

use percent_encoding::percent_decode_str;

use crate::object_name::id_of;

/// Parameters that are read; further ones are ignored. An action can name 100 messages.
const MOST: usize = 128;

/// The parameters, in their order.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Query {
    parameters: Vec<(String, String)>,
}

impl Query {
    /// Reads `name=value&name=value`. Bytes that are not UTF-8 become `U+FFFD`, except in the
    /// parameter `name`: it is the id of the name of an object.
    pub(crate) fn read(query: Option<&str>) -> Query {
        let bytes = |part: &str| {
            let part: Cow<'_, str> = if part.contains('+') { part.replace('+', " ").into() } else { part.into() };
            percent_decode_str(&part).collect::<Vec<u8>>()
        };
        let text = |part: &str| String::from_utf8_lossy(&bytes(part)).into_owned();
        let parts = query.unwrap_or_default().split('&').filter(|part| !part.is_empty()).take(MOST);
        let parameter = |part: &str| {
            let (name, value) = part.split_once('=').unwrap_or((part, ""));
            let value = if name == "name" { id_of(&bytes(value)) } else { text(value) };
            (text(name), value)
        };
        Query { parameters: parts.map(parameter).collect() }
    }

    /// Returns the first value of a parameter; empty if it is missing.
    pub(crate) fn get(&self, name: &str) -> &str {
        self.parameters.iter().find(|(one, _)| one == name).map_or("", |(_, value)| value)
    }

    /// Returns all values of a parameter, in their order.
    pub(crate) fn all<'a>(&'a self, name: &'a str) -> impl Iterator<Item = &'a str> {
        self.parameters.iter().filter(move |(one, _)| one == name).map(|(_, value)| value.as_str())
    }

    /// Returns a number that counts from 1; 1 if it is missing or no number.
    pub(crate) fn page(&self) -> usize {
        self.get("p").parse().ok().filter(|page| *page >= 1).unwrap_or(1)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parameters_are_decoded() {
        let query = Query::read(Some("name=a%20b%26c+d%00&state=gone&p=3&&q"));
        assert_eq!((query.get("name"), query.get("state"), query.get("q")), ("a b&c d\0", "gone", ""));
        assert_eq!((query.page(), query.get("none")), (3, ""));
        assert_eq!(Query::read(Some("q=%ff")).get("q"), "\u{fffd}");
        assert_eq!(Query::read(Some("name=a%ff")).get("name"), id_of(b"a\xff"));
        for odd in ["p=0", "p=-1", "p=x", "p=99999999999999999999999", ""] {
            assert_eq!(Query::read(Some(odd)).page(), 1, "{odd}");
        }
        assert_eq!(Query::read(None), Query::default());
    }

    #[test]
    fn a_long_query_is_cut() {
        let query = Query::read(Some(&"a=1&".repeat(10_000)));
        assert_eq!(query.parameters.len(), MOST);
    }
}
