//! Scripts and batches of both sides, on shared values.

use redgrid_bucket::Bucket;
use redgrid_bucket::codecs::{Kryo, Text};
use redgrid_script::{Batch, Call, Script, Scripts};

use crate::fixture::{Fixture, scenarios};

scenarios![a_script_of_ours_shares_values_with_java, both_run_one_script, batches_of_both_count_one_number,];

const SWAP: &str = "local old = redis.call('GET', KEYS[1]); redis.call('SET', KEYS[1], ARGV[1]); return old";

async fn a_script_of_ours_shares_values_with_java(on: Fixture) {
    let (mut java, client) = (on.java(), on.client().await);
    let swap = Script::new(SWAP);
    java.value_of("bucket.set", &on.name, &["kryo", "héllo"]).await;
    let old = swap.call().key(&on.name).value(&Kryo, &-5_i64).query_as::<String, _>(&client, &Kryo).await.unwrap();
    assert_eq!(old.as_deref(), Some("héllo"));
    assert_eq!(java.value_of("bucket.getAndSet", &on.name, &["kryo", "long:9"]).await, "-5");
    let mut batch = Batch::new(&client).atomic();
    let nine = batch.push_as::<i64, _>(Call::command("GET").key(&on.name), Kryo);
    batch.push::<()>(Call::command("SET").key(&on.name).value(&Kryo, "wörld"));
    assert_eq!(batch.send().await.unwrap().get(&nine).unwrap(), Some(9));
    assert_eq!(java.value_of("bucket.get", &on.name, &["kryo"]).await, "wörld");
}

async fn both_run_one_script(on: Fixture) {
    let (mut java, client) = (on.java(), on.client().await);
    let swap = Script::new(SWAP);
    let text: Bucket<String, Text> = Bucket::<String>::new(&client, &on.name).with_codec(Text);
    text.set(&"one".into()).await.unwrap();
    assert_eq!(java.value_of("script.eval", &on.name, &["string", SWAP, "two"]).await, "one");
    assert_eq!(Scripts::new(&client).exists([&swap]).await.unwrap(), [true]);
    let old: Option<String> = swap.call().key(&on.name).value(&Text, "three").query_as(&client, &Text).await.unwrap();
    assert_eq!(old.as_deref(), Some("two"));
    let of_ours = Script::new("return redis.call('STRLEN', KEYS[1])");
    Scripts::new(&client).load(&of_ours).await.unwrap();
    assert_eq!(java.value_of("script.exists", &on.name, &[&of_ours.sha()]).await, "true");
}

async fn batches_of_both_count_one_number(on: Fixture) {
    let (mut java, client) = (on.java(), on.client().await);
    assert_eq!(java.value_of("script.batch", &on.name, &["1", "2"]).await, "[1, 3]");
    let mut batch = Batch::new(&client).atomic();
    let counts = [3, 4].map(|n| batch.push::<i64>(Call::command("INCRBY").key(&on.name).int(n)));
    let results = batch.send().await.unwrap();
    assert_eq!(counts.map(|count| results.get(&count).unwrap()), [6, 10]);
    assert_eq!(java.value_of("script.batch", &on.name, &["5"]).await, "[15]");
}
