import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.io.PrintStream;
import java.nio.charset.StandardCharsets;
import java.util.HashMap;
import java.util.Map;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import java.util.concurrent.TimeUnit;

import org.redisson.Redisson;
import org.redisson.api.RLock;
import org.redisson.api.RedissonClient;
import org.redisson.config.Config;

/**
 * Redisson as another process: {@code Peer URL WATCHDOG_MS}, with Redisson's defaults except for
 * these two.
 *
 * <p>Prints {@code ready ID}. Then it takes one command a line, with words separated by tabs:
 * {@code ACTOR VERB ARGUMENT…}. An actor is a thread, created when it is first named; Redisson sees
 * it as a holder. The answer is {@code ACTOR started} when the actor begins, and
 * {@code ACTOR ok VALUE} or {@code ACTOR error CLASS MESSAGE} when it is done. The process ends, as
 * if killed, when its standard input ends.
 */
public final class Peer {
    private static final PrintStream OUT = new PrintStream(System.out, true, StandardCharsets.UTF_8);

    private final RedissonClient redisson;
    private final Map<String, ExecutorService> actors = new HashMap<>();
    private final Map<String, Thread> threads = new ConcurrentHashMap<>();

    private Peer(RedissonClient redisson) {
        this.redisson = redisson;
    }

    public static void main(String[] args) throws Exception {
        Config config = new Config();
        // Redisson repeats a command without an answer. On a busy machine, the default of 3 s is too
        // short: a removal that is repeated returns that there was nothing to remove.
        config.useSingleServer().setAddress(args[0]).setTimeout(30_000);
        config.setLockWatchdogTimeout(Long.parseLong(args[1]));
        RedissonClient redisson = Redisson.create(config);
        say("ready", redisson.getId());
        Peer peer = new Peer(redisson);
        BufferedReader in = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        for (String line = in.readLine(); line != null; line = in.readLine()) {
            String[] words = line.split("\t");
            peer.actor(words[0]).execute(() -> peer.act(words));
        }
        Runtime.getRuntime().halt(0);
    }

    private ExecutorService actor(String name) {
        return actors.computeIfAbsent(name, n -> Executors.newSingleThreadExecutor(task -> {
            Thread thread = new Thread(task, n);
            threads.put(n, thread);
            return thread;
        }));
    }

    private void act(String[] words) {
        say(words[0], "started");
        try {
            say(words[0], "ok", String.valueOf(perform(words)));
        } catch (Throwable thrown) {
            say(words[0], "error", thrown.getClass().getSimpleName(), String.valueOf(thrown.getMessage()));
        }
    }

