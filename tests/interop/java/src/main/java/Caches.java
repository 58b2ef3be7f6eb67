import java.time.Duration;
import java.util.Arrays;
import java.util.Map;
import java.util.TreeMap;
import java.util.TreeSet;
import java.util.concurrent.TimeUnit;
import java.util.stream.Collectors;

import org.redisson.api.EvictionMode;
import org.redisson.api.RMapCache;
import org.redisson.api.RMapCacheNative;
import org.redisson.api.RSetCache;
import org.redisson.api.RedissonClient;
import org.redisson.api.map.event.EntryCreatedListener;
import org.redisson.api.map.event.EntryExpiredListener;
import org.redisson.api.map.event.EntryRemovedListener;
import org.redisson.api.map.event.EntryUpdatedListener;
import org.redisson.client.codec.Codec;

/**
 * Caches: the verbs of {@link Peer} that begin with {@code mapCache}, {@code nativeMapCache} or
 * {@code setCache}.
 */
final class Caches {
    /** The events that listeners have received. */
    private static final StringBuffer HEARD = new StringBuffer();

    private Caches() {
    }

    /**
     * {@code kind.verb NAME CODEC ARGUMENT…}; a value has the form of those of {@link Values}, a
     * time is in milliseconds, 0 for none.
     */
    static Object perform(RedissonClient redisson, String[] words) {
        String[] verb = words[1].split("\\.", 2);
        Codec codec = Codecs.of(words[3]);
        switch (verb[0]) {
            case "mapCache":
                return onMap(redisson.getMapCache(words[2], codec), verb[1], words);
            case "nativeMapCache":
                return onNative(redisson.getMapCacheNative(words[2], codec), verb[1], words);
            default:
                return onSet(redisson.getSetCache(words[2], codec), verb[1], words);
        }
    }

    private static Object onMap(RMapCache<Object, Object> map, String verb, String[] words) {
        Object key = words.length > 4 ? Codecs.value(words[4]) : null;
        switch (verb) {
            case "put":
                return map.put(key, Codecs.value(words[5]), time(words[6]), TimeUnit.MILLISECONDS, time(words[7]),
                    TimeUnit.MILLISECONDS);
            case "fastPut":
                return map.fastPut(key, Codecs.value(words[5]));
            case "putIfAbsent":
                return map.putIfAbsent(key, Codecs.value(words[5]), time(words[6]), TimeUnit.MILLISECONDS);
            case "get":
                return map.get(key);
            case "getWithTTLOnly":
                return map.getWithTTLOnly(key);
            case "fastPutFor":
                return map.fastPut(key, Codecs.value(words[5]), time(words[6]), TimeUnit.MILLISECONDS, time(words[7]),
                    TimeUnit.MILLISECONDS);
            case "fastPutIfAbsent":
                return map.fastPutIfAbsent(key, Codecs.value(words[5]), time(words[6]), TimeUnit.MILLISECONDS);
            case "putAll":
                map.putAll(entries(words), time(words[4]), TimeUnit.MILLISECONDS);
                return "";
            case "expireEntry":
                return map.expireEntry(key, Duration.ofMillis(time(words[5])), Duration.ofMillis(time(words[6])));
            case "expireEntryIfNotSet":
                return map.expireEntryIfNotSet(key, Duration.ofMillis(time(words[5])), Duration.ofMillis(time(words[6])));
            case "replace":
                return words.length > 6 ? map.replace(key, Codecs.value(words[5]), Codecs.value(words[6]))
                    : map.replace(key, Codecs.value(words[5]));
            case "putIfExists":
                return map.putIfExists(key, Codecs.value(words[5]));
            case "removeIf":
                return map.remove(key, Codecs.value(words[5]));
            case "fastRemove":
                return map.fastRemove(Arrays.stream(words).skip(4).map(Codecs::value).toArray());
            case "getAll":
                return new TreeMap<>(map.getAll(Arrays.stream(words).skip(4).map(Codecs::value).collect(Collectors.toSet())));
            case "addAndGet":
                return map.addAndGet(key, (Number) Codecs.value(words[5]));
            case "computeIfAbsent":
                return map.computeIfAbsent(key, absent -> Codecs.value(words[5]));
            case "containsValue":
                return map.containsValue(key);
            case "keySet":
                return new TreeSet<>(map.readAllKeySet());
            case "delete":
                return map.delete();
            case "containsKey":
                return map.containsKey(key);
            case "remove":
                return map.remove(key);
            case "size":
                return map.size();
            case "remainTimeToLive":
                return map.remainTimeToLive(key);
            case "readAllMap":
                return new TreeMap<>(map.readAllMap());
            case "setMaxSize":
                map.setMaxSize(Integer.parseInt(words[4]), EvictionMode.valueOf(words[5]));
                return "set";
            case "listen":
                HEARD.setLength(0);
                map.addListener((EntryCreatedListener<Object, Object>) e -> heard("created", e.getKey(), e.getValue()));
                map.addListener((EntryUpdatedListener<Object, Object>) e -> heard("updated", e.getKey(),
                    e.getOldValue() + ">" + e.getValue()));
                map.addListener((EntryRemovedListener<Object, Object>) e -> heard("removed", e.getKey(),
                    e.getOldValue()));
                map.addListener((EntryExpiredListener<Object, Object>) e -> heard("expired", e.getKey(), e.getValue()));
                return "listening";
            case "heard":
                return HEARD.toString();
            default:
                throw new IllegalArgumentException("no such command: " + words[1]);
        }
    }

