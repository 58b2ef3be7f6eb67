//! Bytes of anybody's: nothing that is read panics, overflows the stack, takes room that its own length does not warrant, or
//! goes on without end. `REDGRID_FUZZ=100000` tries so many inputs for each codec in place of 4,000; a failure
//! says the seed, and `REDGRID_FUZZ_SEED` begins with another.

use std::collections::{BTreeMap, HashMap};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Mutex;
use std::time::{Duration, Instant};

use peak_alloc::PeakAlloc;
use redgrid_codecs::{
    Bincode, Bytes, Cbor, Decode, DecodeError, Double, Encode, Json, Kryo, KryoValue, Long, LooksLike, Lz4, MAX_DEPTH,
    MAX_SIZE, MessagePack, Postcard, Raw, Text, Zstd,
};
use serde::{Deserialize, Serialize};

#[global_allocator]
static ALLOCATOR: PeakAlloc = PeakAlloc;

/// What is measured is of the whole process, so one test at a time.
static MEASURED: Mutex<()> = Mutex::new(());

/// How many inputs for each codec.
fn inputs() -> u64 {
    std::env::var("REDGRID_FUZZ").ok().and_then(|count| count.parse().ok()).unwrap_or(4_000)
}

fn seed() -> u64 {
    std::env::var("REDGRID_FUZZ_SEED").ok().and_then(|seed| seed.parse().ok()).unwrap_or(1)
}

/// Every shape that can be nested in itself.
#[derive(Debug, PartialEq, Serialize, Deserialize)]
enum Tree {
    Leaf,
    Number(i64),
    Float(f64),
    Text(String),
    List(Vec<Tree>),
    Pair(Box<Tree>, Box<Tree>),
    Named { left: Option<Box<Tree>>, right: Wrapped },
    Keyed(BTreeMap<String, Tree>),
    Deeper(Box<Tree>),
}

#[derive(Debug, PartialEq, Serialize, Deserialize)]
struct Wrapped(Option<Box<Tree>>);

/// What is read by asking what comes next.
#[derive(Debug, Serialize, Deserialize)]
#[serde(untagged)]
enum Any {
    Flag(bool),
    Number(i64),
    Float(f64),
    Text(String),
    List(Vec<Any>),
    Map(HashMap<String, Any>),
}

fn tree(random: &mut fastrand::Rng, depth: u8) -> Tree {
    let next = |random: &mut fastrand::Rng| Box::new(tree(random, depth - 1));
    match if depth == 0 { random.u8(0..4) } else { random.u8(0..9) } {
        0 => Tree::Leaf,
        1 => Tree::Number(random.i64(..) >> random.u8(0..64)),
        2 => Tree::Float(random.f64()),
        3 => Tree::Text((0..random.usize(0..40)).map(|_| random.alphanumeric()).collect()),
        4 => Tree::List((0..random.usize(0..4)).map(|_| tree(random, depth - 1)).collect()),
        5 => Tree::Pair(next(random), next(random)),
        6 => Tree::Named { left: random.bool().then(|| next(random)), right: Wrapped(Some(next(random))) },
        7 => Tree::Keyed((0..random.usize(0..4)).map(|key| (key.to_string(), tree(random, depth - 1))).collect()),
        _ => Tree::Deeper(next(random)),
    }
}

/// `bytes` with a few things wrong.
fn spoil(random: &mut fastrand::Rng, mut bytes: Vec<u8>) -> Vec<u8> {
    for _ in 0..random.usize(1..4) {
        let at = random.usize(0..=bytes.len());
        match random.u8(0..7) {
            0 => bytes.truncate(at),
            1 => bytes.insert(at, random.u8(..)),
            // Lengths that are large in every format.
            2 => bytes.splice(at..at, [random.u8(..), 0xff, 0xff, 0xff, 0xff, 0x7f]).for_each(drop),
            3 => bytes.splice(at..at, [0xfd, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff]).for_each(drop),
            // The same again and again is deep.
            4 => {
                let end = bytes.len().min(at + random.usize(0..8));
                let part = bytes[at..end].repeat(random.usize(1..200));
                bytes.splice(at..at, part).for_each(drop);
            }
            _ if at < bytes.len() => bytes[at] ^= 1 << random.u8(0..8),
            _ => bytes.push(random.u8(..)),
        }
    }
    bytes
}

