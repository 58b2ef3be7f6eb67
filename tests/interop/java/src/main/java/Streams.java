import java.time.Duration;
import java.util.Map;
import java.util.StringJoiner;
import java.util.TreeMap;
import java.util.concurrent.TimeUnit;
import java.util.stream.Collectors;

// Ids of entries are in one of these packages in 3.x, and in the other in 4.x.
import org.redisson.api.*;
import org.redisson.api.stream.*;

/** Streams: the verbs of {@link Peer} that begin with {@code stream}. */
final class Streams {
    private Streams() {
    }

    /** {@code stream.verb NAME CODEC ARGUMENT…}; ids of entries have the server's form. */
    static Object perform(RedissonClient redisson, String[] words) {
        RStream<Object, Object> stream = redisson.getStream(words[2], Codecs.of(words[3]));
        String one = words.length > 4 ? words[4] : null;
        String two = words.length > 5 ? words[5] : null;
        String three = words.length > 6 ? words[6] : null;
        switch (words[1].substring("stream.".length())) {
            case "add":
                StreamAddArgs<Object, Object> entry = StreamAddArgs.entry(Codecs.value(two), Codecs.value(three));
                if (one.equals("*")) {
                    return stream.add(entry);
                }
                stream.add(id(one), entry);
                return one;
            case "addMany":
                Map<Object, Object> fields = new java.util.LinkedHashMap<>();
                for (int at = 5; at < words.length; at += 2) {
                    fields.put(Codecs.value(words[at]), Codecs.value(words[at + 1]));
                }
                stream.add(id(one), StreamAddArgs.entries(fields));
                return one;
            case "read":
                return shown(stream.read(StreamReadArgs.greaterThan(id(one)).timeout(Duration.ofMillis(Long.parseLong(two)))));
            case "readGroupWithin":
                return shown(stream.readGroup(one, two,
                    StreamReadGroupArgs.neverDelivered().timeout(Duration.ofMillis(Long.parseLong(three)))));
            case "work":
                return work(stream, one, two);
            case "rangeReversed":
                return shown(stream.rangeReversed(StreamMessageId.MAX, StreamMessageId.MIN));
            case "lastId":
                return stream.getInfo().getLastGeneratedId();
            case "listConsumers":
                Map<String, Object> consumers = new TreeMap<>();
                stream.listConsumers(one).forEach(consumer -> consumers.put(consumer.getName(), consumer.getPending()));
                return consumers;
            case "removeConsumer":
                return stream.removeConsumer(one, two);
            case "createConsumer":
                stream.createConsumer(one, two);
                return "made";
            case "pendingRange":
                return shown(stream.pendingRange(one, two, StreamMessageId.MIN, StreamMessageId.MAX, 9));
            case "fastClaim":
                return stream.fastClaim(one, two, 0, TimeUnit.MILLISECONDS, id(three));
            case "updateGroup":
                stream.updateGroupMessageId(one, id(two));
                return "set";
            case "removeGroup":
                stream.removeGroup(one);
                return "removed";
            case "trimTo":
                return stream.trim(StreamTrimArgs.minId(id(one)).noLimit());
            case "range":
                return shown(stream.range(id(one), StreamMessageId.MAX));
            case "size":
                return stream.size();
            case "createGroup":
                stream.createGroup(StreamCreateGroupArgs.name(one).id(StreamMessageId.ALL));
                return "made";
            case "readGroup":
                return shown(stream.readGroup(one, two, StreamReadGroupArgs.neverDelivered().count(Integer.parseInt(three))));
            case "pending":
                return stream.getPendingInfo(one).getTotal() + " " + new TreeMap<>(stream.getPendingInfo(one).getConsumerNames());
            case "claim":
                return shown(stream.claim(one, two, 0, TimeUnit.MILLISECONDS, id(three)));
            case "autoClaim":
                return shown(stream.autoClaim(one, two, 0, TimeUnit.MILLISECONDS, id("0-0"), 9).getMessages());
            case "ack":
                return stream.ack(one, id(two));
            case "lag":
                return stream.listGroups().get(0).getName() + " " + stream.listGroups().get(0).getPending();
            case "remove":
                return stream.remove(id(one));
            case "trim":
                return stream.trim(StreamTrimArgs.maxLen(Integer.parseInt(one)).noLimit());
            default:
                throw new IllegalArgumentException("no such command: " + words[1]);
        }
    }

    /** Takes and acknowledges entries until none arrives in time; returns the values of all. */
    private static String work(RStream<Object, Object> stream, String group, String consumer) {
        StringJoiner done = new StringJoiner(" ");
        while (true) {
            Map<StreamMessageId, Map<Object, Object>> got = stream.readGroup(group, consumer,
                StreamReadGroupArgs.neverDelivered().count(1).timeout(Duration.ofMillis(1500)));
            if (got.isEmpty()) {
                return done.toString();
            }
            got.forEach((id, fields) -> {
                fields.values().forEach(value -> done.add(String.valueOf(value)));
                stream.ack(group, id);
            });
        }
    }

    private static StreamMessageId id(String word) {
        String[] parts = word.split("-");
        return new StreamMessageId(Long.parseLong(parts[0]), Long.parseLong(parts[1]));
    }

    private static String shown(Map<?, Map<Object, Object>> entries) {
        return entries.entrySet().stream().map(entry -> entry.getKey() + "=" + entry.getValue())
            .collect(Collectors.joining(" "));
    }
}
