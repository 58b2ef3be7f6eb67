import java.util.ArrayList;
import java.util.Arrays;
import java.util.BitSet;
import java.util.List;
import java.util.TreeMap;

import org.redisson.api.*;
import org.redisson.api.geo.*;

/**
 * Bit sets, Bloom filters, HyperLogLogs and positions: the verbs of {@link Peer} that begin with
 * {@code bits}, {@code bloom}, {@code hll} or {@code geo}.
 */
final class Bits {
    private Bits() {
    }

    /**
     * {@code kind.verb NAME CODEC ARGUMENT…}; a value has the form of those of {@link Values}. Bits
     * have no codec, so CODEC is {@code -}.
     */
    static Object perform(RedissonClient redisson, String[] words) {
        String[] verb = words[1].split("\\.", 2);
        switch (verb[0]) {
            case "bits":
                return bits(redisson.getBitSet(words[2]), verb[1], Arrays.copyOfRange(words, 4, words.length));
            case "bloom":
                return bloom(redisson.getBloomFilter(words[2], Codecs.of(words[3])), verb[1], words);
            case "hll":
                return hll(redisson.getHyperLogLog(words[2], Codecs.of(words[3])), verb[1], words);
            default:
                return geo(redisson.getGeo(words[2], Codecs.of(words[3])), verb[1], words);
        }
    }

    private static Object bits(RBitSet bits, String verb, String[] words) {
        switch (verb) {
            case "get":
                return bits.get(Long.parseLong(words[0]));
            case "set":
                return bits.set(Long.parseLong(words[0]), Boolean.parseBoolean(words[1]));
            case "setRange":
                bits.set(Long.parseLong(words[0]), Long.parseLong(words[1]), Boolean.parseBoolean(words[2]));
                return "";
            case "cardinality":
                return bits.cardinality();
            case "length":
                return bits.length();
            case "size":
                return bits.size();
            case "asBitSet":
                return bits.asBitSet();
            case "replace":
                BitSet other = new BitSet();
                Arrays.stream(words).mapToInt(Integer::parseInt).forEach(other::set);
                bits.set(other);
                return "";
            case "or":
                return bits.or(words);
            case "and":
                return bits.and(words);
            case "xor":
                return bits.xor(words);
            case "not":
                return bits.not();
            case "clear":
                bits.clear();
                return "";
            case "clearRange":
                bits.clear(Long.parseLong(words[0]), Long.parseLong(words[1]));
                return "";
            case "setMany":
                bits.set(Arrays.stream(words).mapToLong(Long::parseLong).toArray(), true);
                return "";
            case "getMany":
                return Arrays.toString(bits.get(Arrays.stream(words).mapToLong(Long::parseLong).toArray()));
            case "toByteArray":
                return java.util.HexFormat.of().formatHex(bits.toByteArray());
            case "incrementAndGetUnsigned":
                return bits.incrementAndGetUnsigned(Integer.parseInt(words[0]), Long.parseLong(words[1]), Long.parseLong(words[2]));
            case "setLong":
                return bits.setLong(Long.parseLong(words[0]), Long.parseLong(words[1]));
            case "getSigned":
                return bits.getSigned(Integer.parseInt(words[0]), Long.parseLong(words[1]));
            case "setUnsigned":
                return bits.setUnsigned(Integer.parseInt(words[0]), Long.parseLong(words[1]), Long.parseLong(words[2]));
            case "incrementAndGetInteger":
                return bits.incrementAndGetInteger(Long.parseLong(words[0]), Integer.parseInt(words[1]));
            default:
                throw new IllegalArgumentException("no such command: " + verb);
        }
    }

    private static Object bloom(RBloomFilter<Object> filter, String verb, String[] words) {
        switch (verb) {
            case "tryInit":
                return filter.tryInit(Long.parseLong(words[4]), Double.parseDouble(words[5]));
            case "add":
                return filter.add(Codecs.value(words[4]));
            case "addAll":
                return filter.add(values(words));
            case "contains":
                return filter.contains(Codecs.value(words[4]));
            case "containsAll":
                return filter.contains(values(words));
            case "count":
                return filter.count();
            case "config":
                return filter.getSize() + " " + filter.getHashIterations() + " " + filter.getExpectedInsertions() + " "
                        + filter.getFalseProbability();
            case "delete":
                return filter.delete();
            default:
                throw new IllegalArgumentException("no such command: " + verb);
        }
    }

