//! Bit sets: single bits, ranges, numbers and combinations; and counts of distinct elements.

use std::collections::BTreeSet;
use std::time::Duration;

use redgrid_bits::{BitSet, Field, FieldOp, HyperLogLog, ObjectError, Overflow};
use redgrid_core::config::ReadMode;
use redgrid_core::object::Lifetime;
use redgrid_core::{Client, Code, Config, Failure, ServerError};
use redgrid_testkit::{Action, Proxy, Replicated, wait_until};
use redgrid_tests::model::seeds;
use redgrid_tests::{SOON, client, client_with, server};

const HOUR: Duration = Duration::from_secs(3600);

/// The last possible bit.
const LAST: u64 = u32::MAX as u64;

async fn ones(bits: &BitSet) -> BTreeSet<u64> {
    bits.ones().try_collect().await.unwrap()
}

#[tokio::test(flavor = "multi_thread")]
async fn bits_are_set_read_and_cleared() {
    let server = server().await;
    let client = client(&server).await;
    let bits = BitSet::new(&client, "bits");
    assert!(!bits.get(7).await.unwrap() && bits.is_empty().await.unwrap() && !bits.clear().await.unwrap());
    assert_eq!((bits.len().await.unwrap(), bits.size().await.unwrap(), bits.count().await.unwrap()), (0, 0, 0));
    assert_eq!((bits.next_set(3).await.unwrap(), bits.next_clear(300).await.unwrap()), (None, Some(300)));
    assert!(bits.to_bytes().await.unwrap().is_empty() && ones(&bits).await.is_empty());
    assert!(!bits.set(9, true).await.unwrap() && bits.set(9, true).await.unwrap() && bits.get(9).await.unwrap());
    assert_eq!(bits.set_many([9, 10, 11, 700], true).await.unwrap(), 3);
    assert_eq!(bits.set_many([10, 12], false).await.unwrap(), 1);
    assert_eq!(bits.get_many([9, 10, 700, 9, 100_000]).await.unwrap(), [true, false, true, true, false]);
    assert_eq!((bits.count().await.unwrap(), bits.len().await.unwrap(), bits.size().await.unwrap()), (3, 701, 704));
    assert!(bits.set(700, false).await.unwrap());
    assert_eq!((bits.len().await.unwrap(), bits.size().await.unwrap()), (12, 704));
    bits.replace(vec![0b1000_0001, 0xff]).await.unwrap();
    assert_eq!(ones(&bits).await, [0, 7].into_iter().chain(8..16).collect());
    assert_eq!(&bits.to_bytes().await.unwrap()[..], [0b1000_0001, 0xff]);
    assert_eq!((bits.next_clear(7).await.unwrap(), bits.next_set(1).await.unwrap()), (Some(16), Some(7)));
    assert!(bits.clear().await.unwrap() && !bits.object().exists().await.unwrap());
    // More bits than one command sets, and than one page contains.
    let far: BTreeSet<u64> = (0..1200).map(|n| n * 37).collect();
    assert_eq!(bits.set_many(far.iter().copied(), true).await.unwrap(), 1200);
    assert_eq!(ones(&bits).await, far);
    assert!(bits.get_many(far).await.unwrap().iter().all(|bit| *bit));
    assert_eq!(bits.ones_from(37 * 1198).try_collect::<Vec<_>>().await.unwrap(), [37 * 1198, 37 * 1199]);
}

