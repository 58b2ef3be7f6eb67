import java.time.Duration;
import java.util.ArrayList;
import java.util.List;

import org.redisson.api.RAtomicDouble;
import org.redisson.api.RAtomicLong;
import org.redisson.api.RExpirable;
import org.redisson.api.RedissonClient;

/**
 * Numbers of both kinds: the verbs of {@link Peer} that begin with {@code long} and {@code double}.
 */
final class Numbers {
    private Numbers() {
    }

    /** {@code kind.verb NAME ARGUMENT…}; times are in milliseconds. */
    static Object perform(RedissonClient redisson, String[] words) throws Exception {
        String[] verb = words[1].split("\\.", 2);
        if (verb[0].equals("long")) {
            RAtomicLong number = redisson.getAtomicLong(words[2]);
            return verb[1].equals("compareAndDelete")
                    ? compareAndDelete(RAtomicLong.class, number, words[3], long.class, Long.parseLong(words[4]))
                    : perform(number, verb[1], words);
        }
        RAtomicDouble number = redisson.getAtomicDouble(words[2]);
        return verb[1].equals("compareAndDelete")
                ? compareAndDelete(RAtomicDouble.class, number, words[3], double.class, Double.parseDouble(words[4]))
                : perform(number, verb[1], words);
    }

    private static Object perform(RAtomicLong number, String verb, String[] words) {
        switch (verb) {
            case "get":
                return number.get();
            case "set":
                number.set(whole(words[3]));
                return "";
            case "addAndGet":
                return number.addAndGet(whole(words[3]));
            case "getAndAdd":
                return number.getAndAdd(whole(words[3]));
            case "incrementAndGet":
                return number.incrementAndGet();
            case "decrementAndGet":
                return number.decrementAndGet();
            case "getAndIncrement":
                return number.getAndIncrement();
            case "getAndDecrement":
                return number.getAndDecrement();
            case "getAndSet":
                return number.getAndSet(whole(words[3]));
            case "getAndDelete":
                return number.getAndDelete();
            case "compareAndSet":
                return number.compareAndSet(whole(words[3]), whole(words[4]));
            case "setIfLess":
                return number.setIfLess(whole(words[3]), whole(words[4]));
            case "setIfGreater":
                return number.setIfGreater(whole(words[3]), whole(words[4]));
            case "crowd":
                List<String> had = new ArrayList<>();
                for (int n = 0; n < whole(words[3]); n++) {
                    had.add(String.valueOf(number.incrementAndGet()));
                }
                return String.join(",", had);
            default:
                return common(number, verb, words);
        }
    }

    private static Object perform(RAtomicDouble number, String verb, String[] words) {
        switch (verb) {
            case "get":
                return number.get();
            case "set":
                number.set(real(words[3]));
                return "";
            case "addAndGet":
                return number.addAndGet(real(words[3]));
            case "getAndAdd":
                return number.getAndAdd(real(words[3]));
            case "incrementAndGet":
                return number.incrementAndGet();
            case "decrementAndGet":
                return number.decrementAndGet();
            case "getAndIncrement":
                return number.getAndIncrement();
            case "getAndDecrement":
                return number.getAndDecrement();
            case "getAndSet":
                return number.getAndSet(real(words[3]));
            case "getAndDelete":
                return number.getAndDelete();
            case "compareAndSet":
                return number.compareAndSet(real(words[3]), real(words[4]));
            case "setIfLess":
                return number.setIfLess(real(words[3]), real(words[4]));
            case "setIfGreater":
                return number.setIfGreater(real(words[3]), real(words[4]));
            case "crowd":
                List<String> had = new ArrayList<>();
                for (int n = 0; n < whole(words[3]); n++) {
                    had.add(String.valueOf(number.addAndGet(0.5)));
                }
                return String.join(",", had);
            default:
                return common(number, verb, words);
        }
    }

    private static Object common(RExpirable number, String verb, String[] words) {
        switch (verb) {
            case "delete":
                return number.delete();
            case "isExists":
                return number.isExists();
            case "expire":
                return number.expire(Duration.ofMillis(whole(words[3])));
            case "remainTimeToLive":
                return number.remainTimeToLive();
            default:
                throw new IllegalArgumentException("no such command: " + verb);
        }
    }

    /** Not in the older line of Redisson. The condition has a name such as {@code less}. */
    private static Object compareAndDelete(Class<?> kind, Object number, String how, Class<?> of, Object threshold)
            throws Exception {
        Class<?> args = Class.forName("org.redisson.api.atomic.CompareAndDeleteArgs");
        Object condition = args.getMethod(how, of).invoke(null, threshold);
        return kind.getMethod("compareAndDelete", args).invoke(number, condition);
    }

    private static long whole(String word) {
        return Long.parseLong(word);
    }

    private static double real(String word) {
        return Double.parseDouble(word);
    }
}
