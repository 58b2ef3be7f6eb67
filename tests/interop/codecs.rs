//! Values of every common codec: written by Java and read by Rust, and vice versa, under a name and
//! in a map.

use std::collections::BTreeMap;
use std::fmt::Debug;

use redgrid_bucket::Bucket;
use redgrid_map::codecs::{Cbor, Decode, Double, Encode, Json, Kryo, Long, Lz4, MessagePack, Raw, Text, Zstd};
use redgrid_map::{Map, ObjectError};

use crate::actor::Actor;
use crate::fixture::{Fixture, Scenario, scenarios as listed};

/// A value in Rust, the word with which Java writes it, and the text that Java shows for it.
type Value<T> = (T, &'static str, &'static str);

/// Scenarios by Redisson's codec, redgrid's codec, and values.
macro_rules! both {
    ($($name:ident: $java:literal, $rust:expr, $type:ty, [$($value:expr),+ $(,)?];)*) => {
        mod buckets {
            use super::*;
            $(pub(super) async fn $name(on: Fixture) {
                let values: Vec<Value<$type>> = vec![$($value),+];
                bucket(on, $java, $rust, values).await;
            })*
            listed![$($name),*];
        }
        mod maps {
            use super::*;
            $(pub(super) async fn $name(on: Fixture) {
                let values: Vec<Value<$type>> = vec![$($value),+];
                map(on, $java, $rust, values).await;
            })*
            listed![$($name),*];
        }
    };
}

mod words {
    use super::*;
    listed![
        objects_are_read_by_programs_that_name_the_class,
        a_long_of_jackson_names_its_class_and_ours_is_an_integer,
        jackson_objects_name_their_class_and_java_rejects_others,
        numbers_of_jackson_with_an_exponent_are_read_and_written_otherwise,
        an_object_of_kryo_is_refused_by_its_class_and_stays,
    ];
}

pub(crate) fn scenarios() -> Vec<Scenario> {
    let named = |of: &str, scenarios: Vec<Scenario>| -> Vec<Scenario> {
        let name =
            |scenario: &Scenario| format!("codecs::{of}_{}", scenario.name.rsplit("::").next().unwrap_or_default());
        scenarios.into_iter().map(|one| Scenario { name: name(&one).leak(), run: one.run }).collect()
    };
    [named("bucket_of", buckets::scenarios()), named("map_of", maps::scenarios()), named("where", words::scenarios())]
        .concat()
}

