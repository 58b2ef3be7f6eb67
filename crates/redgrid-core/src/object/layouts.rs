//! The keys of each type of object, derived from the key of its name.
//!
//! A layout lists the *primary keys* first, then the companions. An object exists while at least
//! one of its primary keys exists. A Bloom filter, a ring and a delayed queue have two primary
//! keys, all other types have one. Layouts omit keys that expire within seconds, and keys that
//! belong to a single client. docs/internals/keys.md lists all keys.

use bytes::Bytes;

use super::Layout;
pub use super::{alone, fence};
use crate::name::{companion, suffixed, tagged};

/// A type of object, and its keys.
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub struct Kind {
    /// The name of the type.
    pub name: &'static str,
    /// The keys of an object. They are deleted and renamed together, and expire together.
    pub keys: Layout,
    /// The number of primary keys, which come first. The object exists while at least one of them
    /// exists.
    pub primary_keys: usize,
    /// Further keys, which are renamed and copied with an object. They are not deleted with the
    /// object, and the object's lifetime does not apply to them.
    pub renamed_with: Layout,
}

/// Returns no keys.
pub fn none(_key: &[u8]) -> Vec<Bytes> {
    Vec::new()
}

/// Returns the keys of a list: its elements, and the cursor of its shared stream.
///
/// The cursor is deleted with the list, so a new list of the same name has a new cursor.
pub fn list(key: &[u8]) -> Vec<Bytes> {
    vec![Bytes::copy_from_slice(key), list_cursor(key)]
}

/// Returns the key of the cursor of a list's shared stream, as Redisson names it.
pub fn list_cursor(key: &[u8]) -> Bytes {
    [b"__redisson_list_cursor_", &*tagged(key)].concat().into()
}

/// Returns the keys of a fair lock, including those of its queue. A fair lock serves its waiters in
/// the order of arrival.
pub fn fair_lock(key: &[u8]) -> Vec<Bytes> {
    let queue = ["redisson_lock_queue", "redisson_lock_timeout", "redgrid_fair"];
    alone(key).into_iter().chain(queue.map(|prefix| companion(prefix, key))).collect()
}

/// Returns the key of a fenced lock's token counter.
///
/// This key is not deleted with the lock. Otherwise later tokens would be lower than earlier ones.
pub fn fenced_lock_token(key: &[u8]) -> Vec<Bytes> {
    vec![companion("redisson_lock_token", key)]
}

/// Returns the keys of a read-write lock.
///
/// Three keys store the lock, the announcements of waiting writers, and the reader that is allowed
/// to upgrade. The other keys belong to the entry gate of a fair read-write lock. The gate is a
/// fair lock. The holder of the gate is the next to enter the read-write lock.
pub fn rw_lock(key: &[u8]) -> Vec<Bytes> {
    let entry_gate = companion("redgrid_rw_line", key);
    let own = [Bytes::copy_from_slice(key), companion("redgrid_rw_wait", key), companion("redgrid_rw_upgrade", key)];
    own.into_iter().chain(fair_lock(&entry_gate)).collect()
}

/// Returns the keys of an election: a lock, and the value that its leader has published.
pub fn election(key: &[u8]) -> Vec<Bytes> {
    vec![Bytes::copy_from_slice(key), companion("redgrid_leader", key)]
}

/// Returns the keys of a semaphore, whether or not its permits have leases.
pub fn permit_expirable_semaphore(key: &[u8]) -> Vec<Bytes> {
    let [queue, living] = ["redgrid_semaphore_line", "redgrid_semaphore_living"].map(|prefix| companion(prefix, key));
    vec![Bytes::copy_from_slice(key), suffixed(key, "timeout"), queue, living]
}

/// Returns the keys of a latch: its count, and its generation.
pub fn countdown_latch(key: &[u8]) -> Vec<Bytes> {
    vec![Bytes::copy_from_slice(key), companion("redgrid_latch", key)]
}

/// Returns the keys of an id generator: the next block of ids, and the size of a block.
pub fn id_generator(key: &[u8]) -> Vec<Bytes> {
    vec![Bytes::copy_from_slice(key), suffixed(key, "allocation")]
}

/// Returns the keys of a rate limiter with one rate for all clients together.
///
/// If each client has a rate of its own, the clients' permits are in further keys that are not
/// listed here.
pub fn rate_limiter(key: &[u8]) -> Vec<Bytes> {
    vec![Bytes::copy_from_slice(key), suffixed(key, "value"), suffixed(key, "permits")]
}

