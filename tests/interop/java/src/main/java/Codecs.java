import java.util.TreeMap;

import com.fasterxml.jackson.databind.ObjectMapper;
import com.fasterxml.jackson.dataformat.cbor.CBORFactory;
import org.msgpack.jackson.dataformat.MessagePackFactory;
import org.redisson.client.codec.ByteArrayCodec;
import org.redisson.client.codec.Codec;
import org.redisson.client.codec.DoubleCodec;
import org.redisson.client.codec.IntegerCodec;
import org.redisson.client.codec.LongCodec;
import org.redisson.client.codec.StringCodec;
import org.redisson.codec.CborJacksonCodec;
import org.redisson.codec.CompositeCodec;
import org.redisson.codec.JsonJacksonCodec;
import org.redisson.codec.Kryo5Codec;
import org.redisson.codec.LZ4Codec;
import org.redisson.codec.LZ4CodecV2;
import org.redisson.codec.MsgPackJacksonCodec;
import org.redisson.codec.TypedJsonJacksonCodec;
import org.redisson.codec.ZStdCodec;

/** Redisson's codecs by the words of the scenarios, and values as words. */
final class Codecs {
    private Codecs() {
    }

    /** A codec, or a codec of keys and a codec of values with a {@code +} between. */
    static Codec of(String word) {
        String[] both = word.split("\\+");
        if (both.length == 2) {
            return new CompositeCodec(of(both[0]), of(both[1]));
        }
        switch (word) {
            case "string":
                return StringCodec.INSTANCE;
            case "long":
                return LongCodec.INSTANCE;
            case "integer":
                return IntegerCodec.INSTANCE;
            case "double":
                return DoubleCodec.INSTANCE;
            case "bytes":
                return ByteArrayCodec.INSTANCE;
            case "kryo":
                return new Kryo5Codec();
            case "json":
                return new JsonJacksonCodec();
            case "msgpack":
                return new MsgPackJacksonCodec();
            case "cbor":
                return new CborJacksonCodec();
            case "typed-json":
                return typed(new ObjectMapper());
            case "typed-msgpack":
                return typed(new ObjectMapper(new MessagePackFactory()));
            case "typed-cbor":
                return typed(new ObjectMapper(new CBORFactory()));
            case "lz4":
                return new LZ4Codec();
            case "lz4-v2":
                return new LZ4CodecV2();
            case "lz4-string":
                return new LZ4Codec(StringCodec.INSTANCE);
            case "zstd":
                return new ZStdCodec();
            case "zstd-string":
                return new ZStdCodec(StringCodec.INSTANCE);
            default:
                throw new IllegalArgumentException("no such codec: " + word);
        }
    }

    /** A JSON codec: values, and the values of maps, are objects; the keys of maps are text. */
    private static Codec typed(ObjectMapper mapper) {
        return new TypedJsonJacksonCodec(TreeMap.class, String.class, TreeMap.class, mapper);
    }

    /**
     * Text, or a value whose prefix is its type: {@code int:5}, {@code long:5}, {@code double:0.5},
     * {@code bool:true}, {@code bytes:ff00}, {@code object:a=1,b=2}.
     */
    static Object value(String word) {
        String[] parts = word.split(":", 2);
        switch (parts.length < 2 ? "" : parts[0]) {
            case "int":
                return Integer.valueOf(parts[1]);
            case "long":
                return Long.valueOf(parts[1]);
            case "double":
                return Double.valueOf(parts[1]);
            case "bool":
                return Boolean.valueOf(parts[1]);
            case "bytes":
                return java.util.HexFormat.of().parseHex(parts[1]);
            case "object":
                TreeMap<String, Integer> object = new TreeMap<>();
                for (String field : parts[1].split(",")) {
                    object.put(field.split("=")[0], Integer.valueOf(field.split("=")[1]));
                }
                return object;
            default:
                return word;
        }
    }

    /** The word for a value as in {@link #value}, with its type in front. */
    static String shown(Object value) {
        if (value instanceof byte[]) {
            return "bytes:" + java.util.HexFormat.of().formatHex((byte[]) value);
        }
        return value == null ? "null" : value.getClass().getSimpleName() + ":" + value;
    }
}
