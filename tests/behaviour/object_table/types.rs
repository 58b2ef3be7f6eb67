//! All types of objects: how to create one, and its `object()`.

use std::time::Duration;

use async_trait::async_trait;
use futures_util::FutureExt;
use futures_util::future::LocalBoxFuture;
use redgrid_bits::{BitSet, BloomFilter, HyperLogLog};
use redgrid_cache::{Limit, MapCache, NativeMapCache, SetCache};
use redgrid_core::Client;
use redgrid_core::object::{Lifetime, Object, ObjectError};
use redgrid_geo::{Geo, Position};
use redgrid_list::List;
use redgrid_local_cached_map::LocalCachedMap;
use redgrid_multimap::{
    Kind, ListMultimap, ListMultimapCache, MultimapObject, NativeListMultimapCache, NativeSetMultimapCache,
    SetMultimap, SetMultimapCache,
};
use redgrid_queue::{DelayedQueue, Deque, PriorityQueue, Queue, RingBuffer};
use redgrid_rate_limiter::{Rate, RateLimiter};
use redgrid_reliable_queue::{QueueSettings, ReliableQueue};
use redgrid_semaphore::{PlainSemaphore, Semaphore};
use redgrid_set::{LexSortedSet, ScoredSortedSet, Set, SortedSet};
use redgrid_stream::Stream;
use redgrid_topic::ReliableTopic;

use crate::synchronizer_objects::{TYPES, object_of, one_of};

pub(super) const HOUR: Duration = Duration::from_secs(3600);

/// Operations on an object as a whole, of any type.
#[async_trait]
pub(super) trait Whole: Send + Sync {
    async fn exists(&self) -> Result<bool, ObjectError>;
    async fn lifetime(&self) -> Result<Lifetime, ObjectError>;
    async fn expire_in(&self, lifetime: Duration) -> Result<bool, ObjectError>;
    async fn persist(&self) -> Result<bool, ObjectError>;
    async fn rename(&self, to: &str) -> Result<bool, ObjectError>;
    async fn copy_to(&self, to: &str) -> Result<bool, ObjectError>;
    async fn delete(&self) -> Result<bool, ObjectError>;
}

macro_rules! whole {
    ($object:ty $(where $y:ident: $bound:ident)?) => {
        #[async_trait]
        impl $(<$y: $bound>)? Whole for $object {
            async fn exists(&self) -> Result<bool, ObjectError> {
                <$object>::exists(self).await
            }
            async fn lifetime(&self) -> Result<Lifetime, ObjectError> {
                <$object>::lifetime(self).await
            }
            async fn expire_in(&self, lifetime: Duration) -> Result<bool, ObjectError> {
                <$object>::expire_in(self, lifetime).await
            }
            async fn persist(&self) -> Result<bool, ObjectError> {
                <$object>::persist(self).await
            }
            async fn rename(&self, to: &str) -> Result<bool, ObjectError> {
                <$object>::rename(self, to).await
            }
            async fn copy_to(&self, to: &str) -> Result<bool, ObjectError> {
                <$object>::copy_to(self, to).await
            }
            async fn delete(&self) -> Result<bool, ObjectError> {
                <$object>::delete(self).await
            }
        }
    };
}

whole!(Object);
whole!(MultimapObject<Y> where Y: Kind);

/// A type of object, in one of the states that an object of it can have.
pub(super) struct Type {
    pub(super) name: &'static str,
    /// Creates an object. The returned value keeps it in use.
    pub(super) make: for<'a> fn(&'static str, &'a Client, &'a str) -> LocalBoxFuture<'a, Box<dyn Send>>,
    pub(super) object: fn(&'static str, &Client, &str) -> Box<dyn Whole>,
    /// Needs lifetimes of hash fields: Redis 7.4, Valkey 9.
    pub(super) native: bool,
}

macro_rules! types {
    ($($name:literal $($native:ident)?: $type:ty $(; $arg:literal)?, |$it:ident| $fill:block)*) => {
        vec![$(Type {
            name: $name,
            make: |_, client, name| async move {
                let $it = <$type>::new(client, name $(, $arg)?);
                let used = $fill;
                Box::new(used) as Box<dyn Send>
            }.boxed_local(),
            object: |_, client, name| Box::new(<$type>::new(client, name $(, $arg)?).object()),
            native: types!(@is $($native)?),
        }),*]
    };
    (@is) => { false };
    (@is native) => { true };
}

