import java.util.ArrayList;
import java.util.Arrays;
import java.util.Collection;
import java.util.List;
import java.util.TreeSet;
import java.util.stream.Collectors;

import org.redisson.api.RLexSortedSet;
import org.redisson.api.RScoredSortedSet;
import org.redisson.api.RSet;
import org.redisson.api.RedissonClient;
import org.redisson.client.protocol.ScoredEntry;

/** Sets: the verbs of {@link Peer} that begin with {@code set}, {@code scored} or {@code lex}. */
final class Sets {
    private Sets() {
    }

    /** {@code kind.verb NAME CODEC ARGUMENT…}; a value is as those of {@link Values}, a score a number. */
    static Object perform(RedissonClient redisson, String[] words) {
        String[] verb = words[1].split("\\.", 2);
        switch (verb[0]) {
            case "set":
                return plain(redisson.getSet(words[2], Codecs.of(words[3])), verb[1], words);
            case "scored":
                return scored(redisson.getScoredSortedSet(words[2], Codecs.of(words[3])), verb[1], words);
            default:
                return lex(redisson.getLexSortedSet(words[2]), verb[1], words);
        }
    }

    private static Object plain(RSet<Object> set, String verb, String[] words) {
        switch (verb) {
            case "add":
                return set.add(Codecs.value(words[4]));
            case "addAll":
                return set.addAll(values(words, 4));
            case "tryAdd":
                return set.tryAdd(values(words, 4).toArray());
            case "remove":
                return set.remove(Codecs.value(words[4]));
            case "contains":
                return set.contains(Codecs.value(words[4]));
            case "retainAll":
                return set.retainAll(values(words, 4));
            case "removeRandom":
                return set.removeRandom();
            case "move":
                return set.move(words[4], Codecs.value(words[5]));
            case "readUnion":
                return sorted(set.readUnion(words[4]));
            case "readDiff":
                return sorted(set.readDiff(words[4]));
            case "intersection":
                return set.intersection(words[4], words[5]);
            case "readAll":
                return sorted(set.readAll());
            case "size":
                return set.size();
            default:
                throw new IllegalArgumentException("no such command: " + words[1]);
        }
    }

    private static Object scored(RScoredSortedSet<Object> set, String verb, String[] words) {
        Object value = words.length > 4 ? Codecs.value(words[4]) : null;
        switch (verb) {
            case "add":
                return set.add(score(words[5]), value);
            case "addIfAbsent":
                return set.addIfAbsent(score(words[5]), value);
            case "addIfExists":
                return set.addIfExists(score(words[5]), value);
            case "addIfGreater":
                return set.addIfGreater(score(words[5]), value);
            case "addIfLess":
                return set.addIfLess(score(words[5]), value);
            case "addScore":
                return set.addScore(value, score(words[5]));
            case "addAndGetRank":
                return set.addAndGetRank(score(words[5]), value);
            case "getScore":
                return set.getScore(value);
            case "rank":
                return set.rank(value);
            case "revRank":
                return set.revRank(value);
            case "replace":
                return set.replace(value, Codecs.value(words[5]));
            case "remove":
                return set.remove(value);
            case "pollFirst":
                return set.pollFirst();
            case "pollLast":
                return set.pollLast();
            case "count":
                return set.count(score(words[4]), true, score(words[5]), false);
            case "valueRange":
                return set.valueRange(score(words[4]), true, score(words[5]), false);
            case "union":
                return set.union(words[4], words[5]);
            case "removeRangeByRank":
                return set.removeRangeByRank(Integer.parseInt(words[4]), Integer.parseInt(words[5]));
            case "entries":
                Collection<ScoredEntry<Object>> entries = set.entryRange(0, -1);
                return entries.stream().map(e -> e.getValue() + "=" + e.getScore()).collect(Collectors.toList());
            default:
                throw new IllegalArgumentException("no such command: " + words[1]);
        }
    }

    private static Object lex(RLexSortedSet set, String verb, String[] words) {
        switch (verb) {
            case "add":
                return set.add(words[3]);
            case "remove":
                return set.remove(words[3]);
            case "range":
                return set.range(words[3], true, words[4], false);
            case "rangeTail":
                return set.rangeTail(words[3], false);
            case "rangeReversed":
                return set.rangeReversed(words[3], true, words[4], true);
            case "count":
                return set.count(words[3], false, words[4], true);
            case "removeRangeHead":
                return set.removeRangeHead(words[3], true);
            case "rank":
                return set.rank(words[3]);
            case "pollLast":
                return set.pollLast();
            case "readAll":
                return set.readAll();
            default:
                throw new IllegalArgumentException("no such command: " + words[1]);
        }
    }

    private static double score(String word) {
        return word.endsWith("inf") ? Double.POSITIVE_INFINITY * (word.startsWith("-") ? -1 : 1) : Double.parseDouble(word);
    }

    private static List<String> sorted(Collection<Object> values) {
        return new ArrayList<>(values.stream().map(String::valueOf).collect(Collectors.toCollection(TreeSet::new)));
    }

    private static List<Object> values(String[] words, int from) {
        return Arrays.stream(words).skip(from).map(Codecs::value).collect(Collectors.toList());
    }
}