both! {
    string: "string", Text, String, [
        ("héllo ✓".into(), "héllo ✓", "String:héllo ✓"),
        ("12".into(), "12", "String:12"),
    ];
    long: "long", Long, i64, [
        (0, "long:0", "Long:0"),
        (i64::MAX, "long:9223372036854775807", "Long:9223372036854775807"),
        (i64::MIN, "long:-9223372036854775808", "Long:-9223372036854775808"),
    ];
    integer: "integer", Text, i32, [
        (7, "int:7", "Integer:7"),
        (i32::MIN, "int:-2147483648", "Integer:-2147483648"),
    ];
    double: "double", Double, f64, [
        (0.5, "double:0.5", "Double:0.5"),
        (-2.0e-7, "double:-2.0E-7", "Double:-2.0E-7"),
        (1e21, "double:1e21", "Double:1.0E21"),
    ];
    bytes: "bytes", Raw, Vec<u8>, [
        (vec![0, 255, 10], "bytes:00ff0a", "bytes:00ff0a"),
        (b"plain".to_vec(), "bytes:706c61696e", "bytes:706c61696e"),
    ];
    kryo_text: "kryo", Kryo, String, [
        ("abc".into(), "abc", "String:abc"),
        ("x".into(), "x", "String:x"),
        ("ünïcode".into(), "ünïcode", "String:ünïcode"),
        ("a longer text than thirty-two characters of ASCII".into(),
         "a longer text than thirty-two characters of ASCII", "String:a longer text than thirty-two characters of ASCII"),
    ];
    kryo_longs: "kryo", Kryo, i64, [
        (300, "long:300", "Long:300"),
        (i64::MIN, "long:-9223372036854775808", "Long:-9223372036854775808"),
    ];
    kryo_integers: "kryo", Kryo, i32, [
        (-1, "int:-1", "Integer:-1"),
        (i32::MAX, "int:2147483647", "Integer:2147483647"),
    ];
    kryo_doubles: "kryo", Kryo, f64, [
        (1.5, "double:1.5", "Double:1.5"),
        (f64::MAX, "double:1.7976931348623157E308", "Double:1.7976931348623157E308"),
    ];
    kryo_booleans: "kryo", Kryo, bool, [
        (true, "bool:true", "Boolean:true"),
        (false, "bool:false", "Boolean:false"),
    ];
    kryo_bytes: "kryo", Kryo, Vec<u8>, [
        (vec![1, 2, 255], "bytes:0102ff", "bytes:0102ff"),
    ];
    json_text: "json", Json, String, [
        ("abc".into(), "abc", "String:abc"),
        ("a \"quote\" and ü".into(), "a \"quote\" and ü", "String:a \"quote\" and ü"),
    ];
    json_integers: "json", Json, i32, [
        (5, "int:5", "Integer:5"),
        (i32::MIN, "int:-2147483648", "Integer:-2147483648"),
    ];
    json_doubles: "json", Json, f64, [
        (0.1, "double:0.1", "Double:0.1"),
        (-2.5, "double:-2.5", "Double:-2.5"),
    ];
    json_booleans: "json", Json, bool, [
        (true, "bool:true", "Boolean:true"),
    ];
    message_pack_text: "msgpack", MessagePack, String, [
        ("abc".into(), "abc", "String:abc"),
        ("ünïcode".into(), "ünïcode", "String:ünïcode"),
    ];
    message_pack_integers: "msgpack", MessagePack, i32, [
        (5, "int:5", "Integer:5"),
        (-70_000, "int:-70000", "Integer:-70000"),
    ];
    cbor_text: "cbor", Cbor, String, [
        ("abc".into(), "abc", "String:abc"),
        ("ünïcode".into(), "ünïcode", "String:ünïcode"),
    ];
    cbor_integers: "cbor", Cbor, i32, [
        (5, "int:5", "Integer:5"),
        (-70_000, "int:-70000", "Integer:-70000"),
    ];
    lz4_around_kryo: "lz4", <Lz4<Kryo>>::default(), String, [
        ("abc".into(), "abc", "String:abc"),
        ("abcabcabcabcabcabcabcabcabcabcabcabcabcabcabcabc".into(),
         "abcabcabcabcabcabcabcabcabcabcabcabcabcabcabcabc", "String:abcabcabcabcabcabcabcabcabcabcabcabcabcabcabcabc"),
    ];
    lz4_of_the_second_version: "lz4-v2", <Lz4<Kryo>>::default(), i64, [
        (300, "long:300", "Long:300"),
    ];
    lz4_around_text: "lz4-string", <Lz4<Text>>::default(), String, [
        ("héllo".into(), "héllo", "String:héllo"),
    ];
    zstd_around_kryo: "zstd", <Zstd<Kryo>>::default(), String, [
        ("abc".into(), "abc", "String:abc"),
        ("abcabcabcabcabcabcabcabcabcabcabcabcabcabcabcabc".into(),
         "abcabcabcabcabcabcabcabcabcabcabcabcabcabcabcabc", "String:abcabcabcabcabcabcabcabcabcabcabcabcabcabcabcabc"),
    ];
    zstd_around_text: "zstd-string", <Zstd<Text>>::default(), String, [
        ("héllo".into(), "héllo", "String:héllo"),
    ];
}

