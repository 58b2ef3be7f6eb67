//! Encoding and decoding. The values are an order of four lines, in each codec for structs, and
//! numbers and texts, in their codecs.

use std::fmt::Debug;
use std::hint::black_box;

use criterion::{BenchmarkGroup, Criterion};
use redgrid_codecs::{
    Bincode, Bytes, Cbor, Decode, Double, Encode, Json, Kryo, Long, Lz4, MessagePack, Natural, Postcard, Text, Zstd,
    element_hash, hash128,
};
use serde::{Deserialize, Serialize};

use crate::thread_time::ThreadTime;

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
struct Order {
    id: u64,
    customer: String,
    paid: bool,
    total: f64,
    note: Option<String>,
    lines: Vec<Line>,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
struct Line {
    product: String,
    count: u32,
    price: f64,
}

fn order(lines: u32) -> Order {
    let line = |number| Line { product: format!("product-{number:05}"), count: number + 1, price: 19.25 };
    Order {
        id: 4_711_000_815,
        customer: "customer-0042".into(),
        paid: true,
        total: 192.5,
        note: None,
        lines: (0..lines).map(line).collect(),
    }
}

/// Number of lines of an order that is large enough for compression: about 5 kB of JSON.
const MANY: u32 = 100;

pub(super) fn measure(criterion: &mut Criterion<ThreadTime>) {
    let mut group = criterion.benchmark_group("codecs");
    let (few, many) = (order(4), order(MANY));
    both(&mut group, "Json", &Json, &few);
    both(&mut group, "MessagePack", &MessagePack, &few);
    both(&mut group, "Cbor", &Cbor, &few);
    both(&mut group, "Postcard", &Postcard, &few);
    both(&mut group, "Bincode", &Bincode, &few);
    both(&mut group, "Json, 100 lines", &Json, &many);
    both(&mut group, "Lz4 of Json, 100 lines", &Lz4::<Json>::default(), &many);
    both(&mut group, "Zstd of Json, 100 lines", &Zstd::<Json>::default(), &many);
    both(&mut group, "Kryo, a text", &Kryo, &"customer-0042".to_owned());
    both(&mut group, "Kryo, a number", &Kryo, &4_711_000_815_i64);
    both(&mut group, "Text, a number", &Text, &4_711_000_815_i64);
    both(&mut group, "Long", &Long, &4_711_000_815_i64);
    both(&mut group, "Double", &Double, &192.5_f64);
    both(&mut group, "Natural", &Natural, &4_711_000_815_i64);
    let bytes = Json.encode(&few).expect("it can be written");
    group.bench_function("hash of an element", |bencher| bencher.iter(|| hash128(black_box(&bytes))));
    group.bench_function("name of an element", |bencher| bencher.iter(|| element_hash(black_box(&bytes))));
    group.finish();
}

/// Measures encoding a value, and decoding the result.
fn both<C, T>(group: &mut BenchmarkGroup<'_, ThreadTime>, name: &str, codec: &C, value: &T)
where
    C: Encode<T> + Decode<T>,
    T: Debug + PartialEq,
{
    let bytes: Bytes = codec.encode(value).expect("it can be written");
    assert_eq!(codec.decode(&bytes).expect("it can be read"), *value, "{name}");
    group.bench_function(format!("{name}: encode"), |bencher| bencher.iter(|| codec.encode(black_box(value))));
    group.bench_function(format!("{name}: decode"), |bencher| bencher.iter(|| codec.decode(black_box(&bytes))));
}