#[tokio::test(flavor = "multi_thread")]
async fn the_last_bit_is_allowed_and_none_after_it() {
    let server = server().await;
    let client = client(&server).await;
    let bits = BitSet::new(&client, "bits");
    for told in [
        bits.get(LAST + 1).await.map(drop),
        bits.set(u64::MAX, true).await.map(drop),
        bits.get_many([0, LAST + 1]).await.map(drop),
        bits.set_many([0, LAST + 1], true).await.map(drop),
        bits.next_set(LAST + 1).await.map(drop),
    ] {
        let told = told.unwrap_err();
        assert!(matches!(&told, ObjectError::Failed(Failure::InvalidArgument { option: "index", .. })), "{told:?}");
        assert!(told.to_string().contains("expected 0 to 4294967295"), "{told}");
    }
    #[allow(clippy::reversed_empty_ranges, reason = "the set rejects such ranges")]
    for range in [5..4, LAST..LAST + 2] {
        let told = bits.set_range(range.clone(), true).await.unwrap_err();
        assert!(matches!(&told, ObjectError::Failed(Failure::InvalidArgument { option: "range", .. })), "{told:?}");
        assert!(bits.count_in(range).await.is_err());
    }
    let told = bits.set_range(0..=u64::MAX, true).await.unwrap_err();
    assert!(told.to_string().ends_with("got 0 to 18446744073709551615"), "{told}");
    assert!(!bits.object().exists().await.unwrap());
    // Clearing bits beyond the end does not extend the value.
    bits.set_range(.., false).await.unwrap();
    assert_eq!(bits.size().await.unwrap(), 0);
    bits.set(3, true).await.unwrap();
    bits.set_range(4.., false).await.unwrap();
    assert_eq!(bits.size().await.unwrap(), 8);
    assert_eq!((bits.next_clear(LAST).await.unwrap(), bits.next_set(LAST).await.unwrap()), (Some(LAST), None));
    assert!(bits.ones_from(LAST + 1).try_next().await.unwrap().is_none());
    let told = BitSet::new(&client, "a{b").get(0).await.unwrap_err();
    assert!(matches!(told, ObjectError::Failed(Failure::InvalidName(_))), "{told:?}");
    server.observer().await.unwrap().cmd(&["RPUSH", "list", "a"]).await.unwrap();
    let list = BitSet::new(&client, "list");
    for told in [list.get(0).await.map(drop), list.set_range(0..3, true).await, list.and(["bits"]).await.map(drop)] {
        let told = told.unwrap_err();
        let code = |told: &ObjectError| match told {
            ObjectError::Failed(Failure::Refused { source: ServerError::Refused { code, .. }, .. }) => Some(*code),
            _ => None,
        };
        assert_eq!(code(&told), Some(Code::WrongType), "{told:?}");
    }
}

/// Compares a bit set with its model. Ranges end at any bit of a byte, and some are larger than one
/// write.
#[tokio::test(flavor = "multi_thread")]
async fn a_bit_set_matches_its_model() {
    let server = server().await;
    let client = client(&server).await;
    for seed in seeds(12) {
        let mut random = fastrand::Rng::with_seed(seed);
        let bits = BitSet::new(&client, format!("model:{seed}"));
        let (mut model, mut story) = (BTreeSet::new(), Vec::new());
        for _ in 0..40 {
            let (step, one, other, bit) = (random.u8(..8), random.u64(..100), random.u64(..100), random.bool());
            let (from, to) = (one.min(other), one.max(other));
            story.push((step, from, to, bit));
            match step {
                0 => assert_eq!(bits.get(one).await.unwrap(), model.contains(&one), "{seed} {story:?}"),
                1 | 2 => {
                    let was = if bit { !model.insert(one) } else { model.remove(&one) };
                    assert_eq!(bits.set(one, bit).await.unwrap(), was, "{seed} {story:?}");
                }
                3 | 4 => {
                    bits.set_range(from..to, bit).await.unwrap();
                    model.retain(|index| !(from..to).contains(index));
                    model.extend((from..to).filter(|_| bit));
                }
                5 => {
                    let count = model.range(from..to).count() as u64;
                    assert_eq!(bits.count_in(from..to).await.unwrap(), count, "{seed} {story:?}");
                }
                6 => assert_eq!(
                    bits.next_set(from).await.unwrap(),
                    model.range(from..).next().copied(),
                    "{seed} {story:?}"
                ),
                _ => {
                    let clear = (from..).find(|index| !model.contains(index));
                    assert_eq!(bits.next_clear(from).await.unwrap(), clear, "{seed} {story:?}");
                }
            }
            assert_eq!(ones(&bits).await, model, "{seed} {story:?}");
            assert_eq!(bits.len().await.unwrap(), model.last().map_or(0, |last| last + 1), "{seed} {story:?}");
        }
    }
    let bits = BitSet::new(&client, "large");
    bits.set_range(3..20_000_003, true).await.unwrap();
    assert_eq!((bits.count().await.unwrap(), bits.len().await.unwrap()), (20_000_000, 20_000_003));
    bits.set_range(5..20_000_001, false).await.unwrap();
    assert_eq!(ones(&bits).await, [3, 4, 20_000_001, 20_000_002].into());
    assert_eq!(bits.next_set(5).await.unwrap(), Some(20_000_001));
}