/// Reads it as a `T`; the room this takes is in proportion to the input.
fn read<C, T>(codec: &C, bytes: &[u8], extra: usize)
where
    C: Decode<T>,
{
    let input = Bytes::copy_from_slice(bytes);
    let before = ALLOCATOR.current_usage();
    ALLOCATOR.reset_peak_usage();
    let began = Instant::now();
    let outcome = catch_unwind(AssertUnwindSafe(|| codec.decode(&input).map(drop)));
    let (took, room) = (began.elapsed(), ALLOCATOR.peak_usage().saturating_sub(before));
    let name = codec.name();
    let Ok(outcome) = outcome else { panic!("{name} panics at {}", hex(bytes)) };
    // Elements of up to 100 bytes for each byte; and at each of 128 levels maps and lists with room for their first few, once
    // more where serde keeps them until it knows the type.
    assert!(
        room <= 128 * bytes.len() + 1024 * 1024 + extra,
        "{name} takes {room} bytes for {}: {outcome:?}",
        hex(bytes)
    );
    assert!(took < Duration::from_secs(20), "{name} takes {took:?} for {}", hex(bytes));
    if let Err(error) = outcome {
        assert!(error.to_string().len() < 1_000, "{error}");
    }
}

fn hex(bytes: &[u8]) -> String {
    let shown = bytes.iter().take(400).map(|byte| format!("{byte:02x}")).collect::<String>();
    format!("{} bytes {shown}", bytes.len())
}

/// Random bytes, and spoilt ones that `make` made, each given to `look`.
fn fuzz(make: impl Fn(&mut fastrand::Rng) -> Vec<u8>, look: impl Fn(&[u8])) {
    let _alone = MEASURED.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
    for count in 0..inputs() {
        let mut random = fastrand::Rng::with_seed(seed() + count);
        let input = match random.u8(0..4) {
            0 => (0..random.usize(0..80)).map(|_| random.u8(..)).collect(),
            _ => {
                let made = make(&mut random);
                spoil(&mut random, made)
            }
        };
        look(&input);
    }
}

/// A codec that knows serde, read as types of every kind.
fn fuzz_serde<C>(codec: C, extra: usize)
where
    C: Encode<Tree>
        + Decode<Tree>
        + Decode<Any>
        + Decode<Vec<u64>>
        + Decode<Vec<Vec<Vec<u8>>>>
        + Decode<HashMap<String, Option<String>>>
        + Decode<(u8, i128, char, f32, bool, [u16; 3])>
        + Decode<Vec<()>>
        + Decode<String>,
{
    let make = |random: &mut fastrand::Rng| codec.encode(&tree(random, 5)).unwrap().to_vec();
    fuzz(make, |input| {
        read::<C, Tree>(&codec, input, extra);
        read::<C, Any>(&codec, input, extra);
        read::<C, Vec<u64>>(&codec, input, extra);
        read::<C, Vec<Vec<Vec<u8>>>>(&codec, input, extra);
        read::<C, HashMap<String, Option<String>>>(&codec, input, extra);
        read::<C, (u8, i128, char, f32, bool, [u16; 3])>(&codec, input, extra);
        read::<C, Vec<()>>(&codec, input, extra);
        read::<C, String>(&codec, input, extra);
        LooksLike::guess(input);
    });
}

#[test]
fn json() {
    fuzz_serde(Json, 0);
}

#[test]
fn bincode() {
    fuzz_serde(Bincode, 0);
}

#[test]
fn postcard() {
    fuzz_serde(Postcard, 0);
}

#[test]
fn messagepack() {
    fuzz_serde(MessagePack, 0);
}

#[test]
fn cbor() {
    fuzz_serde(Cbor, 0);
}

/// A byte of LZ4 stands for 255, and so do the trees in them.
#[test]
fn lz4() {
    const LIMIT: usize = 16 * 1024;
    fuzz_serde(Lz4::<_, LIMIT>(Postcard), 129 * LIMIT);
}

/// Its decoder has a window and buffers of its own.
#[test]
fn zstd() {
    const LIMIT: usize = 16 * 1024;
    fuzz_serde(Zstd::<_, LIMIT>(Postcard), 129 * LIMIT + (9 << 20));
}

