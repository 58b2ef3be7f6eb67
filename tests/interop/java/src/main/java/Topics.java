import java.util.Map;
import java.util.StringJoiner;
import java.util.concurrent.BlockingQueue;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.LinkedBlockingQueue;
import java.util.concurrent.TimeUnit;

import org.redisson.api.*;
import org.redisson.client.codec.Codec;

/**
 * Topics: the verbs of {@link Peer} that begin with {@code topic}, {@code sharded}, {@code pattern}
 * or {@code reliable}.
 */
final class Topics {
    /** The messages that listeners received, by the name of their topic or pattern. */
    private static final Map<String, BlockingQueue<String>> HEARD = new ConcurrentHashMap<>();

    /** The actions that end listeners. */
    private static final Map<String, Runnable> LISTENERS = new ConcurrentHashMap<>();

    private Topics() {
    }

    /**
     * {@code kind.verb NAME CODEC ARGUMENT…}; a value has the form of those of {@link Values}.
     * Several listeners of one name are distinguished by an additional word.
     */
    static Object perform(RedissonClient redisson, String[] words) throws InterruptedException {
        String[] verb = words[1].split("\\.", 2);
        Codec codec = Codecs.of(words[3]);
        int tag = verb[1].equals("heardMany") ? 5 : 4;
        String listener = verb[0] + words[2] + (words.length > tag ? words[tag] : "");
        if (!verb[1].equals("listen") && !HEARD.containsKey(listener)) {
            return act(redisson, verb, codec, words);
        }
        BlockingQueue<String> heard = HEARD.computeIfAbsent(listener, key -> new LinkedBlockingQueue<>());
        switch (verb[1]) {
            case "heard":
                return heard.poll(30, TimeUnit.SECONDS);
            case "heardMany":
                return many(heard, Integer.parseInt(words[4]));
            case "heardNow":
                return heard.size();
            case "listen":
                LISTENERS.put(listener, listen(redisson, verb[0], words[2], codec, heard));
                return "listening";
            case "unlisten":
                LISTENERS.remove(listener).run();
                return "gone";
            default:
                return act(redisson, verb, codec, words);
        }
    }

    private static String many(BlockingQueue<String> heard, int count) throws InterruptedException {
        StringJoiner all = new StringJoiner(" ");
        for (int n = 0; n < count; n++) {
            all.add(heard.poll(30, TimeUnit.SECONDS));
        }
        return all.toString();
    }

    private static Runnable listen(RedissonClient redisson, String kind, String name, Codec codec, BlockingQueue<String> heard) {
        switch (kind) {
            case "pattern":
                RPatternTopic pattern = redisson.getPatternTopic(name, codec);
                int ofPattern = pattern.addListener(Object.class, (of, channel, message) -> heard.add(channel + "=" + message));
                return () -> pattern.removeListener(ofPattern);
            case "reliable":
                RReliableTopic reliable = redisson.getReliableTopic(name, codec);
                String subscriber = reliable.addListener(Object.class, (channel, message) -> heard.add(String.valueOf(message)));
                return () -> reliable.removeListener(subscriber);
            default:
                RTopic topic = topic(redisson, kind, name, codec);
                int ofTopic = topic.addListener(Object.class, (channel, message) -> heard.add(String.valueOf(message)));
                return () -> topic.removeListener(ofTopic);
        }
    }

    private static Object act(RedissonClient redisson, String[] verb, Codec codec, String[] words) {
        Object value = words.length > 4 ? Codecs.value(words[4]) : null;
        switch (verb[0]) {
            case "pattern":
                return redisson.getPatternTopic(words[2], codec).getActiveTopics();
            case "reliable":
                RReliableTopic reliable = redisson.getReliableTopic(words[2], codec);
                switch (verb[1]) {
                    case "publish":
                        return reliable.publish(value);
                    case "countSubscribers":
                        return reliable.countSubscribers();
                    default:
                        return reliable.size();
                }
            default:
                RTopic topic = topic(redisson, verb[0], words[2], codec);
                return verb[1].equals("publish") ? topic.publish(value) : topic.countSubscribers();
        }
    }

    private static RTopic topic(RedissonClient redisson, String kind, String name, Codec codec) {
        return kind.equals("sharded") ? redisson.getShardedTopic(name, codec) : redisson.getTopic(name, codec);
    }
}
