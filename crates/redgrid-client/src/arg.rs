//! Text and bytes that are sent unchanged.

use std::borrow::Cow;

use bytes::{Bytes, BytesMut};

use crate::name::Name;

/// Text or bytes that are sent unchanged, owned or borrowed: `&str`, `String`, `&String`, [`Name`],
/// `&[u8]`, `Vec<u8>`, [`Bytes`] and the like.
///
/// Owned values are moved, borrowed ones are copied. Arguments, patterns and stored bytes are
/// passed as `impl IntoArg`; names of objects are passed as `impl AsRef<str>`.
pub trait IntoArg: sealed::Sealed {
    /// Returns the bytes.
    fn into_arg(self) -> Bytes;
}

mod sealed {
    /// The supertrait of [`IntoArg`](super::IntoArg). Other crates cannot implement this trait, so
    /// they cannot implement `IntoArg` either. Thus this crate can add implementations without a
    /// conflict.
    #[expect(unnameable_types, reason = "seals a trait")]
    pub trait Sealed {}
}

/// Implements [`IntoArg`] for owned types, which are converted to [`Bytes`] without a copy.
macro_rules! owned {
    ($($type:ty),*) => {$(
        impl sealed::Sealed for $type {}
        impl IntoArg for $type {
            fn into_arg(self) -> Bytes {
                self.into()
            }
        }
    )*};
}

owned!(Bytes, BytesMut, String, Vec<u8>, Box<[u8]>);

/// Implements [`IntoArg`] for types with text or bytes, which are copied into the argument. The
/// brackets before a type contain its generic parameters.
macro_rules! copied {
    ($([$($generics:tt)*] $type:ty),*) => {$(
        impl<$($generics)*> sealed::Sealed for $type {}
        impl<$($generics)*> IntoArg for $type {
            fn into_arg(self) -> Bytes {
                let bytes: &[u8] = self.as_ref();
                Bytes::copy_from_slice(bytes)
            }
        }
    )*};
}

copied!([] &str, [] &String, [] &[u8], [] &Vec<u8>, [const N: usize] [u8; N], [const N: usize] &[u8; N]);

impl sealed::Sealed for &Bytes {}
impl IntoArg for &Bytes {
    fn into_arg(self) -> Bytes {
        self.clone()
    }
}

impl sealed::Sealed for Cow<'_, str> {}
impl IntoArg for Cow<'_, str> {
    fn into_arg(self) -> Bytes {
        self.into_owned().into()
    }
}

impl sealed::Sealed for Name {}
impl IntoArg for Name {
    fn into_arg(self) -> Bytes {
        self.as_str().into_arg()
    }
}

impl sealed::Sealed for &Name {}
impl IntoArg for &Name {
    fn into_arg(self) -> Bytes {
        self.as_str().into_arg()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn text(arg: impl IntoArg) -> String {
        String::from_utf8(arg.into_arg().to_vec()).unwrap()
    }

    #[test]
    fn owned_and_borrowed_text_and_bytes_are_the_same() {
        let (owned, name) = ("a".to_owned(), Name::new("a").unwrap());
        let texts = [text("a"), text(&owned), text(owned), text(Cow::Borrowed("a")), text(&name), text(name)];
        let (vector, shared) = (vec![b'a'], Bytes::from_static(b"a"));
        let bytes = [text(b"a"), text(*b"a"), text(&b"a"[..]), text(&vector), text(vector)];
        let shared = [text(&shared), text(shared)];
        assert!(texts.iter().chain(&bytes).chain(&shared).all(|text| text == "a"));
    }
}
