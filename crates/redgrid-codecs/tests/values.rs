//! Written values can be read again; values that cannot be read are rejected.

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

fn roundtrip<C, T>(codec: &C, value: &T)
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
fn random_values_roundtrip() {
    let mut random = fastrand::Rng::with_seed(9);
    for _ in 0..300 {
        let value = (0..random.usize(0..4)).map(|_| kind(&mut random)).collect::<Vec<_>>();
        each_serde!(codec => roundtrip(&codec, &value));
    }
}

#[test]
fn extremes_roundtrip() {
    each_serde!(codec => {
        roundtrip(&codec, &(u64::MAX, i64::MIN, i64::MAX, u8::MAX, i8::MIN));
        roundtrip(&codec, &(u128::MAX, i128::MIN));
        roundtrip(&codec, &(f64::MAX, f64::MIN_POSITIVE, f32::MAX, 0.1_f32, 0.1 + 0.2, -0.0));
        roundtrip(&codec, &(String::new(), "\0\u{10ffff}".to_owned(), 'a', '\u{10ffff}'));
        roundtrip(&codec, &(Vec::<u8>::new(), Some(5), None::<u8>, ((), true)));
        roundtrip(&codec, &HashMap::from([(1_u8, vec!["x".to_owned()])]));
        roundtrip(&codec, &"ab".repeat(50_000));
        roundtrip(&codec, &vec![7_u32; 10_000]);
    });
    // JSON rejects infinities, see below.
    for value in [f64::INFINITY, f64::NEG_INFINITY] {
        roundtrip(&MessagePack, &value);
        roundtrip(&Cbor, &value);
        roundtrip(&Postcard, &value);
        roundtrip(&Bincode, &value);
        roundtrip(&Double, &value);
    }
}

#[test]
fn random_doubles_are_exact() {
    let mut random = fastrand::Rng::with_seed(10);
    for _ in 0..20_000 {
        let value = f64::from_bits(random.u64(..));
        if value.is_finite() {
            roundtrip(&Json, &value);
            roundtrip(&Double, &value);
            roundtrip(&Text, &value);
        }
    }
}

#[test]
fn text_requires_display_and_from_str() {
    roundtrip(&Text, &"gr\u{fc}n".to_owned());
    roundtrip(&Text, &String::new());
    roundtrip(&Text, &"10.0.0.1".parse::<IpAddr>().unwrap());
    roundtrip(&Text, &u128::MAX);
    assert_eq!(&Text.encode("5").unwrap()[..], b"5");
    let error = refused::<_, IpAddr>(&Text, b"10.0.0.256");
    assert_eq!(
        error.to_string(),
        "Text expected a `core::net::ip_addr::IpAddr` as text, found another text of 10 bytes"
    );
    let error = refused::<_, String>(&Text, b"\xff");
    assert_eq!(error.to_string(), "Text expected a `alloc::string::String` as text, found bytes that are not UTF-8");
}

#[test]
fn long_is_the_integer_of_the_server() {
    roundtrip(&Long, &i64::MIN);
    roundtrip(&Long, &255_u8);
    roundtrip(&Long, &(i64::MAX as u64));
    let error = Encode::<u64>::encode(&Long, &(i64::MAX as u64 + 1)).unwrap_err();
    assert_eq!(error.to_string(), "Long writes whole numbers of up to 9223372036854775807, not a greater one");
    assert_eq!(
        refused::<_, u8>(&Long, b"256").to_string(),
        "Long expected a whole number that fits `u8`, found a number that does not fit"
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
    // Numbers in the format of INCRBYFLOAT.
    for (bytes, value) in [(&b"3"[..], 3.0), (b"5000000000000000000000", 5e21), (b"0.1", 0.1), (b"2.0E-7", 2e-7)] {
        assert_eq!(Decode::<f64>::decode(&Double, &Bytes::from_static(bytes)).unwrap(), value);
    }
}

#[test]
fn raw_is_bytes_and_arrays_have_their_length() {
    roundtrip(&Raw, &Bytes::from_static(b"\0\xff"));
    roundtrip(&Raw, &vec![1_u8, 2]);
    roundtrip(&Raw, &[1_u8, 2, 3]);
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
    assert_eq!(error.to_string(), "Kryo writes characters of 16 bits, not longer ones");
    for (bytes, found) in [
        (&b"\x02\xff\xff\xff\xff\x10"[..], "a number of more bits than its class has"),
        (b"\x09", "the end of the bytes"),
        (b"\x09\x02\x02", "1 more byte after a value"),
        (b"\x05\x02", "a boolean that is neither 0 nor 1"),
        (b"\x0c", "the class number 12, unknown to Kryo"),
        (b"\x03\x82\xf0", "a character that Kryo does not write"),
        (b"\x03\x82\xed\xa0\xbd", "half a surrogate pair"),
        (b"\x07\x3d\xd8", "half a surrogate pair"),
        (b"\x01\x01", "a class that was not named"),
        (b"\x03\xff\xff\xff\xff\x7f", "a number of more bits than its class has"),
        (b"\x01\x00[\xc2\xff\xff\xff\xff\x07abc", "the end of the bytes"),
    ] {
        let error = refused::<_, KryoValue>(&Kryo, bytes).to_string();
        assert!(error.contains(&format!(", found {found}")), "{bytes:x?}: {error}");
    }
}

/// A linked list of boxes: two levels for each link.
#[derive(Debug, PartialEq, Serialize, Deserialize)]
struct Link {
    next: Option<Box<Link>>,
}

/// Returns a linked list of boxes. The innermost link is a level, too.
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
fn writing_accepts_the_maximum_depth_and_rejects_more() {
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
        roundtrip(&codec, &chain(MAX_DEPTH / 2));
        assert!(matches!(codec.encode(&chain(MAX_DEPTH / 2 + 1)), Err(EncodeError::TooDeep { limit: MAX_DEPTH, .. })));
        assert!(matches!(codec.encode(&chain(10_000)), Err(EncodeError::TooDeep { .. })));
        for (levels, nest) in nests {
            let deep = |times: usize| (0..times).fold(Nest::Leaf, |inner, _| nest(inner));
            roundtrip(&codec, &deep(MAX_DEPTH / levels));
            assert!(matches!(codec.encode(&deep(MAX_DEPTH / levels + 1)), Err(EncodeError::TooDeep { .. })));
        }
        // Levels are released: a wide value is not a deep one.
        roundtrip(&codec, &(0..200).map(|_| chain(30)).collect::<Vec<_>>());
    });
}