/// Returns the keys of an object that stores nothing under the plain name. The keys are
/// `redgrid_<object>:{name}`, and `redgrid_<object>_<suffix>:{name}` for each suffix.
fn with_prefix(object: &str, suffixes: &[&str], key: &[u8]) -> Vec<Bytes> {
    let key_of = |suffix: &&str| companion(&format!("redgrid_{object}_{suffix}"), key);
    [companion(&format!("redgrid_{object}"), key)].into_iter().chain(suffixes.iter().map(key_of)).collect()
}

/// Returns the keys of a barrier.
pub fn barrier(key: &[u8]) -> Vec<Bytes> {
    with_prefix("barrier", &["waiting"], key)
}

/// Returns the keys of a double barrier.
pub fn double_barrier(key: &[u8]) -> Vec<Bytes> {
    with_prefix("double_barrier", &["waiting", "inside"], key)
}

/// Returns the keys of a phaser.
pub fn phaser(key: &[u8]) -> Vec<Bytes> {
    with_prefix("phaser", &["parties", "arrived"], key)
}

/// Returns the keys of a notify queue, which wakes one waiter at a time.
pub fn notify(key: &[u8]) -> Vec<Bytes> {
    with_prefix("notify", &["line", "notified"], key)
}

/// Returns the keys of a condition variable of a lock.
pub fn condition(key: &[u8]) -> Vec<Bytes> {
    with_prefix("condition", &["line", "notified"], key)
}

/// Returns the key of an event, which is either set or not.
pub fn event(key: &[u8]) -> Vec<Bytes> {
    with_prefix("event", &[], key)
}

/// Returns the keys of a Bloom filter: its bits and its configuration.
///
/// Both are primary keys: an empty filter has no bits, only a configuration.
pub fn bloom_filter(key: &[u8]) -> Vec<Bytes> {
    vec![Bytes::copy_from_slice(key), suffixed(key, "config")]
}

/// Returns the keys of a reliable topic: its messages, and the times at which its subscribers
/// expire.
pub fn reliable_topic(key: &[u8]) -> Vec<Bytes> {
    vec![Bytes::copy_from_slice(key), suffixed(key, "timeout")]
}

/// Returns the keys of a queue with acknowledged messages, in the order that its scripts need.
pub fn reliable_queue(key: &[u8]) -> Vec<Bytes> {
    let companions = ["bodies", "states", "ready", "delayed", "flight", "ends", "once", "until", "dead"];
    with_prefix("reliable_queue", &companions, key)
}

/// Returns the key that describes how a sharded object is divided. The shards are separate objects
/// in slots of their own.
pub fn sharded(key: &[u8]) -> Vec<Bytes> {
    vec![suffixed(key, "shards")]
}

/// Returns the keys of a map with a lifetime for each entry.
///
/// The keys store the entries, the options of the cache, and three instants for each entry: when
/// its lifetime ends, when its idle time ends, and when it was last used.
pub fn map_cache(key: &[u8]) -> Vec<Bytes> {
    let sets = ["redisson__timeout__set", "redisson__idle__set", "redisson__map_cache__last_access__set"];
    let sets = sets.into_iter().map(|prefix| companion(prefix, key));
    alone(key).into_iter().chain(sets).chain([suffixed(key, CACHE_OPTIONS)]).collect()
}

/// Suffix of the key with the options of a [`map_cache`].
pub(super) const CACHE_OPTIONS: &str = "redisson_options";

/// Suffix of the key with the expiry times of the multimap keys, for a multimap of sets.
pub const SET_MULTIMAP_ENDS: &str = "redisson_set_multimap_ttl";

/// Suffix of the key with the expiry times of the multimap keys, for a multimap of lists.
pub const LIST_MULTIMAP_ENDS: &str = "redisson_list_multimap_ttl";

/// Returns the Redis keys of a multimap: the first for the multimap keys, the second and the third
/// for their expiry times. A multimap of sets uses the second Redis key, a multimap of lists the
/// third.
///
/// The values of each multimap key are stored in a further Redis key. Its name contains a hash of
/// the multimap key. Those Redis keys are not listed here.
pub fn multimap(key: &[u8]) -> Vec<Bytes> {
    vec![Bytes::copy_from_slice(key), suffixed(key, SET_MULTIMAP_ENDS), suffixed(key, LIST_MULTIMAP_ENDS)]
}

