//! Untrusted bytes: decoding never panics, overflows the stack, allocates disproportionately to the
//! input, or loops forever.
//!
//! `REDGRID_FUZZ=100000` tries this many inputs for each codec instead of 4,000. A failure prints
//! the seed; `REDGRID_FUZZ_SEED` sets it.

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

/// The measured memory is that of the whole process, so only one test runs at a time.
static MEASURED: Mutex<()> = Mutex::new(());

/// Number of inputs for each codec.
fn inputs() -> u64 {
    std::env::var("REDGRID_FUZZ").ok().and_then(|count| count.parse().ok()).unwrap_or(4_000)
}

fn seed() -> u64 {
    std::env::var("REDGRID_FUZZ_SEED").ok().and_then(|seed| seed.parse().ok()).unwrap_or(1)
}

/// A type with every shape that can be nested in itself.
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

/// A type that needs a self-describing format.
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

/// Corrupts `bytes` in a few places.
fn corrupt(random: &mut fastrand::Rng, mut bytes: Vec<u8>) -> Vec<u8> {
    for _ in 0..random.usize(1..4) {
        let at = random.usize(0..=bytes.len());
        match random.u8(0..7) {
            0 => bytes.truncate(at),
            1 => bytes.insert(at, random.u8(..)),
            // Insert lengths that are large in every format.
            2 => bytes.splice(at..at, [random.u8(..), 0xff, 0xff, 0xff, 0xff, 0x7f]).for_each(drop),
            3 => bytes.splice(at..at, [0xfd, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff]).for_each(drop),
            // Repeat a part, which creates deep values.
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

/// Reads the bytes as a `T`, and checks that the memory used is proportional to the input.
fn read<C, T>(codec: &C, bytes: &[u8], extra: usize)
where
    C: Decode<T>,
{
    let input = Bytes::copy_from_slice(bytes);
    let before = ALLOCATOR.current_usage();
    ALLOCATOR.reset_peak_usage();
    let began = Instant::now();
    let outcome = catch_unwind(AssertUnwindSafe(|| codec.decode(&input).map(drop)));
    let took = began.elapsed();
    let memory = ALLOCATOR.peak_usage().saturating_sub(before);
    let name = codec.name();
    let Ok(outcome) = outcome else { panic!("{name} panics at {}", hex(bytes)) };
    // Each byte may be an element of up to 100 bytes. At each of 128 levels there may be maps and
    // lists with a capacity of a few elements, and a second copy where serde buffers them until it
    // knows the type.
    assert!(
        memory <= 128 * bytes.len() + 1024 * 1024 + extra,
        "{name} takes {memory} bytes for {}: {outcome:?}",
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

/// Passes random bytes, and corrupted bytes of `make`, to `look`.
fn fuzz(make: impl Fn(&mut fastrand::Rng) -> Vec<u8>, look: impl Fn(&[u8])) {
    let _alone = MEASURED.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
    for count in 0..inputs() {
        let mut random = fastrand::Rng::with_seed(seed() + count);
        let input = match random.u8(0..4) {
            0 => (0..random.usize(0..80)).map(|_| random.u8(..)).collect(),
            _ => {
                let made = make(&mut random);
                corrupt(&mut random, made)
            }
        };
        look(&input);
    }
}

/// Reads bytes with a serde codec as types of every kind.
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

/// A byte of LZ4 expands to 255 bytes, each of which may be an element of a tree.
#[test]
fn lz4() {
    const LIMIT: usize = 16 * 1024;
    fuzz_serde(Lz4::<_, LIMIT>(Postcard), 129 * LIMIT);
}

/// The decoder of Zstandard has its own window and buffers.
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
    let make = |random: &mut fastrand::Rng| {
        if random.bool() { random.f64().to_string().into_bytes() } else { random.i64(..).to_string().into_bytes() }
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

/// Repeats a prefix, which makes a value of any depth.
fn nested<C: Decode<Tree> + Decode<Any>>(codec: C, level: &[u8]) {
    for depth in [MAX_DEPTH, MAX_DEPTH + 1, 1_000, 100_000] {
        read::<C, Tree>(&codec, &level.repeat(depth), 0);
        read::<C, Any>(&codec, &level.repeat(depth), 0);
    }
    let read: Result<Tree, _> = codec.decode(&level.repeat(100_000).into());
    assert!(matches!(read, Err(DecodeError::TooDeep { limit: MAX_DEPTH, .. })), "{}: {read:?}", codec.name());
}

#[test]
fn endless_nesting_is_rejected() {
    let _alone = MEASURED.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
    nested(Json, b"{\"Deeper\":");
    nested(Json, b"{\"List\":[");
    nested(MessagePack, b"\x81\xa6Deeper");
    nested(MessagePack, b"\x81\xa4List\x91");
    nested(MessagePack, b"\x81\xa4List\xdd\xff\xff\xff\xff");
    nested(Cbor, b"\xa1\x66Deeper");
    nested(Cbor, b"\xa1\x64List\x9b\x7f\xff\xff\xff\xff\xff\xff\xff");
    nested(Bincode, b"\x08");
    nested(Bincode, b"\x04\xfd\xff\xff\xff\xff\xff\xff\xff\x7f");
    nested(Postcard, b"\x08");
    nested(Postcard, b"\x04\xff\xff\xff\xff\xff\xff\xff\xff\x7f");
    // A skipped value is also read.
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
fn elements_without_bytes_are_limited() {
    let _alone = MEASURED.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
    let bincode: Result<Vec<()>, _> = Bincode.decode(&Bytes::from_static(b"\xfd\xff\xff\xff\xff\xff\xff\xff\x7f"));
    assert!(matches!(bincode, Err(DecodeError::TooMany { limit: 65_536, .. })), "{bincode:?}");
    let postcard: Result<BTreeMap<(), ()>, _> =
        Postcard.decode(&Bytes::from_static(b"\xff\xff\xff\xff\xff\xff\xff\xff\x7f"));
    assert!(matches!(postcard, Err(DecodeError::TooMany { .. })), "{postcard:?}");
    // The maximum that is read is also the maximum that is written.
    let many = Postcard.encode(&vec![(); 65_536]).unwrap();
    assert_eq!(Decode::<Vec<()>>::decode(&Postcard, &many).unwrap().len(), 65_536);
    let error = Postcard.encode(&vec![(); 70_000]).unwrap_err();
    assert_eq!(error.to_string(), "Postcard writes up to 65536 elements that take no bytes, and this value has more");
}

#[test]
fn lengths_are_checked_against_the_input() {
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
fn unlimited_decompression_is_rejected() {
    let _alone = MEASURED.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
    // The length declares 2 GiB, above the limit.
    let result: Result<Bytes, _> = Lz4::new(Raw).decode(&Bytes::from_static(b"\x7f\xff\xff\xff\x00\x00\x00"));
    assert!(matches!(result, Err(DecodeError::TooLarge { size: 0x7fff_ffff, .. })), "{result:?}");
    // The length is within the limit, but three bytes cannot reach it.
    read::<_, Bytes>(&Lz4::<_, MAX_SIZE>(Raw), b"\x1f\xff\xff\xff\x00\x00\x00", 0);
    // A frame that is much larger than its length prefix.
    let frame = Zstd::new(Raw).encode(&vec![0; 60 << 20]).unwrap();
    let lie = [b"\x00\x00\x10\x00", &frame[4..]].concat();
    read::<_, Bytes>(&Zstd::new(Raw), &lie, 9 << 20);
    let refused: Result<Bytes, _> = Zstd::new(Raw).decode(&lie.into());
    assert!(refused.unwrap_err().to_string().contains("more bytes than the stated length"));
    // A frame that requires a window of 2 GiB: its header is magic, descriptor, window.
    let window = b"\x00\x00\x10\x00\x28\xb5\x2f\xfd\x00\xa8\x01\x00\x00";
    read::<_, Bytes>(&Zstd::new(Raw), window, 1 << 20);
    let refused: Result<Bytes, _> = Zstd::new(Raw).decode(&Bytes::from_static(window));
    assert!(refused.unwrap_err().to_string().contains("Zstandard cannot decompress"));
    // A declared length within the limit does not allocate memory before the bytes are read.
    read::<_, Bytes>(&Zstd::<_, MAX_SIZE>(Raw), b"\x1f\xff\xff\xff\x28\xb5\x2f\xfd\x00\x58\x01\x00\x00", 4 << 20);
}
