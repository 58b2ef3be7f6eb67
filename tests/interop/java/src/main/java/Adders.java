import java.util.Map;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.TimeUnit;

import org.redisson.api.RDoubleAdder;
import org.redisson.api.RLongAdder;
import org.redisson.api.RedissonClient;

/**
 * Adders: the verbs of {@link Peer} that begin with {@code adder} or {@code doubleAdder}. Objects
 * are kept, because they contain their counts.
 */
final class Adders {
    private static final Map<String, RLongAdder> LONGS = new ConcurrentHashMap<>();
    private static final Map<String, RDoubleAdder> DOUBLES = new ConcurrentHashMap<>();

    private Adders() {
    }

    /**
     * {@code adder.verb NAME ARGUMENT…}; the part of NAME after a {@code #} distinguishes objects
     * of one name.
     */
    static Object perform(RedissonClient redisson, String[] verb, String[] words) {
        String object = words[2];
        String name = object.split("#")[0];
        return verb[0].equals("adder")
                ? longs(LONGS.computeIfAbsent(object, o -> redisson.getLongAdder(name)), verb[1], words)
                : doubles(DOUBLES.computeIfAbsent(object, o -> redisson.getDoubleAdder(name)), verb[1], words);
    }

    private static Object longs(RLongAdder adder, String verb, String[] words) {
        switch (verb) {
            case "add":
                adder.add(Long.parseLong(words[3]));
                return "";
            case "count":
                for (long n = Long.parseLong(words[3]); n > 0; n--) {
                    adder.increment();
                }
                return "";
            case "sum":
                return adder.sum();
            case "sumWithin":
                return adder.sumAsync(Long.parseLong(words[3]), TimeUnit.MILLISECONDS).toCompletableFuture().join();
            case "reset":
                adder.reset();
                return "";
            case "destroy":
                LONGS.remove(words[2]).destroy();
                return "";
            default:
                throw new IllegalArgumentException("no such command: " + verb);
        }
    }

    private static Object doubles(RDoubleAdder adder, String verb, String[] words) {
        switch (verb) {
            case "add":
                adder.add(Double.parseDouble(words[3]));
                return "";
            case "sum":
                return adder.sum();
            case "reset":
                adder.reset();
                return "";
            case "destroy":
                DOUBLES.remove(words[2]).destroy();
                return "";
            default:
                throw new IllegalArgumentException("no such command: " + verb);
        }
    }
}
