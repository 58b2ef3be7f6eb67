//! Bloom filters: added elements are found, and false positives are within the error rate.

use std::time::Duration;

use redgrid_bits::codecs::Long;
use redgrid_bits::{BloomFilter, ObjectError};
use redgrid_core::config::ReadMode;
use redgrid_core::object::Lifetime;
use redgrid_core::{Client, Config, Failure};
use redgrid_keys::Keys;
use redgrid_testkit::{Action, Proxy, Replicated, wait_until};
use redgrid_tests::{SOON, client, client_with, server};

const HOUR: Duration = Duration::from_secs(3600);

#[tokio::test(flavor = "multi_thread")]
async fn added_elements_are_found() {
    let server = server().await;
    let client = client(&server).await;
    let filter: BloomFilter<String> = BloomFilter::new(&client, "seen");
    assert_eq!(filter.config().await.unwrap(), None);
    for told in [filter.add("a").await.map(drop), filter.contains("a").await.map(drop), filter.count().await.map(drop)]
    {
        let told = told.unwrap_err();
        assert!(matches!(&told, ObjectError::Absent { name } if name.as_str() == "seen"), "{told:?}");
    }
    assert!(filter.try_init(1000, 0.01).await.unwrap() && !filter.try_init(5000, 0.1).await.unwrap());
    let config = filter.config().await.unwrap().unwrap();
    assert!((9_585..10_300).contains(&config.size) && config.hash_iterations == 7, "{config:?}");
    assert_eq!((config.expected_insertions, config.false_probability), (1000, 0.01));
    assert_eq!(filter.count().await.unwrap(), 0);
    assert!(!filter.contains("a").await.unwrap() && filter.add("a").await.unwrap() && !filter.add("a").await.unwrap());
    assert!(filter.contains("a").await.unwrap() && !filter.contains("b").await.unwrap());
    assert_eq!(filter.add_many(["a", "b", "c", "b"]).await.unwrap(), 2);
    assert_eq!(filter.contains_many(["a", "z", "b", "c"]).await.unwrap(), [true, false, true, true]);
    assert_eq!(filter.contains_many(std::iter::empty::<&str>()).await.unwrap(), [false; 0]);
    assert_eq!(filter.count().await.unwrap(), 3);
    // Operations on the object apply to both keys.
    let object = filter.object();
    assert!(object.expire_in(HOUR).await.unwrap() && object.rename("other").await.unwrap());
    let other: BloomFilter<String> = BloomFilter::new(&client, "other");
    assert!(other.contains("a").await.unwrap() && filter.config().await.unwrap().is_none());
    let config = redgrid_core::object::Object::new(&client, "{other}:config");
    assert!(matches!(config.lifetime().await.unwrap(), Lifetime::Ends(_)));
    assert!(other.object().delete().await.unwrap() && !config.exists().await.unwrap());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_filter_is_found_by_its_name_with_its_parameters() {
    let server = server().await;
    let (client, observer) = (client(&server).await, server.observer().await.unwrap());
    let keys = Keys::new(&client);
    let filter: BloomFilter<String> = BloomFilter::new(&client, "seen");
    filter.try_init(1000, 0.01).await.unwrap();
    filter.add("a").await.unwrap();
    let mut objects = keys.objects();
    assert_eq!(objects.try_next().await.unwrap().unwrap().as_str(), Some("seen"));
    assert!(objects.try_next().await.unwrap().is_none());
    keys.rename("seen", "other").await.unwrap();
    assert!(BloomFilter::<String>::new(&client, "other").contains("a").await.unwrap());
    assert_eq!(keys.delete(["other"]).await.unwrap(), 1);
    assert!(!observer.exists("{other}:config").await.unwrap());
    // A key with this name that is not a configuration belongs to another program.
    for (name, field) in [("text", "size"), ("other", "colour")] {
        observer.cmd(&["SET", name, "1"]).await.unwrap();
        observer.cmd(&["HSET", &format!("{{{name}}}:config"), field, "1"]).await.unwrap();
        assert_eq!(keys.delete([name]).await.unwrap(), 1);
        assert!(observer.exists(&format!("{{{name}}}:config")).await.unwrap());
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn invalid_filters_are_reported() {
    let server = server().await;
    let client = client(&server).await;
    let filter: BloomFilter<String> = BloomFilter::new(&client, "f");
    for share in [0.0, 1.0, -0.1, 1.1, f64::NAN] {
        let told = filter.try_init(100, share).await.unwrap_err();
        assert!(
            matches!(&told, ObjectError::Failed(Failure::InvalidArgument { option: "false probability", .. })),
            "{told:?}"
        );
    }
    for (elements, share) in [(0, 0.01), (1, 0.9), (1_000_000_000, 0.01), (u64::MAX, 0.5)] {
        let told = filter.try_init(elements, share).await.unwrap_err();
        assert!(matches!(&told, ObjectError::Failed(Failure::InvalidArgument { option: "size", .. })), "{told:?}");
    }
    // Invalid configurations of filters.
    let observer = server.observer().await.unwrap();
    for (size, hashes) in [("0", "7"), ("100", "0"), ("100", "4000000000")] {
        observer.cmd(&["HSET", "{f}:config", "size", size, "hashIterations", hashes]).await.unwrap();
        let told = filter.add("a").await.unwrap_err();
        assert!(
            matches!(&told, ObjectError::Failed(Failure::InvalidArgument { option: "configuration", .. })),
            "{told:?}"
        );
    }
    observer.cmd(&["HSET", "{f}:config", "size", "no number"]).await.unwrap();
    assert!(filter.contains("a").await.is_err() && filter.config().await.is_err());
    assert!(!observer.exists("f").await.unwrap());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_recreated_filter_is_used_with_its_new_size() {
    let server = server().await;
    let client = client(&server).await;
    let filter: BloomFilter<i64, Long> = BloomFilter::new(&client, "f");
    filter.try_init(1000, 0.01).await.unwrap();
    filter.add(&1).await.unwrap();
    let elsewhere: BloomFilter<i64, Long> = BloomFilter::new(&client, "f");
    assert!(elsewhere.object().delete().await.unwrap() && elsewhere.try_init(20_000, 0.001).await.unwrap());
    elsewhere.add_many(&[2, 3]).await.unwrap();
    assert_eq!(filter.contains_many(&[1, 2, 3]).await.unwrap(), [false, true, true]);
    assert!(elsewhere.object().delete().await.unwrap() && elsewhere.try_init(10, 0.5).await.unwrap());
    assert!(filter.add(&4).await.unwrap() && elsewhere.contains(&4).await.unwrap());
    elsewhere.object().delete().await.unwrap();
    let told = filter.add(&5).await.unwrap_err();
    assert!(matches!(told, ObjectError::Absent { .. }), "{told:?}");
    assert!(!server.observer().await.unwrap().exists("f").await.unwrap());
}

/// Several similar filters get the same size, which is computed once, even if Redisson computed it.
#[tokio::test(flavor = "multi_thread")]
async fn a_filter_is_made_as_another_one_is() {
    let server = server().await;
    let (client, observer) = (client(&server).await, server.observer().await.unwrap());
    let of = |name: &str| BloomFilter::<String>::new(&client, name);
    let plan = of("a").planned(1000, 0.01).unwrap();
    for name in ["a", "b"] {
        assert!(of(name).try_init_as(&plan).await.unwrap() && !of(name).try_init_as(&plan).await.unwrap(), "{name}");
        assert!(!of(name).try_init(5, 0.1).await.unwrap(), "{name}");
        assert_eq!(of(name).config().await.unwrap(), Some(plan), "{name}");
    }
    let redissons = ["size", "9585", "hashIterations", "7", "expectedInsertions", "1000", "falseProbability", "0.01"];
    observer.cmd(&[&["HSET", "{c}:config"][..], &redissons].concat()).await.unwrap();
    let made = of("c").config().await.unwrap().unwrap();
    assert!(of("d").try_init_as(&made).await.unwrap() && of("d").add("x").await.unwrap());
    assert_eq!((of("d").config().await.unwrap(), made.size), (Some(made), 9585));
}

#[tokio::test(flavor = "multi_thread")]
async fn an_element_with_a_lost_reply_may_be_added_again() {
    let server = server().await;
    let proxy = Proxy::to(&server).await.unwrap();
    let client =
        client_with(&server.url_via(proxy.addr()), |config| config.response_timeout(Duration::from_secs(1))).await;
    let filter: BloomFilter<i64, Long> = BloomFilter::new(&client, "f");
    filter.try_init(1000, 0.01).await.unwrap();
    filter.add(&1).await.unwrap();
    proxy.next(1, "EVALSHA", Action::SwallowReply);
    let told = filter.add(&2).await.unwrap_err();
    assert!(matches!(told, ObjectError::Failed(Failure::OutcomeUnknown { .. })), "{told:?}");
    // A call during the reconnect may also end with an unknown outcome.
    let again = async {
        loop {
            match filter.add(&2).await {
                Err(ObjectError::Failed(Failure::OutcomeUnknown { .. })) => {}
                told => return told.unwrap(),
            }
        }
    };
    assert!(!tokio::time::timeout(SOON, again).await.unwrap() && filter.contains(&2).await.unwrap());
    assert!(filter.contains(&1).await.unwrap());
    proxy.next(1, "EVALSHA", Action::SwallowReply);
    assert!(filter.contains(&1).await.unwrap());
}

/// If a replica does not have the filter, the primary is queried.
#[tokio::test(flavor = "multi_thread")]
async fn a_replica_without_the_filter_is_not_queried_again() {
    let replicated = Replicated::start(1).await.unwrap();
    let replica = &replicated.replicas()[0];
    let config = Config::master_slave(replicated.primary().addr().to_string(), [replica.addr().to_string()]).unwrap();
    let client = Client::connect(config.read_mode(ReadMode::Replica)).await.unwrap();
    client.wait_ready(SOON).await.unwrap();
    let filter: BloomFilter<u32> = BloomFilter::new(&client, "filter");
    assert!(filter.try_init(1000, 0.01).await.unwrap() && filter.add(&1).await.unwrap());
    let observer = replica.observer().await.unwrap();
    wait_until(SOON, async || observer.exists("filter").await.unwrap()).await;
    observer.cmd(&["CONFIG", "SET", "replica-read-only", "no"]).await.unwrap();
    observer.cmd(&["FLUSHALL"]).await.unwrap();
    wait_until(SOON, async || filter.config().await.unwrap().is_none()).await;
    assert_eq!(filter.contains_many(&[1, 2]).await.unwrap(), [true, false]);
}
