//! The delivery of a message to the tasks that wait for it.

use std::time::Duration;

use bytes::Bytes;
use criterion::{BenchmarkId, Criterion};
use redgrid_core::author::ClientExt;
use redgrid_core::{Client, Watch};
use tokio::runtime::{Builder, Runtime};

use crate::at_once::AtOnce;
use crate::thread_time::{ThreadTime, now};

/// Number of channels that the client watches.
const CHANNELS: [usize; 3] = [1, 1_000, 100_000];

/// Number of watchers of one channel.
const WATCHERS: usize = 1_000;

pub(super) fn measure(criterion: &mut Criterion<ThreadTime>) {
    let mut group = criterion.benchmark_group("hub");
    for channels in CHANNELS {
        let runtime = runtime();
        let (server, client) = runtime.block_on(async { AtOnce::start() });
        let mut watched: Vec<Watch> = runtime.block_on(watch(&client, (0..channels).map(channel)));
        group.bench_function(BenchmarkId::new("a message, of channels", channels), |bencher| {
            bencher.iter_custom(|messages| {
                runtime.block_on(async {
                    let began = now();
                    for message in 0..messages {
                        // Each message is for a different channel, in an irregular order.
                        let at = (message as usize).wrapping_mul(7919) % watched.len();
                        server.publish(watched[at].channel());
                        watched[at].wake().await;
                    }
                    now() - began
                })
            });
        });
    }

    let runtime = runtime();
    let (server, client) = runtime.block_on(async { AtOnce::start() });
    let mut watched = runtime.block_on(watch(&client, (0..WATCHERS).map(|_| channel(0))));
    group.bench_function(BenchmarkId::new("a message, of watchers", WATCHERS), |bencher| {
        bencher.iter_custom(|messages| {
            runtime.block_on(async {
                let began = now();
                for _ in 0..messages {
                    server.publish(&channel(0));
                    for watch in &mut watched {
                        watch.wake().await;
                    }
                }
                now() - began
            })
        });
    });
    group.bench_function("watch and leave a channel", |bencher| {
        bencher.iter_custom(|times| runtime.block_on(come_and_go(&client, times)));
    });
    group.finish();
}

fn runtime() -> Runtime {
    Builder::new_current_thread().enable_all().build().expect("a runtime")
}

fn channel(number: usize) -> Bytes {
    format!("redisson_lock__channel:{{name:{number}}}").into()
}

/// Returns watches of all channels, active and without pending messages.
async fn watch(client: &Client, channels: impl Iterator<Item = Bytes>) -> Vec<Watch> {
    let key = Bytes::from_static(b"name");
    let mut watched: Vec<Watch> = channels.map(|channel| client.watch_unpolled(channel, &key)).collect();
    while !watched.iter().all(Watch::is_active) {
        tokio::task::yield_now().await;
    }
    for watch in &mut watched {
        watch.take();
    }
    watched
}

async fn come_and_go(client: &Client, times: u64) -> Duration {
    let (key, new) = (Bytes::from_static(b"name"), channel(1));
    let began = now();
    for _ in 0..times {
        drop(client.watch_unpolled(new.clone(), &key));
    }
    now() - began
}
