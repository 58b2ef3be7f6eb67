import java.time.Duration;
import java.util.concurrent.TimeUnit;

import org.redisson.api.RRateLimiter;
import org.redisson.api.RateLimiterConfig;
import org.redisson.api.RateType;
import org.redisson.api.RedissonClient;

/** Rate limiters: the verbs of {@link Peer} that begin with {@code rate}. */
final class Rates {
    private Rates() {
    }

    /** {@code rate.verb NAME ARGUMENT…}; times are in milliseconds. */
    static Object perform(RedissonClient redisson, String[] words) throws Exception {
        RRateLimiter limiter = redisson.getRateLimiter(words[2]);
        switch (words[1].substring("rate.".length())) {
            case "trySetRate":
                return words.length > 6
                        ? limiter.trySetRate(type(words), number(words[4]), time(words[5]), time(words[6]))
                        : limiter.trySetRate(type(words), number(words[4]), time(words[5]));
            case "setRate":
                limiter.setRate(type(words), number(words[4]), time(words[5]));
                return "";
            case "keepState":
                return keepState(limiter, words);
            case "getConfig":
                RateLimiterConfig config = limiter.getConfig();
                return config.getRateType() + " " + config.getRate() + " " + config.getRateInterval();
            case "tryAcquire":
                return limiter.tryAcquire(number(words[3]), number(words[4]), TimeUnit.MILLISECONDS);
            case "acquire":
                limiter.acquire(number(words[3]));
                return "";
            case "acquireMany":
                for (long n = number(words[3]); n > 0; n--) {
                    limiter.acquire(1);
                }
                return "";
            case "release":
                limiter.release(number(words[3]));
                return "";
            case "availablePermits":
                return limiter.availablePermits();
            case "expire":
                return limiter.expire(time(words[3]));
            case "delete":
                return limiter.delete();
            default:
                throw new IllegalArgumentException("no such command: " + words[1]);
        }
    }

    /** Keeps the state while the rate changes; not in the older line of Redisson. */
    private static Object keepState(RRateLimiter limiter, String[] words) throws Exception {
        Class<?> kind = Class.forName("org.redisson.api.ratelimiter.RateLimiterArgs");
        Object args = kind.getMethod("of", RateType.class, long.class, Duration.class)
                .invoke(null, type(words), number(words[4]), time(words[5]));
        args = kind.getMethod("keepState", boolean.class).invoke(args, true);
        return RRateLimiter.class.getMethod("updateRate", kind).invoke(limiter, args);
    }

    private static RateType type(String[] words) {
        return RateType.valueOf(words[3]);
    }

    private static Duration time(String word) {
        return Duration.ofMillis(number(word));
    }

    private static long number(String word) {
        return Long.parseLong(word);
    }
}
