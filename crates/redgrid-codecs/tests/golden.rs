//! Golden bytes of each codec, which never change: old values must stay readable.

use std::collections::BTreeMap;
use std::fmt::Debug;

use redgrid_codecs::{
    Bincode, Bytes, Cbor, Codec, Decode, Double, Encode, Json, Kryo, KryoValue, Long, Lz4, MessagePack, Postcard, Raw,
    Text, Zstd,
};
use serde::{Deserialize, Serialize};

/// A value with every kind of type in serde's data model.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
struct Order {
    id: u64,
    owner: String,
    price: f64,
    rate: f32,
    delta: i16,
    paid: bool,
    grade: char,
    note: Option<String>,
    parent: Option<u8>,
    lines: Vec<(u32, i64)>,
    tags: BTreeMap<String, u8>,
    state: State,
    history: Vec<State>,
    nothing: (),
    key: Key,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
enum State {
    New,
    Sent(u32),
    Split(u8, String),
    Lost { since: i64 },
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
struct Key([u8; 3]);

fn order() -> Order {
    Order {
        id: 300,
        owner: "Ada \u{20ac}".to_owned(),
        price: 0.1,
        rate: 1.5,
        delta: -2,
        paid: true,
        grade: 'A',
        note: None,
        parent: Some(7),
        lines: vec![(1, -1), (70_000, i64::MAX)],
        tags: BTreeMap::from([("a".to_owned(), 1), ("b".to_owned(), 255)]),
        state: State::Sent(9),
        history: vec![State::New, State::Split(1, "x".to_owned()), State::Lost { since: -5 }],
        nothing: (),
        key: Key([1, 2, 255]),
    }
}

fn matches_golden<C: Encode<Order> + Decode<Order>>(codec: C, golden: &str) {
    let bytes = codec.encode(&order()).unwrap();
    assert_eq!(hex(&bytes), golden, "{} writes", codec.name());
    assert_eq!(codec.decode(&bytes).unwrap(), order(), "{} reads", codec.name());
}

#[test]
fn json() {
    let golden = concat!(
        r#"{"id":300,"owner":"Ada €","price":0.1,"rate":1.5,"delta":-2,"paid":true,"grade":"A","note":null,"parent":7,"#,
        r#""lines":[[1,-1],[70000,9223372036854775807]],"tags":{"a":1,"b":255},"state":{"Sent":9},"#,
        r#""history":["New",{"Split":[1,"x"]},{"Lost":{"since":-5}}],"nothing":null,"key":[1,2,255]}"#,
    );
    matches_golden(Json, &hex(golden.as_bytes()));
}

#[test]
fn bincode() {
    matches_golden(
        Bincode,
        concat!(
            "fb2c010741646120e282ac9a9999999999b93f0000c03f030141000107020101fc70110100fdfeffffffffffffff02016101",
            "0162ff010903000201017803090102ff",
        ),
    );
}

#[test]
fn postcard() {
    matches_golden(
        Postcard,
        concat!(
            "ac020741646120e282ac9a9999999999b93f0000c03f03010141000107020101f0a204feffffffffffffffff010201610101",
            "62ff010903000201017803090102ff",
        ),
    );
}

#[test]
fn messagepack() {
    matches_golden(
        MessagePack,
        concat!(
            "8fa26964cd012ca56f776e6572a741646120e282aca57072696365cb3fb999999999999aa472617465ca3fc00000a564656c",
            "7461fea470616964c3a56772616465a141a46e6f7465c0a6706172656e7407a56c696e6573929201ff92ce00011170cf7fff",
            "ffffffffffffa47461677382a16101a162ccffa5737461746581a453656e7409a7686973746f727993a34e657781a553706c",
            "69749201a17881a44c6f737481a573696e6365fba76e6f7468696e67c0a36b6579930102ccff",
        ),
    );
}

#[test]
fn cbor() {
    matches_golden(
        Cbor,
        concat!(
            "af62696419012c656f776e65726741646120e282ac657072696365fb3fb999999999999a6472617465fa3fc000006564656c",
            "7461216470616964f56567726164656141646e6f7465f666706172656e7407656c696e657382820120821a000111701b7fff",
            "ffffffffffff6474616773a2616101616218ff657374617465a16453656e740967686973746f727983634e6577a16553706c",
            "697482016178a1644c6f7374a16573696e636524676e6f7468696e6780636b657983010218ff",
        ),
    );
}

/// The class `User` in Golden.java.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
struct User {
    active: Option<bool>,
    name: String,
    score: f64,
    tags: Vec<String>,
    visits: i32,
}

/// Redisson wrote `written.tsv`; `Golden.java` in the same folder describes how.
#[test]
fn bytes_of_redisson_are_read_and_written() {
    let lines = include_str!("redisson/written.tsv").lines();
    let mut seen = 0;
    for line in lines {
        let [codec, what, golden] = line.split('\t').collect::<Vec<_>>()[..] else { panic!("{line}") };
        let golden = Bytes::from(unhex(golden));
        match codec {
            "Kryo" => kryo(what, &golden),
            "Lz4<Kryo>" => compressed(Lz4::new(Kryo), what, &golden),
            "Zstd<Kryo>" => compressed(Zstd::new(Kryo), what, &golden),
            "Double" => same(Double, number(what).parse::<f64>().unwrap(), &golden),
            "Long" => same(Long, number(what).parse::<i64>().unwrap(), &golden),
            "Text" => same(Text, number(what).to_owned(), &golden),
            "Raw" => same(Raw, unhex(number(what)), &golden),
            "Json" => same(Json, user(), &golden),
            // Java does not know the number of fields in advance, and writes a map of indefinite
            // length. Our encoding is shorter.
            "Cbor" => assert_eq!(Decode::<User>::decode(&Cbor, &golden).unwrap(), user()),
            "MessagePack" => same(MessagePack, user(), &golden),
            "Lz4<Json>" => assert_eq!(Decode::<User>::decode(&Lz4::new(Json), &golden).unwrap(), user()),
            "Zstd<Json>" => assert_eq!(Decode::<User>::decode(&Zstd::new(Json), &golden).unwrap(), user()),
            other => panic!("{other}"),
        }
        seen += 1;
    }
    assert_eq!(seen, 118);
}

fn user() -> User {
    User { active: Some(true), name: "Ada".into(), score: 1.5, tags: vec!["a".into(), "b".into()], visits: 3 }
}

fn kryo(what: &str, golden: &Bytes) {
    let (kind, value) = what.split_once(' ').unwrap_or((what, ""));
    match kind {
        "null" => {
            same(Kryo, (), golden);
            same(Kryo, None::<i64>, golden);
            same(Kryo, KryoValue::Null, golden);
        }
        "i8" => both(value.parse::<i8>().unwrap(), KryoValue::Byte, golden),
        "i16" => both(value.parse::<i16>().unwrap(), KryoValue::Short, golden),
        "i32" => both(value.parse::<i32>().unwrap(), KryoValue::Integer, golden),
        "i64" => both(value.parse::<i64>().unwrap(), KryoValue::Long, golden),
        "f32" => both(value.parse::<f32>().unwrap(), KryoValue::Float, golden),
        "f64" => both(value.parse::<f64>().unwrap(), KryoValue::Double, golden),
        "bool" => both(value.parse::<bool>().unwrap(), KryoValue::Boolean, golden),
        "char" => both(value.parse::<char>().unwrap(), KryoValue::Character, golden),
        "str" => both(value.to_owned(), KryoValue::String, golden),
        "rep" => both(repeated(value), KryoValue::String, golden),
        "bytes" => both(Bytes::from(unhex(value)), KryoValue::Bytes, golden),
        "zeros" => both(Bytes::from(vec![0; value.parse().unwrap()]), KryoValue::Bytes, golden),
        "class" => {
            let refused = Decode::<KryoValue>::decode(&Kryo, golden).unwrap_err().to_string();
            assert!(refused.ends_with(&format!(", found an object of class `{value}`")), "{refused}");
        }
        other => panic!("{other}"),
    }
}

/// Checks a value as its own type, in an option, and as any value.
fn both<T>(value: T, any: fn(T) -> KryoValue, golden: &Bytes)
where
    Kryo: Encode<T> + Decode<T>,
    T: Debug + PartialEq + Clone,
{
    same::<Kryo, T>(Kryo, value.clone(), golden);
    same::<Kryo, Option<T>>(Kryo, Some(value.clone()), golden);
    same::<Kryo, KryoValue>(Kryo, any(value), golden);
}

/// Java's compressors find other matches than ours, so only the decoded values are compared.
fn compressed(codec: impl Encode<KryoValue> + Decode<KryoValue>, what: &str, golden: &Bytes) {
    let value = match what.split_once(' ').unwrap() {
        ("rep", value) => KryoValue::String(repeated(value)),
        ("i64", value) => KryoValue::Long(value.parse().unwrap()),
        (_, value) => KryoValue::String(value.to_owned()),
    };
    assert_eq!(codec.decode(golden).unwrap(), value);
    assert_eq!(codec.decode(&codec.encode(&value).unwrap()).unwrap(), value);
}

fn same<C, T>(codec: C, value: T, golden: &Bytes)
where
    C: Codec + Encode<T> + Decode<T>,
    T: Debug + PartialEq,
{
    assert_eq!(hex(&codec.encode(&value).unwrap()), hex(golden), "{} writes {value:?}", codec.name());
    let read = codec.decode(golden).unwrap();
    // NaN is not equal to itself.
    assert!(read == value || format!("{read:?}") == format!("{value:?}"), "{} reads {read:?}", codec.name());
}

/// Expands `x 70` to `x` repeated 70 times.
fn repeated(value: &str) -> String {
    let (what, times) = value.split_once(' ').unwrap();
    what.repeat(times.parse().unwrap())
}

fn number(what: &str) -> &str {
    what.split_once(' ').unwrap().1
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

fn unhex(text: &str) -> Vec<u8> {
    (0..text.len()).step_by(2).map(|at| u8::from_str_radix(&text[at..at + 2], 16).unwrap()).collect()
}