    private static Object onNative(RMapCacheNative<Object, Object> map, String verb, String[] words) {
        Object key = words.length > 4 ? Codecs.value(words[4]) : null;
        switch (verb) {
            case "put":
                return words.length > 6 ? map.put(key, Codecs.value(words[5]), Duration.ofMillis(time(words[6])))
                    : map.put(key, Codecs.value(words[5]));
            case "putIfAbsent":
                return map.putIfAbsent(key, Codecs.value(words[5]), Duration.ofMillis(time(words[6])));
            case "putAll":
                map.putAll(entries(words), Duration.ofMillis(time(words[4])));
                return "";
            case "get":
                return map.get(key);
            case "replace":
                return map.replace(key, Codecs.value(words[5]));
            case "containsKey":
                return map.containsKey(key);
            case "remainTimeToLive":
                return map.remainTimeToLive(key);
            case "expireEntry":
                return map.expireEntry(key, Duration.ofMillis(time(words[5])));
            case "expireEntryIfNotSet":
                return map.expireEntryIfNotSet(key, Duration.ofMillis(time(words[5])));
            case "clearExpire":
                return map.clearExpire(key);
            case "remove":
                return map.remove(key);
            case "size":
                return map.size();
            case "readAllMap":
                return new TreeMap<>(map.readAllMap());
            default:
                throw new IllegalArgumentException("no such command: " + words[1]);
        }
    }

    private static Map<Object, Object> entries(String[] words) {
        Map<Object, Object> all = new TreeMap<>();
        for (int at = 5; at < words.length; at += 2) {
            all.put(Codecs.value(words[at]), Codecs.value(words[at + 1]));
        }
        return all;
    }

    private static void heard(String what, Object key, Object value) {
        // One call, because events come on several threads.
        HEARD.append(what + ' ' + key + ' ' + value + ';');
    }

    private static long time(String word) {
        return Long.parseLong(word);
    }

    private static Object onSet(RSetCache<Object> set, String verb, String[] words) {
        Object value = words.length > 4 ? Codecs.value(words[4]) : null;
        switch (verb) {
            case "add":
                return words.length > 5 ? set.add(value, time(words[5]), TimeUnit.MILLISECONDS) : set.add(value);
            case "contains":
                return set.contains(value);
            case "addIfAbsent":
                return set.addIfAbsent(Duration.ofMillis(time(words[5])), value);
            case "addIfExists":
                return set.addIfExists(Duration.ofMillis(time(words[5])), value);
            case "addIfGreater":
                return set.addIfGreater(Duration.ofMillis(time(words[5])), value);
            case "addIfLess":
                return set.addIfLess(Duration.ofMillis(time(words[5])), value);
            case "tryAdd":
                return set.tryAdd(time(words[4]), TimeUnit.MILLISECONDS, Arrays.stream(words).skip(5).map(Codecs::value).toArray());
            case "removeAll":
                return set.removeAll(Arrays.stream(words).skip(4).map(Codecs::value).collect(Collectors.toList()));
            case "containsAll":
                return set.containsAll(Arrays.stream(words).skip(4).map(Codecs::value).collect(Collectors.toList()));
            case "delete":
                return set.delete();
            case "remove":
                return set.remove(value);
            case "size":
                return set.size();
            case "readAll":
                return new TreeSet<>(set.readAll());
            default:
                throw new IllegalArgumentException("no such command: " + words[1]);
        }
    }
}
