//! Every object as a method of one value.

use std::time::Duration;

use redgrid_core::{Client, Command, Config, ConnectError, NotClosed, NotReady};

/// One client, and every kind of object on it. Cheap to clone.
#[doc(alias = "RedissonClient")]
#[derive(Clone, Debug)]
pub struct Grid {
    client: Client,
}

impl Grid {
    /// Starts a client from a URL or a [`Config`]. It does not wait for the server: calls do, within their own time.
    ///
    /// # Errors
    ///
    /// [`ConnectError`] when the configuration can not work.
    pub async fn connect<C>(config: C) -> Result<Grid, ConnectError>
    where
        C: TryInto<Config>,
        ConnectError: From<C::Error>,
    {
        Ok(Grid { client: Client::connect(config).await? })
    }

    /// The objects on a client that is there already.
    pub fn new(client: Client) -> Self {
        Grid { client }
    }

    /// The client beneath.
    pub fn client(&self) -> &Client {
        &self.client
    }

    /// A lock that one holder has at a time. See [`Lock`](redgrid_locks::Lock).
    #[cfg(feature = "locks")]
    #[doc(alias = "getLock")]
    pub fn lock(&self, name: impl AsRef<str>) -> redgrid_locks::Lock {
        redgrid_locks::Lock::new(&self.client, name)
    }

    /// A lock whose tokens are counted in a key of their own. See [`FencedLock`](redgrid_locks::FencedLock).
    #[cfg(feature = "locks")]
    #[doc(alias = "getFencedLock")]
    pub fn fenced_lock(&self, name: impl AsRef<str>) -> redgrid_locks::FencedLock {
        redgrid_locks::FencedLock::new(&self.client, name)
    }

    /// Several locks as one. See [`MultiLock`](redgrid_locks::MultiLock).
    #[cfg(feature = "locks")]
    #[doc(alias = "getMultiLock")]
    pub fn multi_lock<N: AsRef<str>>(&self, names: impl IntoIterator<Item = N>) -> redgrid_locks::MultiLock {
        redgrid_locks::MultiLock::new(&self.client, names)
    }

    /// A lock without messages. See [`SpinLock`](redgrid_locks::SpinLock).
    #[cfg(feature = "locks")]
    #[doc(alias = "getSpinLock")]
    pub fn spin_lock(&self, name: impl AsRef<str>) -> redgrid_locks::SpinLock {
        redgrid_locks::SpinLock::new(&self.client, name)
    }

    /// A lock that is given in the order of asking. See [`FairLock`](redgrid_locks::FairLock).
    #[cfg(feature = "locks")]
    #[doc(alias = "getFairLock")]
    pub fn fair_lock(&self, name: impl AsRef<str>) -> redgrid_locks::FairLock {
        redgrid_locks::FairLock::new(&self.client, name)
    }

    /// A lock that many read or one writes. See [`RwLock`](redgrid_locks::RwLock).
    #[cfg(feature = "locks")]
    #[doc(alias = "getReadWriteLock")]
    pub fn rw_lock(&self, name: impl AsRef<str>) -> redgrid_locks::RwLock {
        redgrid_locks::RwLock::new(&self.client, name)
    }

    /// An election of one leader among processes. See [`Election`](redgrid_locks::Election).
    #[cfg(feature = "locks")]
    #[doc(alias = "LeaderLatch")]
    pub fn election(&self, name: impl AsRef<str>) -> redgrid_locks::Election {
        redgrid_locks::Election::new(&self.client, name)
    }

    /// A lock in segments, for one hot thing that can be divided. See [`SegmentedLock`](redgrid_locks::SegmentedLock).
    #[cfg(feature = "locks")]
    pub fn segmented_lock(&self, name: impl AsRef<str>, segments: usize) -> redgrid_locks::SegmentedLock {
        redgrid_locks::SegmentedLock::new(&self.client, name, segments)
    }

    /// A fence, which refuses the writes of those whose lock has passed on. See [`Fence`](redgrid_locks::Fence).
    #[cfg(feature = "locks")]
    pub fn fence(&self, name: impl AsRef<str>) -> redgrid_locks::Fence {
        redgrid_locks::Fence::new(&self.client, name)
    }

    /// A semaphore: so many permits for all processes. See [`Semaphore`](redgrid_semaphore::Semaphore).
    #[cfg(feature = "semaphore")]
    #[doc(alias = "getSemaphore")]
    pub fn semaphore(&self, name: impl AsRef<str>) -> redgrid_semaphore::Semaphore {
        redgrid_semaphore::Semaphore::new(&self.client, name)
    }

    /// A semaphore whose permits have ids and leases. See
    /// [`PermitExpirableSemaphore`](redgrid_permit_expirable_semaphore::PermitExpirableSemaphore).
    #[cfg(feature = "permit-expirable-semaphore")]
    #[doc(alias = "getPermitExpirableSemaphore")]
    pub fn permit_expirable_semaphore(
        &self,
        name: impl AsRef<str>,
    ) -> redgrid_permit_expirable_semaphore::PermitExpirableSemaphore {
        redgrid_permit_expirable_semaphore::PermitExpirableSemaphore::new(&self.client, name)
    }

    /// A latch that many wait for until so many things are done. See [`CountDownLatch`](redgrid_countdown_latch::CountDownLatch).
    #[cfg(feature = "countdown-latch")]
    #[doc(alias = "getCountDownLatch")]
    pub fn countdown_latch(&self, name: impl AsRef<str>) -> redgrid_countdown_latch::CountDownLatch {
        redgrid_countdown_latch::CountDownLatch::new(&self.client, name)
    }

    /// A whole number that all processes share. See [`AtomicLong`](redgrid_atomic_long::AtomicLong).
    #[cfg(feature = "atomic-long")]
    #[doc(alias = "getAtomicLong")]
    pub fn atomic_long(&self, name: impl AsRef<str>) -> redgrid_atomic_long::AtomicLong {
        redgrid_atomic_long::AtomicLong::new(&self.client, name)
    }

