import java.util.ArrayList;
import java.util.Arrays;
import java.util.Iterator;
import java.util.List;
import java.util.Map;
import java.util.concurrent.ConcurrentHashMap;

import org.redisson.api.RList;
import org.redisson.api.RedissonClient;
import org.redisson.api.SortOrder;

/** Lists: the verbs of {@link Peer} that begin with {@code list}. */
final class Lists {
    /** Unfinished iterators, by the name of their list. */
    private static final Map<String, Iterator<Object>> ITERATORS = new ConcurrentHashMap<>();

    private Lists() {
    }

    /** {@code list.verb NAME CODEC ARGUMENT…}; a value has the form of those of {@link Values}. */
    static Object perform(RedissonClient redisson, String[] words) {
        RList<Object> list = redisson.getList(words[2], Codecs.of(words[3]));
        switch (words[1].substring("list.".length())) {
            case "add":
                return list.add(Codecs.value(words[4]));
            case "addAll":
                return list.addAll(values(words, 4));
            case "addAt":
                list.add(index(words), Codecs.value(words[5]));
                return "";
            case "addAllAt":
                return list.addAll(index(words), values(words, 5));
            case "addBefore":
                return list.addBefore(Codecs.value(words[4]), Codecs.value(words[5]));
            case "addAfter":
                return list.addAfter(Codecs.value(words[4]), Codecs.value(words[5]));
            case "get":
                return list.get(index(words));
            case "set":
                return list.set(index(words), Codecs.value(words[5]));
            case "fastSet":
                list.fastSet(index(words), Codecs.value(words[5]));
                return "";
            case "removeAt":
                return list.remove(index(words));
            case "fastRemove":
                list.fastRemove(index(words));
                return "";
            case "remove":
                return list.remove(Codecs.value(words[4]), Integer.parseInt(words[5]));
            case "removeAll":
                return list.removeAll(values(words, 4));
            case "retainAll":
                return list.retainAll(values(words, 4));
            case "containsAll":
                return list.containsAll(values(words, 4));
            case "indexOf":
                return list.indexOf(Codecs.value(words[4]));
            case "lastIndexOf":
                return list.lastIndexOf(Codecs.value(words[4]));
            case "range":
                return list.range(index(words), Integer.parseInt(words[5]));
            case "trim":
                list.trim(index(words), Integer.parseInt(words[5]));
                return "";
            case "readAll":
                return list.readAll();
            case "size":
                return list.size();
            case "readSort":
                return list.readSort(SortOrder.DESC);
            case "readSortAlpha":
                return list.readSortAlpha(SortOrder.ASC, 0, 2);
            case "sortTo":
                return list.sortTo(words[4], SortOrder.ASC);
            case "iterate":
                ITERATORS.put(words[2], list.iterator());
                return "";
            case "iterateShared":
                ITERATORS.put(words[2], list.distributedIterator(Integer.parseInt(words[4])));
                return "";
            case "next":
                Iterator<Object> iterator = ITERATORS.get(words[2]);
                return iterator.hasNext() ? iterator.next() : "none";
            case "removeNext":
                ITERATORS.get(words[2]).remove();
                return "";
            default:
                throw new IllegalArgumentException("no such command: " + words[1]);
        }
    }

    private static int index(String[] words) {
        return Integer.parseInt(words[4]);
    }

    private static List<Object> values(String[] words, int from) {
        List<Object> values = new ArrayList<>();
        Arrays.stream(words).skip(from).forEach(word -> values.add(Codecs.value(word)));
        return values;
    }
}
