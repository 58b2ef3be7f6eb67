//! Names of objects that need not be text.
//!
//! Inside the console, a name is an id: text stands for itself, and other bytes have a form that
//! differs from it. So different names never share a row, and the page of each lock can be opened.

use std::borrow::Cow;
use std::fmt::Write as _;

/// The beginning of the id of a name that is not UTF-8. The bytes follow in hexadecimal digits. A
/// name that begins like this is written so, too.
const OTHER: &str = "\0bytes:";

/// Returns the id of a name.
pub(crate) fn id_of(name: &[u8]) -> String {
    match std::str::from_utf8(name) {
        Ok(text) if !text.starts_with(OTHER) => text.to_owned(),
        _ => {
            let mut id = OTHER.to_owned();
            for byte in name {
                // Writing to a `String` cannot fail.
                let _ = write!(id, "{byte:02x}");
            }
            id
        }
    }
}

/// Returns the id of a name from the report of a client, with the namespace of the client below
/// that of the console.
pub(crate) fn full_id(namespace: &str, name: &str) -> String {
    id_of([namespace, name].concat().as_bytes())
}

/// Returns the name with this id.
pub(crate) fn bytes_of(id: &str) -> Cow<'_, [u8]> {
    let decoded = id.strip_prefix(OTHER).and_then(|digits| {
        let pairs = digits.as_bytes().chunks(2).map(|pair| std::str::from_utf8(pair).ok());
        pairs.map(|pair| u8::from_str_radix(pair?, 16).ok()).collect::<Option<Vec<u8>>>()
    });
    // The parser also accepts a sign and upper-case digits. Only one form is the id of the name.
    let decoded = decoded.filter(|name| id_of(name) == id);
    decoded.map_or(Cow::Borrowed(id.as_bytes()), Cow::Owned)
}

/// Returns the name with this id as text, in which bytes that are not UTF-8 are escaped as `\xff`.
pub(crate) fn text_of(id: &str) -> Cow<'_, str> {
    match bytes_of(id) {
        Cow::Borrowed(_) => Cow::Borrowed(id),
        Cow::Owned(bytes) => {
            String::from_utf8(bytes).unwrap_or_else(|e| e.as_bytes().escape_ascii().to_string()).into()
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_name_has_an_id_of_its_own() {
        let names: [&[u8]; 6] = [b"job", b"a\xff", b"a\\xff", "\0bytes:61ff".as_bytes(), b"\xff", "ü\0".as_bytes()];
        let ids: std::collections::BTreeSet<String> = names.into_iter().map(id_of).collect();
        assert_eq!(ids.len(), names.len());
        for name in names {
            assert_eq!(&*bytes_of(&id_of(name)), name);
        }
        assert_eq!((&*text_of("job"), &*text_of(&id_of(b"a\xff"))), ("job", "a\\xff"));
        assert_eq!(&*text_of(&id_of("\0bytes:6".as_bytes())), "\0bytes:6");
        for other in ["\0bytes:zz", "\0bytes:+f", "\0bytes:FF", "\0bytes:f", "\0bytes:6a6f62"] {
            assert_eq!(&*bytes_of(other), other.as_bytes());
        }
        assert_eq!((full_id("prod:", "job"), full_id("\0", "bytes:ff")), ("prod:job".into(), id_of(b"\0bytes:ff")));
    }
}