    /// A floating point number that all processes share. See [`AtomicDouble`](redgrid_atomic_long::AtomicDouble).
    #[cfg(feature = "atomic-long")]
    #[doc(alias = "getAtomicDouble")]
    pub fn atomic_double(&self, name: impl AsRef<str>) -> redgrid_atomic_long::AtomicDouble {
        redgrid_atomic_long::AtomicDouble::new(&self.client, name)
    }

    /// A value under a name, as JSON; [`Bucket::with_codec`](redgrid_bucket::Bucket::with_codec) has it another way. See
    /// [`Bucket`](redgrid_bucket::Bucket).
    #[cfg(all(feature = "bucket", feature = "json"))]
    #[doc(alias = "getBucket")]
    pub fn bucket<T>(&self, name: impl AsRef<str>) -> redgrid_bucket::Bucket<T> {
        redgrid_bucket::Bucket::new(&self.client, name)
    }

    /// A value under a name, as this codec writes it. See [`Bucket`](redgrid_bucket::Bucket).
    #[cfg(feature = "bucket")]
    pub fn bucket_with<T, C: redgrid_codecs::Codec>(
        &self,
        name: impl AsRef<str>,
        codec: C,
    ) -> redgrid_bucket::Bucket<T, C> {
        redgrid_bucket::Bucket::<T, redgrid_codecs::Raw>::new(&self.client, name).with_codec(codec)
    }

    /// Many values at once, as JSON. See [`Buckets`](redgrid_bucket::Buckets).
    #[cfg(all(feature = "bucket", feature = "json"))]
    #[doc(alias = "getBuckets")]
    pub fn buckets<T>(&self) -> redgrid_bucket::Buckets<T> {
        redgrid_bucket::Buckets::new(&self.client)
    }

    /// Many values at once, as this codec writes them. See [`Buckets`](redgrid_bucket::Buckets).
    #[cfg(feature = "bucket")]
    pub fn buckets_with<T, C: redgrid_codecs::Codec>(&self, codec: C) -> redgrid_bucket::Buckets<T, C> {
        redgrid_bucket::Buckets::<T, redgrid_codecs::Raw>::new(&self.client).with_codec(codec)
    }

    /// All keys of the servers: what there is, counted, streamed and deleted. See [`Keys`](redgrid_keys::Keys).
    #[cfg(feature = "keys")]
    #[doc(alias = "getKeys")]
    pub fn keys(&self) -> redgrid_keys::Keys {
        redgrid_keys::Keys::new(&self.client)
    }

    /// A list, as JSON; [`List::with_codec`](redgrid_list::List::with_codec) has it another way. See [`List`](redgrid_list::List).
    #[cfg(all(feature = "list", feature = "json"))]
    #[doc(alias = "getList")]
    pub fn list<T>(&self, name: impl AsRef<str>) -> redgrid_list::List<T> {
        redgrid_list::List::new(&self.client, name)
    }

    /// A list, as this codec writes its elements. See [`List`](redgrid_list::List).
    #[cfg(feature = "list")]
    pub fn list_with<T, C: redgrid_codecs::Codec>(&self, name: impl AsRef<str>, codec: C) -> redgrid_list::List<T, C> {
        redgrid_list::List::<T, redgrid_codecs::Raw>::new(&self.client, name).with_codec(codec)
    }

    /// A map whose values this process keeps until their change is told, as JSON. The options of the first handle of a name are in force,
    /// as all share one cache. See
    /// [`LocalCachedMap`](redgrid_local_cached_map::LocalCachedMap).
    #[cfg(all(feature = "local-cached-map", feature = "json"))]
    #[doc(alias = "getLocalCachedMap")]
    pub fn local_cached_map<K, V>(
        &self,
        name: impl AsRef<str>,
        options: redgrid_local_cached_map::Options,
    ) -> redgrid_local_cached_map::LocalCachedMap<K, V> {
        redgrid_local_cached_map::LocalCachedMap::with_options(&self.client, name, options)
    }

    /// A map whose values this process keeps, as these codecs write its keys and values. See
    /// [`LocalCachedMap`](redgrid_local_cached_map::LocalCachedMap).
    #[cfg(feature = "local-cached-map")]
    pub fn local_cached_map_with<K, V, KC: redgrid_codecs::Codec, VC: redgrid_codecs::Codec>(
        &self,
        name: impl AsRef<str>,
        options: redgrid_local_cached_map::Options,
        keys: KC,
        values: VC,
    ) -> redgrid_local_cached_map::LocalCachedMap<K, V, KC, VC> {
        use redgrid_codecs::Raw;
        let map = redgrid_local_cached_map::LocalCachedMap::<K, V, Raw, Raw>::with_options(&self.client, name, options);
        map.with_codecs(keys, values)
    }

    /// A map, as JSON; [`Map::with_codec`](redgrid_map::Map::with_codec) has it another way. See [`Map`](redgrid_map::Map).
    #[cfg(all(feature = "map", feature = "json"))]
    #[doc(alias = "getMap")]
    pub fn map<K, V>(&self, name: impl AsRef<str>) -> redgrid_map::Map<K, V> {
        redgrid_map::Map::new(&self.client, name)
    }

    /// A map, as these codecs write its keys and values. See [`Map`](redgrid_map::Map).
    #[cfg(feature = "map")]
    pub fn map_with<K, V, KC: redgrid_codecs::Codec, VC: redgrid_codecs::Codec>(
        &self,
        name: impl AsRef<str>,
        keys: KC,
        values: VC,
    ) -> redgrid_map::Map<K, V, KC, VC> {
        redgrid_map::Map::<K, V, redgrid_codecs::Raw>::new(&self.client, name).with_codecs(keys, values)
    }

    /// The scripts that the servers remember; to run one, see [`script::Script`](redgrid_script::Script).
    #[cfg(feature = "script")]
    #[doc(alias = "getScript")]
    pub fn scripts(&self) -> redgrid_script::Scripts {
        redgrid_script::Scripts::new(&self.client)
    }

