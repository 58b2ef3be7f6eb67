import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import java.util.concurrent.TimeUnit;

import org.redisson.api.RBlockingDeque;
import org.redisson.api.RBlockingQueue;
import org.redisson.api.RDelayedQueue;
import org.redisson.api.RRingBuffer;
import org.redisson.api.RedissonClient;
import org.redisson.api.queue.DequeMoveArgs;

/**
 * Queues: the verbs of {@link Peer} that begin with {@code queue}, {@code deque}, {@code delayed}
 * or {@code ring}.
 */
final class Queues {
    private Queues() {
    }

    /** {@code kind.verb NAME CODEC ARGUMENT…}; a value has the form of those of {@link Values}. */
    static Object perform(RedissonClient redisson, String[] words) throws InterruptedException {
        String[] verb = words[1].split("\\.", 2);
        String[] more = Arrays.copyOfRange(words, 4, words.length);
        switch (verb[0]) {
            case "queue":
                return queue(redisson.getBlockingQueue(words[2], Codecs.of(words[3])), verb[1], more);
            case "deque":
                return deque(redisson.getBlockingDeque(words[2], Codecs.of(words[3])), verb[1], more);
            case "ring":
                return ring(redisson.getRingBuffer(words[2], Codecs.of(words[3])), verb[1], more);
            default:
                return delayed(redisson.getDelayedQueue(redisson.getBlockingQueue(words[2], Codecs.of(words[3]))), verb[1], more);
        }
    }

    private static Object queue(RBlockingQueue<Object> queue, String verb, String[] words) throws InterruptedException {
        switch (verb) {
            case "addAll":
                return queue.addAll(values(words));
            case "poll":
                return queue.poll();
            case "pollWithin":
                return queue.poll(Long.parseLong(words[0]), TimeUnit.MILLISECONDS);
            case "pollLastAndOfferFirstTo":
                return words.length > 1 ? queue.pollLastAndOfferFirstTo(words[0], Long.parseLong(words[1]), TimeUnit.MILLISECONDS)
                    : queue.pollLastAndOfferFirstTo(words[0]);
            case "pollMany":
                return queue.poll(Integer.parseInt(words[0]));
            case "drainTo":
                List<Object> drained = new ArrayList<>();
                return queue.drainTo(drained, Integer.parseInt(words[0])) + " " + drained;
            case "takeUntil":
                return takeUntil(queue, Codecs.value(words[0]));
            case "contains":
                return queue.contains(Codecs.value(words[0]));
            case "remove":
                return queue.remove(Codecs.value(words[0]));
            case "peek":
                return queue.peek();
            case "readAll":
                return queue.readAll();
            default:
                throw new IllegalArgumentException("no such command: " + verb);
        }
    }

    private static Object deque(RBlockingDeque<Object> deque, String verb, String[] words) throws InterruptedException {
        switch (verb) {
            case "addFirst":
                deque.addFirst(Codecs.value(words[0]));
                return "";
            case "addLastIfExists":
                return deque.addLastIfExists(Codecs.value(words[0]));
            case "pollLast":
                return deque.pollLast();
            case "moveLastToFirst":
                return deque.move(DequeMoveArgs.pollLast().addFirstTo(words[0]));
            case "removeLastOccurrence":
                return deque.removeLastOccurrence(Codecs.value(words[0]));
            case "pollLastWithin":
                return deque.pollLast(Long.parseLong(words[0]), TimeUnit.MILLISECONDS);
            case "moveFirstToLast":
                return deque.move(DequeMoveArgs.pollFirst().addLastTo(words[0]));
            default:
                throw new IllegalArgumentException("no such command: " + verb);
        }
    }

    /**
     * Takes elements one after the other until {@code last} is taken; returns all earlier elements.
     */
    private static String takeUntil(RBlockingQueue<Object> queue, Object last) throws InterruptedException {
        List<String> taken = new ArrayList<>();
        for (Object next = queue.take(); !next.equals(last); next = queue.take()) {
            taken.add(String.valueOf(next));
        }
        return String.join(" ", taken);
    }

    private static Object delayed(RDelayedQueue<Object> delayed, String verb, String[] words) {
        try {
            switch (verb) {
                case "offer":
                    for (int n = 0; n < words.length; n += 2) {
                        delayed.offer(Codecs.value(words[n]), Long.parseLong(words[n + 1]), TimeUnit.MILLISECONDS);
                    }
                    return "";
                case "size":
                    return delayed.size();
                case "remove":
                    return delayed.remove(Codecs.value(words[0]));
                case "contains":
                    return delayed.contains(Codecs.value(words[0]));
                case "readAll":
                    return delayed.readAll();
                case "transfer":
                    // While the delayed queue is open, its task moves due elements to the queue.
                    Thread.sleep(Long.parseLong(words[0]));
                    return "";
                default:
                    throw new IllegalArgumentException("no such command: " + verb);
            }
        } catch (InterruptedException e) {
            throw new IllegalStateException(e);
        } finally {
            // No task of this process moves elements from here on.
            delayed.destroy();
        }
    }

    private static Object ring(RRingBuffer<Object> ring, String verb, String[] words) {
        switch (verb) {
            case "trySetCapacity":
                return ring.trySetCapacity(Integer.parseInt(words[0]));
            case "setCapacity":
                ring.setCapacity(Integer.parseInt(words[0]));
                return "";
            case "capacity":
                return ring.capacity();
            case "remainingCapacity":
                return ring.remainingCapacity();
            case "addAll":
                return ring.addAll(values(words));
            case "readAll":
                return ring.readAll();
            case "poll":
                return ring.poll();
            case "delete":
                return ring.delete();
            default:
                throw new IllegalArgumentException("no such command: " + verb);
        }
    }

    private static List<Object> values(String[] words) {
        List<Object> all = new ArrayList<>();
        for (String word : words) {
            all.add(Codecs.value(word));
        }
        return all;
    }
}