/// A newtype around a `Some` around a newtype: each is a level, and one byte in each format without
/// names.
#[derive(Debug, PartialEq, Serialize, Deserialize)]
struct Around(Option<Box<Around>>);

#[test]
fn reading_counts_levels_as_writing_does() {
    // 64 newtypes and 63 `Some`s are allowed; one more of each exceeds the limit.
    let deepest = [&b"\x01".repeat(63)[..], b"\x00"].concat();
    assert!(Decode::<Around>::decode(&Postcard, &deepest.clone().into()).is_ok());
    assert!(Decode::<Link>::decode(&Bincode, &deepest.clone().into()).is_ok());
    let deeper = [&b"\x01"[..], &deepest].concat();
    assert!(matches!(refused::<_, Around>(&Postcard, &deeper), DecodeError::TooDeep { .. }));
    assert!(matches!(refused::<_, Link>(&Bincode, &deeper), DecodeError::TooDeep { .. }));
    // Lists alone, up to the limit.
    let mut lists = b"[".repeat(MAX_DEPTH);
    lists.extend(b"]".repeat(MAX_DEPTH));
    let nested: Lists = Json.decode(&lists.clone().into()).unwrap();
    assert_eq!(&Json.encode(&nested).unwrap()[..], &lists[..]);
    let deeper = [b"[", &lists[..], b"]"].concat();
    assert!(matches!(refused::<_, Lists>(&Json, &deeper), DecodeError::TooDeep { .. }));
}

/// A type of lists only: the newtype is neither in the encoding nor visible to serde.
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
fn fields_are_added_and_removed_in_formats_with_names() {
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
fn types_that_need_a_self_describing_format_are_read_by_those() {
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
    roundtrip(&Json, &value);
    roundtrip(&MessagePack, &value);
    roundtrip(&Cbor, &value);
    let error = refused::<_, Any>(&Bincode, b"\x01");
    assert!(error.to_string().starts_with("Bincode expected `"), "{error}");
    let error = refused::<_, Any>(&Postcard, b"\x01");
    assert!(error.to_string().contains("which postcard is not"), "{error}");
}

#[test]
fn cbor_of_other_encoders_is_read() {
    #[derive(Debug, PartialEq, Deserialize)]
    struct Point {
        x: f64,
        y: f32,
        label: String,
    }
    let point = Point { x: 1.0, y: 2.0, label: "ab".into() };
    for bytes in [
        // The inputs have integers for floats, half floats, a map and a string of indefinite
        // length, and a leading self-description tag.
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
    roundtrip(&Lz4::new(Zstd::new(Text)), &long);
    roundtrip(&Lz4::new(Raw), &Vec::new());
    roundtrip(&Zstd::new(Raw), &Vec::new());
    // Random bytes do not compress, but can be read again.
    let mut random = fastrand::Rng::with_seed(11);
    let noise = (0..10_000).map(|_| random.u8(..)).collect::<Vec<_>>();
    roundtrip(&Lz4::new(Raw), &noise);
    roundtrip(&Zstd::new(Raw), &noise);
    // Writing rejects values that reading would reject.
    let small = Lz4::<_, 100>(Text);
    roundtrip(&small, &"a".repeat(100));
    let error = small.encode(&"a".repeat(101)).unwrap_err();
    assert_eq!(error.to_string(), "Lz4<Text> writes values of up to 100 bytes, and this one has 101");
    let error =
        refused::<_, String>(&Zstd::<_, 100>(Text), &Zstd::new(Text).encode(&"a".repeat(101)).unwrap()).to_string();
    assert_eq!(error, "Zstd<Text> decompresses up to 100 bytes, and this value states a length of 101");
}
