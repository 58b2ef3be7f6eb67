//! Collections in use while their slot moves, with their keys on both sides.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use redgrid_bits::BloomFilter;
use redgrid_bits::codecs::Long;
use redgrid_cache::{Lifetime, Limit, MapCache};
use redgrid_core::Client;
use redgrid_local_cached_map::{LocalCachedMap, Options};
use redgrid_reliable_queue::ReliableQueue;
use redgrid_set::Set;
use redgrid_testkit::{Cluster, RedisServer, wait_until};
use redgrid_tests::SOON;

use crate::fixture::{connected, patient, scenarios};

scenarios![
    a_bloom_filter_forgets_nothing_while_its_slot_moves,
    sets_are_combined_as_they_are_while_their_slot_moves,
    a_map_cache_keeps_entries_and_lifetimes_while_its_slot_moves,
    a_local_cached_map_returns_no_older_value_while_its_slot_moves,
    each_message_of_a_reliable_queue_is_delivered_once_while_its_slot_moves,
];

/// Work that continues until `over` is set, and the number of its completed steps.
#[derive(Clone, Default)]
struct Work {
    over: Arc<AtomicBool>,
    done: Arc<AtomicU64>,
}

impl Work {
    fn goes_on(&self) -> bool {
        !self.over.load(Ordering::Relaxed)
    }

    fn is_done(&self) {
        self.done.fetch_add(1, Ordering::Relaxed);
    }

    async fn until_more(&self) {
        let before = self.done.load(Ordering::Relaxed);
        wait_until(SOON, async || self.done.load(Ordering::Relaxed) > before + 10).await;
    }
}

/// Moves the slot of a name while the work goes on: first these keys, then no key for a while, then
/// all keys.
async fn moves<T>(cluster: &Cluster, name: &str, keys: &[&str], work: &Work, working: impl Future<Output = T>) -> T {
    let slot = cluster.slot_of(name).await.unwrap();
    let from = cluster.primary_of(slot).await.unwrap();
    let to: &RedisServer = cluster.nodes().iter().find(|node| node.addr() != from.addr()).unwrap();
    let moving = async {
        work.until_more().await;
        cluster.begin_migration(slot, to).await.unwrap();
        for key in keys {
            assert!(cluster.move_key(key).await.unwrap(), "{key} is there");
        }
        let began = Instant::now();
        wait_until(SOON, async || began.elapsed() > Duration::from_millis(300)).await;
        cluster.move_keys(slot).await.unwrap();
        cluster.finish_migration(slot).await.unwrap();
        assert_eq!(cluster.primary_of(slot).await.unwrap().addr(), to.addr());
        // The work continues at the other node, too.
        work.until_more().await;
        work.over.store(true, Ordering::Relaxed);
    };
    let (done, ()) = tokio::join!(working, moving);
    let left: Vec<String> =
        from.observer().await.unwrap().query(&["CLUSTER", "GETKEYSINSLOT", &slot.to_string(), "9"]).await.unwrap();
    assert!(left.is_empty(), "nothing is left behind: {left:?}");
    done
}

async fn a_bloom_filter_forgets_nothing_while_its_slot_moves() {
    let cluster = Cluster::start(3, 0).await.unwrap();
    let client = connected(patient(&cluster)).await;
    let filter: BloomFilter<i64, Long> = BloomFilter::new(&client, "seen");
    filter.try_init(20_000, 0.000_1).await.unwrap();
    let work = Work::default();
    let adding = {
        let (filter, work) = (filter.clone(), work.clone());
        async move {
            let mut added = 0;
            while work.goes_on() {
                filter.add_many(&[2 * added, 2 * added + 1]).await.unwrap();
                assert_eq!(filter.contains_many(&[2 * added, added]).await.unwrap(), [true, true]);
                added += 1;
                work.is_done();
            }
            2 * added
        }
    };
    // The bits of the filter are then at one node, and its size is at the other.
    let added = moves(&cluster, "seen", &["seen"], &work, adding).await;
    let found = filter.contains_many(&(0..added).collect::<Vec<_>>()).await.unwrap();
    assert!(found.into_iter().all(|found| found), "all added elements are found");
    let count = filter.count().await.unwrap();
    assert!(count.abs_diff(added.unsigned_abs()) <= added.unsigned_abs() / 20 + 5, "{count} of {added}");
    let others = filter.contains_many(&(1_000_000..1_010_000).collect::<Vec<_>>()).await.unwrap();
    assert!(others.into_iter().filter(|found| *found).count() < 20);
}

async fn sets_are_combined_as_they_are_while_their_slot_moves() {
    let cluster = Cluster::start(3, 0).await.unwrap();
    let client = connected(patient(&cluster)).await;
    let work = Work::default();
    let combining = {
        let (client, work) = (client.clone(), work.clone());
        async move {
            let [a, b, c] = ["{t}:a", "{t}:b", "{t}:c"].map(|name| Set::<u64>::new(&client, name));
            let mut added = 0;
            while work.goes_on() {
                a.insert(&added).await.unwrap();
                if added % 2 == 0 {
                    b.insert(&added).await.unwrap();
                }
                added += 1;
                let both = added.div_ceil(2);
                assert_eq!(a.intersection(["{t}:b"]).store("{t}:c").await.unwrap(), both);
                assert_eq!(c.len().await.unwrap(), both);
                assert_eq!(a.union(["{t}:b"]).values().await.unwrap().len() as u64, added);
                assert_eq!(a.difference(["{t}:b"]).values().await.unwrap().len() as u64, added - both);
                work.is_done();
            }
            added
        }
    };
    let added = moves(&cluster, "{t}", &["{t}:b"], &work, combining).await;
    assert_eq!(Set::<u64>::new(&client, "{t}:a").len().await.unwrap(), added);
    assert_eq!(Set::<u64>::new(&client, "{t}:c").len().await.unwrap(), added.div_ceil(2));
}

