import java.util.Map;
import java.util.concurrent.BlockingQueue;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.LinkedBlockingQueue;
import java.util.concurrent.TimeUnit;

import org.redisson.api.*;
import org.redisson.client.codec.Codec;

/** Topics: the verbs of {@link Peer} that begin with {@code topic}, {@code sharded}, {@code pattern} or {@code reliable}. */
final class Topics {
    /** What was heard by listeners, by what they listen to. */
    private static final Map<String, BlockingQueue<String>> HEARD = new ConcurrentHashMap<>();

    private Topics() {
    }

    /** {@code kind.verb NAME CODEC ARGUMENT…}; a value is as those of {@link Values}. */
    static Object perform(RedissonClient redisson, String[] words) throws InterruptedException {
        String[] verb = words[1].split("\\.", 2);
        Codec codec = Codecs.of(words[3]);
        BlockingQueue<String> heard = HEARD.computeIfAbsent(verb[0] + words[2], key -> new LinkedBlockingQueue<>());
        if (verb[1].equals("heard")) {
            return heard.poll(30, TimeUnit.SECONDS);
        }
        Object value = words.length > 4 ? Codecs.value(words[4]) : null;
        switch (verb[0]) {
            case "pattern":
                RPatternTopic pattern = redisson.getPatternTopic(words[2], codec);
                switch (verb[1]) {
                    case "listen":
                        return pattern.addListener(Object.class, (of, channel, message) -> heard.add(channel + "=" + message));
                    default:
                        return pattern.getActiveTopics();
                }
            case "reliable":
                RReliableTopic reliable = redisson.getReliableTopic(words[2], codec);
                switch (verb[1]) {
                    case "listen":
                        return reliable.addListener(Object.class, (channel, message) -> heard.add(String.valueOf(message)));
                    case "publish":
                        return reliable.publish(value);
                    case "countSubscribers":
                        return reliable.countSubscribers();
                    default:
                        return reliable.size();
                }
            default:
                RTopic topic = verb[0].equals("sharded") ? redisson.getShardedTopic(words[2], codec) : redisson.getTopic(words[2], codec);
                switch (verb[1]) {
                    case "listen":
                        return topic.addListener(Object.class, (channel, message) -> heard.add(String.valueOf(message)));
                    case "publish":
                        return topic.publish(value);
                    default:
                        return topic.countSubscribers();
                }
        }
    }
}