    /// The libraries of functions that the servers keep. See [`Functions`](redgrid_script::Functions).
    #[cfg(feature = "script")]
    #[doc(alias = "getFunction")]
    pub fn functions(&self) -> redgrid_script::Functions {
        redgrid_script::Functions::new(&self.client)
    }

    /// Calls that are sent together. See [`Batch`](redgrid_script::Batch).
    #[cfg(feature = "script")]
    #[doc(alias = "createBatch")]
    pub fn batch(&self) -> redgrid_script::Batch {
        redgrid_script::Batch::new(&self.client)
    }

    /// A set, as JSON; [`Set::with_codec`](redgrid_set::Set::with_codec) has it another way. See [`Set`](redgrid_set::Set).
    #[cfg(all(feature = "set", feature = "json"))]
    #[doc(alias = "getSet")]
    pub fn set<T>(&self, name: impl AsRef<str>) -> redgrid_set::Set<T> {
        redgrid_set::Set::new(&self.client, name)
    }

    /// A set, as this codec writes its values. See [`Set`](redgrid_set::Set).
    #[cfg(feature = "set")]
    pub fn set_with<T, C: redgrid_codecs::Codec>(&self, name: impl AsRef<str>, codec: C) -> redgrid_set::Set<T, C> {
        redgrid_set::Set::<T, redgrid_codecs::Raw>::new(&self.client, name).with_codec(codec)
    }

    /// A set in the order of scores, as JSON. See [`ScoredSortedSet`](redgrid_set::ScoredSortedSet).
    #[cfg(all(feature = "set", feature = "json"))]
    #[doc(alias = "getScoredSortedSet")]
    pub fn scored_sorted_set<T>(&self, name: impl AsRef<str>) -> redgrid_set::ScoredSortedSet<T> {
        redgrid_set::ScoredSortedSet::new(&self.client, name)
    }

    /// A set in the order of scores, as this codec writes its values. See [`ScoredSortedSet`](redgrid_set::ScoredSortedSet).
    #[cfg(feature = "set")]
    pub fn scored_sorted_set_with<T, C: redgrid_codecs::Codec>(
        &self,
        name: impl AsRef<str>,
        codec: C,
    ) -> redgrid_set::ScoredSortedSet<T, C> {
        redgrid_set::ScoredSortedSet::<T, redgrid_codecs::Raw>::new(&self.client, name).with_codec(codec)
    }

    /// Text in order. See [`LexSortedSet`](redgrid_set::LexSortedSet).
    #[cfg(feature = "set")]
    #[doc(alias = "getLexSortedSet")]
    pub fn lex_sorted_set(&self, name: impl AsRef<str>) -> redgrid_set::LexSortedSet {
        redgrid_set::LexSortedSet::new(&self.client, name)
    }

    /// A set in the order of its values. See [`SortedSet`](redgrid_set::SortedSet).
    #[cfg(feature = "set")]
    #[doc(alias = "getSortedSet")]
    pub fn sorted_set<T>(&self, name: impl AsRef<str>) -> redgrid_set::SortedSet<T>
    where
        redgrid_codecs::Natural: redgrid_codecs::Ordered<T>,
    {
        redgrid_set::SortedSet::new(&self.client, name)
    }

    /// A map whose entries have lifetimes, as JSON. See [`MapCache`](redgrid_cache::MapCache).
    #[cfg(all(feature = "cache", feature = "json"))]
    #[doc(alias = "getMapCache")]
    pub fn map_cache<K, V>(&self, name: impl AsRef<str>) -> redgrid_cache::MapCache<K, V> {
        redgrid_cache::MapCache::new(&self.client, name)
    }

    /// A map whose entries have lifetimes, as these codecs write them. See [`MapCache`](redgrid_cache::MapCache).
    #[cfg(feature = "cache")]
    pub fn map_cache_with<K, V, KC: redgrid_codecs::Codec, VC: redgrid_codecs::Codec>(
        &self,
        name: impl AsRef<str>,
        keys: KC,
        values: VC,
    ) -> redgrid_cache::MapCache<K, V, KC, VC> {
        redgrid_cache::MapCache::<K, V, redgrid_codecs::Raw>::new(&self.client, name).with_codecs(keys, values)
    }

    /// A map whose entries have lifetimes that the server ends, as JSON: Redis 7.4, Valkey 9. See
    /// [`NativeMapCache`](redgrid_cache::NativeMapCache).
    #[cfg(all(feature = "cache", feature = "json"))]
    #[doc(alias = "getMapCacheNative")]
    pub fn native_map_cache<K, V>(&self, name: impl AsRef<str>) -> redgrid_cache::NativeMapCache<K, V> {
        redgrid_cache::NativeMapCache::new(&self.client, name)
    }

    /// The same as these codecs write it. See [`NativeMapCache`](redgrid_cache::NativeMapCache).
    #[cfg(feature = "cache")]
    pub fn native_map_cache_with<K, V, KC: redgrid_codecs::Codec, VC: redgrid_codecs::Codec>(
        &self,
        name: impl AsRef<str>,
        keys: KC,
        values: VC,
    ) -> redgrid_cache::NativeMapCache<K, V, KC, VC> {
        redgrid_cache::NativeMapCache::<K, V, redgrid_codecs::Raw>::new(&self.client, name).with_codecs(keys, values)
    }

    /// A set whose values have lifetimes, as JSON. See [`SetCache`](redgrid_cache::SetCache).
    #[cfg(all(feature = "cache", feature = "json"))]
    #[doc(alias = "getSetCache")]
    pub fn set_cache<T>(&self, name: impl AsRef<str>) -> redgrid_cache::SetCache<T> {
        redgrid_cache::SetCache::new(&self.client, name)
    }

    /// A set whose values have lifetimes, as this codec writes them. See [`SetCache`](redgrid_cache::SetCache).
    #[cfg(feature = "cache")]
    pub fn set_cache_with<T, C: redgrid_codecs::Codec>(
        &self,
        name: impl AsRef<str>,
        codec: C,
    ) -> redgrid_cache::SetCache<T, C> {
        redgrid_cache::SetCache::<T, redgrid_codecs::Raw>::new(&self.client, name).with_codec(codec)
    }