/// Returns the keys of a delayed queue.
///
/// The first key stores all delayed elements. The second stores elements that were put back, and
/// elements that a Redisson client has moved there at the end of their delay. The third is
/// Redisson's own list of the elements that Redisson's clients have delayed; these elements are
/// also in the first key. The first two are the primary keys.
pub fn delayed_queue(key: &[u8]) -> Vec<Bytes> {
    let [delayed, redissons] =
        ["redisson_delay_queue_timeout", "redisson_delay_queue"].map(|prefix| companion(prefix, key));
    vec![delayed, Bytes::copy_from_slice(key), redissons]
}

/// Returns the keys of a ring: its elements and its capacity.
///
/// Both are primary keys: an empty ring keeps its capacity.
pub fn ring_buffer(key: &[u8]) -> Vec<Bytes> {
    vec![Bytes::copy_from_slice(key), companion("redisson_rb", key)]
}

const fn of(name: &'static str, keys: Layout) -> Kind {
    Kind { name, keys, primary_keys: 1, renamed_with: none }
}

/// All types of objects. Types that store something under the plain name come first.
pub static ALL: [Kind; 34] = [
    Kind { renamed_with: fence, ..of("bucket", alone) },
    Kind { renamed_with: fence, ..of("map", alone) },
    of("map cache", map_cache),
    of("multimap", multimap),
    Kind { renamed_with: fence, ..of("list", list) },
    of("set", alone),
    of("sorted set", alone),
    of("stream", alone),
    of("bit set", alone),
    Kind { primary_keys: 2, ..of("bloom filter", bloom_filter) },
    of("hyper log log", alone),
    of("geo", alone),
    of("reliable topic", reliable_topic),
    Kind { primary_keys: 2, ..of("delayed queue", delayed_queue) },
    of("priority queue", alone),
    Kind { primary_keys: 2, ..of("ring buffer", ring_buffer) },
    of("lock", alone),
    of("fair lock", fair_lock),
    Kind { renamed_with: fenced_lock_token, ..of("fenced lock", alone) },
    of("read-write lock", rw_lock),
    of("election", election),
    of("semaphore", permit_expirable_semaphore),
    of("latch", countdown_latch),
    of("atomic number", alone),
    of("id generator", id_generator),
    of("rate limiter", rate_limiter),
    of("gcra limiter", alone),
    of("barrier", barrier),
    of("double barrier", double_barrier),
    of("phaser", phaser),
    of("notify", notify),
    of("condition", condition),
    of("event", event),
    of("reliable queue", reliable_queue),
];

#[cfg(test)]
mod tests {
    use super::*;
    use crate::name::same_slot;

    #[test]
    fn all_keys_of_an_object_share_its_slot_and_are_different() {
        for name in ["a", "a{b}", "{a}:tag"] {
            for kind in ALL {
                let keys: Vec<_> = [(kind.keys)(name.as_bytes()), (kind.renamed_with)(name.as_bytes())].concat();
                for (at, key) in keys.iter().enumerate() {
                    assert!(same_slot(key, name.as_bytes()), "{}: {key:?}", kind.name);
                    assert!(!keys[..at].contains(key), "{}: {key:?}", kind.name);
                }
            }
        }
    }

    #[test]
    fn keys_are_those_that_the_objects_write() {
        let text =
            |keys: Vec<Bytes>| keys.iter().map(|key| String::from_utf8_lossy(key).into_owned()).collect::<Vec<_>>();
        assert_eq!(text(permit_expirable_semaphore(b"a"))[..2], ["a", "{a}:timeout"]);
        assert_eq!(text(countdown_latch(b"a")), ["a", "redgrid_latch:{a}"]);
        assert_eq!(text(map_cache(b"a"))[1], "redisson__timeout__set:{a}");
        assert_eq!(text(map_cache(b"{a}b"))[4], "{a}b:redisson_options");
        assert_eq!(text(double_barrier(b"a"))[1], "redgrid_double_barrier_waiting:{a}");
        assert_eq!(
            text(rw_lock(b"a"))[3..5],
            ["redgrid_rw_line:{a}", "redisson_lock_queue:redgrid_rw_line:{a}"],
            "the queue of a line is named after it"
        );
    }
}