#[test]
fn kryo() {
    let make = |random: &mut fastrand::Rng| match random.u8(0..4) {
        0 => Kryo.encode(&random.i64(..)).unwrap().to_vec(),
        1 => Kryo.encode(&(0..random.usize(0..100)).map(|_| random.char(..)).collect::<String>()).unwrap().to_vec(),
        2 => Kryo.encode(&vec![7_u8; random.usize(0..100)]).unwrap().to_vec(),
        _ => [b"\x01\x00java.util.HashMa\xf0".as_slice(), &[random.u8(..); 20]].concat(),
    };
    fuzz(make, |input| {
        read::<_, KryoValue>(&Kryo, input, 0);
        read::<_, i8>(&Kryo, input, 0);
        read::<_, Option<String>>(&Kryo, input, 0);
        read::<_, Vec<u8>>(&Kryo, input, 0);
    });
}

#[test]
fn text_and_numbers() {
    let make = |random: &mut fastrand::Rng| match random.bool() {
        true => random.f64().to_string().into_bytes(),
        false => random.i64(..).to_string().into_bytes(),
    };
    fuzz(make, |input| {
        read::<_, String>(&Text, input, 0);
        read::<_, i64>(&Text, input, 0);
        read::<_, f64>(&Text, input, 0);
        read::<_, i64>(&Long, input, 0);
        read::<_, u8>(&Long, input, 0);
        read::<_, f64>(&Double, input, 0);
        read::<_, [u8; 5]>(&Raw, input, 0);
    });
}

/// A beginning that can be repeated makes a value of any depth.
fn bottomless<C: Decode<Tree> + Decode<Any>>(codec: C, level: &[u8]) {
    for depth in [MAX_DEPTH, MAX_DEPTH + 1, 1_000, 100_000] {
        read::<C, Tree>(&codec, &level.repeat(depth), 0);
        read::<C, Any>(&codec, &level.repeat(depth), 0);
    }
    let read: Result<Tree, _> = codec.decode(&level.repeat(100_000).into());
    assert!(matches!(read, Err(DecodeError::TooDeep { limit: MAX_DEPTH, .. })), "{}: {read:?}", codec.name());
}

#[test]
fn what_is_nested_without_end_is_refused() {
    let _alone = MEASURED.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
    bottomless(Json, b"{\"Deeper\":");
    bottomless(Json, b"{\"List\":[");
    bottomless(MessagePack, b"\x81\xa6Deeper");
    bottomless(MessagePack, b"\x81\xa4List\x91");
    bottomless(MessagePack, b"\x81\xa4List\xdd\xff\xff\xff\xff");
    bottomless(Cbor, b"\xa1\x66Deeper");
    bottomless(Cbor, b"\xa1\x64List\x9b\x7f\xff\xff\xff\xff\xff\xff\xff");
    bottomless(Bincode, b"\x08");
    bottomless(Bincode, b"\x04\xfd\xff\xff\xff\xff\xff\xff\xff\x7f");
    bottomless(Postcard, b"\x08");
    bottomless(Postcard, b"\x04\xff\xff\xff\xff\xff\xff\xff\xff\x7f");
    // A value that is skipped is walked through all the same.
    #[derive(Debug, Deserialize)]
    struct Nothing {}
    for (open, deep) in [(&b"{\"a\":"[..], &b"["[..]), (b"{\"a\":", b"{\"a\":")] {
        read::<_, Nothing>(&Json, &[open, &deep.repeat(100_000)].concat(), 0);
    }
    read::<_, Nothing>(&MessagePack, &[&b"\x81\xa1a"[..], &b"\x91".repeat(100_000)].concat(), 0);
    read::<_, Nothing>(&Cbor, &[&b"\xa1\x61a"[..], &b"\x81".repeat(100_000)].concat(), 0);
    read::<_, Nothing>(&Cbor, &[&b"\xa1\x61a"[..], &b"\xc1".repeat(100_000)].concat(), 0);
}