/// Every type that has an `object()`, filled. Types that store an object without elements are also
/// listed as empty.
pub(super) fn all() -> Vec<Type> {
    let mut all = types! {
        "list": List<u64>, |it| { it.push_many(&[1, 2]).await.unwrap() }
        "list with a cursor": List<u64>, |it| {
            it.push_many(&[1, 2]).await.unwrap();
            it.shared_stream().page(1).try_next().await.unwrap()
        }
        "local cached map": LocalCachedMap<u64, u64>, |it| { it.insert(&1, &1).await.unwrap() }
        "map cache": MapCache<u64, u64>, |it| {
            it.set_limit(Limit::least_recently_used(10)).await.unwrap();
            it.insert(&1, &1).expires_in(HOUR).idle_for(HOUR).await.unwrap()
        }
        "native map cache" native: NativeMapCache<u64, u64>, |it| { it.insert(&1, &1).await.unwrap() }
        "set cache": SetCache<u64>, |it| { it.insert(&1).await.unwrap() }
        "set": Set<u64>, |it| { it.insert(&1).await.unwrap() }
        "scored sorted set": ScoredSortedSet<u64>, |it| { it.insert(&1, 1.0).await.unwrap() }
        "lexicographic set": LexSortedSet, |it| { it.insert("a").await.unwrap() }
        "sorted set": SortedSet<u64>, |it| { it.insert(&1).await.unwrap() }
        "queue": Queue<u64>, |it| { it.push(&1).await.unwrap() }
        "deque": Deque<u64>, |it| { it.push_front(&1).await.unwrap() }
        "ring": RingBuffer<u64>, |it| {
            it.set_capacity(3).await.unwrap();
            it.push(&1).await.unwrap()
        }
        "empty ring": RingBuffer<u64>, |it| { it.set_capacity(3).await.unwrap() }
        "delayed queue": DelayedQueue<u64>, |it| { it.push(&1, HOUR).await.unwrap() }
        "priority queue": PriorityQueue<u64>, |it| { it.push(&1, 7).await.unwrap() }
        "stream": Stream<String, u64>, |it| { it.add("a", &1).await.unwrap() }
        "empty stream": Stream<String, u64>, |it| { it.group("g").create().make_stream().await.unwrap() }
        "reliable topic": ReliableTopic<u64>, |it| {
            let subscription = it.subscribe().await.unwrap();
            it.publish(&1).await.unwrap();
            subscription
        }
        "empty reliable topic": ReliableTopic<u64>, |it| { it.subscribe().await.unwrap() }
        "reliable queue": ReliableQueue<String>, |it| {
            it.push("a").await.unwrap();
            it.receive().await.unwrap()
        }
        "empty reliable queue": ReliableQueue<String>, |it| { it.set_settings(&QueueSettings::default()).await.unwrap() }
        "bit set": BitSet, |it| { it.set(9, true).await.unwrap() }
        "bloom filter": BloomFilter<u64>, |it| {
            it.try_init(100, 0.01).await.unwrap();
            it.add(&1).await.unwrap()
        }
        "empty bloom filter": BloomFilter<u64>, |it| { it.try_init(100, 0.01).await.unwrap() }
        "hyper log log": HyperLogLog<u64>, |it| { it.add(&1).await.unwrap() }
        "geo": Geo<String>, |it| { it.add("a", Position::new(13.0, 38.0).unwrap()).await.unwrap() }
        "set multimap": SetMultimap<u64, u64>, |it| { fill(&it).await }
        "list multimap": ListMultimap<u64, u64>, |it| { fill(&it).await }
        "set multimap with lifetimes": SetMultimapCache<u64, u64>, |it| {
            fill(&it).await;
            it.expire_key(&1, HOUR).await.unwrap()
        }
        "list multimap with lifetimes": ListMultimapCache<u64, u64>, |it| {
            fill(&it).await;
            it.expire_key(&1, HOUR).await.unwrap()
        }
        "native set multimap" native: NativeSetMultimapCache<u64, u64>, |it| {
            fill(&it).await;
            it.expire_key(&1, HOUR).await.unwrap()
        }
        "native list multimap" native: NativeListMultimapCache<u64, u64>, |it| {
            fill(&it).await;
            it.expire_key(&1, HOUR).await.unwrap()
        }
        "empty semaphore": PlainSemaphore, |it| { it.try_set_permits(0).await.unwrap() }
        "semaphore with a number": Semaphore; 3, |it| { it.acquire().await.unwrap() }
        "unused rate limiter": RateLimiter, |it| {
            it.try_set_rate(Rate::overall(5, Duration::from_secs(60))).await.unwrap()
        }
    };
    all.extend(TYPES.into_iter().map(|name| Type {
        name,
        make: |kind, client, name| async move { one_of(kind, client, name).await.1 }.boxed_local(),
        object: |kind, client, name| Box::new(object_of(kind, client, name)),
        native: false,
    }));
    all
}

async fn fill<Y: Kind>(
    map: &redgrid_multimap::Multimap<u64, u64, redgrid_multimap::codecs::Json, redgrid_multimap::codecs::Json, Y>,
) {
    for key in [1, 2, 3] {
        map.insert_many(&key, &[1, 2]).await.unwrap();
    }
}
