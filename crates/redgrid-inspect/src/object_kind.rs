//! The types of objects, as far as the server's data distinguishes them.

use std::fmt;

use redgrid_core::object::layouts;
use redgrid_keys::Kind;

/// The type of an object.
///
/// Some types have the same form on the server, and are one kind here.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[non_exhaustive]
pub enum ObjectKind {
    /// A held lock with one holder.
    Lock,
    /// A held lock with a queue.
    FairLock,
    /// A held read-write lock.
    ReadWriteLock,
    /// The lock of an election, with its leader.
    Election,
    /// A fair semaphore without leases. Other semaphores without leases are [`Number`]s.
    ///
    /// [`Number`]: ObjectKind::Number
    Semaphore,
    /// A semaphore with leases.
    PermitExpirableSemaphore,
    /// A latch.
    CountDownLatch,
    /// A `RateLimiter`. A `GcraLimiter` is a [`Number`](ObjectKind::Number) or
    /// [`String`](ObjectKind::String).
    RateLimiter,
    /// A barrier.
    Barrier,
    /// A double barrier.
    DoubleBarrier,
    /// A phaser.
    Phaser,
    /// A `Notify`.
    Notify,
    /// A condition variable.
    Condition,
    /// An event.
    Event,
    /// A number in decimal: an atomic number, a semaphore without leases, or a bucket with a
    /// number.
    Number,
    /// The saved total of an adder.
    Adder,
    /// An id generator.
    IdGenerator,
    /// A reliable queue.
    ReliableQueue,
    /// A delayed queue.
    DelayedQueue,
    /// The capacity of a ring that has no elements. A ring with elements is a
    /// [`List`](ObjectKind::List).
    RingBuffer,
    /// A reliable topic.
    ReliableTopic,
    /// A Bloom filter.
    BloomFilter,
    /// Any other hash: a map, a multimap, the entries of a cache.
    Map,
    /// A map with lifetimes of its entries.
    MapCache,
    /// A set.
    Set,
    /// A sorted set: also positions, a priority queue.
    SortedSet,
    /// A list: also a queue.
    List,
    /// Any other string: a bucket, a bit set.
    String,
    /// A stream.
    Stream,
    /// A value of a server's module.
    Other,
    /// The user may not read it.
    Unknown,
}

impl ObjectKind {
    /// All kinds.
    pub const ALL: [ObjectKind; 31] = [
        ObjectKind::Lock,
        ObjectKind::FairLock,
        ObjectKind::ReadWriteLock,
        ObjectKind::Election,
        ObjectKind::Semaphore,
        ObjectKind::PermitExpirableSemaphore,
        ObjectKind::CountDownLatch,
        ObjectKind::RateLimiter,
        ObjectKind::Barrier,
        ObjectKind::DoubleBarrier,
        ObjectKind::Phaser,
        ObjectKind::Notify,
        ObjectKind::Condition,
        ObjectKind::Event,
        ObjectKind::Number,
        ObjectKind::Adder,
        ObjectKind::IdGenerator,
        ObjectKind::ReliableQueue,
        ObjectKind::DelayedQueue,
        ObjectKind::RingBuffer,
        ObjectKind::ReliableTopic,
        ObjectKind::BloomFilter,
        ObjectKind::Map,
        ObjectKind::MapCache,
        ObjectKind::Set,
        ObjectKind::SortedSet,
        ObjectKind::List,
        ObjectKind::String,
        ObjectKind::Stream,
        ObjectKind::Other,
        ObjectKind::Unknown,
    ];