async fn a_map_cache_keeps_entries_and_lifetimes_while_its_slot_moves() {
    const HOUR: Duration = Duration::from_secs(3600);
    let cluster = Cluster::start(3, 0).await.unwrap();
    let client = connected(patient(&cluster)).await;
    let map: MapCache<u64, u64> = MapCache::new(&client, "map");
    map.set_limit(Limit::least_recently_used(100_000)).await.unwrap();
    let work = Work::default();
    let putting = {
        let (map, work) = (map.clone(), work.clone());
        async move {
            let mut put = 0;
            while work.goes_on() {
                map.set(&put, &put).expires_in(HOUR).idle_for(2 * HOUR).await.unwrap();
                assert_eq!(map.get(&put).await.unwrap(), Some(put));
                // The first entry stays, and the other entry expires at once.
                assert_eq!(map.replace(&0, &put).await.unwrap(), Some(put.saturating_sub(1)));
                map.set(&u64::MAX, &put).expires_in(Duration::from_millis(1)).await.unwrap();
                put += 1;
                work.is_done();
            }
            put
        }
    };
    // The values move first, so their expiry times and last uses are at the other node for a while.
    let put = moves(&cluster, "map", &["map"], &work, putting).await;
    wait_until(SOON, async || map.len().await.unwrap() == put).await;
    for key in 0..put {
        let left = map.lifetime(&key).await.unwrap();
        assert!(matches!(left, Lifetime::Ends(left) if left <= HOUR && left > HOUR / 2), "{key}: {left:?}");
    }
    assert_eq!(map.limit().await.unwrap(), Some(Limit::least_recently_used(100_000)));
    map.set_limit(Limit::least_recently_used(1)).await.unwrap();
    for key in 0..put.div_ceil(100) {
        map.set(&(put + key), &0).await.unwrap();
    }
    assert_eq!(map.len().await.unwrap(), 1, "all entries are in the order of their use");
}

async fn a_local_cached_map_returns_no_older_value_while_its_slot_moves() {
    /// A bound of staleness far longer than the test, so that no entry is read again because of it.
    const UNBOUNDED: Duration = Duration::from_secs(3600);
    let cluster = Cluster::start(3, 0).await.unwrap();
    let (one, two) = (connected(patient(&cluster)).await, connected(patient(&cluster)).await);
    let of = |client: &Client| {
        LocalCachedMap::<String, u64>::with_options(client, "numbers", Options::default().max_stale(UNBOUNDED))
    };
    let (here, there) = (of(&one), of(&two));
    there.set("a", &0).await.unwrap();
    let until_cached = async |value: u64| {
        let from_cache = async || {
            let hits = here.stats().hits;
            here.get("a").await.unwrap() == Some(value) && here.stats().hits > hits
        };
        wait_until(SOON, from_cache).await;
    };
    until_cached(0).await;
    let work = Work::default();
    let writing = {
        let (here, there, work) = (here.clone(), there.clone(), work.clone());
        async move {
            let (mut written, mut read) = (0, 0);
            while work.goes_on() {
                written += 1;
                there.set("a", &written).await.unwrap();
                assert_eq!(there.get("a").await.unwrap(), Some(written), "its own write");
                // The other client never reads a value older than its last one, and soon reads the
                // newest.
                let newest = async || {
                    let got = here.get("a").await.unwrap().unwrap();
                    assert!(got >= read && got <= written, "{got} behind {read}");
                    read = got;
                    got == written
                };
                wait_until(SOON, newest).await;
                work.is_done();
            }
            written
        }
    };
    let written = moves(&cluster, "numbers", &["numbers"], &work, writing).await;
    until_cached(written).await;
    there.set("a", &(written + 1)).await.unwrap();
    until_cached(written + 1).await;
}

async fn each_message_of_a_reliable_queue_is_delivered_once_while_its_slot_moves() {
    const HOUR: Duration = Duration::from_secs(3600);
    let cluster = Cluster::start(3, 0).await.unwrap();
    let client = connected(patient(&cluster)).await;
    let queue: ReliableQueue<u64> = ReliableQueue::new(&client, "q");
    // While all its keys exist, the queue is in use at the source.
    queue.push(&0).lifetime(HOUR).deduplicate("once").await.unwrap();
    queue.push(&0).await.unwrap();
    drop(queue.receive().visibility(HOUR).await.unwrap());
    queue.receive().visibility(HOUR).await.unwrap().reject("no").await.unwrap();
    queue.push(&0).delay(HOUR).await.unwrap();
    queue.push(&0).await.unwrap();
    let (mut next, before) = (1, queue.counts().await.unwrap());
    for moved in [&[][..], &["redgrid_reliable_queue:{q}"]] {
        let work = Work::default();
        let working = {
            let (queue, work) = (queue.clone(), work.clone());
            async move {
                while work.goes_on() {
                    queue.push(&next).priority(1).await.unwrap();
                    let delivery = queue.receive().visibility(HOUR).await.unwrap();
                    assert_eq!((delivery.value().unwrap(), delivery.attempt()), (next, 1));
                    delivery.ack().await.unwrap();
                    next += 1;
                    work.is_done();
                }
                next
            }
        };
        next = moves(&cluster, "q", moved, &work, working).await;
        let after = queue.counts().await.unwrap();
        assert_eq!((after.ready, after.delayed, after.in_flight, after.dead), (before.ready, 1, 1, 1));
        assert_eq!(after.totals.pushed - before.totals.pushed, next - 1);
        assert_eq!(after.totals.acknowledged - before.totals.acknowledged, next - 1);
    }
}