    private static Object hll(RHyperLogLog<Object> log, String verb, String[] words) {
        switch (verb) {
            case "addAll":
                return log.addAll(values(words));
            case "count":
                return log.count();
            case "countWith":
                return log.countWith(Arrays.copyOfRange(words, 4, words.length));
            case "mergeWith":
                log.mergeWith(Arrays.copyOfRange(words, 4, words.length));
                return "";
            case "add":
                return log.add(Codecs.value(words[4]));
            default:
                throw new IllegalArgumentException("no such command: " + verb);
        }
    }

    private static Object geo(RGeo<Object> geo, String verb, String[] words) {
        switch (verb) {
            case "add":
                return geo.add(Double.parseDouble(words[5]), Double.parseDouble(words[6]), Codecs.value(words[4]));
            case "tryAdd":
                return geo.tryAdd(Double.parseDouble(words[5]), Double.parseDouble(words[6]), Codecs.value(words[4]));
            case "dist":
                return geo.dist(Codecs.value(words[4]), Codecs.value(words[5]), GeoUnit.METERS);
            case "hash":
                return new TreeMap<>(geo.hash(Codecs.value(words[4])));
            case "search":
                return geo.search(GeoSearchArgs.from(Codecs.value(words[4])).radius(Double.parseDouble(words[5]), GeoUnit.KILOMETERS)
                        .order(GeoOrder.ASC));
            case "pos":
                TreeMap<Object, Object> places = new TreeMap<>();
                geo.pos(values(words).toArray()).forEach((member, at) -> places.put(member, at.getLongitude() + "," + at.getLatitude()));
                return places;
            case "addIfExists":
                return geo.addIfExists(Double.parseDouble(words[5]), Double.parseDouble(words[6]), Codecs.value(words[4]));
            case "remove":
                return geo.remove(Codecs.value(words[4]));
            case "around":
                return geo.search(around(words));
            case "aroundWithDistance":
                return geo.searchWithDistance(around(words));
            case "aroundWithPosition":
                return geo.searchWithPosition(around(words)).keySet();
            case "storeSortedAroundTo":
                return geo.storeSortedSearchTo(words[10], around(words));
            case "storeSearchTo":
                return geo.storeSearchTo(words[6],
                        GeoSearchArgs.from(Codecs.value(words[4])).radius(Double.parseDouble(words[5]), GeoUnit.KILOMETERS));
            case "size":
                return geo.size();
            default:
                throw new IllegalArgumentException("no such command: " + verb);
        }
    }

    /**
     * {@code LONGITUDE LATITUDE UNIT WIDTH HEIGHT ORDER}; without a height, the width is a radius.
     */
    private static OptionalGeoSearch around(String[] words) {
        ShapeGeoSearch from = GeoSearchArgs.from(Double.parseDouble(words[4]), Double.parseDouble(words[5]));
        GeoUnit unit = GeoUnit.valueOf(words[6]);
        double width = Double.parseDouble(words[7]);
        OptionalGeoSearch search = words[8].equals("-") ? from.radius(width, unit) : from.box(width, Double.parseDouble(words[8]), unit);
        return search.order(GeoOrder.valueOf(words[9]));
    }

    /** The values from the fifth word on; {@code first..end} is a range of numbers. */
    private static List<Object> values(String[] words) {
        List<Object> all = new ArrayList<>();
        for (int n = 4; n < words.length; n++) {
            String[] range = words[n].split("\\.\\.");
            if (range.length < 2) {
                all.add(Codecs.value(words[n]));
                continue;
            }
            for (long value = Long.parseLong(range[0]); value < Long.parseLong(range[1]); value++) {
                all.add(value);
            }
        }
        return all;
    }
}
