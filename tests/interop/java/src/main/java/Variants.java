import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.TimeUnit;

import org.redisson.api.RBucket;
import org.redisson.api.RCountDownLatch;
import org.redisson.api.RFencedLock;
import org.redisson.api.RIdGenerator;
import org.redisson.api.RLock;
import org.redisson.api.RedissonClient;
import org.redisson.client.codec.StringCodec;

/**
 * Fenced, spinning and multiple locks, latches and ids: the verbs of {@link Peer} that begin with
 * their kind.
 */
final class Variants {
    /** Generators by their names: each generator has its own block of ids. */
    private static final Map<String, RIdGenerator> GENERATORS = new ConcurrentHashMap<>();

    private Variants() {
    }

    /** {@code kind.verb NAME ARGUMENT…}; several names are separated by commas. */
    static Object perform(RedissonClient redisson, String[] words) throws InterruptedException {
        String[] verb = words[1].split("\\.", 2);
        switch (verb[0]) {
            case "fenced":
                return fenced(redisson.getFencedLock(words[2]), verb[1], words);
            case "spin":
                return plain(redisson, redisson.getSpinLock(words[2]), verb[1], words);
            case "adder":
            case "doubleAdder":
                return Adders.perform(redisson, verb, words);
            case "latch":
                return latch(redisson.getCountDownLatch(words[2]), verb[1], words);
            case "ids":
                return ids(GENERATORS.computeIfAbsent(words[2], redisson::getIdGenerator), verb[1], words);
            case "multi":
                List<RLock> locks = new ArrayList<>();
                for (String name : words[2].split(",")) {
                    locks.add(redisson.getLock(name));
                }
                return plain(redisson, redisson.getMultiLock(locks.toArray(new RLock[0])), verb[1], words);
            default:
                throw new IllegalArgumentException("no such command: " + words[1]);
        }
    }

    private static Object fenced(RFencedLock lock, String verb, String[] words) throws InterruptedException {
        switch (verb) {
            case "lockAndGetToken":
                return lock.lockAndGetToken();
            case "tryLockAndGetToken":
                // There is no token if the lock is not acquired in time.
                return lock.tryLockAndGetToken(number(words[3]), TimeUnit.MILLISECONDS);
            case "getToken":
                return lock.getToken();
            case "unlock":
                lock.unlock();
                return "";
            default:
                throw new IllegalArgumentException("no such command: " + verb);
        }
    }

    private static Object latch(RCountDownLatch latch, String verb, String[] words) throws InterruptedException {
        switch (verb) {
            case "trySetCount":
                return latch.trySetCount(number(words[3]));
            case "countDown":
                latch.countDown();
                return "";
            case "getCount":
                return latch.getCount();
            case "delete":
                return latch.delete();
            case "await":
                if (words.length > 3) {
                    return latch.await(number(words[3]), TimeUnit.MILLISECONDS);
                }
                latch.await();
                return "";
            default:
                throw new IllegalArgumentException("no such command: " + verb);
        }
    }

    private static Object ids(RIdGenerator ids, String verb, String[] words) {
        switch (verb) {
            case "tryInit":
                return ids.tryInit(number(words[3]), number(words[4]));
            case "nextIds":
                List<String> had = new ArrayList<>();
                for (long n = 0; n < number(words[3]); n++) {
                    had.add(String.valueOf(ids.nextId()));
                }
                return String.join(",", had);
            case "delete":
                return ids.delete();
            default:
                throw new IllegalArgumentException("no such command: " + verb);
        }
    }

    private static Object plain(RedissonClient redisson, RLock lock, String verb, String[] words)
            throws InterruptedException {
        switch (verb) {
            case "lock":
                lock.lock();
                return "";
            case "tryLock":
                return lock.tryLock(number(words[3]), TimeUnit.MILLISECONDS);
            case "unlock":
                lock.unlock();
                return "";
            case "count":
                return count(redisson, lock, words[3], number(words[4]));
            default:
                throw new IllegalArgumentException("no such command: " + verb);
        }
    }

    /**
     * Adds one to a counter this many times, under the lock and in two steps, so that two holders
     * at a time would lose updates.
     */
    static long count(RedissonClient redisson, RLock lock, String counter, long times) {
        RBucket<String> bucket = redisson.getBucket(counter, StringCodec.INSTANCE);
        for (long n = 0; n < times; n++) {
            lock.lock();
            try {
                String value = bucket.get();
                bucket.set(String.valueOf(value == null ? 1 : Long.parseLong(value) + 1));
            } finally {
                lock.unlock();
            }
        }
        return times;
    }

    private static long number(String word) {
        return Long.parseLong(word);
    }
}