    private Object perform(String[] words) throws Exception {
        if (words[1].startsWith("plain.") || words[1].startsWith("leased.")) {
            return Permits.perform(redisson, words);
        }
        if (words[1].startsWith("rate.")) {
            return Rates.perform(redisson, words);
        }
        if (words[1].startsWith("long.") || words[1].startsWith("double.")) {
            return Numbers.perform(redisson, words);
        }
        if (words[1].startsWith("key.")) {
            return OfKeys.perform(redisson, words);
        }
        if (words[1].matches("(queue|deque|delayed|ring)\\..*")) {
            return Queues.perform(redisson, words);
        }
        if (words[1].startsWith("list.")) {
            return Lists.perform(redisson, words);
        }
        if (words[1].startsWith("set.") || words[1].startsWith("scored.") || words[1].startsWith("lex.")) {
            return Sets.perform(redisson, words);
        }
        if (words[1].startsWith("stream.")) {
            return Streams.perform(redisson, words);
        }
        if (words[1].matches("(mapCache|nativeMapCache|setCache)\\..*")) {
            return Caches.perform(redisson, words);
        }
        if (words[1].matches("(sets|lists|(expiring|native)(Sets|Lists))\\..*")) {
            return Multimaps.perform(redisson, words);
        }
        if (words[1].startsWith("bucket.") || words[1].startsWith("map.")) {
            return Values.perform(redisson, words);
        }
        if (words[1].startsWith("near.")) {
            return LocalMaps.perform(redisson, words);
        }
        if (words[1].startsWith("script.")) {
            return Scripts.perform(redisson, words);
        }
        if (words[1].startsWith("keys.")) {
            return KeySpace.perform(redisson, words);
        }
        if (words[1].startsWith("tx.")) {
            return Transactions.perform(redisson, words);
        }
        if (words[1].matches("(bits|bloom|hll|geo)\\..*")) {
            return Bits.perform(redisson, words);
        }
        if (words[1].matches("(topic|sharded|pattern|reliable)\\..*")) {
            return Topics.perform(redisson, words);
        }
        if (words[1].contains(".")) {
            return Variants.perform(redisson, words);
        }
        boolean fair = words[1].startsWith("fair:");
        String verb = fair ? words[1].substring("fair:".length()) : words[1];
        // A new object each time: Redisson keeps the last lease in it.
        RLock lock = fair ? redisson.getFairLock(words[2]) : lock(words[2]);
        switch (verb) {
            case "lock":
                if (words.length > 3) {
                    lock.lock(number(words[3]), TimeUnit.MILLISECONDS);
                } else {
                    lock.lock();
                }
                return "";
            case "tryLock":
                // With a lease of -1 the watchdog renews the lock.
                return lock.tryLock(number(words[3]), number(words[4]), TimeUnit.MILLISECONDS);
            case "unlock":
                lock.unlock();
                return "";
            case "forceUnlock":
                return lock.forceUnlock();
            case "isLocked":
                return lock.isLocked();
            case "isHeld":
                return lock.isHeldByCurrentThread();
            case "holdCount":
                return lock.getHoldCount();
            case "ttl":
                return lock.remainTimeToLive();
            case "thread":
                return Thread.currentThread().getId();
            case "sleeps":
                return sleeps(threads.get(words[2]));
            case "sleepsAtLatch":
                return sleepsAtLatch(threads.get(words[2]));
            case "count":
                return Variants.count(redisson, lock, words[3], number(words[4]));
            default:
                throw new IllegalArgumentException("no such command: " + verb);
        }
    }

    /** Returns a lock by its name, which begins with the kind of the lock unless it is ordinary. */
    private RLock lock(String word) {
        String name = word.substring(word.indexOf('|') + 1);
        if (word.startsWith("read|")) {
            return redisson.getReadWriteLock(name).readLock();
        }
        if (word.startsWith("write|")) {
            return redisson.getReadWriteLock(name).writeLock();
        }
        return redisson.getLock(word);
    }

    /**
     * Whether a thread has subscribed, has found the lock taken again, and waits for the message.
     */
    private static boolean sleeps(Thread thread) {
        for (StackTraceElement frame : thread.getStackTrace()) {
            // Redisson uses this class only to wait for the lock's channel, not for the server.
            if (frame.getClassName().equals("java.util.concurrent.Semaphore")) {
                return true;
            }
        }
        return false;
    }

    /**
     * Whether a thread waits at a latch for the message. While it waits for the server instead, its
     * stack trace contains futures.
     */
    private static boolean sleepsAtLatch(Thread thread) {
        boolean waits = false;
        for (StackTraceElement frame : thread.getStackTrace()) {
            String of = frame.getClassName();
            if (of.contains("Future") || of.contains("CommandAsync")) {
                return false;
            }
            waits |= of.equals("org.redisson.RedissonCountDownLatch") && frame.getMethodName().equals("await");
        }
        return waits;
    }

    private static long number(String word) {
        return Long.parseLong(word);
    }

    private static void say(String... words) {
        String line = String.join("\t", words).replace('\n', ' ').replace('\r', ' ');
        synchronized (OUT) {
            OUT.println(line);
        }
    }
}
