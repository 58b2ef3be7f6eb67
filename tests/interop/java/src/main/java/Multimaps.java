import java.time.Duration;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.Collection;
import java.util.Collections;
import java.util.List;
import java.util.TreeSet;
import java.util.concurrent.TimeUnit;
import java.util.stream.Collectors;

import org.redisson.api.RListMultimap;
import org.redisson.api.RMultimap;
import org.redisson.api.RMultimapCache;
import org.redisson.api.RedissonClient;
import org.redisson.client.codec.Codec;

/**
 * Multimaps: the verbs of {@link Peer} that begin with {@code sets} or {@code lists}, also with the
 * prefix {@code expiring} or {@code native}.
 */
final class Multimaps {
    private Multimaps() {
    }

    /** {@code kind.verb NAME CODEC ARGUMENT…}; a value has the form of those of {@link Values}. */
    static Object perform(RedissonClient redisson, String[] words) {
        String[] verb = words[1].split("\\.", 2);
        Codec codec = Codecs.of(words[3]);
        boolean sets = verb[0].endsWith("ets");
        RMultimap<Object, Object> map = map(redisson, verb[0], words[2], codec);
        Object key = words.length > 4 ? Codecs.value(words[4]) : null;
        Object value = words.length > 5 ? Codecs.value(words[5]) : null;
        switch (verb[1]) {
            case "put":
                return map.put(key, value);
            case "getAll":
                return shown(map.getAll(key), sets);
            case "size":
                return map.size();
            case "keySize":
                return map.keySize();
            case "containsKey":
                return map.containsKey(key);
            case "containsEntry":
                return map.containsEntry(key, value);
            case "containsValue":
                return map.containsValue(key);
            case "replaceValues":
                return shown(map.replaceValues(key, Collections.singletonList(value)), sets);
            case "remove":
                return map.remove(key, value);
            case "removeAll":
                return shown(map.removeAll(key), sets);
            case "fastRemove":
                return map.fastRemove(key);
            case "expireKey":
                // Both kinds have this method, but RMultimap does not.
                return ((RMultimapCache<Object, Object>) map).expireKey(key, Long.parseLong(words[5]), TimeUnit.MILLISECONDS);
            case "expire":
                return map.expire(Duration.ofMillis(Long.parseLong(words[4])));
            case "remainTimeToLive":
                return map.remainTimeToLive();
            case "clearExpire":
                return map.clearExpire();
            case "rename":
                map.rename(words[4]);
                return "done";
            case "delete":
                return map.delete();
            case "putAll":
                return map.putAll(key, values(words, 5));
            case "fastReplaceValues":
                map.fastReplaceValues(key, values(words, 5));
                return "";
            case "keySet":
                return new TreeSet<>(map.readAllKeySet());
            case "values":
                return new ArrayList<>(map.values()).stream().map(String::valueOf).sorted().collect(Collectors.toList());
            case "entries":
                return map.entries().stream().map(String::valueOf).sorted().collect(Collectors.toList());
            case "clear":
                map.clear();
                return "";
            case "get.add":
                return map.get(key).add(value);
            case "get.remove":
                return map.get(key).remove(value);
            case "get.size":
                return map.get(key).size();
            case "get.addAt":
                ((RListMultimap<Object, Object>) map).get(key).add(Integer.parseInt(words[6]), value);
                return "";
            case "get.set":
                return ((RListMultimap<Object, Object>) map).get(key).set(Integer.parseInt(words[6]), value);
            default:
                throw new IllegalArgumentException("no such command: " + words[1]);
        }
    }

    private static RMultimap<Object, Object> map(RedissonClient redisson, String kind, String name, Codec codec) {
        switch (kind) {
            case "sets":
                return redisson.getSetMultimap(name, codec);
            case "lists":
                return redisson.getListMultimap(name, codec);
            case "expiringSets":
                return redisson.getSetMultimapCache(name, codec);
            case "expiringLists":
                return redisson.getListMultimapCache(name, codec);
            case "nativeSets":
                return redisson.getSetMultimapCacheNative(name, codec);
            case "nativeLists":
                return redisson.getListMultimapCacheNative(name, codec);
            default:
                throw new IllegalArgumentException("no such map: " + kind);
        }
    }

    private static List<Object> values(String[] words, int from) {
        return Arrays.stream(words).skip(from).map(Codecs::value).collect(Collectors.toList());
    }

    private static Collection<String> shown(Collection<Object> values, boolean sorted) {
        List<String> all = values.stream().map(String::valueOf).collect(Collectors.toList());
        return sorted ? new TreeSet<>(all) : all;
    }
}