#[test]
fn what_takes_no_bytes_is_not_counted_without_end() {
    let _alone = MEASURED.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
    let bincode: Result<Vec<()>, _> = Bincode.decode(&Bytes::from_static(b"\xfd\xff\xff\xff\xff\xff\xff\xff\x7f"));
    assert!(matches!(bincode, Err(DecodeError::TooMany { limit: 65_536, .. })), "{bincode:?}");
    let postcard: Result<BTreeMap<(), ()>, _> =
        Postcard.decode(&Bytes::from_static(b"\xff\xff\xff\xff\xff\xff\xff\xff\x7f"));
    assert!(matches!(postcard, Err(DecodeError::TooMany { .. })), "{postcard:?}");
    // As many as are read are written, and not one more.
    let many = Postcard.encode(&vec![(); 65_536]).unwrap();
    assert_eq!(Decode::<Vec<()>>::decode(&Postcard, &many).unwrap().len(), 65_536);
    let error = Postcard.encode(&vec![(); 70_000]).unwrap_err();
    assert_eq!(error.to_string(), "Postcard writes up to 65536 elements that take no bytes, and this value has more");
}

#[test]
fn lengths_are_compared_with_what_there_is() {
    let _alone = MEASURED.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
    for bytes in [&b"\xfd\xff\xff\xff\xff\xff\xff\xff\x7f"[..], b"\xfc\xff\xff\xff\x7f", b"\xfc\xff\xff\xff\x0f ab"] {
        read::<_, String>(&Bincode, bytes, 0);
        read::<_, Vec<u64>>(&Bincode, bytes, 0);
        read::<_, Vec<String>>(&Bincode, bytes, 0);
    }
    read::<_, String>(&MessagePack, b"\xdb\xff\xff\xff\xff", 0);
    read::<_, Vec<[u64; 8]>>(&MessagePack, b"\xdd\xff\xff\xff\xff", 0);
    read::<_, String>(&Cbor, b"\x7b\x7f\xff\xff\xff\xff\xff\xff\xff", 0);
    read::<_, Vec<[u64; 8]>>(&Cbor, b"\x9b\x7f\xff\xff\xff\xff\xff\xff\xff", 0);
    read::<_, String>(&Kryo, b"\x03\xff\xff\xff\xff\x01", 0);
    read::<_, Vec<u8>>(&Kryo, b"\x01\x00[\xc2\xff\xff\xff\xff\x07", 0);
}

#[test]
fn what_decompresses_without_end_is_refused() {
    let _alone = MEASURED.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
    // 2 GiB of zeros, says the length; a limit is a limit.
    let said: Result<Bytes, _> = Lz4::new(Raw).decode(&Bytes::from_static(b"\x7f\xff\xff\xff\x00\x00\x00"));
    assert!(matches!(said, Err(DecodeError::TooLarge { size: 0x7fff_ffff, .. })), "{said:?}");
    // Within the limit, but not from three bytes.
    read::<_, Bytes>(&Lz4::<_, MAX_SIZE>(Raw), b"\x1f\xff\xff\xff\x00\x00\x00", 0);
    // A frame of much more than the length in front of it says.
    let frame = Zstd::new(Raw).encode(&vec![0; 60 << 20]).unwrap();
    let lie = [b"\x00\x00\x10\x00", &frame[4..]].concat();
    read::<_, Bytes>(&Zstd::new(Raw), &lie, 9 << 20);
    let refused: Result<Bytes, _> = Zstd::new(Raw).decode(&lie.into());
    assert!(refused.unwrap_err().to_string().contains("more bytes than the length in front says"));
    // A frame that asks for a window of 2 GiB: its header is magic, descriptor, window.
    let window = b"\x00\x00\x10\x00\x28\xb5\x2f\xfd\x00\xa8\x01\x00\x00";
    read::<_, Bytes>(&Zstd::new(Raw), window, 1 << 20);
    let refused: Result<Bytes, _> = Zstd::new(Raw).decode(&Bytes::from_static(window));
    assert!(refused.unwrap_err().to_string().contains("no frame of Zstandard"));
    // A length within the limit takes no room before the bytes are there.
    read::<_, Bytes>(&Zstd::<_, MAX_SIZE>(Raw), b"\x1f\xff\xff\xff\x28\xb5\x2f\xfd\x00\x58\x01\x00\x00", 4 << 20);
}
