//! Errors contain all details except the value.

use std::collections::BTreeMap;
use std::fmt::Debug;
use std::net::IpAddr;

use redgrid_codecs::{
    Bincode, Bytes, Cbor, Decode, Encode, Json, Kryo, Long, LooksLike, Lz4, MessagePack, Postcard, Text, Zstd,
};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

use crate::common::refused;

#[macro_use]
mod common;

#[derive(Debug, Serialize, Deserialize)]
struct Inner {
    list: Vec<Option<i64>>,
    map: BTreeMap<u32, String>,
}

#[derive(Debug, Serialize, Deserialize)]
enum Kind {
    Nothing,
    One(Inner),
    Two(i8, u64),
    Named { a: f64 },
}

/// Checks that each serde codec rejects `bytes` for a `T` with this text.
fn rejects<C: Decode<T>, T: Debug>(codec: C, bytes: &[u8], words: &str) {
    assert_eq!(refused::<C, T>(&codec, bytes).to_string(), words);
}

#[test]
fn errors_say_what_was_expected_and_what_was_found() {
    rejects::<_, Kind>(
        Json,
        b"\"Other\"",
        "Json expected one of the variants `Nothing`, `One`, `Two`, `Named`, found another name",
    );
    rejects::<_, u8>(Json, b"300", "Json expected u8, found a whole number of 3 digits that does not fit");
    rejects::<_, u8>(MessagePack, b"\xa3abc", "MessagePack expected `u8`, found a string");
    rejects::<_, u8>(Postcard, b"\x01\x02", "Postcard expected `u8`, found 1 more byte after a value");
    rejects::<_, Kind>(
        Postcard,
        b"\x09",
        "Postcard expected variant index 0 <= i < 4, found a whole number of 1 digit that does not fit",
    );
    rejects::<_, Kind>(
        Bincode,
        b"\x09",
        "Bincode expected variant index 0 <= i < 4, found a whole number of 1 digit that does not fit",
    );
    rejects::<_, bool>(Bincode, b"\x09", "Bincode expected `bool`, found a boolean that is neither 0 nor 1");
    rejects::<_, bool>(Cbor, b"\xa1\x01\x02", "Cbor expected `bool`, found a map where `bool` is expected");
    rejects::<_, Vec<u8>>(Cbor, b"\x82\x01", "Cbor expected `alloc::vec::Vec<u8>`, found the end of the bytes");
    let error = refused::<_, Inner>(&Json, b"{\"list\":[]}").to_string();
    assert_eq!(error, "Json expected `errors::Inner`, found missing field `map`");
    let error = refused::<_, u32>(&Json, b"").to_string();
    assert_eq!(error, "Json expected `u32`, found EOF while parsing a value at line 1 column 0");
}

#[test]
fn errors_name_the_codec_that_wrote_the_bytes() {
    let user = BTreeMap::from([("name".to_owned(), "Ada".to_owned())]);
    let guess = |bytes: Bytes| refused::<_, u32>(&Postcard, &bytes).looks_like().cloned();
    assert_eq!(guess(Json.encode(&user).unwrap()), Some(LooksLike::Json));
    assert_eq!(guess(MessagePack.encode(&user).unwrap()), Some(LooksLike::MessagePack));
    assert_eq!(guess(Cbor.encode(&user).unwrap()), Some(LooksLike::Cbor));
    assert_eq!(guess(Kryo.encode("ein Wert").unwrap()), Some(LooksLike::Kryo { class: None }));
    assert_eq!(guess(Zstd::new(Json).encode(&user).unwrap()), Some(LooksLike::Zstd));
    let class = Some("java.util.ArrayList".to_owned());
    let list = b"\x01\x00java.util.ArrayLis\xf4\x03\x82a\x02\x02";
    assert_eq!(guess(Bytes::from_static(list)), Some(LooksLike::Kryo { class }));
    rejects::<_, u32>(
        Json,
        list,
        "Json expected `u32`, found expected value at line 1 column 1; they look like Kryo (an object of class `java.util.ArrayList`)",
    );
    rejects::<_, u32>(
        Lz4::new(Json),
        b"{\"name\":1}",
        "Lz4<Json> expected a length of 4 bytes and a block of LZ4, found 10 bytes; they look like Json",
    );
    assert_eq!(refused::<_, u32>(&Json, b"{}").looks_like(), None, "its own is no news");
}

#[test]
fn no_error_has_the_value_in_it() {
    const SECRET: &str = "hunter2";
    #[derive(Debug, Serialize, Deserialize)]
    enum Choice {
        A,
    }
    fn silent<T: DeserializeOwned + Debug, V: Serialize>(value: &V) {
        each_serde!(codec => {
            let bytes = codec.encode(value).unwrap();
            if let Err(error) = Decode::<T>::decode(&codec, &bytes) {
                let told = format!("{error} {error:?}");
                assert!(!told.contains(SECRET) && !told.contains("4711"), "{told}");
            }
        });
    }
    silent::<u32, _>(&SECRET);
    silent::<Choice, _>(&SECRET);
    silent::<char, _>(&SECRET);
    silent::<IpAddr, _>(&SECRET);
    silent::<Vec<u8>, _>(&SECRET);
    silent::<BTreeMap<u8, u8>, _>(&BTreeMap::from([(SECRET, SECRET)]));
    silent::<Inner, _>(&BTreeMap::from([("list", SECRET)]));
    silent::<bool, _>(&4711);
    silent::<u8, _>(&4711);
    silent::<String, _>(&4711);
    silent::<(u8, u8), _>(&(SECRET, 4711));
    for error in [refused::<_, IpAddr>(&Text, SECRET.as_bytes()), refused::<_, i64>(&Long, SECRET.as_bytes())] {
        assert!(!error.to_string().contains(SECRET), "{error}");
    }
    let kryo = Kryo.encode(SECRET).unwrap();
    assert!(!refused::<_, i64>(&Kryo, &kryo).to_string().contains(SECRET));
}
