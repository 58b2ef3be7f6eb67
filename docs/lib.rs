//! The pages of docs/ and README.md as documentation: `cargo test --doc` compiles each of their Rust
//! blocks. A test in `crates/redgrid/tests` checks that each page is listed here.

#![cfg(doctest)]

macro_rules! pages {
    ($($name:ident $page:literal)*) => {
        $(
            #[doc = include_str!($page)]
            mod $name {}
        )*
    };
}

pages! {
    readme "../README.md"
    getting_started "getting-started.md"
    correctness_fencing "correctness/fencing.md"
    internals_adders "internals/adders.md"
    internals_barriers "internals/barriers.md"
    internals_batching "internals/batching.md"
    internals_fair_queue "internals/fair-queue.md"
    internals_ids "internals/ids.md"
    internals_keys "internals/keys.md"
    internals_latch_generations "internals/latch-generations.md"
    internals_multi_and_quorum_locks "internals/multi-and-quorum-locks.md"
    internals_scripts "internals/scripts.md"
    internals_transactions "internals/transactions.md"
    internals_waiting "internals/waiting.md"
    objects_adders "objects/adders.md"
    objects_atomics "objects/atomics.md"
    objects_barriers "objects/barriers.md"
    objects_bits "objects/bits.md"
    objects_buckets "objects/buckets.md"
    objects_caches "objects/caches.md"
    objects_codecs "objects/codecs.md"
    objects_countdown_latch "objects/countdown-latch.md"
    objects_election "objects/election.md"
    objects_fair_lock "objects/fair-lock.md"
    objects_fenced_lock "objects/fenced-lock.md"
    objects_geo "objects/geo.md"
    objects_ids "objects/ids.md"
    objects_keyspace "objects/keyspace.md"
    objects_lists "objects/lists.md"
    objects_local_cached_maps "objects/local-cached-maps.md"
    objects_locks "objects/locks.md"
    objects_maps "objects/maps.md"
    objects_multi_lock "objects/multi-lock.md"
    objects_multimaps "objects/multimaps.md"
    objects_objects "objects/objects.md"
    objects_queues "objects/queues.md"
    objects_quorum_lock "objects/quorum-lock.md"
    objects_rate_limiters "objects/rate-limiters.md"
    objects_read_write_locks "objects/read-write-locks.md"
    objects_reliable_queue "objects/reliable-queue.md"
    objects_scripts "objects/scripts.md"
    objects_segments "objects/segments.md"
    objects_semaphores "objects/semaphores.md"
    objects_sets "objects/sets.md"
    objects_sharded "objects/sharded.md"
    objects_spin_lock "objects/spin-lock.md"
    objects_streams "objects/streams.md"
    objects_topics "objects/topics.md"
    objects_transactions "objects/transactions.md"
    operating_acl "operating/acl.md"
    operating_configuration "operating/configuration.md"
    operating_observability "operating/observability.md"
    operating_performance "operating/performance.md"
    operating_security "operating/security.md"
    operating_topologies "operating/topologies.md"
    redisson_from_redisson "redisson/from-redisson.md"
    redisson_interop "redisson/interop.md"
    redisson_redisson "redisson/redisson.md"
}
