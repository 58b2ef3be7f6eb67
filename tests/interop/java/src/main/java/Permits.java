import java.time.Duration;
import java.util.Arrays;
import java.util.List;
import java.util.concurrent.TimeUnit;

import org.redisson.api.RAtomicLong;
import org.redisson.api.RPermitExpirableSemaphore;
import org.redisson.api.RSemaphore;
import org.redisson.api.RedissonClient;

/**
 * Semaphores of both kinds: the verbs of {@link Peer} that begin with {@code plain} and {@code
 * leased}.
 */
final class Permits {
    private Permits() {
    }

    /**
     * {@code kind.verb NAME ARGUMENT…}; times are in milliseconds, several ids are separated by
     * commas.
     */
    static Object perform(RedissonClient redisson, String[] words) throws Exception {
        String[] verb = words[1].split("\\.", 2);
        if (verb[0].equals("plain")) {
            return plain(redisson, redisson.getSemaphore(words[2]), verb[1], words);
        }
        return leased(redisson, redisson.getPermitExpirableSemaphore(words[2]), verb[1], words);
    }

    private static Object plain(RedissonClient redisson, RSemaphore semaphore, String verb, String[] words)
            throws Exception {
        switch (verb) {
            case "trySetPermits":
                return words.length > 4
                        ? semaphore.trySetPermits(number(words[3]), Duration.ofMillis(number(words[4])))
                        : semaphore.trySetPermits(number(words[3]));
            case "addPermits":
                semaphore.addPermits(number(words[3]));
                return "";
            case "availablePermits":
                return semaphore.availablePermits();
            case "drainPermits":
                return semaphore.drainPermits();
            case "acquire":
                semaphore.acquire(number(words[3]));
                return "";
            case "tryAcquire":
                return semaphore.tryAcquire(number(words[3]), number(words[4]), TimeUnit.MILLISECONDS);
            case "release":
                semaphore.release(number(words[3]));
                return "";
            case "releaseIfExists":
                // The older line of Redisson does not have this method.
                return RSemaphore.class.getMethod(verb, int.class).invoke(semaphore, number(words[3]));
            case "delete":
                return semaphore.delete();
            case "crowd":
                return crowd(redisson.getAtomicLong(words[3]), number(words[4]), permits -> {
                    semaphore.acquire(permits);
                    return () -> semaphore.release(permits);
                });
            default:
                throw new IllegalArgumentException("no such command: " + verb);
        }
    }

    private static Object leased(RedissonClient redisson, RPermitExpirableSemaphore semaphore, String verb,
            String[] words) throws Exception {
        switch (verb) {
            case "trySetPermits":
                return semaphore.trySetPermits(number(words[3]));
            case "setPermits":
                semaphore.setPermits(number(words[3]));
                return "";
            case "addPermits":
                semaphore.addPermits(number(words[3]));
                return "";
            case "availablePermits":
                return semaphore.availablePermits();
            case "acquiredPermits":
                return semaphore.acquiredPermits();
            case "getPermits":
                return semaphore.getPermits();
            case "acquire":
                // Without a lease the permits never expire.
                return String.join(",", words.length > 4
                        ? semaphore.acquire(number(words[3]), number(words[4]), TimeUnit.MILLISECONDS)
                        : semaphore.acquire(number(words[3])));
            case "tryAcquire":
                // The answer is empty if too few permits are available.
                return String.join(",", semaphore.tryAcquire(number(words[3])));
            case "tryRelease":
                return semaphore.tryRelease(words[3]);
            case "release":
                semaphore.release(words[3]);
                return "";
            case "tryReleaseAll":
                return semaphore.tryRelease(ids(words[3]));
            case "updateLeaseTime":
                return semaphore.updateLeaseTime(words[3], number(words[4]), TimeUnit.MILLISECONDS);
            case "getLeaseTime":
                return semaphore.getLeaseTime(words[3]);
            case "delete":
                return semaphore.delete();
            case "crowd":
                return crowd(redisson.getAtomicLong(words[3]), number(words[4]), permits -> {
                    List<String> ids = semaphore.acquire(permits, 60_000, TimeUnit.MILLISECONDS);
                    return () -> semaphore.release(ids);
                });
            default:
                throw new IllegalArgumentException("no such command: " + verb);
        }
    }

    /**
     * Takes one to three permits this many times, counts the permits in use, and returns the
     * highest count.
     */
    private static long crowd(RAtomicLong inside, int times, Taking taking) throws Exception {
        long most = 0;
        for (int n = 0; n < times; n++) {
            int permits = 1 + n % 3;
            Runnable giving = taking.take(permits);
            most = Math.max(most, inside.addAndGet(permits));
            inside.addAndGet(-permits);
            giving.run();
        }
        return most;
    }

    private interface Taking {
        Runnable take(int permits) throws Exception;
    }

    private static List<String> ids(String word) {
        return Arrays.asList(word.split(","));
    }

    private static int number(String word) {
        return Integer.parseInt(word);
    }
}
