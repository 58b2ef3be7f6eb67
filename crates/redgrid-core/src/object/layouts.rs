//! Which keys each type of object has, by the key of its name: the one table of them.
//!
//! First the keys by which the object exists (one, but for a Bloom filter, a ring and a delayed queue), then its companions. Keys
//! that end within seconds, and keys of a single client, are in no layout: docs/keys.md has all.

use bytes::Bytes;

use super::Layout;
pub use super::{alone, fence};
use crate::name::{companion, suffixed, tagged};

/// A type of objects by its keys.
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub struct Kind {
    /// Its name.
    pub name: &'static str,
    /// Its own keys: they are deleted, renamed and expire together.
    pub keys: Layout,
    /// The number of leading keys by which the object exists: each of them is enough.
    pub faces: usize,
    /// What goes along to another name, and else has a life of its own.
    pub along: Layout,
}

/// Nothing.
pub fn none(_key: &[u8]) -> Vec<Bytes> {
    Vec::new()
}

/// A list, and where those go on who share a stream of it: in a new list of that name they begin anew.
pub fn list(key: &[u8]) -> Vec<Bytes> {
    vec![Bytes::copy_from_slice(key), list_cursor(key)]
}

/// Redisson's key of such a place.
pub fn list_cursor(key: &[u8]) -> Bytes {
    [b"__redisson_list_cursor_", &*tagged(key)].concat().into()
}

/// The queue of a fair lock.
fn queue(key: &[u8]) -> [Bytes; 3] {
    ["redisson_lock_queue", "redisson_lock_timeout", "redgrid_fair"].map(|prefix| companion(prefix, key))
}

/// What tells who stands in the line of a fair semaphore.
fn line(key: &[u8]) -> [Bytes; 2] {
    ["redgrid_semaphore_line", "redgrid_semaphore_living"].map(|prefix| companion(prefix, key))
}

/// A lock that tasks wait for in the order of arrival, and its queue.
pub fn fair_lock(key: &[u8]) -> Vec<Bytes> {
    alone(key).into_iter().chain(queue(key)).collect()
}

/// The counter of a fenced lock's tokens: deleted with the lock, they would begin below those that were given.
pub fn fenced_lock_token(key: &[u8]) -> Vec<Bytes> {
    vec![companion("redisson_lock_token", key)]
}

/// A read-write lock: the words of writers that wait, who may upgrade, and the line of a fair one.
pub fn rw_lock(key: &[u8]) -> Vec<Bytes> {
    let in_line = companion("redgrid_rw_line", key);
    let own = [Bytes::copy_from_slice(key), companion("redgrid_rw_wait", key), companion("redgrid_rw_upgrade", key)];
    own.into_iter().chain(fair_lock(&in_line)).collect()
}

/// An election: a lock, and what its leader says.
pub fn election(key: &[u8]) -> Vec<Bytes> {
    vec![Bytes::copy_from_slice(key), companion("redgrid_leader", key)]
}

/// A semaphore, whose permits have leases or not.
pub fn permit_expirable_semaphore(key: &[u8]) -> Vec<Bytes> {
    [Bytes::copy_from_slice(key), suffixed(key, "timeout")].into_iter().chain(line(key)).collect()
}

/// A latch, and the number of its round.
pub fn countdown_latch(key: &[u8]) -> Vec<Bytes> {
    vec![Bytes::copy_from_slice(key), companion("redgrid_latch", key)]
}

/// A generator of ids.
pub fn id_generator(key: &[u8]) -> Vec<Bytes> {
    vec![Bytes::copy_from_slice(key), suffixed(key, "allocation")]
}

/// A limiter with the permits that all clients share; those of single clients are in keys of theirs.
pub fn rate_limiter(key: &[u8]) -> Vec<Bytes> {
    vec![Bytes::copy_from_slice(key), suffixed(key, "value"), suffixed(key, "permits")]
}

/// What has a key `redgrid_<object>:{name}` and none of the plain name.
fn of_parts(object: &str, parts: &[&str], key: &[u8]) -> Vec<Bytes> {
    let part = |part: &&str| companion(&format!("redgrid_{object}_{part}"), key);
    [companion(&format!("redgrid_{object}"), key)].into_iter().chain(parts.iter().map(part)).collect()
}

/// A barrier.
pub fn barrier(key: &[u8]) -> Vec<Bytes> {
    of_parts("barrier", &["waiting"], key)
}

/// A double barrier.
pub fn double_barrier(key: &[u8]) -> Vec<Bytes> {
    of_parts("double_barrier", &["waiting", "inside"], key)
}

/// A phaser.
pub fn phaser(key: &[u8]) -> Vec<Bytes> {
    of_parts("phaser", &["parties", "arrived"], key)
}

