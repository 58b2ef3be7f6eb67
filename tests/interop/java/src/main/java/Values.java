import java.time.Duration;
import java.util.Map;
import java.util.TreeMap;

import org.redisson.api.RBucket;
import org.redisson.api.RMap;
import org.redisson.api.RedissonClient;
import org.redisson.client.codec.Codec;

/** Buckets and maps: the verbs of {@link Peer} that begin with {@code bucket} or {@code map}. */
final class Values {
    private Values() {
    }

    /** {@code kind.verb NAME CODEC ARGUMENT…}; a value is one of {@link Codecs#value}. */
    static Object perform(RedissonClient redisson, String[] words) {
        String[] verb = words[1].split("\\.", 2);
        Codec codec = Codecs.of(words[3]);
        if (verb[0].equals("bucket")) {
            return bucket(redisson.getBucket(words[2], codec), verb[1], words);
        }
        return map(redisson.getMap(words[2], codec), verb[1], words);
    }

    private static Object bucket(RBucket<Object> bucket, String verb, String[] words) {
        switch (verb) {
            case "get":
                return bucket.get();
            case "shown":
                return Codecs.shown(bucket.get());
            case "set":
                bucket.set(Codecs.value(words[4]));
                return "";
            case "setFor":
                bucket.set(Codecs.value(words[4]), Duration.ofMillis(Long.parseLong(words[5])));
                return "";
            case "setIfAbsent":
                return bucket.setIfAbsent(Codecs.value(words[4]));
            case "compareAndSet":
                return bucket.compareAndSet(Codecs.value(words[4]), Codecs.value(words[5]));
            case "getAndSet":
                return bucket.getAndSet(Codecs.value(words[4]));
            case "getAndDelete":
                return bucket.getAndDelete();
            case "remainTimeToLive":
                return bucket.remainTimeToLive();
            case "rename":
                bucket.rename(words[4]);
                return "";
            default:
                throw new IllegalArgumentException("no such command: " + words[1]);
        }
    }

    private static Object map(RMap<Object, Object> map, String verb, String[] words) {
        switch (verb) {
            case "get":
                return map.get(Codecs.value(words[4]));
            case "shown":
                return Codecs.shown(map.get(Codecs.value(words[4])));
            case "put":
                return map.put(Codecs.value(words[4]), Codecs.value(words[5]));
            case "putIfAbsent":
                return map.putIfAbsent(Codecs.value(words[4]), Codecs.value(words[5]));
            case "replace":
                return map.replace(Codecs.value(words[4]), Codecs.value(words[5]), Codecs.value(words[6]));
            case "remove":
                return map.remove(Codecs.value(words[4]));
            case "addAndGet":
                return map.addAndGet(Codecs.value(words[4]), (Number) Codecs.value(words[5]));
            case "containsValue":
                return map.containsValue(Codecs.value(words[4]));
            case "size":
                return map.size();
            case "readAllMap":
                Map<String, Object> sorted = new TreeMap<>();
                map.readAllMap().forEach((key, value) -> sorted.put(String.valueOf(key), value));
                return sorted;
            case "compute":
                // Adds one this many times, each time under a lock of the key.
                for (long n = Long.parseLong(words[5]); n > 0; n--) {
                    map.merge(Codecs.value(words[4]), 1L, (one, other) -> (Long) one + (Long) other);
                }
                return "";
            default:
                throw new IllegalArgumentException("no such command: " + words[1]);
        }
    }
}