#[tokio::test(flavor = "multi_thread")]
async fn combined_sets_keep_their_lifetimes() {
    let server = server().await;
    let client = client(&server).await;
    let observer = server.observer().await.unwrap();
    let of = |name: &str| BitSet::new(&client, name);
    let (a, b, c) = ([1, 2, 3, 4, 90], [3, 4, 5], [4, 5, 6, 200]);
    for (name, indices) in [("b", &b[..]), ("c", &c[..])] {
        of(name).set_many(indices.iter().copied(), true).await.unwrap();
    }
    let (and, or, xor) = (vec![4], vec![1, 2, 3, 4, 5, 6, 90, 200], vec![1, 2, 4, 6, 90, 200]);
    let ways: [(&str, Vec<u64>); 7] = [
        ("and", and),
        ("or", or),
        ("xor", xor),
        ("and_not", vec![1, 2, 90]),
        ("or_and_not", vec![5, 6, 200]),
        ("and_any", vec![3, 4]),
        ("exactly_one", vec![1, 2, 6, 90, 200]),
    ];
    for (way, expected) in ways {
        let set = of(way);
        // A leftover key of another program has no effect on the result.
        observer.cmd(&["SET", &format!("redgrid_bits:{{{way}}}:1"), "left behind"]).await.unwrap();
        set.set_many(a, true).await.unwrap();
        set.object().expire_in(HOUR).await.unwrap();
        let others = ["b", "c", "nothing"];
        let size = match way {
            "and" => set.and(others).await,
            "or" => set.or(others).await,
            "xor" => set.xor(others).await,
            "and_not" => set.and_not(others).await,
            "or_and_not" => set.or_and_not(others).await,
            "and_any" => set.and_any(others).await,
            _ => set.exactly_one(others).await,
        };
        let expected = if way == "and" { BTreeSet::new() } else { expected.into_iter().collect() };
        assert_eq!((ones(&set).await, size.unwrap()), (expected, 26), "{way}");
        assert!(matches!(set.object().lifetime().await.unwrap(), Lifetime::Ends(left) if left <= HOUR), "{way}");
    }
    let set = of("and");
    set.replace(vec![0b0101_0000]).await.unwrap();
    assert_eq!((set.not().await.unwrap(), ones(&set).await), (1, [0, 2, 4, 5, 6, 7].into()));
    assert_eq!((set.and(["and", "and"]).await.unwrap(), of("none").not().await.unwrap()), (1, 0));
    assert_eq!(of("none").or(["nothing"]).await.unwrap(), 0);
    assert!(!of("none").object().exists().await.unwrap());
    for names in [Vec::new(), vec!["b"; 501]] {
        let told = set.or(names).await.unwrap_err();
        assert!(matches!(&told, ObjectError::Failed(Failure::InvalidArgument { option: "names", .. })), "{told:?}");
    }
    // If a key cannot be combined, the call changes no key and leaves no temporary one.
    observer.cmd(&["RPUSH", "list", "a"]).await.unwrap();
    let told = set.exactly_one(["b", "list"]).await.unwrap_err();
    assert!(matches!(&told, ObjectError::Failed(Failure::Refused { .. })), "{told:?}");
    assert_eq!(ones(&set).await, [0, 2, 4, 5, 6, 7].into());
    let keys: Vec<String> = observer.query(&["KEYS", "redgrid_bits:*"]).await.unwrap();
    assert!(keys.is_empty(), "{keys:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn numbers_in_bits() {
    let server = server().await;
    let client = client(&server).await;
    let bits = BitSet::new(&client, "numbers");
    let (byte, small, whole) = (Field::signed(8, 3), Field::unsigned(4, 11), Field::signed(64, 100));
    assert_eq!((bits.integer(byte).await.unwrap(), bits.set_integer(byte, -128).await.unwrap()), (0, 0));
    assert_eq!((bits.integer(byte).await.unwrap(), bits.set_integer(byte, 127).await.unwrap()), (-128, -128));
    assert_eq!(bits.add_integer(byte, 1, Overflow::Fail).await.unwrap(), None);
    assert_eq!(bits.add_integer(byte, 1, Overflow::Saturate).await.unwrap(), Some(127));
    assert_eq!(bits.add_integer(byte, 1, Overflow::Wrap).await.unwrap(), Some(-128));
    for (field, least, most) in
        [(byte, -128, 127), (small, 0, 15), (whole, i64::MIN, i64::MAX), (Field::unsigned(63, 200), 0, i64::MAX)]
    {
        assert_eq!(field.bounds(), (least, most));
        for value in [least, most] {
            bits.set_integer(field, value).await.unwrap();
            assert_eq!(bits.integer(field).await.unwrap(), value);
        }
    }
    let told = bits.fields([
        FieldOp::Get(byte),
        FieldOp::Set(small, 3),
        FieldOp::Add(small, -4, Overflow::Fail),
        FieldOp::Add(small, -4, Overflow::Saturate),
        FieldOp::Get(whole),
    ]);
    assert_eq!(told.await.unwrap(), [Some(127), Some(15), None, Some(0), Some(i64::MAX)]);
    assert_eq!(bits.fields([FieldOp::Get(small), FieldOp::Get(byte)]).await.unwrap(), [Some(0), Some(127)]);
    assert!(bits.fields([]).await.unwrap().is_empty());
    for (field, option) in [
        (Field::signed(65, 0), "width"),
        (Field::unsigned(64, 0), "width"),
        (Field::signed(0, 0), "width"),
        (Field::signed(8, LAST - 6), "offset"),
        (Field::signed(8, u64::MAX), "offset"),
    ] {
        let told = bits.set_integer(field, 0).await.unwrap_err();
        assert!(
            matches!(&told, ObjectError::Failed(Failure::InvalidArgument { option: found, .. }) if *found == option),
            "{told:?}"
        );
    }
    let told = bits.set_integer(small, 16).await.unwrap_err();
    assert!(told.to_string().contains("expected 0 to 15, got 16"), "{told}");
    let told = bits.fields(vec![FieldOp::Get(small); 1001]).await.unwrap_err();
    assert!(matches!(&told, ObjectError::Failed(Failure::InvalidArgument { option: "operations", .. })), "{told:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_change_with_a_lost_reply_is_unknown_and_executed_once() {
    let server = server().await;
    let proxy = Proxy::to(&server).await.unwrap();
    let client =
        client_with(&server.url_via(proxy.addr()), |config| config.response_timeout(Duration::from_secs(1))).await;
    let bits = BitSet::new(&client, "n");
    let field = Field::unsigned(8, 0);
    proxy.next(1, "BITFIELD", Action::SwallowReply);
    let told = bits.add_integer(field, 1, Overflow::Wrap).await.unwrap_err();
    assert!(matches!(told, ObjectError::Failed(Failure::OutcomeUnknown { .. })), "{told:?}");
    assert_eq!(bits.integer(field).await.unwrap(), 1);
    // A read without a reply is sent again.
    proxy.next(1, "BITCOUNT", Action::SwallowReply);
    assert_eq!(bits.count().await.unwrap(), 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn distinct_elements_are_counted_and_merged() {
    let server = server().await;
    let client = client(&server).await;
    let of = |name: &str| HyperLogLog::<u64>::new(&client, name);
    let (monday, tuesday) = (of("monday"), of("tuesday"));
    assert_eq!(monday.count().await.unwrap(), 0);
    assert!(monday.add(&1).await.unwrap() && !monday.add(&1).await.unwrap());
    assert!(!monday.add_many(&[]).await.unwrap());
    assert!(monday.add_many(&(0..20_000).collect::<Vec<_>>()).await.unwrap());
    assert!(!monday.add_many(&(0..20_000).collect::<Vec<_>>()).await.unwrap());
    tuesday.add_many(&(10_000..30_000).collect::<Vec<_>>()).await.unwrap();
    // The estimates are within four standard errors.
    let about = |count: u64, expected: u64| count.abs_diff(expected) < expected * 33 / 1000;
    let (one, both) = (monday.count().await.unwrap(), monday.count_with(["tuesday", "never"]).await.unwrap());
    assert!(about(one, 20_000) && about(both, 30_000), "{one} {both}");
    assert_eq!(monday.count().await.unwrap(), one);
    monday.merge_with(["tuesday"]).await.unwrap();
    assert_eq!(monday.count().await.unwrap(), both);
    server.observer().await.unwrap().cmd(&["SET", "text", "no such thing"]).await.unwrap();
    let told = monday.merge_with(["text"]).await.unwrap_err();
    assert!(matches!(&told, ObjectError::Failed(Failure::Refused { .. })), "{told:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn temporary_keys_are_removed_or_never_created() {
    let server = server().await;
    let (client, observer) = (client(&server).await, server.observer().await.unwrap());
    let bits = BitSet::new(&client, "bits");
    bits.set_many([1, 2], true).await.unwrap();
    BitSet::new(&client, "other").set_many([2, 3], true).await.unwrap();
    for denied in ["-del", "-rename", "-bitop", "-pttl", "-strlen"] {
        observer.cmd(&["ACL", "SETUSER", "half", "reset", "on", ">secret", "~*", "&*", "+@all", denied]).await.unwrap();
        let half = client_with(&server.url(), |config| config.credentials(Some("half"), "secret")).await;
        let told = BitSet::new(&half, "bits").exactly_one(["other"]).await;
        assert!(matches!(told, Err(ObjectError::Failed(Failure::Refused { .. }))), "{denied}: {told:?}");
        assert_eq!(observer.query::<u64>(&["DBSIZE"]).await.unwrap(), 2, "{denied}");
        assert_eq!(ones(&bits).await, BTreeSet::from([1, 2]), "{denied}");
    }
}

/// A stream reads from the primary, because a replica may lack bits that were set before.
#[tokio::test(flavor = "multi_thread")]
async fn a_stream_is_not_read_from_replicas() {
    let replicated = Replicated::start(1).await.unwrap();
    let replica = &replicated.replicas()[0];
    let config = Config::master_slave(replicated.primary().addr().to_string(), [replica.addr().to_string()]).unwrap();
    let client = Client::connect(config.read_mode(ReadMode::Replica)).await.unwrap();
    client.wait_ready(SOON).await.unwrap();
    let bits = BitSet::new(&client, "bits");
    bits.set_many([1, 100_000], true).await.unwrap();
    let observer = replica.observer().await.unwrap();
    wait_until(SOON, async || observer.exists("bits").await.unwrap()).await;
    observer.cmd(&["CONFIG", "SET", "replica-read-only", "no"]).await.unwrap();
    observer.cmd(&["DEL", "bits"]).await.unwrap();
    wait_until(SOON, async || bits.count().await.unwrap() == 0).await;
    for _ in 0..5 {
        assert_eq!(ones(&bits).await, BTreeSet::from([1, 100_000]));
    }
}

/// Clearing bits beyond the end takes one request, not one for each possible mebibyte.
#[tokio::test(flavor = "multi_thread")]
async fn bits_after_the_end_are_cleared_at_once() {
    let server = server().await;
    let (client, observer) = (client(&server).await, server.observer().await.unwrap());
    let bits = BitSet::new(&client, "bits");
    bits.set_many([3, 1000, 1001], true).await.unwrap();
    observer.cmd(&["CONFIG", "RESETSTAT"]).await.unwrap();
    bits.set_range(1001.., false).await.unwrap();
    assert_eq!(ones(&bits).await, BTreeSet::from([3, 1000]));
    BitSet::new(&client, "none").set_range(.., false).await.unwrap();
    let stats: String = observer.query(&["INFO", "commandstats"]).await.unwrap();
    let calls = stats.lines().filter_map(|line| line.strip_prefix("cmdstat_evalsha:calls="));
    let calls: u64 = calls.map(|line| line.split(',').next().unwrap().parse::<u64>().unwrap()).sum();
    assert!(calls < 10, "{stats}");
    let beyond = Field::signed(0, 0);
    assert_eq!((beyond.bounds(), Field::unsigned(0, 0).bounds()), ((0, 0), (0, 0)));
    assert!(matches!(bits.integer(beyond).await, Err(ObjectError::Failed(Failure::InvalidArgument { .. }))));
}
