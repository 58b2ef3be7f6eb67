import java.util.Collection;
import java.util.Collections;
import java.util.List;
import java.util.TreeSet;
import java.util.stream.Collectors;

import org.redisson.api.RMultimap;
import org.redisson.api.RedissonClient;
import org.redisson.client.codec.Codec;

/** Multimaps: the verbs of {@link Peer} that begin with {@code sets} or {@code lists}. */
final class Multimaps {
    private Multimaps() {
    }

    /** {@code kind.verb NAME CODEC ARGUMENT…}; a value is as those of {@link Values}. */
    static Object perform(RedissonClient redisson, String[] words) {
        String[] verb = words[1].split("\\.", 2);
        Codec codec = Codecs.of(words[3]);
        boolean sets = verb[0].equals("sets");
        RMultimap<Object, Object> map =
            sets ? redisson.getSetMultimap(words[2], codec) : redisson.getListMultimap(words[2], codec);
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
            case "fastRemove":
                return map.fastRemove(key);
            default:
                throw new IllegalArgumentException("no such command: " + words[1]);
        }
    }

    private static Collection<String> shown(Collection<Object> values, boolean sorted) {
        List<String> all = values.stream().map(String::valueOf).collect(Collectors.toList());
        return sorted ? new TreeSet<>(all) : all;
    }
}
