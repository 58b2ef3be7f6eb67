//! Building requests, and reading replies as values.

use std::collections::HashMap;
use std::hint::black_box;

use bytes::Bytes;
use criterion::{BatchSize, Criterion};
use redgrid_core::{Reply, Request, Script};

use crate::thread_time::ThreadTime;

static SCRIPT: Script<1> = Script::new("bench", "return 1");

/// Number of elements of the longer replies.
const ELEMENTS: usize = 100;

pub(super) fn measure(criterion: &mut Criterion<ThreadTime>) {
    let mut group = criterion.benchmark_group("requests and replies");
    let (key, field) =
        (Bytes::from_static(b"orders:42"), Bytes::from_static(b"0b5b1f6e-9f7c-4f43-8f35-c5e2a5a5d8a0:7"));
    group.bench_function("a command with a key and an argument", |bencher| {
        bencher.iter(|| Request::command("SET").key(black_box(&key).clone()).arg(field.clone()));
    });
    group.bench_function("a script with a key and three arguments", |bencher| {
        bencher
            .iter(|| SCRIPT.with([black_box(&key).clone()]).arg(field.clone()).int(30_000).deadline_arg().idempotent());
    });

    let text = |number: usize| Reply::Bytes(format!("value-{number:05}").into());
    let texts = Reply::Array((0..ELEMENTS).map(text).collect());
    let fields = Reply::Array((0..2 * ELEMENTS).map(text).collect());
    let verdict = Reply::Array(vec![Reply::Int(1), Reply::Bytes("1700000000000000".into()), Reply::Int(0)]);
    // Only the reading is measured: the reply is created before the measurement.
    let mut read = |name: &str, reply: &Reply, as_value: fn(Reply) -> bool| {
        assert!(as_value(reply.clone()), "{name}");
        group.bench_function(name, |bencher| {
            bencher.iter_batched(|| reply.clone(), as_value, BatchSize::NumIterations(1_000));
        });
    };
    read("a number", &Reply::Int(42), |reply| reply.into_typed::<i64>().is_ok());
    read("a number that is text", &Reply::Bytes("4711000815".into()), |reply| reply.into_typed::<i64>().is_ok());
    read("a text", &text(1), |reply| reply.into_typed::<String>().is_ok());
    read("what a lock is answered", &verdict, |reply| reply.into_typed::<(i64, String, i64)>().is_ok());
    read("100 values", &texts, |reply| reply.into_typed::<Vec<Bytes>>().is_ok());
    read("100 fields and values", &fields, |reply| reply.into_typed::<HashMap<String, Bytes>>().is_ok());
    group.finish();
}
