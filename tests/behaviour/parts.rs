//! Calls with many names and keys are split into chunks of 500, or of about 4 MiB, so that they
//! block a server only briefly.

use std::collections::BTreeMap;

use bytes::Bytes;
use redgrid_bucket::Buckets;
use redgrid_map::codecs::{Long, Raw};
use redgrid_map::{BackedError, Map, StoreError, Writer, async_trait};
use redgrid_tests::{calls_of, client, server};

/// Values of 1.5 MiB: three of them fill a chunk.
fn large(count: u64) -> BTreeMap<String, Bytes> {
    (0..count).map(|n| (format!("large:{n}"), Bytes::from(vec![b'x'; 3 << 19]))).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn buckets_are_sent_in_chunks_of_500_or_4_mib() {
    let server = server().await;
    let (client, observer) = (client(&server).await, server.observer().await.unwrap());
    let numbers: Buckets<u64, Long> = Buckets::<u64, Raw>::new(&client).with_codec(Long);
    let values: BTreeMap<String, u64> = (0..1201).map(|n| (format!("small:{n}"), n)).collect();
    numbers.set_each(&values).await.unwrap();
    assert_eq!(calls_of(&observer, "mset").await, 3);
    assert_eq!(numbers.get_each(values.keys()).await.unwrap(), values);
    assert_eq!(calls_of(&observer, "mget").await, 3);
    assert_eq!(numbers.delete_each(values.keys()).await.unwrap(), 1201);
    assert_eq!(calls_of(&observer, "del").await, 3);
    let bytes: Buckets<Bytes, Raw> = Buckets::new(&client);
    bytes.set_each(&large(7)).await.unwrap();
    assert_eq!(calls_of(&observer, "mset").await, 3 + 3);
}

#[tokio::test(flavor = "multi_thread")]
async fn maps_are_sent_in_chunks_of_500_or_4_mib() {
    let server = server().await;
    let (client, observer) = (client(&server).await, server.observer().await.unwrap());
    let numbers: Map<u64, u64, Long> = Map::new(&client, "numbers");
    let values: BTreeMap<u64, u64> = (0..1201).map(|n| (n, n)).collect();
    numbers.set_many(&values).await.unwrap();
    assert_eq!(calls_of(&observer, "hset").await, 3);
    assert_eq!(numbers.get_many(values.keys()).await.unwrap().len(), 1201);
    assert_eq!(calls_of(&observer, "hmget").await, 3);
    assert_eq!(numbers.remove_many(values.keys()).await.unwrap(), 1201);
    assert_eq!(calls_of(&observer, "hdel").await, 3);
    let bytes: Map<String, Bytes, Names, Raw> = Map::<String, Bytes, Names, Raw>::new(&client, "bytes");
    bytes.set_many(&large(7)).await.unwrap();
    assert_eq!(calls_of(&observer, "hset").await, 3 + 3);
}

type Names = redgrid_map::codecs::Text;

/// Accepts at most 500 entries per call: each chunk of a map is one call of its store.
struct Counts;

#[async_trait]
impl Writer<u64, u64> for Counts {
    async fn write(&self, entries: &[(u64, u64)]) -> Result<(), StoreError> {
        if entries.len() > 500 { Err("too many".into()) } else { Ok(()) }
    }

    async fn delete(&self, _keys: &[u64]) -> Result<(), StoreError> {
        Ok(())
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_store_gets_a_map_in_chunks() {
    let server = server().await;
    let (client, observer) = (client(&server).await, server.observer().await.unwrap());
    let map = Map::<u64, u64, Long>::new(&client, "numbers").backed().writer(Counts).build().unwrap();
    let stored: Result<(), BackedError> = map.set_many((0..1201).map(|n| (n, n))).await;
    stored.unwrap();
    assert_eq!(calls_of(&observer, "hset").await, 3);
}