    /// Returns the name for output, such as `read-write lock`.
    pub fn as_str(self) -> &'static str {
        match self {
            ObjectKind::Lock => "lock",
            ObjectKind::FairLock => "fair lock",
            ObjectKind::ReadWriteLock => "read-write lock",
            ObjectKind::Election => "election",
            ObjectKind::Semaphore => "semaphore",
            ObjectKind::PermitExpirableSemaphore => "leased semaphore",
            ObjectKind::CountDownLatch => "latch",
            ObjectKind::RateLimiter => "rate limiter",
            ObjectKind::Barrier => "barrier",
            ObjectKind::DoubleBarrier => "double barrier",
            ObjectKind::Phaser => "phaser",
            ObjectKind::Notify => "notify",
            ObjectKind::Condition => "condition",
            ObjectKind::Event => "event",
            ObjectKind::Number => "number",
            ObjectKind::Adder => "adder",
            ObjectKind::IdGenerator => "id generator",
            ObjectKind::ReliableQueue => "reliable queue",
            ObjectKind::DelayedQueue => "delayed queue",
            ObjectKind::RingBuffer => "ring buffer",
            ObjectKind::ReliableTopic => "reliable topic",
            ObjectKind::BloomFilter => "bloom filter",
            ObjectKind::Map => "map",
            ObjectKind::MapCache => "map cache",
            ObjectKind::Set => "set",
            ObjectKind::SortedSet => "sorted set",
            ObjectKind::List => "list",
            ObjectKind::String => "string",
            ObjectKind::Stream => "stream",
            ObjectKind::Other => "other",
            ObjectKind::Unknown => "unknown",
        }
    }

    /// Returns whether objects of this kind are locks.
    pub fn is_lock(self) -> bool {
        matches!(self, ObjectKind::Lock | ObjectKind::FairLock | ObjectKind::ReadWriteLock | ObjectKind::Election)
    }

    /// Returns whether objects of this kind are synchronizers, which
    /// [`Inspector::synchronizer`](crate::Inspector::synchronizer) reads.
    pub fn is_synchronizer(self) -> bool {
        matches!(
            self,
            ObjectKind::Election
                | ObjectKind::Semaphore
                | ObjectKind::PermitExpirableSemaphore
                | ObjectKind::CountDownLatch
                | ObjectKind::Barrier
                | ObjectKind::DoubleBarrier
                | ObjectKind::Phaser
                | ObjectKind::Notify
                | ObjectKind::Condition
                | ObjectKind::Event
        )
    }

    /// Returns the type of all keys by which a scan finds objects of this kind; `None` if it is not
    /// one.
    pub(crate) fn key_type(self) -> Option<Kind> {
        Some(match self {
            ObjectKind::Lock | ObjectKind::FairLock | ObjectKind::ReadWriteLock | ObjectKind::Election => Kind::Hash,
            ObjectKind::Map | ObjectKind::MapCache | ObjectKind::RateLimiter | ObjectKind::ReliableQueue => Kind::Hash,
            ObjectKind::Set => Kind::Set,
            ObjectKind::SortedSet => Kind::SortedSet,
            ObjectKind::List => Kind::List,
            ObjectKind::Stream | ObjectKind::ReliableTopic => Kind::Stream,
            ObjectKind::Number | ObjectKind::Semaphore | ObjectKind::PermitExpirableSemaphore => Kind::String,
            ObjectKind::CountDownLatch | ObjectKind::IdGenerator | ObjectKind::String => Kind::String,
            _ => return None,
        })
    }

    /// Returns whether objects of this kind have a key with their plain name. The others are known
    /// by their keys alone.
    pub(crate) fn has_plain_key(self) -> bool {
        !matches!(
            self,
            ObjectKind::Barrier
                | ObjectKind::DoubleBarrier
                | ObjectKind::Phaser
                | ObjectKind::Notify
                | ObjectKind::Condition
                | ObjectKind::Event
                | ObjectKind::Adder
                | ObjectKind::ReliableQueue
                | ObjectKind::DelayedQueue
                | ObjectKind::RingBuffer
        )
    }

    /// Returns the kind of an object by a key of its own, which is not that of the plain name.
    ///
    /// `object` is the key of the plain name.
    pub(crate) fn of_primary_key(wire: &[u8], object: &[u8]) -> Option<Self> {
        let is_it = |kind: &&layouts::Kind| {
            let keys = (kind.keys)(object);
            keys.iter().take(kind.primary_keys).any(|key| key[..] == *wire && key[..] != *object)
        };
        if wire.starts_with(b"redgrid_adder:") {
            return Some(ObjectKind::Adder);
        }
        let name = layouts::ALL.iter().find(is_it)?.name;
        ObjectKind::ALL.into_iter().find(|kind| kind.as_str() == name)
    }

    /// Returns the kind of what is stored under a plain name: the type of the value, and the word
    /// of classify.lua.
    pub(crate) fn of_stored(type_name: &str, word: &str) -> Self {
        match (type_name, word) {
            (_, "lock") => ObjectKind::Lock,
            (_, "fair") => ObjectKind::FairLock,
            (_, "rw") => ObjectKind::ReadWriteLock,
            (_, "election") => ObjectKind::Election,
            (_, "rate") => ObjectKind::RateLimiter,
            (_, "cache") => ObjectKind::MapCache,
            (_, "bloom") => ObjectKind::BloomFilter,
            (_, "leased") => ObjectKind::PermitExpirableSemaphore,
            (_, "semaphore") => ObjectKind::Semaphore,
            (_, "latch") => ObjectKind::CountDownLatch,
            (_, "ids") => ObjectKind::IdGenerator,
            (_, "number") => ObjectKind::Number,
            (_, "topic") => ObjectKind::ReliableTopic,
            ("hash", _) => ObjectKind::Map,
            ("string", _) => ObjectKind::String,
            ("set", _) => ObjectKind::Set,
            ("zset", _) => ObjectKind::SortedSet,
            ("list", _) => ObjectKind::List,
            ("stream", _) => ObjectKind::Stream,
            _ => ObjectKind::Other,
        }
    }
}

impl fmt::Display for ObjectKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.as_str())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_with_a_prefix_has_the_kind_of_its_layout() {
        let of = |wire: &str| ObjectKind::of_primary_key(wire.as_bytes(), b"a");
        for (wire, kind) in [
            ("redgrid_barrier:{a}", ObjectKind::Barrier),
            ("redgrid_double_barrier:{a}", ObjectKind::DoubleBarrier),
            ("redgrid_phaser:{a}", ObjectKind::Phaser),
            ("redgrid_notify:{a}", ObjectKind::Notify),
            ("redgrid_condition:{a}", ObjectKind::Condition),
            ("redgrid_event:{a}", ObjectKind::Event),
            ("redgrid_reliable_queue:{a}", ObjectKind::ReliableQueue),
            ("redisson_delay_queue_timeout:{a}", ObjectKind::DelayedQueue),
            ("redisson_rb:{a}", ObjectKind::RingBuffer),
            ("{a}:config", ObjectKind::BloomFilter),
            ("redgrid_adder:{a}", ObjectKind::Adder),
        ] {
            assert_eq!(of(wire), Some(kind), "{wire}");
            assert_eq!(kind.has_plain_key(), kind == ObjectKind::BloomFilter, "{kind}");
        }
        assert_eq!((of("a"), of("redgrid_unknown:{a}")), (None, None));
    }

    #[test]
    fn each_kind_is_listed_with_a_name_of_its_own() {
        let names: std::collections::BTreeSet<_> = ObjectKind::ALL.iter().map(|kind| kind.as_str()).collect();
        assert_eq!(names.len(), ObjectKind::ALL.len());
    }
}