    /// A map with a set of values for each key, as JSON. See [`SetMultimap`](redgrid_multimap::SetMultimap).
    #[cfg(all(feature = "multimap", feature = "json"))]
    #[doc(alias = "getSetMultimap")]
    pub fn set_multimap<K, V>(&self, name: impl AsRef<str>) -> redgrid_multimap::SetMultimap<K, V> {
        redgrid_multimap::SetMultimap::new(&self.client, name)
    }

    /// A map with a set of values for each key, as these codecs write them. See [`SetMultimap`](redgrid_multimap::SetMultimap).
    #[cfg(feature = "multimap")]
    pub fn set_multimap_with<K, V, KC: redgrid_codecs::Codec, VC: redgrid_codecs::Codec>(
        &self,
        name: impl AsRef<str>,
        keys: KC,
        values: VC,
    ) -> redgrid_multimap::SetMultimap<K, V, KC, VC> {
        redgrid_multimap::SetMultimap::<K, V, redgrid_codecs::Raw>::new(&self.client, name).with_codecs(keys, values)
    }

    /// A map with a list of values for each key, as JSON. See [`ListMultimap`](redgrid_multimap::ListMultimap).
    #[cfg(all(feature = "multimap", feature = "json"))]
    #[doc(alias = "getListMultimap")]
    pub fn list_multimap<K, V>(&self, name: impl AsRef<str>) -> redgrid_multimap::ListMultimap<K, V> {
        redgrid_multimap::ListMultimap::new(&self.client, name)
    }

    /// A map with a list of values for each key, as these codecs write them. See [`ListMultimap`](redgrid_multimap::ListMultimap).
    #[cfg(feature = "multimap")]
    pub fn list_multimap_with<K, V, KC: redgrid_codecs::Codec, VC: redgrid_codecs::Codec>(
        &self,
        name: impl AsRef<str>,
        keys: KC,
        values: VC,
    ) -> redgrid_multimap::ListMultimap<K, V, KC, VC> {
        redgrid_multimap::ListMultimap::<K, V, redgrid_codecs::Raw>::new(&self.client, name).with_codecs(keys, values)
    }

    /// A map with a set of values for each key and lifetimes of keys, as JSON. See [`SetMultimapCache`](redgrid_multimap::SetMultimapCache).
    #[cfg(all(feature = "multimap", feature = "json"))]
    #[doc(alias = "getSetMultimapCache")]
    pub fn set_multimap_cache<K, V>(&self, name: impl AsRef<str>) -> redgrid_multimap::SetMultimapCache<K, V> {
        redgrid_multimap::SetMultimapCache::new(&self.client, name)
    }

    /// A map with a set of values for each key and lifetimes of keys, as these codecs write them. See [`SetMultimapCache`](redgrid_multimap::SetMultimapCache).
    #[cfg(feature = "multimap")]
    pub fn set_multimap_cache_with<K, V, KC: redgrid_codecs::Codec, VC: redgrid_codecs::Codec>(
        &self,
        name: impl AsRef<str>,
        keys: KC,
        values: VC,
    ) -> redgrid_multimap::SetMultimapCache<K, V, KC, VC> {
        redgrid_multimap::SetMultimapCache::<K, V, redgrid_codecs::Raw>::new(&self.client, name)
            .with_codecs(keys, values)
    }

    /// A map with a list of values for each key and lifetimes of keys, as JSON. See [`ListMultimapCache`](redgrid_multimap::ListMultimapCache).
    #[cfg(all(feature = "multimap", feature = "json"))]
    #[doc(alias = "getListMultimapCache")]
    pub fn list_multimap_cache<K, V>(&self, name: impl AsRef<str>) -> redgrid_multimap::ListMultimapCache<K, V> {
        redgrid_multimap::ListMultimapCache::new(&self.client, name)
    }

    /// A map with a list of values for each key and lifetimes of keys, as these codecs write them. See [`ListMultimapCache`](redgrid_multimap::ListMultimapCache).
    #[cfg(feature = "multimap")]
    pub fn list_multimap_cache_with<K, V, KC: redgrid_codecs::Codec, VC: redgrid_codecs::Codec>(
        &self,
        name: impl AsRef<str>,
        keys: KC,
        values: VC,
    ) -> redgrid_multimap::ListMultimapCache<K, V, KC, VC> {
        redgrid_multimap::ListMultimapCache::<K, V, redgrid_codecs::Raw>::new(&self.client, name)
            .with_codecs(keys, values)
    }

    /// A map with a set of values for each key and lifetimes of keys that the server ends, as JSON. See [`NativeSetMultimapCache`](redgrid_multimap::NativeSetMultimapCache).
    #[cfg(all(feature = "multimap", feature = "json"))]
    #[doc(alias = "getSetMultimapCacheNative")]
    pub fn native_set_multimap_cache<K, V>(
        &self,
        name: impl AsRef<str>,
    ) -> redgrid_multimap::NativeSetMultimapCache<K, V> {
        redgrid_multimap::NativeSetMultimapCache::new(&self.client, name)
    }

    /// A map with a set of values for each key and lifetimes of keys that the server ends, as these codecs write them. See [`NativeSetMultimapCache`](redgrid_multimap::NativeSetMultimapCache).
    #[cfg(feature = "multimap")]
    pub fn native_set_multimap_cache_with<K, V, KC: redgrid_codecs::Codec, VC: redgrid_codecs::Codec>(
        &self,
        name: impl AsRef<str>,
        keys: KC,
        values: VC,
    ) -> redgrid_multimap::NativeSetMultimapCache<K, V, KC, VC> {
        redgrid_multimap::NativeSetMultimapCache::<K, V, redgrid_codecs::Raw>::new(&self.client, name)
            .with_codecs(keys, values)
    }

