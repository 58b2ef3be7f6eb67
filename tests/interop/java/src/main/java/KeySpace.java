import java.util.Arrays;
import java.util.TreeSet;
import java.util.concurrent.TimeUnit;

import org.redisson.api.RKeys;
import org.redisson.api.RType;
import org.redisson.api.RedissonClient;

/** All keys: the verbs of {@link Peer} that begin with {@code keys}. */
final class KeySpace {
    private KeySpace() {
    }

    /** {@code keys.verb NAME ARGUMENT…}. */
    static Object perform(RedissonClient redisson, String[] words) {
        RKeys keys = redisson.getKeys();
        String name = words[2];
        String[] names = Arrays.copyOfRange(words, 2, words.length);
        switch (words[1].substring("keys.".length())) {
            case "byPattern": {
                TreeSet<String> found = new TreeSet<>();
                keys.getKeysByPattern(name).forEach(found::add);
                return String.join(" ", found);
            }
            case "countExists":
                return keys.countExists(names);
            case "touch":
                return keys.touch(names);
            case "delete":
                return keys.delete(names);
            case "unlink":
                return keys.unlink(names);
            case "deleteByPattern":
                return keys.deleteByPattern(name);
            case "expire":
                return keys.expire(name, Long.parseLong(words[3]), TimeUnit.MILLISECONDS);
            case "clearExpire":
                return keys.clearExpire(name);
            case "remainTimeToLive":
                return keys.remainTimeToLive(name);
            case "rename":
                keys.rename(name, words[3]);
                return "";
            case "renamenx":
                return keys.renamenx(name, words[3]);
            case "type": {
                RType type = keys.getType(name);
                return type;
            }
            default:
                throw new IllegalArgumentException("no such command: " + words[1]);
        }
    }
}
