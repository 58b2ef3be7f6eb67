import com.fasterxml.jackson.databind.ObjectMapper;
import com.fasterxml.jackson.dataformat.cbor.CBORFactory;
import io.netty.buffer.ByteBufUtil;
import io.netty.buffer.Unpooled;
import java.math.BigDecimal;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import java.util.Scanner;
import java.util.UUID;
import org.msgpack.jackson.dataformat.MessagePackFactory;
import org.redisson.client.codec.ByteArrayCodec;
import org.redisson.client.codec.Codec;
import org.redisson.client.codec.DoubleCodec;
import org.redisson.client.codec.LongCodec;
import org.redisson.client.codec.StringCodec;
import org.redisson.codec.Kryo5Codec;
import org.redisson.codec.LZ4Codec;
import org.redisson.codec.LZ4CodecV2;
import org.redisson.codec.TypedJsonJacksonCodec;
import org.redisson.codec.ZStdCodec;

/**
 * What Redisson's own codecs write: the lines of written.tsv, as "codec, value, bytes in hexadecimal digits". Made with Redisson 4.7.0,
 * lz4-java 1.11.1, commons-compress 1.28.0, zstd-jni 1.5.7-12, jackson-dataformat-msgpack 0.9.10 and
 * jackson-dataformat-cbor 2.18.2 on Java 17. With the argument "read" it reads lines of "codec, bytes" and says what they are.
 */
public class Golden {
    public static class User {
        public String name;
        public int visits;
        public double score;
        public List<String> tags;
        public Boolean active;

        @Override
        public String toString() {
            return "User(" + name + "," + visits + "," + score + "," + tags + "," + active + ")";
        }
    }

    static Codec codec(String name) {
        switch (name) {
            case "Kryo": return new Kryo5Codec();
            case "Json": return new TypedJsonJacksonCodec(User.class, new ObjectMapper());
            case "MessagePack": return new TypedJsonJacksonCodec(User.class, new ObjectMapper(new MessagePackFactory()));
            case "Cbor": return new TypedJsonJacksonCodec(User.class, new ObjectMapper(new CBORFactory()));
            case "Lz4<Kryo>": return new LZ4Codec();
            case "Lz4V2<Kryo>": return new LZ4CodecV2();
            case "Zstd<Kryo>": return new ZStdCodec();
            case "Lz4<Json>": return new LZ4Codec(codec("Json"));
            case "Zstd<Json>": return new ZStdCodec(codec("Json"));
            case "Text": return StringCodec.INSTANCE;
            case "Long": return LongCodec.INSTANCE;
            case "Double": return DoubleCodec.INSTANCE;
            case "Raw": return ByteArrayCodec.INSTANCE;
            default: throw new IllegalArgumentException(name);
        }
    }

    static void write(String name, String what, Object value) throws Exception {
        String bytes = ByteBufUtil.hexDump(codec(name).getValueEncoder().encode(value));
        System.out.println(name.replace("V2", "") + "\t" + what + "\t" + bytes);
    }

    static void read(String name, String bytes) {
        try {
            Object value = codec(name).getValueDecoder().decode(Unpooled.wrappedBuffer(ByteBufUtil.decodeHexDump(bytes)), null);
            String text = value instanceof byte[] ? Arrays.toString((byte[]) value) : String.valueOf(value);
            System.out.println(name + "\t" + (value == null ? "null" : value.getClass().getName()) + "\t" + text);
        } catch (Exception e) {
            System.out.println(name + "\trefused\t" + e.toString().split("\n")[0]);
        }
    }

    public static void main(String[] arguments) throws Exception {
        if (arguments.length > 0) {
            Scanner lines = new Scanner(System.in);
            while (lines.hasNextLine()) {
                String[] line = lines.nextLine().split("\t", -1);
                read(line[0], line[1]);
            }
            return;
        }
        write("Kryo", "null", null);
        for (int i : new int[] {0, 1, -1, 63, 64, -64, -65, 300, 8191, 8192, 1 << 20, 1 << 27, Integer.MAX_VALUE, Integer.MIN_VALUE}) {
            write("Kryo", "i32 " + i, i);
        }
        for (long i : new long[] {0, 1, -1, 300, -300, 1L << 35, 1L << 55, (1L << 55) - 1, -(1L << 55), 1L << 62, Long.MAX_VALUE, Long.MIN_VALUE}) {
            write("Kryo", "i64 " + i, i);
        }
        for (short i : new short[] {0, 1, -1, 300, Short.MAX_VALUE, Short.MIN_VALUE}) write("Kryo", "i16 " + i, i);
        for (byte i : new byte[] {0, 1, -1, 127, -128}) write("Kryo", "i8 " + i, i);
        for (boolean b : new boolean[] {true, false}) write("Kryo", "bool " + b, b);
        for (float f : new float[] {1.5f, -0.1f}) write("Kryo", "f32 " + f, f);
        for (double d : new double[] {1.5, -0.1, Double.POSITIVE_INFINITY}) write("Kryo", "f64 " + d, d);
        for (char c : new char[] {'c', '\u20ac'}) write("Kryo", "char " + c, c);
        for (String s : new String[] {"", "a", "ab", "abc", "gr\u00fcn", "\u20ac5", "\ud83d\ude00!"}) write("Kryo", "str " + s, s);
        for (int n : new int[] {31, 32, 33, 61, 62, 63, 64, 65, 70, 127, 128, 200}) write("Kryo", "rep x " + n, "x".repeat(n));
        write("Kryo", "rep \u20ac 70", "\u20ac".repeat(70));
        write("Kryo", "rep \u00fc 40", "\u00fc".repeat(40));
        write("Kryo", "bytes ", new byte[] {});
        write("Kryo", "bytes 0102", new byte[] {1, 2});
        write("Kryo", "zeros 200", new byte[200]);
        write("Kryo", "class java.util.ArrayList", new ArrayList<>(List.of("a", 1)));
        write("Kryo", "class java.math.BigDecimal", new BigDecimal("1.5"));
        write("Kryo", "class java.util.UUID", new UUID(1, 2));
        write("Kryo", "class [Ljava.lang.String;", new String[] {"a"});
        write("Kryo", "class Golden$User", new User());
        for (String name : new String[] {"Lz4<Kryo>", "Lz4V2<Kryo>", "Zstd<Kryo>"}) {
            write(name, "str ", "");
            write(name, "str abc", "abc");
            write(name, "rep x 5000", "x".repeat(5000));
            write(name, "i64 300", 300L);
            write(name, "rep ab 100000", "ab".repeat(100000));
        }
        for (double d : new double[] {0, -0.0, 1, 0.1, 1e-3, 9e-4, 2e-7, 1e7, 123456.789, 1e21, Double.MAX_VALUE, Double.MIN_VALUE, Double.NaN,
                Double.NEGATIVE_INFINITY, 100, 1.0 / 3}) {
            write("Double", "f64 " + d, d);
        }
        for (long i : new long[] {0, -1, Long.MAX_VALUE, Long.MIN_VALUE}) write("Long", "i64 " + i, i);
        write("Text", "str gr\u00fcn", "gr\u00fcn");
        write("Raw", "bytes 00ff", new byte[] {0, -1});
        User user = new User();
        user.name = "Ada";
        user.visits = 3;
        user.score = 1.5;
        user.tags = List.of("a", "b");
        user.active = true;
        for (String name : new String[] {"Json", "MessagePack", "Cbor", "Lz4<Json>", "Zstd<Json>"}) write(name, "user", user);
    }
}