    /// A map with a list of values for each key and lifetimes of keys that the server ends, as JSON. See [`NativeListMultimapCache`](redgrid_multimap::NativeListMultimapCache).
    #[cfg(all(feature = "multimap", feature = "json"))]
    #[doc(alias = "getListMultimapCacheNative")]
    pub fn native_list_multimap_cache<K, V>(
        &self,
        name: impl AsRef<str>,
    ) -> redgrid_multimap::NativeListMultimapCache<K, V> {
        redgrid_multimap::NativeListMultimapCache::new(&self.client, name)
    }

    /// A map with a list of values for each key and lifetimes of keys that the server ends, as these codecs write them. See [`NativeListMultimapCache`](redgrid_multimap::NativeListMultimapCache).
    #[cfg(feature = "multimap")]
    pub fn native_list_multimap_cache_with<K, V, KC: redgrid_codecs::Codec, VC: redgrid_codecs::Codec>(
        &self,
        name: impl AsRef<str>,
        keys: KC,
        values: VC,
    ) -> redgrid_multimap::NativeListMultimapCache<K, V, KC, VC> {
        redgrid_multimap::NativeListMultimapCache::<K, V, redgrid_codecs::Raw>::new(&self.client, name)
            .with_codecs(keys, values)
    }

    /// Entries in the order in which they were added, read by anybody or by groups, as JSON. See [`Stream`](redgrid_stream::Stream).
    #[cfg(all(feature = "stream", feature = "json"))]
    #[doc(alias = "getStream")]
    pub fn stream<K, V>(&self, name: impl AsRef<str>) -> redgrid_stream::Stream<K, V> {
        redgrid_stream::Stream::new(&self.client, name)
    }

    /// The same with fields and values as these codecs write them. See [`Stream`](redgrid_stream::Stream).
    #[cfg(feature = "stream")]
    pub fn stream_with<K, V, KC: redgrid_codecs::Codec, VC: redgrid_codecs::Codec>(
        &self,
        name: impl AsRef<str>,
        keys: KC,
        values: VC,
    ) -> redgrid_stream::Stream<K, V, KC, VC> {
        redgrid_stream::Stream::<K, V, redgrid_codecs::Raw>::new(&self.client, name).with_codecs(keys, values)
    }

    /// Elements in the order in which they came, which can be waited for, as JSON. See [`Queue`](redgrid_queue::Queue).
    #[cfg(all(feature = "queue", feature = "json"))]
    #[doc(alias = "getQueue")]
    #[doc(alias = "getBlockingQueue")]
    pub fn queue<T>(&self, name: impl AsRef<str>) -> redgrid_queue::Queue<T> {
        redgrid_queue::Queue::new(&self.client, name)
    }

    /// The same, as this codec writes them. See [`Queue`](redgrid_queue::Queue).
    #[cfg(feature = "queue")]
    pub fn queue_with<T, C: redgrid_codecs::Codec>(
        &self,
        name: impl AsRef<str>,
        codec: C,
    ) -> redgrid_queue::Queue<T, C> {
        redgrid_queue::Queue::<T, redgrid_codecs::Raw>::new(&self.client, name).with_codec(codec)
    }

    /// A queue with two ends, as JSON. See [`Deque`](redgrid_queue::Deque).
    #[cfg(all(feature = "queue", feature = "json"))]
    #[doc(alias = "getDeque")]
    #[doc(alias = "getBlockingDeque")]
    pub fn deque<T>(&self, name: impl AsRef<str>) -> redgrid_queue::Deque<T> {
        redgrid_queue::Deque::new(&self.client, name)
    }

    /// The same, as this codec writes them. See [`Deque`](redgrid_queue::Deque).
    #[cfg(feature = "queue")]
    pub fn deque_with<T, C: redgrid_codecs::Codec>(
        &self,
        name: impl AsRef<str>,
        codec: C,
    ) -> redgrid_queue::Deque<T, C> {
        redgrid_queue::Deque::<T, redgrid_codecs::Raw>::new(&self.client, name).with_codec(codec)
    }

    /// Elements that can be taken when they are due, as JSON. See [`DelayedQueue`](redgrid_queue::DelayedQueue).
    #[cfg(all(feature = "queue", feature = "json"))]
    #[doc(alias = "getDelayedQueue")]
    pub fn delayed_queue<T>(&self, name: impl AsRef<str>) -> redgrid_queue::DelayedQueue<T> {
        redgrid_queue::DelayedQueue::new(&self.client, name)
    }

    /// The same, as this codec writes them. See [`DelayedQueue`](redgrid_queue::DelayedQueue).
    #[cfg(feature = "queue")]
    pub fn delayed_queue_with<T, C: redgrid_codecs::Codec>(
        &self,
        name: impl AsRef<str>,
        codec: C,
    ) -> redgrid_queue::DelayedQueue<T, C> {
        redgrid_queue::DelayedQueue::<T, redgrid_codecs::Raw>::new(&self.client, name).with_codec(codec)
    }

    /// The last elements that were pushed, as JSON. See [`RingBuffer`](redgrid_queue::RingBuffer).
    #[cfg(all(feature = "queue", feature = "json"))]
    #[doc(alias = "getRingBuffer")]
    pub fn ring_buffer<T>(&self, name: impl AsRef<str>) -> redgrid_queue::RingBuffer<T> {
        redgrid_queue::RingBuffer::new(&self.client, name)
    }

    /// The same, as this codec writes them. See [`RingBuffer`](redgrid_queue::RingBuffer).
    #[cfg(feature = "queue")]
    pub fn ring_buffer_with<T, C: redgrid_codecs::Codec>(
        &self,
        name: impl AsRef<str>,
        codec: C,
    ) -> redgrid_queue::RingBuffer<T, C> {
        redgrid_queue::RingBuffer::<T, redgrid_codecs::Raw>::new(&self.client, name).with_codec(codec)
    }

    /// Bits by their indices. See [`BitSet`](redgrid_bits::BitSet).
    #[cfg(feature = "bits")]
    #[doc(alias = "getBitSet")]
    pub fn bit_set(&self, name: impl AsRef<str>) -> redgrid_bits::BitSet {
        redgrid_bits::BitSet::new(&self.client, name)
    }

