import java.util.Map;
import java.util.TreeMap;
import java.util.concurrent.ConcurrentHashMap;

import org.redisson.api.LocalCachedMapOptions;
import org.redisson.api.RLocalCachedMap;
import org.redisson.api.RTransaction;
import org.redisson.api.RedissonClient;
import org.redisson.api.TransactionOptions;

/** Maps that Redisson caches: the verbs of {@link Peer} that begin with {@code near}. */
final class LocalMaps {
    private static final Map<String, RLocalCachedMap<Object, Object>> MAPS = new ConcurrentHashMap<>();

    private LocalMaps() {
    }

    /**
     * {@code near.verb NAME CODEC ARGUMENT…}; one map for each name and codec, because each has its
     * own cache.
     */
    static Object perform(RedissonClient redisson, String[] words) {
        RLocalCachedMap<Object, Object> map = MAPS.computeIfAbsent(words[2] + "\t" + words[3], name -> of(redisson, words));
        switch (words[1].substring("near.".length())) {
            case "get":
                return map.get(Codecs.value(words[4]));
            case "put":
                return map.put(Codecs.value(words[4]), Codecs.value(words[5]));
            case "fastPut":
                return map.fastPut(Codecs.value(words[4]), Codecs.value(words[5]));
            case "fastPutIfAbsent":
                return map.fastPutIfAbsent(Codecs.value(words[4]), Codecs.value(words[5]));
            case "replace":
                return map.replace(Codecs.value(words[4]), Codecs.value(words[5]), Codecs.value(words[6]));
            case "fastReplace":
                return map.fastReplace(Codecs.value(words[4]), Codecs.value(words[5]));
            case "fastPutIfExists":
                return map.fastPutIfExists(Codecs.value(words[4]), Codecs.value(words[5]));
            case "putIfAbsent":
                return map.putIfAbsent(Codecs.value(words[4]), Codecs.value(words[5]));
            case "addAndGet":
                return map.addAndGet(Codecs.value(words[4]), (Number) Codecs.value(words[5]));
            case "removeIf":
                return map.remove(Codecs.value(words[4]), Codecs.value(words[5]));
            case "putAll":
                return putAll(map, words);
            case "remove":
                return map.remove(Codecs.value(words[4]));
            case "fastRemove":
                return map.fastRemove(Codecs.value(words[4]));
            case "clear":
                map.clear();
                return "";
            case "clearLocalCache":
                map.clearLocalCache();
                return "";
            case "cached":
                return new TreeMap<>(map.getCachedMap());
            case "transaction":
                RTransaction transaction = redisson.createTransaction(TransactionOptions.defaults());
                transaction.getLocalCachedMap(map).put(Codecs.value(words[4]), Codecs.value(words[5]));
                transaction.commit();
                return "";
            default:
                throw new IllegalArgumentException("no such command: " + words[1]);
        }
    }

    private static RLocalCachedMap<Object, Object> of(RedissonClient redisson, String[] words) {
        LocalCachedMapOptions<Object, Object> options = LocalCachedMapOptions.defaults();
        options.syncStrategy(words[2].endsWith(":update") ? LocalCachedMapOptions.SyncStrategy.UPDATE
            : words[2].endsWith(":none") ? LocalCachedMapOptions.SyncStrategy.NONE : LocalCachedMapOptions.SyncStrategy.INVALIDATE);
        if (words[2].endsWith(":small")) {
            options.cacheSize(2).evictionPolicy(LocalCachedMapOptions.EvictionPolicy.LRU);
        }
        options.reconnectionStrategy(LocalCachedMapOptions.ReconnectionStrategy.CLEAR);
        return redisson.getLocalCachedMap(words[2], Codecs.of(words[3]), options);
    }

    private static Object putAll(RLocalCachedMap<Object, Object> map, String[] words) {
        Map<Object, Object> all = new TreeMap<>();
        for (int at = 4; at < words.length; at += 2) {
            all.put(Codecs.value(words[at]), Codecs.value(words[at + 1]));
        }
        map.putAll(all);
        return "";
    }
}