async fn bucket<T, C>(on: Fixture, word: &str, codec: C, values: Vec<Value<T>>)
where
    T: PartialEq + Debug + 'static,
    C: Encode<T> + Decode<T>,
{
    let (mut java, client) = (on.java(), on.client().await);
    let bucket: Bucket<T, C> = Bucket::<T>::new(&client, &on.name).with_codec(codec);
    for (value, written, shown) in values {
        java.value_of("bucket.set", &on.name, &[word, written]).await;
        assert_eq!(bucket.get().await.unwrap().as_ref(), Some(&value), "{written} of Java");
        assert!(bucket.object().delete().await.unwrap());
        bucket.set(&value).await.unwrap();
        assert_eq!(java.value_of("bucket.shown", &on.name, &[word]).await, shown);
        // The bytes are compared: both sides write the same.
        if !LENIENT.contains(&word) {
            java.value_of("bucket.set", &on.name, &[word, written]).await;
            assert!(bucket.compare_and_set(&value, &value).await.unwrap(), "{written} has other bytes");
        }
    }
}

/// Compression may have more than one result, and older Java versions write one more digit of some
/// numbers.
const LENIENT: [&str; 6] = ["double", "lz4", "lz4-v2", "lz4-string", "zstd", "zstd-string"];

async fn map<T, C>(on: Fixture, word: &str, codec: C, values: Vec<Value<T>>)
where
    T: PartialEq + Debug + Clone + 'static,
    C: Encode<T> + Decode<T>,
{
    let (mut java, client) = (on.java(), on.client().await);
    let name = format!("{}:by-text", on.name);
    let by_text: Map<String, T, Text, C> = Map::<String, T, Text>::new(&client, &name).with_codecs(Text, codec.clone());
    let composite = format!("string+{word}");
    for (at, (value, written, shown)) in values.iter().enumerate() {
        let (theirs, ours) = (format!("java {at}"), format!("rust {at}"));
        java.value_of("map.put", &name, &[&composite, &theirs, written]).await;
        assert_eq!(by_text.get(&theirs).await.unwrap().as_ref(), Some(value), "{written} of Java");
        by_text.set(&ours, value).await.unwrap();
        assert_eq!(java.value_of("map.shown", &name, &[&composite, &ours]).await, *shown);
    }
    let found: BTreeMap<String, T> = by_text.entries().try_collect().await.unwrap();
    assert_eq!(found.len(), 2 * values.len());
    if LENIENT.contains(&word) {
        return;
    }
    // Each side finds the keys that the other has written, so the bytes are the same.
    let keys: Map<T, T, C> = Map::<T, T, Text>::new(&client, &on.name).with_codec(codec);
    for (value, written, shown) in &values {
        java.value_of("map.put", &on.name, &[word, written, written]).await;
        assert_eq!(keys.get(value).await.unwrap().as_ref(), Some(value), "the key {written} of Java");
        assert_eq!(keys.remove(value).await.unwrap().as_ref(), Some(value));
        assert!(keys.set(value, value).await.unwrap());
        assert_eq!(java.value_of("map.shown", &on.name, &[word, written]).await, *shown);
    }
    assert_eq!(keys.read_all_keys().await.unwrap().len(), values.len());
}

async fn objects_are_read_by_programs_that_name_the_class(on: Fixture) {
    let (mut java, client) = (on.java(), on.client().await);
    let object = BTreeMap::from([("a".to_owned(), 1), ("b".to_owned(), -70_000)]);
    let (word, shown) = ("object:a=1,b=-70000", "TreeMap:{a=1, b=-70000}");
    one_object(&mut java, &client, &on.name, "typed-json", Json, (&object, word, shown)).await;
    one_object(&mut java, &client, &on.name, "typed-msgpack", MessagePack, (&object, word, shown)).await;
    one_object(&mut java, &client, &on.name, "typed-cbor", Cbor, (&object, word, shown)).await;
}

