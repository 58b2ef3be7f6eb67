//! docs/redisson/interop.md: the shared objects, and all scenarios, written from their names.

use std::collections::BTreeMap;
use std::fmt::Write;
use std::path::Path;
use std::{env, fs};

use libtest_mimic::{Failed, Trial};

use crate::fixture::Scenario;

const HEAD: &str = "# Java and Rust at the same time

redgrid shares its objects with Redisson. Each scenario below uses the real Redisson in another process, and runs once
with each version of Redisson that the tests cover. [Moving from Redisson](redisson.md) and the page of each object
describe the differences between the two.

`cargo test -p redgrid-tests --test interop` runs all scenarios. Without Java, they are reported as skipped and counted
as ignored. In the name of a scenario, its file comes first, and `_` replaces each space. With
`-- queues_shared::each_waits` at its end, the command runs only the scenarios with this text in their names.

## What is shared

| redgrid | Redisson | shared |
|---|---|---|
| [`Lock`](../objects/locks.md) | RLock | hash, re-entry, watchdog, messages, forced unlock |
| [`FairLock`](../objects/fair-lock.md) | RFairLock | queue, its order, timeouts, the channel of each waiter |
| [`RwLock`](../objects/read-write-locks.md) | RReadWriteLock | hash, keys of readers, modes, messages |
| [`RwLock::fair`](../objects/read-write-locks.md) | in PRO only | the lock, not its queue |
| [`FencedLock`](../objects/fenced-lock.md) | RFencedLock | the counter |
| [`SpinLock`](../objects/spin-lock.md) | RSpinLock | hash; no messages |
| [`MultiLock`](../objects/multi-lock.md) | RMultiLock | its locks |
| [`QuorumLock`](../objects/quorum-lock.md) | replaces RedissonRedLock | nothing: RedissonRedLock does not detect servers that lost their memory |
| [`SegmentedLock`](../objects/segments.md), [`Election`](../objects/election.md), [`Fence`](../correctness/fencing.md), `detach` | – | the lock that they use: Java sees it as taken |
| [`PlainSemaphore`](../objects/semaphores.md) | RSemaphore | the number, messages |
| [`PermitExpirableSemaphore`](../objects/semaphores.md) | RPermitExpirableSemaphore | the number, permits with their ids, leases, messages |
| [`CountDownLatch`](../objects/countdown-latch.md) | RCountDownLatch | count, messages |
| [`RateLimiter`](../objects/rate-limiters.md) | RRateLimiter | the rate, its log, the remaining permits |
| [`IdGenerator`](../objects/ids.md) | RIdGenerator | the next block, its size |
| [`AtomicLong`, `AtomicDouble`](../objects/atomics.md) | RAtomicLong, RAtomicDouble | the number |
| [`LongAdder`, `DoubleAdder`](../objects/adders.md) | RLongAdder, RDoubleAdder | sums and resets of both sides, keys and messages |
| [`Bucket`](../objects/buckets.md) | RBucket | the value, its lifetime |
| [`Map`](../objects/maps.md) | RMap | entries; locks, semaphores and latches of keys |
| [`LocalCachedMap`](../objects/local-cached-maps.md) | RLocalCachedMap | entries, and messages about changes in both directions |
| [`MapCache`, `NativeMapCache`, `SetCache`](../objects/caches.md) | RMapCache, RMapCacheNative, RSetCache | entries, lifetimes, idle times, limits, events |
| [`SetMultimap`, `ListMultimap` and those with lifetimes](../objects/multimaps.md) | RSetMultimap, RListMultimap, their caches and native caches | keys, hashes, values, lifetimes |
| [`List`](../objects/lists.md) | RList | elements, cursors of shared iterators |
| [`Set`, `ScoredSortedSet`, `LexSortedSet`](../objects/sets.md) | RSet, RScoredSortedSet, RLexSortedSet | values, scores, order |
| [`Queue`, `Deque`, `RingBuffer`](../objects/queues.md) | RQueue, RBlockingQueue, RDeque, RBlockingDeque, RRingBuffer | elements, capacities |
| [`DelayedQueue`](../objects/delayed-queues.md) | RDelayedQueue | elements, delays |
| [`PriorityQueue`](../objects/priority-queues.md) | replaces RPriorityQueue and its variants | nothing: it has keys of its own |
| [`ReliableQueue`](../objects/reliable-queue.md) | RReliableQueue (PRO) | nothing: it has keys of its own |
| [`Stream`](../objects/streams.md) | RStream | entries, groups, pending entries |
| [`Topic`, `PatternTopic`, `ShardedTopic`](../objects/topics.md) | RTopic, RPatternTopic, RShardedTopic | messages |
| [`ReliableTopic`](../objects/reliable-topics.md) | RReliableTopic | messages, subscribers |
| [`BitSet`, `BloomFilter`, `HyperLogLog`](../objects/bits.md) | RBitSet, RBloomFilter, RHyperLogLog | bits, integers in bits, hash and sizes of filters, counts |
| [`Geo`](../objects/geo.md) | RGeo | positions |
| [`Transaction`](../objects/transactions.md) | RTransaction | buckets, maps, sets; a commit respects locks of Java |
| [`Script`, `Batch`](../objects/scripts.md) | RScript, RBatch | values, and the scripts themselves |
| [`Keys`](../objects/keyspace.md) | RKeys | every key, with all that belongs to its object |

## Scenarios
";

/// Fails if the page does not list exactly these scenarios. `REWRITE=1` writes the page anew.
pub(crate) fn trial(scenarios: &[Scenario], versions: &[&str]) -> Trial {
    let wanted = written(scenarios, versions);
    Trial::test("table::names_every_scenario", move || {
        let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../docs/redisson/interop.md");
        if env::var_os("REWRITE").is_some() {
            fs::write(&path, &wanted)?;
        }
        match fs::read_to_string(&path)? == wanted {
            true => Ok(()),
            false => Err(Failed::from("docs/redisson/interop.md is not as the scenarios are: run this with REWRITE=1")),
        }
    })
}

fn written(scenarios: &[Scenario], versions: &[&str]) -> String {
    let mut files: BTreeMap<&str, Vec<String>> = BTreeMap::new();
    for scenario in scenarios {
        let (file, name) = scenario.name.split_once("::").unwrap_or((scenario.name, ""));
        files.entry(file).or_default().push(name.replace('_', " "));
    }
    let mut text = format!("{HEAD}\n{} scenarios, with Redisson {}.\n", scenarios.len(), versions.join(" and "));
    for (file, mut names) in files {
        names.sort();
        let _ = writeln!(text, "\n### `{file}`: {}\n", names.len());
        for name in names {
            let _ = writeln!(text, "- {name}");
        }
    }
    text
}
