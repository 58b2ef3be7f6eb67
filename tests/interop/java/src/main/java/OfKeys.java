import java.util.concurrent.TimeUnit;

import org.redisson.api.RLock;
import org.redisson.api.RMap;
import org.redisson.api.RedissonClient;

/** Objects that belong to a key of a map: the verbs of {@link Peer} that begin with {@code key}. */
final class OfKeys {
    private OfKeys() {
    }

    /** {@code key.verb MAP CODEC KEY ARGUMENT…}. */
    static Object perform(RedissonClient redisson, String[] words) throws Exception {
        RMap<Object, Object> map = redisson.getMap(words[2], Codecs.of(words[3]));
        Object key = Codecs.value(words[4]);
        switch (words[1]) {
            case "key.name":
                return map.getLock(key).getName();
            case "key.lock":
                lock(map, key, words[5]).lock();
                return "";
            case "key.unlock":
                lock(map, key, words[5]).unlock();
                return "";
            case "key.tryLock":
                return lock(map, key, words[5]).tryLock(0, -1, TimeUnit.MILLISECONDS);
            case "key.permits":
                return map.getSemaphore(key).availablePermits();
            case "key.release":
                map.getSemaphore(key).release();
                return "";
            case "key.leasedPermits":
                return map.getPermitExpirableSemaphore(key).availablePermits();
            case "key.addLeasedPermits":
                map.getPermitExpirableSemaphore(key).addPermits(1);
                return "";
            case "key.countDown":
                map.getCountDownLatch(key).countDown();
                return map.getCountDownLatch(key).getCount();
            case "key.compute":
                for (long n = Long.parseLong(words[5]); n > 0; n--) {
                    map.compute(key, (k, has) -> (has == null ? 0 : (Long) has) + 1L);
                }
                return "";
            default:
                throw new IllegalArgumentException("no such command: " + words[1]);
        }
    }

    private static RLock lock(RMap<Object, Object> map, Object key, String kind) {
        switch (kind) {
            case "lock":
                return map.getLock(key);
            case "fairlock":
                return map.getFairLock(key);
            case "read":
                return map.getReadWriteLock(key).readLock();
            case "write":
                return map.getReadWriteLock(key).writeLock();
            default:
                throw new IllegalArgumentException("no such lock: " + kind);
        }
    }
}
