//! What is written is read again, and what cannot be is refused.

use std::collections::{BTreeMap, HashMap};
use std::fmt::Debug;
use std::net::IpAddr;

use redgrid_codecs::{
    Arithmetic, Bincode, Bytes, Cbor, Decode, DecodeError, Double, Encode, EncodeError, Json, Kryo, KryoValue, Long,
    Lz4, MAX_DEPTH, MessagePack, Numeric, Postcard, Raw, Text, Zstd,
};
use serde::{Deserialize, Serialize};

use crate::common::refused;

#[macro_use]
mod common;

fn there_and_back<C, T>(codec: &C, value: &T)
where
    C: Encode<T> + Decode<T>,
    T: Debug + PartialEq,
{
    let bytes = codec.encode(value).unwrap_or_else(|error| panic!("{error}: {value:?}"));
    let back = codec.decode(&bytes).unwrap_or_else(|error| panic!("{error}: {value:?}"));
    assert_eq!(&back, value, "{}", codec.name());
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
struct Inner {
    list: Vec<Option<i64>>,
    map: BTreeMap<u32, String>,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
enum Kind {
    Nothing,
    One(Inner),
    Two(i8, u64),
    Named { a: f64, b: (bool, char) },
}

fn kind(random: &mut fastrand::Rng) -> Kind {
    match random.u8(0..4) {
        0 => Kind::Nothing,
        1 => Kind::One(Inner {
            list: (0..random.usize(0..5)).map(|_| random.bool().then(|| random.i64(..))).collect(),
            map: (0..random.u32(0..5)).map(|key| (key * 100, text(random))).collect(),
        }),
        2 => Kind::Two(random.i8(..), random.u64(..)),
        _ => {
            let a = f64::from_bits(random.u64(..));
            Kind::Named { a: if a.is_finite() { a } else { 0.5 }, b: (random.bool(), random.char(..)) }
        }
    }
}

fn text(random: &mut fastrand::Rng) -> String {
    (0..random.usize(0..40)).map(|_| if random.bool() { random.alphanumeric() } else { random.char(..) }).collect()
}

#[test]
fn random_values_come_back() {
    let mut random = fastrand::Rng::with_seed(9);
    for _ in 0..300 {
        let value = (0..random.usize(0..4)).map(|_| kind(&mut random)).collect::<Vec<_>>();
        each_serde!(codec => there_and_back(&codec, &value));
    }
}

#[test]
fn extremes_come_back() {
    each_serde!(codec => {
        there_and_back(&codec, &(u64::MAX, i64::MIN, i64::MAX, u8::MAX, i8::MIN));
        there_and_back(&codec, &(u128::MAX, i128::MIN));
        there_and_back(&codec, &(f64::MAX, f64::MIN_POSITIVE, f32::MAX, 0.1_f32, 0.1 + 0.2, -0.0));
        there_and_back(&codec, &(String::new(), "\0\u{10ffff}".to_owned(), 'a', '\u{10ffff}'));
        there_and_back(&codec, &(Vec::<u8>::new(), Some(5), None::<u8>, ((), true)));
        there_and_back(&codec, &HashMap::from([(1_u8, vec!["x".to_owned()])]));
        there_and_back(&codec, &"ab".repeat(50_000));
        there_and_back(&codec, &vec![7_u32; 10_000]);
    });
    // JSON's refusal is below.
    for value in [f64::INFINITY, f64::NEG_INFINITY] {
        there_and_back(&MessagePack, &value);
        there_and_back(&Cbor, &value);
        there_and_back(&Postcard, &value);
        there_and_back(&Bincode, &value);
        there_and_back(&Double, &value);
    }
}

#[test]
fn random_doubles_are_exact() {
    let mut random = fastrand::Rng::with_seed(10);
    for _ in 0..20_000 {
        let value = f64::from_bits(random.u64(..));
        if value.is_finite() {
            there_and_back(&Json, &value);
            there_and_back(&Double, &value);
            there_and_back(&Text, &value);
        }
    }
}

#[test]
fn text_is_for_what_has_a_text() {
    there_and_back(&Text, &"gr\u{fc}n".to_owned());
    there_and_back(&Text, &String::new());
    there_and_back(&Text, &"10.0.0.1".parse::<IpAddr>().unwrap());
    there_and_back(&Text, &u128::MAX);
    assert_eq!(&Text.encode("5").unwrap()[..], b"5");
    let error = refused::<_, IpAddr>(&Text, b"10.0.0.256");
    assert_eq!(
        error.to_string(),
        "Text expected a `core::net::ip_addr::IpAddr` as text, found a text of 10 bytes that is none"
    );
    let error = refused::<_, String>(&Text, b"\xff");
    assert_eq!(error.to_string(), "Text expected a `alloc::string::String` as text, found bytes that are not UTF-8");
}

#[test]
fn long_is_what_the_server_counts_in() {
    there_and_back(&Long, &i64::MIN);
    there_and_back(&Long, &255_u8);
    there_and_back(&Long, &(i64::MAX as u64));
    let error = Encode::<u64>::encode(&Long, &(i64::MAX as u64 + 1)).unwrap_err();
    assert_eq!(error.to_string(), "Long writes whole numbers of up to 9223372036854775807, not a greater one");
    assert_eq!(
        refused::<_, u8>(&Long, b"256").to_string(),
        "Long expected a whole number that fits `u8`, found one that does not fit"
    );
    for bytes in [&b""[..], b" 1", b"1 ", b"1.0", b"9223372036854775808", b"x", b"\xff"] {
        refused::<_, i64>(&Long, bytes);
    }
    let kryo = Kryo.encode(&5_i64).unwrap();
    assert_eq!(
        refused::<_, i64>(&Long, &kryo).to_string(),
        "Long expected a whole number that fits `i64`, found 2 bytes; they look like Kryo"
    );
}

#[test]
fn the_server_adds_to_numbers_as_text() {
    fn arithmetic<T, C: Numeric<T>>(_: C) -> Arithmetic {
        C::ARITHMETIC
    }
    assert_eq!(arithmetic::<i64, _>(Long), Arithmetic::Integer);
    assert_eq!(arithmetic::<u32, _>(Text), Arithmetic::Integer);
    assert_eq!(arithmetic::<f64, _>(Double), Arithmetic::Float);
    assert_eq!(arithmetic::<f32, _>(Text), Arithmetic::Float);
    // As INCRBYFLOAT writes it.
    for (bytes, value) in [(&b"3"[..], 3.0), (b"5000000000000000000000", 5e21), (b"0.1", 0.1), (b"2.0E-7", 2e-7)] {
        assert_eq!(Decode::<f64>::decode(&Double, &Bytes::from_static(bytes)).unwrap(), value);
    }
}

#[test]
fn raw_is_bytes_and_arrays_have_their_length() {
    there_and_back(&Raw, &Bytes::from_static(b"\0\xff"));
    there_and_back(&Raw, &vec![1_u8, 2]);
    there_and_back(&Raw, &[1_u8, 2, 3]);
    assert_eq!(refused::<_, [u8; 3]>(&Raw, b"ab\xff\xff").to_string(), "Raw expected 3 bytes, found 4 bytes");
}

#[test]
fn kryo_reads_each_integer_that_fits_and_says_the_class() {
    let of = |value: &KryoValue| Kryo.encode(value).unwrap();
    assert_eq!(Decode::<i64>::decode(&Kryo, &of(&KryoValue::Integer(5))).unwrap(), 5);
    assert_eq!(Decode::<i8>::decode(&Kryo, &of(&KryoValue::Long(-128))).unwrap(), -128);
    assert_eq!(Decode::<f64>::decode(&Kryo, &of(&KryoValue::Float(1.5))).unwrap(), 1.5);
    assert_eq!(Decode::<Option<String>>::decode(&Kryo, &of(&KryoValue::Null)).unwrap(), None);
    let expected = "Kryo expected a Byte, Short, Integer or Long that fits `i8`, found java.lang.Integer";
    assert_eq!(refused::<_, i8>(&Kryo, &of(&KryoValue::Integer(128))).to_string(), expected);
    let expected = "Kryo expected a String, found null";
    assert_eq!(refused::<_, String>(&Kryo, &of(&KryoValue::Null)).to_string(), expected);
    let error = Kryo.encode(&'\u{1f600}').unwrap_err();
    assert_eq!(error.to_string(), "Kryo writes characters of 16 bits, not one of more");
    for (bytes, found) in [
        (&b"\x02\xff\xff\xff\xff\x10"[..], "a number of more bits than its class has"),
        (b"\x09", "the end too soon"),
        (b"\x09\x02\x02", "1 more byte behind a value"),
        (b"\x05\x02", "a boolean that is neither 0 nor 1"),
        (b"\x0c", "the class number 12, which Kryo has not"),
        (b"\x03\x82\xf0", "a character that Kryo does not write"),
        (b"\x03\x82\xed\xa0\xbd", "half a surrogate pair"),
        (b"\x07\x3d\xd8", "half a surrogate pair"),
        (b"\x01\x01", "a class that was not named"),
        (b"\x03\xff\xff\xff\xff\x7f", "a number of more bits than its class has"),
        (b"\x01\x00[\xc2\xff\xff\xff\xff\x07abc", "the end too soon"),
    ] {
        let error = refused::<_, KryoValue>(&Kryo, bytes).to_string();
        assert!(error.contains(&format!(", found {found}")), "{bytes:x?}: {error}");
    }
}

/// A list as a chain of boxes: two levels a link.
#[derive(Debug, PartialEq, Serialize, Deserialize)]
struct Link {
    next: Option<Box<Link>>,
}

/// The innermost is a level as well.
fn chain(links: usize) -> Link {
    (1..links).fold(Link { next: None }, |link, _| Link { next: Some(Box::new(link)) })
}

#[derive(Debug, PartialEq, Serialize, Deserialize)]
enum Nest {
    Leaf,
    One(Box<Nest>),
    Many(Vec<Nest>),
    Two(u8, Box<Nest>),
    Named { inner: Box<Nest> },
    Maybe(Option<Box<Nest>>),
    Keyed(BTreeMap<u8, Nest>),
}

#[test]
fn what_is_as_deep_as_the_limit_comes_back_and_deeper_is_refused_by_who_writes() {
    type Around = fn(Nest) -> Nest;
    let nests: [(usize, Around); 6] = [
        (1, |nest| Nest::One(nest.into())),
        (2, |nest| Nest::Many(vec![nest])),
        (2, |nest| Nest::Two(1, nest.into())),
        (2, |nest| Nest::Named { inner: nest.into() }),
        (2, |nest| Nest::Maybe(Some(nest.into()))),
        (2, |nest| Nest::Keyed(BTreeMap::from([(1, nest)]))),
    ];
    each_serde!(codec => {
        there_and_back(&codec, &chain(MAX_DEPTH / 2));
        assert!(matches!(codec.encode(&chain(MAX_DEPTH / 2 + 1)), Err(EncodeError::TooDeep { limit: MAX_DEPTH, .. })));
        assert!(matches!(codec.encode(&chain(10_000)), Err(EncodeError::TooDeep { .. })));
        for (levels, nest) in nests {
            let deep = |times: usize| (0..times).fold(Nest::Leaf, |inner, _| nest(inner));
            there_and_back(&codec, &deep(MAX_DEPTH / levels));
            assert!(matches!(codec.encode(&deep(MAX_DEPTH / levels + 1)), Err(EncodeError::TooDeep { .. })));
        }
        // Levels are given back: a wide value is not a deep one.
        there_and_back(&codec, &(0..200).map(|_| chain(30)).collect::<Vec<_>>());
    });
}

/// A newtype around a `Some` around a newtype: each is a level, and a byte of each format without names.
#[derive(Debug, PartialEq, Serialize, Deserialize)]
struct Around(Option<Box<Around>>);

#[test]
fn who_reads_counts_as_who_writes() {
    // 64 newtypes and 63 `Some`s; the next of each is beyond the limit.
    let deepest = [&b"\x01".repeat(63)[..], b"\x00"].concat();
    assert!(Decode::<Around>::decode(&Postcard, &deepest.clone().into()).is_ok());
    assert!(Decode::<Link>::decode(&Bincode, &deepest.clone().into()).is_ok());
    let deeper = [&b"\x01"[..], &deepest].concat();
    assert!(matches!(refused::<_, Around>(&Postcard, &deeper), DecodeError::TooDeep { .. }));
    assert!(matches!(refused::<_, Link>(&Bincode, &deeper), DecodeError::TooDeep { .. }));
    // Lists alone, up to the very limit.
    let mut lists = b"[".repeat(MAX_DEPTH);
    lists.extend(b"]".repeat(MAX_DEPTH));
    let nested: Lists = Json.decode(&lists.clone().into()).unwrap();
    assert_eq!(&Json.encode(&nested).unwrap()[..], &lists[..]);
    let deeper = [b"[", &lists[..], b"]"].concat();
    assert!(matches!(refused::<_, Lists>(&Json, &deeper), DecodeError::TooDeep { .. }));
}

/// Nothing but lists, without a newtype on the wire or in serde's eyes.
#[derive(Debug, PartialEq, Serialize, Deserialize)]
#[serde(transparent)]
struct Lists(Vec<Lists>);

#[test]
fn json_has_no_nan() {
    for value in [f64::NAN, f64::INFINITY] {
        let error = Json.encode(&vec![Some(value)]).unwrap_err();
        assert_eq!(error.to_string(), "Json writes finite numbers, not NaN or an infinity");
    }
    let error = Json.encode(&BTreeMap::from([((1, 2), 3)])).unwrap_err();
    assert!(error.to_string().contains("key must be a string"), "{error}");
}

#[test]
fn fields_come_and_go_where_they_have_names() {
    #[derive(Debug, PartialEq, Serialize, Deserialize)]
    struct Old {
        name: String,
        gone: Vec<Nest>,
    }
    #[derive(Debug, PartialEq, Serialize, Deserialize)]
    struct New {
        #[serde(default)]
        added: u8,
        name: String,
    }
    fn evolves<C: Encode<Old> + Decode<New>>(codec: C) {
        let old = Old { name: "Ada".into(), gone: vec![Nest::Two(1, Nest::Many(vec![Nest::Leaf]).into())] };
        assert_eq!(codec.decode(&codec.encode(&old).unwrap()).unwrap(), New { added: 0, name: "Ada".into() });
    }
    evolves(Json);
    evolves(MessagePack);
    evolves(Cbor);
}

#[test]
fn types_that_ask_what_comes_next_are_read_where_the_format_tells() {
    #[derive(Debug, PartialEq, Serialize, Deserialize)]
    #[serde(untagged)]
    enum Any {
        Number(i64),
        Float(f64),
        Text(String),
        List(Vec<Any>),
        Map(BTreeMap<String, Any>),
    }
    let value = Any::List(vec![
        Any::Number(-5),
        Any::Float(0.5),
        Any::Text("x".into()),
        Any::Map(BTreeMap::from([("a".into(), Any::List(vec![]))])),
    ]);
    there_and_back(&Json, &value);
    there_and_back(&MessagePack, &value);
    there_and_back(&Cbor, &value);
    let error = refused::<_, Any>(&Bincode, b"\x01");
    assert!(error.to_string().starts_with("Bincode expected `"), "{error}");
    let error = refused::<_, Any>(&Postcard, b"\x01");
    assert!(error.to_string().contains("which postcard does not tell"), "{error}");
}

#[test]
fn cbor_of_others_is_read() {
    #[derive(Debug, PartialEq, Deserialize)]
    struct Point {
        x: f64,
        y: f32,
        label: String,
    }
    let point = Point { x: 1.0, y: 2.0, label: "ab".into() };
    for bytes in [
        // Whole numbers for floats; half floats; a map and a string without lengths; the mark of CBOR in front.
        &b"\xa3\x61x\x01\x61y\x02\x65label\x62ab"[..],
        b"\xa3\x61x\xf9\x3c\x00\x61y\xf9\x40\x00\x65label\x62ab",
        b"\xbf\x61x\xfa\x3f\x80\x00\x00\x61y\x02\x65label\x7f\x61a\x61b\xff\xff",
        b"\xd9\xd9\xf7\xa3\x61x\x01\x61y\x02\x65label\x62ab",
    ] {
        assert_eq!(Decode::<Point>::decode(&Cbor, &Bytes::copy_from_slice(bytes)).unwrap(), point);
    }
}

#[test]
fn compressed_values_are_small_and_bounded() {
    let long = "ab".repeat(100_000);
    let sizes = [
        Lz4::new(Text).encode(&long).unwrap().len(),
        Zstd::new(Text).encode(&long).unwrap().len(),
        Lz4::new(Zstd::new(Text)).encode(&long).unwrap().len(),
    ];
    assert!(sizes.iter().all(|size| *size < 1_000), "{sizes:?}");
    there_and_back(&Lz4::new(Zstd::new(Text)), &long);
    there_and_back(&Lz4::new(Raw), &Vec::new());
    there_and_back(&Zstd::new(Raw), &Vec::new());
    // Random bytes do not compress; they come back all the same.
    let mut random = fastrand::Rng::with_seed(11);
    let noise = (0..10_000).map(|_| random.u8(..)).collect::<Vec<_>>();
    there_and_back(&Lz4::new(Raw), &noise);
    there_and_back(&Zstd::new(Raw), &noise);
    // What would be refused by who reads is refused by who writes.
    let small = Lz4::<_, 100>(Text);
    there_and_back(&small, &"a".repeat(100));
    let error = small.encode(&"a".repeat(101)).unwrap_err();
    assert_eq!(error.to_string(), "Lz4<Text> writes values of up to 100 bytes, and this one has 101");
    let error =
        refused::<_, String>(&Zstd::<_, 100>(Text), &Zstd::new(Text).encode(&"a".repeat(101)).unwrap()).to_string();
    assert_eq!(error, "Zstd<Text> decompresses up to 100 bytes, and this value says that it has 101");
}
