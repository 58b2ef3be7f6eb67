import java.util.ArrayList;
import java.util.Arrays;
import java.util.Collection;
import java.util.List;
import java.util.Map;
import java.util.TreeMap;
import java.util.TreeSet;
import java.util.concurrent.TimeUnit;
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

    /**
     * {@code kind.verb NAME CODEC ARGUMENT…}; a value has the form of those of {@link Values}, a
     * score is a number.
     */
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
            case "addAllCounted":
                return set.addAllCounted(values(words, 4));
            case "removeAllCounted":
                return set.removeAllCounted(values(words, 4));
            case "removeAll":
                return set.removeAll(values(words, 4));
            case "containsAll":
                return set.containsAll(values(words, 4));
            case "random":
                return sorted(set.random(Integer.parseInt(words[4])));
            case "removeRandomMany":
                return sorted(set.removeRandom(Integer.parseInt(words[4])));
            case "readIntersection":
                return sorted(set.readIntersection(words[4]));
            case "countIntersection":
                return words.length > 5 ? set.countIntersection(Integer.parseInt(words[5]), words[4])
                    : set.countIntersection(words[4]);
            case "union":
                return set.union(words[4], words[5]);
            case "diff":
                return set.diff(words[4], words[5]);
            case "iterate":
                List<Object> seen = new ArrayList<>();
                set.iterator(10).forEachRemaining(seen::add);
                return sorted(seen);
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
            case "addAll":
                Map<Object, Double> all = new TreeMap<>();
                for (int at = 4; at < words.length; at += 2) {
                    all.put(Codecs.value(words[at]), score(words[at + 1]));
                }
                return set.addAll(all);
            case "takeFirst":
                return set.takeFirst();
            case "pollLastWithin":
                return set.pollLast(Long.parseLong(words[4]), TimeUnit.MILLISECONDS);
            case "pollFirstFromAny":
                return set.pollFirstFromAny(Long.parseLong(words[4]), TimeUnit.MILLISECONDS, words[5]);
            case "pollFirstMany":
                return new ArrayList<>(set.pollFirst(Integer.parseInt(words[4])));
            case "pollLastMany":
                return new ArrayList<>(set.pollLast(Integer.parseInt(words[4])));
            case "firstAndLast":
                return set.first() + "=" + set.firstScore() + " " + set.last() + "=" + set.lastScore();
            case "removeRangeByScore":
                return set.removeRangeByScore(score(words[4]), true, score(words[5]), true);
            case "addScoreAndGetRank":
                return set.addScoreAndGetRank(value, score(words[5]));
            case "addScoreAndGetRevRank":
                return set.addScoreAndGetRevRank(value, score(words[5]));
            case "addAndGetRevRank":
                return set.addAndGetRevRank(score(words[5]), value);
            case "retainAll":
                return set.retainAll(values(words, 4));
            case "removeAll":
                return set.removeAll(values(words, 4));
            case "containsAll":
                return set.containsAll(values(words, 4));
            case "ranks":
                return shown(set.entryRange(Integer.parseInt(words[4]), Integer.parseInt(words[5])));
            case "ranksReversed":
                return shown(set.entryRangeReversed(Integer.parseInt(words[4]), Integer.parseInt(words[5])));
            case "scores":
                return shown(set.entryRange(score(words[4]), words[5].equals("in"), score(words[6]), words[7].equals("in"),
                    Integer.parseInt(words[8]), Integer.parseInt(words[9])));
            case "scoresReversed":
                return shown(set.entryRangeReversed(score(words[4]), words[5].equals("in"), score(words[6]),
                    words[7].equals("in"), Integer.parseInt(words[8]), Integer.parseInt(words[9])));
            case "rangeTo":
                return set.rangeTo(words[4], Integer.parseInt(words[5]), Integer.parseInt(words[6]));
            case "combine":
                Map<String, Double> weights = new TreeMap<>();
                for (int at = 6; at < words.length; at += 2) {
                    weights.put(words[at], score(words[at + 1]));
                }
                RScoredSortedSet.Aggregate by = RScoredSortedSet.Aggregate.valueOf(words[5]);
                return words[4].equals("union") ? set.union(by, weights) : set.intersection(by, weights);
            case "diff":
                return set.diff(words[4], words[5]);
            case "removeRangeByRank":
                return set.removeRangeByRank(Integer.parseInt(words[4]), Integer.parseInt(words[5]));
            case "entries":
                return shown(set.entryRange(0, -1));
            default:
                throw new IllegalArgumentException("no such command: " + words[1]);
        }
    }

    private static List<String> shown(Collection<ScoredEntry<Object>> entries) {
        return entries.stream().map(e -> e.getValue() + "=" + e.getScore()).collect(Collectors.toList());
    }

    private static Object lex(RLexSortedSet set, String verb, String[] words) {
        switch (verb) {
            case "add":
                return set.add(words[3]);
            case "addAll":
                return set.addAll(Arrays.asList(words).subList(3, words.length));
            case "remove":
                return set.remove(words[3]);
            case "contains":
                return set.contains(words[3]);
            case "range":
                return set.range(words[3], true, words[4], false);
            case "rangeTail":
                return set.rangeTail(words[3], false);
            case "rangeReversed":
                return set.rangeReversed(words[3], true, words[4], true);
            case "ranks":
                return set.range(Integer.parseInt(words[3]), Integer.parseInt(words[4]));
            case "count":
                return set.count(words[3], false, words[4], true);
            case "removeRangeHead":
                return set.removeRangeHead(words[3], true);
            case "rank":
                return set.rank(words[3]);
            case "revRank":
                return set.revRank(words[3]);
            case "pollFirst":
                return set.pollFirst();
            case "pollLast":
                return set.pollLast();
            case "readAll":
                return set.readAll();
            default:
                return lexRange(set, verb, words);
        }
    }

    /**
     * {@code lex.what.kind FROM in|out TO in|out}, with only one end for a head and a tail; the
     * last two words are offset and count.
     */
    private static Object lexRange(RLexSortedSet set, String verb, String[] words) {
        String one = words[3];
        boolean in = words[4].equals("in");
        String two = words.length > 5 ? words[5] : null;
        boolean too = words.length > 6 && words[6].equals("in");
        switch (verb) {
            case "between":
                return set.range(one, in, two, too);
            case "between.reversed":
                return set.rangeReversed(one, in, two, too);
            case "between.some":
                return set.range(one, in, two, too, Integer.parseInt(words[7]), Integer.parseInt(words[8]));
            case "between.count":
                return set.count(one, in, two, too);
            case "between.remove":
                return set.removeRange(one, in, two, too);
            case "head":
                return set.rangeHead(one, in);
            case "head.reversed":
                return set.rangeHeadReversed(one, in);
            case "head.some":
                return set.rangeHead(one, in, Integer.parseInt(two), Integer.parseInt(words[6]));
            case "head.count":
                return set.countHead(one, in);
            case "tail":
                return set.rangeTail(one, in);
            case "tail.reversed":
                return set.rangeTailReversed(one, in);
            case "tail.some":
                return set.rangeTailReversed(one, in, Integer.parseInt(two), Integer.parseInt(words[6]));
            case "tail.count":
                return set.countTail(one, in);
            case "tail.remove":
                return set.removeRangeTail(one, in);
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
