//! Names, and their keys, channels and slots.

use std::hint::black_box;

use criterion::Criterion;
use redgrid_core::Name;
use redgrid_core::name::{Namespace, companion, same_slot, slot_of, suffixed};

use crate::thread_time::ThreadTime;

pub(super) fn measure(criterion: &mut Criterion<ThreadTime>) {
    let mut group = criterion.benchmark_group("names");
    let (name, shop) = (Name::new("orders:42").expect("a name"), Namespace::new("shop").expect("a namespace"));
    let (key, tagged) = (shop.key(&name), &b"shop:orders:{42}:lines"[..]);
    group.bench_function("name", |bencher| bencher.iter(|| Name::new(black_box("orders:42"))));
    group.bench_function("key", |bencher| bencher.iter(|| shop.key(black_box(&name))));
    group.bench_function("channel", |bencher| {
        bencher.iter(|| companion("redisson_lock__channel", black_box(&key)));
    });
    group.bench_function("companion", |bencher| bencher.iter(|| companion("redgrid_latch", black_box(&key))));
    group.bench_function("suffixed", |bencher| bencher.iter(|| suffixed(black_box(&key), "timeout")));
    group.bench_function("slot", |bencher| bencher.iter(|| slot_of(black_box(&key))));
    group.bench_function("slot of a hash tag", |bencher| bencher.iter(|| slot_of(black_box(tagged))));
    group.bench_function("one slot", |bencher| bencher.iter(|| same_slot(black_box(&key), black_box(tagged))));
    group.finish();
}