async fn one_object<C>(
    java: &mut Actor,
    client: &redgrid_core::Client,
    name: &str,
    codec: &str,
    with: C,
    (object, word, shown): (&Object, &str, &str),
) where
    C: Encode<Object> + Decode<Object>,
{
    let bucket: Bucket<Object, C> = Bucket::<Object>::new(client, format!("{name}:{codec}")).with_codec(with);
    java.value_of("bucket.set", &format!("{name}:{codec}"), &[codec, word]).await;
    assert_eq!(bucket.get().await.unwrap().as_ref(), Some(object), "{codec}");
    assert!(bucket.object().delete().await.unwrap());
    bucket.set(object).await.unwrap();
    assert_eq!(java.value_of("bucket.shown", &format!("{name}:{codec}"), &[codec]).await, shown, "{codec}");
}

type Object = BTreeMap<String, i32>;

async fn a_long_of_jackson_names_its_class_and_ours_is_an_integer(on: Fixture) {
    let (mut java, client) = (on.java(), on.client().await);
    java.value_of("bucket.set", &on.name, &["json", "long:5"]).await;
    let error = Bucket::<i64>::new(&client, &on.name).get().await.unwrap_err();
    assert!(matches!(error, ObjectError::Decode { .. }), "{error:?}");
    let with_class = Bucket::<(String, i64)>::new(&client, &on.name);
    assert_eq!(with_class.get().await.unwrap(), Some(("java.lang.Long".to_owned(), 5)));
    with_class.set(&("java.lang.Long".to_owned(), 6)).await.unwrap();
    assert_eq!(java.value_of("bucket.shown", &on.name, &["json"]).await, "Long:6");
    Bucket::<i64>::new(&client, &on.name).set(&7).await.unwrap();
    assert_eq!(java.value_of("bucket.shown", &on.name, &["json"]).await, "Integer:7");
}

async fn numbers_of_jackson_with_an_exponent_are_read_and_written_otherwise(on: Fixture) {
    let (mut java, client) = (on.java(), on.client().await);
    let bucket: Bucket<f64> = Bucket::new(&client, &on.name);
    java.value_of("bucket.set", &on.name, &["json", "double:-1e300"]).await;
    assert_eq!(bucket.get().await.unwrap(), Some(-1e300));
    // Java writes `-1.0E300`, and Rust writes `-1e300`: one number with different bytes.
    assert!(!bucket.compare_and_set(&-1e300, &0.0).await.unwrap());
    bucket.set(&-1e300).await.unwrap();
    assert_eq!(java.value_of("bucket.shown", &on.name, &["json"]).await, "Double:-1.0E300");
}

async fn jackson_objects_name_their_class_and_java_rejects_others(on: Fixture) {
    // This scenario has its own Redisson, because one that can not decode an answer closes the
    // connection.
    let redisson = on.own_redisson(std::time::Duration::from_secs(30)).await;
    let (mut java, client) = (redisson.actor(), on.client().await);
    java.value_of("bucket.set", &on.name, &["json", "object:a=1"]).await;
    let raw: Bucket<String, Text> = Bucket::<String>::new(&client, &on.name).with_codec(Text);
    assert_eq!(raw.get().await.unwrap().as_deref(), Some(r#"{"@class":"java.util.TreeMap","a":1}"#));
    Bucket::<Object>::new(&client, &on.name).set(&Object::from([("a".into(), 1)])).await.unwrap();
    let thrown = java.try_value_of("bucket.get", &on.name, &["json"]).await.unwrap_err();
    assert!(thrown.message.contains("@class") || thrown.class.contains("Redis"), "{thrown:?}");
}

async fn an_object_of_kryo_is_refused_by_its_class_and_stays(on: Fixture) {
    let (mut java, client) = (on.java(), on.client().await);
    java.value_of("bucket.set", &on.name, &["kryo", "object:a=1"]).await;
    let error = Bucket::<String>::new(&client, &on.name).with_codec(Kryo).get().await.unwrap_err();
    assert!(error.to_string().contains("java.util.TreeMap"), "{error:?}");
    let error = Bucket::<String>::new(&client, &on.name).get().await.unwrap_err();
    assert!(error.to_string().contains("Kryo"), "the other side's codec is guessed: {error:?}");
    assert_eq!(java.value_of("bucket.shown", &on.name, &["kryo"]).await, "TreeMap:{a=1}");
}