    /// What was seen before, in a few bits each, as JSON; [`BloomFilter::with_codec`](redgrid_bits::BloomFilter::with_codec) has it another
    /// way. See [`BloomFilter`](redgrid_bits::BloomFilter).
    #[cfg(all(feature = "bits", feature = "json"))]
    #[doc(alias = "getBloomFilter")]
    pub fn bloom_filter<T>(&self, name: impl AsRef<str>) -> redgrid_bits::BloomFilter<T> {
        redgrid_bits::BloomFilter::new(&self.client, name)
    }

    /// The same, as this codec writes it. See [`BloomFilter`](redgrid_bits::BloomFilter).
    #[cfg(feature = "bits")]
    pub fn bloom_filter_with<T, C: redgrid_codecs::Codec>(
        &self,
        name: impl AsRef<str>,
        codec: C,
    ) -> redgrid_bits::BloomFilter<T, C> {
        redgrid_bits::BloomFilter::<T, redgrid_codecs::Raw>::new(&self.client, name).with_codec(codec)
    }

    /// How many different ones there were, about, as JSON; [`HyperLogLog::with_codec`](redgrid_bits::HyperLogLog::with_codec) has it another
    /// way. See [`HyperLogLog`](redgrid_bits::HyperLogLog).
    #[cfg(all(feature = "bits", feature = "json"))]
    #[doc(alias = "getHyperLogLog")]
    pub fn hyper_log_log<T>(&self, name: impl AsRef<str>) -> redgrid_bits::HyperLogLog<T> {
        redgrid_bits::HyperLogLog::new(&self.client, name)
    }

    /// The same, as this codec writes it. See [`HyperLogLog`](redgrid_bits::HyperLogLog).
    #[cfg(feature = "bits")]
    pub fn hyper_log_log_with<T, C: redgrid_codecs::Codec>(
        &self,
        name: impl AsRef<str>,
        codec: C,
    ) -> redgrid_bits::HyperLogLog<T, C> {
        redgrid_bits::HyperLogLog::<T, redgrid_codecs::Raw>::new(&self.client, name).with_codec(codec)
    }

    /// Members with places on the globe, as JSON; [`Geo::with_codec`](redgrid_geo::Geo::with_codec) has them another way. See
    /// [`Geo`](redgrid_geo::Geo).
    #[cfg(all(feature = "geo", feature = "json"))]
    #[doc(alias = "getGeo")]
    pub fn geo<T>(&self, name: impl AsRef<str>) -> redgrid_geo::Geo<T> {
        redgrid_geo::Geo::new(&self.client, name)
    }

    /// The same, as this codec writes them. See [`Geo`](redgrid_geo::Geo).
    #[cfg(feature = "geo")]
    pub fn geo_with<T, C: redgrid_codecs::Codec>(&self, name: impl AsRef<str>, codec: C) -> redgrid_geo::Geo<T, C> {
        redgrid_geo::Geo::<T, redgrid_codecs::Raw>::new(&self.client, name).with_codec(codec)
    }

    /// Messages to all who listen at the moment, as JSON; [`Topic::with_codec`](redgrid_topic::Topic::with_codec) has them another way. See [`Topic`](redgrid_topic::Topic).
    #[cfg(all(feature = "topic", feature = "json"))]
    #[doc(alias = "getTopic")]
    pub fn topic<T>(&self, name: impl AsRef<str>) -> redgrid_topic::Topic<T> {
        redgrid_topic::Topic::new(&self.client, name)
    }

    /// The same, as this codec writes them. See [`Topic`](redgrid_topic::Topic).
    #[cfg(feature = "topic")]
    pub fn topic_with<T, C: redgrid_codecs::Codec>(
        &self,
        name: impl AsRef<str>,
        codec: C,
    ) -> redgrid_topic::Topic<T, C> {
        redgrid_topic::Topic::<T, redgrid_codecs::Raw>::new(&self.client, name).with_codec(codec)
    }

    /// What is published to all topics of a pattern, as JSON; [`PatternTopic::with_codec`](redgrid_topic::PatternTopic::with_codec) has them another way. See [`PatternTopic`](redgrid_topic::PatternTopic).
    #[cfg(all(feature = "topic", feature = "json"))]
    #[doc(alias = "getPatternTopic")]
    pub fn pattern_topic<T>(&self, pattern: impl AsRef<str>) -> redgrid_topic::PatternTopic<T> {
        redgrid_topic::PatternTopic::new(&self.client, pattern)
    }

    /// The same, as this codec writes them. See [`PatternTopic`](redgrid_topic::PatternTopic).
    #[cfg(feature = "topic")]
    pub fn pattern_topic_with<T, C: redgrid_codecs::Codec>(
        &self,
        pattern: impl AsRef<str>,
        codec: C,
    ) -> redgrid_topic::PatternTopic<T, C> {
        redgrid_topic::PatternTopic::<T, redgrid_codecs::Raw>::new(&self.client, pattern).with_codec(codec)
    }

    /// Messages by sharded channels, as JSON; [`ShardedTopic::with_codec`](redgrid_topic::ShardedTopic::with_codec) has them another way. See [`ShardedTopic`](redgrid_topic::ShardedTopic).
    #[cfg(all(feature = "topic", feature = "json"))]
    #[doc(alias = "getShardedTopic")]
    pub fn sharded_topic<T>(&self, name: impl AsRef<str>) -> redgrid_topic::ShardedTopic<T> {
        redgrid_topic::ShardedTopic::new(&self.client, name)
    }

    /// The same, as this codec writes them. See [`ShardedTopic`](redgrid_topic::ShardedTopic).
    #[cfg(feature = "topic")]
    pub fn sharded_topic_with<T, C: redgrid_codecs::Codec>(
        &self,
        name: impl AsRef<str>,
        codec: C,
    ) -> redgrid_topic::ShardedTopic<T, C> {
        redgrid_topic::ShardedTopic::<T, redgrid_codecs::Raw>::new(&self.client, name).with_codec(codec)
    }

