import java.util.Map;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.TimeUnit;

import org.redisson.api.RBucket;
import org.redisson.api.RMap;
import org.redisson.api.RSet;
import org.redisson.api.RTransaction;
import org.redisson.api.RedissonClient;
import org.redisson.api.TransactionOptions;
import org.redisson.client.codec.Codec;

/** Transactions: the verbs of {@link Peer} that begin with {@code tx}. */
final class Transactions {
    private static final Map<String, RTransaction> BEGUN = new ConcurrentHashMap<>();

    private Transactions() {
    }

    /**
     * {@code tx.begin ID TIMEOUT_MS}, {@code tx.commit ID}, {@code tx.rollback ID}; {@code tx.verb
     * NAME ID CODEC ARGUMENT…}.
     */
    static Object perform(RedissonClient redisson, String[] words) {
        switch (words[1]) {
            case "tx.begin":
                TransactionOptions options = TransactionOptions.defaults();
                options.timeout(Long.parseLong(words[3]), TimeUnit.MILLISECONDS);
                BEGUN.put(words[2], redisson.createTransaction(options));
                return "";
            case "tx.commit":
                BEGUN.remove(words[2]).commit();
                return "";
            case "tx.rollback":
                BEGUN.remove(words[2]).rollback();
                return "";
            default:
                return within(BEGUN.get(words[3]), words);
        }
    }

    private static Object within(RTransaction transaction, String[] words) {
        String name = words[2];
        Codec codec = Codecs.of(words[4]);
        Object one = words.length > 5 ? Codecs.value(words[5]) : null;
        Object other = words.length > 6 ? Codecs.value(words[6]) : null;
        switch (words[1]) {
            case "tx.bucket.get":
                return bucket(transaction, name, codec).get();
            case "tx.bucket.set":
                bucket(transaction, name, codec).set(one);
                return "";
            default:
                return inMany(transaction, codec, words, one, other);
        }
    }

    private static Object inMany(RTransaction transaction, Codec codec, String[] words, Object one, Object other) {
        switch (words[1]) {
            case "tx.map.get":
                return map(transaction, words, codec).get(one);
            case "tx.map.put":
                return map(transaction, words, codec).put(one, other);
            case "tx.map.fastRemove":
                return map(transaction, words, codec).fastRemove(one);
            case "tx.map.delete":
                return map(transaction, words, codec).delete();
            case "tx.set.add":
                return set(transaction, words, codec).add(one);
            case "tx.set.remove":
                return set(transaction, words, codec).remove(one);
            case "tx.set.delete":
                return set(transaction, words, codec).delete();
            default:
                throw new IllegalArgumentException("no such command: " + words[1]);
        }
    }

    private static RBucket<Object> bucket(RTransaction transaction, String name, Codec codec) {
        return transaction.getBucket(name, codec);
    }

    private static RMap<Object, Object> map(RTransaction transaction, String[] words, Codec codec) {
        return transaction.getMap(words[2], codec);
    }

    private static RSet<Object> set(RTransaction transaction, String[] words, Codec codec) {
        return transaction.getSet(words[2], codec);
    }
}