/// What notifies one of those who wait.
pub fn notify(key: &[u8]) -> Vec<Bytes> {
    of_parts("notify", &["line", "notified"], key)
}

/// A condition of a lock.
pub fn condition(key: &[u8]) -> Vec<Bytes> {
    of_parts("condition", &["line", "notified"], key)
}

/// An event that is set or not.
pub fn event(key: &[u8]) -> Vec<Bytes> {
    of_parts("event", &[], key)
}

/// A Bloom filter: its bits and its configuration. It exists by either key: an empty filter has no bits.
pub fn bloom_filter(key: &[u8]) -> Vec<Bytes> {
    vec![Bytes::copy_from_slice(key), suffixed(key, "config")]
}

/// A reliable topic: its messages, and when its subscribers end.
pub fn reliable_topic(key: &[u8]) -> Vec<Bytes> {
    vec![Bytes::copy_from_slice(key), suffixed(key, "timeout")]
}

/// A queue whose messages are acknowledged, in the order in which its scripts have the keys.
pub fn reliable_queue(key: &[u8]) -> Vec<Bytes> {
    let parts = ["bodies", "states", "ready", "delayed", "flight", "ends", "once", "until", "dead"];
    of_parts("reliable_queue", &parts, key)
}

/// How a sharded object is divided: its parts are objects of their own, in slots of their own.
pub fn sharded(key: &[u8]) -> Vec<Bytes> {
    vec![suffixed(key, "shards")]
}

/// A map whose entries have lifetimes: when those are over, when each was used, and what it is set to.
pub fn map_cache(key: &[u8]) -> Vec<Bytes> {
    let sets = ["redisson__timeout__set", "redisson__idle__set", "redisson__map_cache__last_access__set"];
    let sets = sets.into_iter().map(|prefix| companion(prefix, key));
    alone(key).into_iter().chain(sets).chain([suffixed(key, CACHE_OPTIONS)]).collect()
}

/// What stands behind the name of such a map for what it is set to.
pub(super) const CACHE_OPTIONS: &str = "redisson_options";

/// What stands behind the name of a multimap for the ends of its keys' lifetimes: of one of sets.
pub const SET_MULTIMAP_ENDS: &str = "redisson_set_multimap_ttl";

/// The same of lists.
pub const LIST_MULTIMAP_ENDS: &str = "redisson_list_multimap_ttl";

/// A multimap, and when its keys are over. The values of its keys are in keys of theirs, which only the hash tells.
pub fn multimap(key: &[u8]) -> Vec<Bytes> {
    vec![Bytes::copy_from_slice(key), suffixed(key, SET_MULTIMAP_ENDS), suffixed(key, LIST_MULTIMAP_ENDS)]
}

/// A delayed queue: its delayed elements, the elements that a Redisson client has found due or that were put back, and
/// the elements that a Redisson client has delayed. It exists by either of the first two keys.
pub fn delayed_queue(key: &[u8]) -> Vec<Bytes> {
    let [delayed, redissons] =
        ["redisson_delay_queue_timeout", "redisson_delay_queue"].map(|prefix| companion(prefix, key));
    vec![delayed, Bytes::copy_from_slice(key), redissons]
}

/// A ring: its elements and its capacity. It exists by either key: the capacity stays without elements.
pub fn ring_buffer(key: &[u8]) -> Vec<Bytes> {
    vec![Bytes::copy_from_slice(key), companion("redisson_rb", key)]
}

const fn of(name: &'static str, keys: Layout) -> Kind {
    Kind { name, keys, faces: 1, along: none }
}

/// All types of objects: those that have the plain name as their key first.
pub static ALL: [Kind; 34] = [
    Kind { along: fence, ..of("bucket", alone) },
    Kind { along: fence, ..of("map", alone) },
    of("map cache", map_cache),
    of("multimap", multimap),
    Kind { along: fence, ..of("list", list) },
    of("set", alone),
    of("sorted set", alone),
    of("stream", alone),
    of("bit set", alone),
    Kind { faces: 2, ..of("bloom filter", bloom_filter) },
    of("hyper log log", alone),
    of("geo", alone),
    of("reliable topic", reliable_topic),
    Kind { faces: 2, ..of("delayed queue", delayed_queue) },
    of("priority queue", alone),
    Kind { faces: 2, ..of("ring buffer", ring_buffer) },
    of("lock", alone),
    of("fair lock", fair_lock),
    Kind { along: fenced_lock_token, ..of("fenced lock", alone) },
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
                let keys: Vec<_> = [(kind.keys)(name.as_bytes()), (kind.along)(name.as_bytes())].concat();
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