    /// Messages that every subscriber gets at least once, as JSON; [`ReliableTopic::with_codec`](redgrid_topic::ReliableTopic::with_codec) has them another way. See [`ReliableTopic`](redgrid_topic::ReliableTopic).
    #[cfg(all(feature = "topic", feature = "json"))]
    #[doc(alias = "getReliableTopic")]
    pub fn reliable_topic<T>(&self, name: impl AsRef<str>) -> redgrid_topic::ReliableTopic<T> {
        redgrid_topic::ReliableTopic::new(&self.client, name)
    }

    /// The same, as this codec writes them. See [`ReliableTopic`](redgrid_topic::ReliableTopic).
    #[cfg(feature = "topic")]
    pub fn reliable_topic_with<T, C: redgrid_codecs::Codec>(
        &self,
        name: impl AsRef<str>,
        codec: C,
    ) -> redgrid_topic::ReliableTopic<T, C> {
        redgrid_topic::ReliableTopic::<T, redgrid_codecs::Raw>::new(&self.client, name).with_codec(codec)
    }

    /// A queue whose messages are acknowledged, as JSON; [`ReliableQueue::with_codec`](redgrid_reliable_queue::ReliableQueue::with_codec) has
    /// them another way. See [`ReliableQueue`](redgrid_reliable_queue::ReliableQueue).
    #[cfg(all(feature = "reliable-queue", feature = "json"))]
    #[doc(alias = "getReliableQueue")]
    pub fn reliable_queue<T>(&self, name: impl AsRef<str>) -> redgrid_reliable_queue::ReliableQueue<T> {
        redgrid_reliable_queue::ReliableQueue::new(&self.client, name)
    }

    /// The same, as this codec writes them. See [`ReliableQueue`](redgrid_reliable_queue::ReliableQueue).
    #[cfg(feature = "reliable-queue")]
    pub fn reliable_queue_with<T, C: redgrid_codecs::Codec>(
        &self,
        name: impl AsRef<str>,
        codec: C,
    ) -> redgrid_reliable_queue::ReliableQueue<T, C> {
        redgrid_reliable_queue::ReliableQueue::<T, redgrid_codecs::Raw>::new(&self.client, name).with_codec(codec)
    }

    /// A map that is spread over a cluster, as JSON; [`ShardedMap::with_codecs`](redgrid_sharded::ShardedMap::with_codecs) has it another way. See
    /// [`ShardedMap`](redgrid_sharded::ShardedMap).
    #[cfg(all(feature = "sharded", feature = "json"))]
    #[doc(alias = "getClusteredMap")]
    pub fn sharded_map<K, V>(&self, name: impl AsRef<str>) -> redgrid_sharded::ShardedMap<K, V> {
        redgrid_sharded::ShardedMap::new(&self.client, name)
    }

    /// The same, as these codecs write its keys and values. See [`ShardedMap`](redgrid_sharded::ShardedMap).
    #[cfg(feature = "sharded")]
    pub fn sharded_map_with<K, V, KC: redgrid_codecs::Codec, VC: redgrid_codecs::Codec>(
        &self,
        name: impl AsRef<str>,
        keys: KC,
        values: VC,
    ) -> redgrid_sharded::ShardedMap<K, V, KC, VC> {
        redgrid_sharded::ShardedMap::<K, V, redgrid_codecs::Raw>::new(&self.client, name).with_codecs(keys, values)
    }

    /// A set that is spread over a cluster, as JSON. See [`ShardedSet`](redgrid_sharded::ShardedSet).
    #[cfg(all(feature = "sharded", feature = "json"))]
    #[doc(alias = "getClusteredSet")]
    pub fn sharded_set<T>(&self, name: impl AsRef<str>) -> redgrid_sharded::ShardedSet<T> {
        redgrid_sharded::ShardedSet::new(&self.client, name)
    }

    /// The same, as this codec writes its values. See [`ShardedSet`](redgrid_sharded::ShardedSet).
    #[cfg(feature = "sharded")]
    pub fn sharded_set_with<T, C: redgrid_codecs::Codec>(
        &self,
        name: impl AsRef<str>,
        codec: C,
    ) -> redgrid_sharded::ShardedSet<T, C> {
        redgrid_sharded::ShardedSet::<T, redgrid_codecs::Raw>::new(&self.client, name).with_codec(codec)
    }

    /// Bits that are spread over a cluster. See [`ShardedBitSet`](redgrid_sharded::ShardedBitSet).
    #[cfg(feature = "sharded")]
    #[doc(alias = "getClusteredBitSet")]
    pub fn sharded_bit_set(&self, name: impl AsRef<str>) -> redgrid_sharded::ShardedBitSet {
        redgrid_sharded::ShardedBitSet::new(&self.client, name)
    }

    /// A Bloom filter that is spread over a cluster, as JSON. See [`ShardedBloomFilter`](redgrid_sharded::ShardedBloomFilter).
    #[cfg(all(feature = "sharded", feature = "json"))]
    #[doc(alias = "getClusteredBloomFilter")]
    pub fn sharded_bloom_filter<T>(&self, name: impl AsRef<str>) -> redgrid_sharded::ShardedBloomFilter<T> {
        redgrid_sharded::ShardedBloomFilter::new(&self.client, name)
    }

    /// The same, as this codec writes its elements. See [`ShardedBloomFilter`](redgrid_sharded::ShardedBloomFilter).
    #[cfg(feature = "sharded")]
    pub fn sharded_bloom_filter_with<T, C: redgrid_codecs::Codec>(
        &self,
        name: impl AsRef<str>,
        codec: C,
    ) -> redgrid_sharded::ShardedBloomFilter<T, C> {
        redgrid_sharded::ShardedBloomFilter::<T, redgrid_codecs::Raw>::new(&self.client, name).with_codec(codec)
    }

    /// What is read and written together: as a whole, or not at all. See [`Transaction`](redgrid_transaction::Transaction).
    #[cfg(feature = "transaction")]
    #[doc(alias = "createTransaction")]
    pub fn transaction(&self) -> redgrid_transaction::Transaction {
        redgrid_transaction::Transaction::new(&self.client)
    }

