import java.util.ArrayList;
import java.util.Arrays;
import java.util.Collections;
import java.util.List;

import org.redisson.api.BatchOptions;
import org.redisson.api.RBatch;
import org.redisson.api.RScript;
import org.redisson.api.RedissonClient;
import org.redisson.client.codec.StringCodec;

/** Scripts and batches: the verbs of {@link Peer} that begin with {@code script}. */
final class Scripts {
    private Scripts() {
    }

    /**
     * {@code script.eval NAME CODEC TEXT VALUE…}; {@code script.exists NAME SHA}; {@code
     * script.batch NAME NUMBER…}.
     */
    static Object perform(RedissonClient redisson, String[] words) {
        switch (words[1]) {
            case "script.eval": {
                Object[] values = Arrays.stream(words, 5, words.length).map(Codecs::value).toArray();
                return redisson.getScript(Codecs.of(words[3]))
                        .eval(RScript.Mode.READ_WRITE, words[4], RScript.ReturnType.VALUE, Collections.singletonList(words[2]), values);
            }
            case "script.exists":
                return redisson.getScript(StringCodec.INSTANCE).scriptExists(words[3]).get(0);
            case "script.batch": {
                RBatch batch = redisson.createBatch(BatchOptions.defaults().executionMode(BatchOptions.ExecutionMode.IN_MEMORY_ATOMIC));
                for (int at = 3; at < words.length; at++) {
                    batch.getAtomicLong(words[2]).addAndGetAsync(Long.parseLong(words[at]));
                }
                List<Object> responses = new ArrayList<>(batch.execute().getResponses());
                return responses.toString();
            }
            default:
                throw new IllegalArgumentException("no such verb: " + words[1]);
        }
    }
}