    /// What any object has, under its name: whether it is there, its lifetime, other names. See [`Object`](redgrid_core::object::Object).
    pub fn object(&self, name: impl AsRef<str>) -> redgrid_core::object::Object {
        redgrid_core::object::Object::new(&self.client, name)
    }

    /// What happens to all whose names are of a pattern. See [`Listen`](redgrid_core::object::events::Listen).
    #[doc(alias = "addListener")]
    pub fn events_of(
        &self,
        pattern: impl Into<String>,
        kinds: impl Into<redgrid_core::object::events::Kinds>,
    ) -> redgrid_core::object::events::Listen {
        redgrid_core::object::events::Listen::to(&self.client, pattern, kinds)
    }

    /// Unique ids in blocks. See [`IdGenerator`](redgrid_id_generator::IdGenerator).
    #[cfg(feature = "id-generator")]
    #[doc(alias = "getIdGenerator")]
    pub fn id_generator(&self, name: impl AsRef<str>) -> redgrid_id_generator::IdGenerator {
        redgrid_id_generator::IdGenerator::new(&self.client, name)
    }

    /// Unique ids that rise with time. See [`TimeOrderedId`](redgrid_id_generator::TimeOrderedId).
    #[cfg(feature = "id-generator")]
    pub fn time_ordered_id(&self, name: impl AsRef<str>) -> redgrid_id_generator::TimeOrderedId {
        redgrid_id_generator::TimeOrderedId::new(&self.client, name)
    }

    /// A rate that all processes keep together. See [`RateLimiter`](redgrid_rate_limiter::RateLimiter).
    #[cfg(feature = "rate-limiter")]
    #[doc(alias = "getRateLimiter")]
    pub fn rate_limiter(&self, name: impl AsRef<str>) -> redgrid_rate_limiter::RateLimiter {
        redgrid_rate_limiter::RateLimiter::new(&self.client, name)
    }

    /// The same with one number on the server, whatever the rate. See [`GcraLimiter`](redgrid_rate_limiter::GcraLimiter).
    #[cfg(feature = "rate-limiter")]
    pub fn gcra_limiter(
        &self,
        name: impl AsRef<str>,
        quota: redgrid_rate_limiter::Quota,
    ) -> redgrid_rate_limiter::GcraLimiter {
        redgrid_rate_limiter::GcraLimiter::new(&self.client, name, quota)
    }

    /// A sum of whole numbers that each process counts in its own memory. See [`LongAdder`](redgrid_atomic_long::LongAdder).
    #[cfg(feature = "atomic-long")]
    #[doc(alias = "getLongAdder")]
    pub fn long_adder(&self, name: impl AsRef<str>) -> redgrid_atomic_long::LongAdder {
        redgrid_atomic_long::LongAdder::new(&self.client, name)
    }

    /// A sum of floating point numbers that each process counts in its own memory. See
    /// [`DoubleAdder`](redgrid_atomic_long::DoubleAdder).
    #[cfg(feature = "atomic-long")]
    #[doc(alias = "getDoubleAdder")]
    pub fn double_adder(&self, name: impl AsRef<str>) -> redgrid_atomic_long::DoubleAdder {
        redgrid_atomic_long::DoubleAdder::new(&self.client, name)
    }

    /// A barrier of so many parties. See [`Barrier`](redgrid_barrier::Barrier).
    #[cfg(feature = "barrier")]
    pub fn barrier(&self, name: impl AsRef<str>, parties: u32) -> redgrid_barrier::Barrier {
        redgrid_barrier::Barrier::new(&self.client, name, parties)
    }

    /// A section that so many begin and end together. See [`DoubleBarrier`](redgrid_barrier::DoubleBarrier).
    #[cfg(feature = "barrier")]
    pub fn double_barrier(&self, name: impl AsRef<str>, parties: u32) -> redgrid_barrier::DoubleBarrier {
        redgrid_barrier::DoubleBarrier::new(&self.client, name, parties)
    }

    /// Work in phases by parties that come and go. See [`Phaser`](redgrid_barrier::Phaser).
    #[cfg(feature = "barrier")]
    pub fn phaser(&self, name: impl AsRef<str>) -> redgrid_barrier::Phaser {
        redgrid_barrier::Phaser::new(&self.client, name)
    }

    /// What tasks wait for under a lock. See [`Condition`](redgrid_barrier::Condition).
    #[cfg(feature = "barrier")]
    #[doc(alias = "newCondition")]
    pub fn condition(&self, name: impl AsRef<str>) -> redgrid_barrier::Condition {
        redgrid_barrier::Condition::new(&self.client, name)
    }

    /// Something that has happened, or has not yet. See [`Event`](redgrid_barrier::Event).
    #[cfg(feature = "barrier")]
    pub fn event(&self, name: impl AsRef<str>) -> redgrid_barrier::Event {
        redgrid_barrier::Event::new(&self.client, name)
    }

    /// A nudge for one who waits, or all. See [`Notify`](redgrid_barrier::Notify).
    #[cfg(feature = "barrier")]
    pub fn notify(&self, name: impl AsRef<str>) -> redgrid_barrier::Notify {
        redgrid_barrier::Notify::new(&self.client, name)
    }

    /// A command of any kind. See [`Client::command`].
    pub fn command(&self, name: &'static str) -> Command {
        self.client.command(name)
    }

    /// Waits until the server has answered. See [`Client::wait_ready`].
    ///
    /// # Errors
    ///
    /// [`NotReady`] when `within` is over; it says what stands in the way.
    pub async fn wait_ready(&self, within: Duration) -> Result<(), NotReady> {
        self.client.wait_ready(within).await
    }

    /// Gives back everything that is held, at once, and closes. See [`Client::shutdown`].
    ///
    /// # Errors
    ///
    /// [`NotClosed`] when `within` was over before everything was given back; leases end the rest.
    pub async fn shutdown(&self, within: Duration) -> Result<(), NotClosed> {
        self.client.shutdown(within).await
    }
}

impl From<Client> for Grid {
    fn from(client: Client) -> Self {
        Grid::new(client)
    }
}
