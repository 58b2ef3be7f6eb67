//! Counts that agree on both sides: bits, elements of filters and of HyperLogLogs, and nearby
//! members.

use redgrid_bits::codecs::{Json, Kryo, Long, Text};
use redgrid_bits::{BitSet, BloomFilter, HyperLogLog};
use redgrid_geo::{Distance, Geo, Position};

use crate::fixture::{Fixture, scenarios};

scenarios![
    bit_set_combinations_are_equal_on_both_sides,
    ranges_and_bytes_of_bits_are_the_same_on_both_sides,
    filters_count_alike_however_full_they_are,
    counts_merged_by_either_are_the_same,
    areas_of_every_unit_hold_the_same_members,
    members_moved_or_removed_by_one_side_are_so_for_both,
];

async fn bit_set_combinations_are_equal_on_both_sides(on: Fixture) {
    let (mut java, client) = (on.java(), on.client().await);
    let names = ["theirs", "ours", "b", "c"].map(|part| format!("{{{}}}:{part}", on.name));
    let [theirs, ours, b, c] = names.each_ref().map(|name| BitSet::new(&client, name));
    b.set_many([1, 2, 3, 40, 300], true).await.unwrap();
    java.value_of("bits.setMany", &names[3], &["-", "2", "3", "41", "3000"]).await;
    assert_eq!(c.count().await.unwrap(), 4);
    for verb in ["and", "or", "xor", "not"] {
        for set in [&theirs, &ours] {
            set.clear().await.unwrap();
            set.set_many([0, 2, 40, 41, 77], true).await.unwrap();
        }
        let others = &names[2..];
        match verb {
            "and" => ours.and(others).await.unwrap(),
            "or" => ours.or(others).await.unwrap(),
            "xor" => ours.xor(others).await.unwrap(),
            _ => ours.not().await.unwrap(),
        };
        let words: Vec<_> = ["-"].into_iter().chain(others.iter().map(String::as_str)).collect();
        java.value_of(&format!("bits.{verb}"), &names[0], if verb == "not" { &["-"] } else { &words }).await;
        assert_eq!(theirs.to_bytes().await.unwrap(), ours.to_bytes().await.unwrap(), "{verb}");
        assert!(ours.count().await.unwrap() > 0, "{verb}");
        let all = ours.ones();
        let all: Vec<u64> = futures_util::TryStreamExt::try_collect(all).await.unwrap();
        let shown = format!("{{{}}}", all.iter().map(u64::to_string).collect::<Vec<_>>().join(", "));
        assert_eq!(java.value_of("bits.asBitSet", &names[1], &["-"]).await, shown, "{verb}");
    }
}

async fn ranges_and_bytes_of_bits_are_the_same_on_both_sides(on: Fixture) {
    let (mut java, client) = (on.java(), on.client().await);
    let bits = BitSet::new(&client, &on.name);
    let mut ask = async |verb: &str, more: &[&str]| {
        java.value_of(&format!("bits.{verb}"), &on.name, &[&["-"], more].concat()).await
    };
    bits.set_range(5..70, true).await.unwrap();
    ask("clearRange", &["20", "33"]).await;
    assert_eq!(bits.count_in(5..70).await.unwrap(), 52);
    assert_eq!((bits.next_clear(5).await.unwrap(), bits.next_set(20).await.unwrap()), (Some(20), Some(33)));
    assert_eq!(
        ask("getMany", &["4", "5", "19", "20", "32", "33", "69", "70", "9999"]).await,
        "[false, true, true, false, false, true, true, false, false]"
    );
    let bytes: String = bits.to_bytes().await.unwrap().iter().map(|byte| format!("{byte:02x}")).collect();
    assert_eq!(ask("toByteArray", &[]).await, bytes);
    assert_eq!((ask("length", &[]).await, bits.len().await.unwrap()), ("70".into(), 70));
    assert_eq!(
        (ask("incrementAndGetUnsigned", &["4", "0", "3"]).await, bits.get_many([0, 1, 2, 3]).await.unwrap()),
        ("3".into(), vec![false, false, true, true])
    );
    assert_eq!(ask("setLong", &["128", "-2"]).await, "0");
    assert_eq!(bits.count_in(128..192).await.unwrap(), 63);
    assert!(bits.clear().await.unwrap());
    assert_eq!((ask("cardinality", &[]).await, ask("size", &[]).await), ("0".into(), "0".into()));
    bits.set(4_294_967, true).await.unwrap();
    assert_eq!((ask("get", &["4294967"]).await, ask("length", &[]).await), ("true".into(), "4294968".into()));
    ask("clear", &[]).await;
    assert!(bits.is_empty().await.unwrap());
}

async fn filters_count_alike_however_full_they_are(on: Fixture) {
    let (mut java, client) = (on.java(), on.client().await);
    for (at, (expected, share)) in [(1_000, 0.03), (20_000, 0.01), (500, 0.000_01)].into_iter().enumerate() {
        let name = format!("{}:{at}", on.name);
        let filter: BloomFilter<i64, Long> = BloomFilter::new(&client, &name);
        let mut ask = async |verb: &str, more: &[&str]| {
            java.value_of(&format!("bloom.{verb}"), &name, &[&["long"], more].concat()).await
        };
        if at % 2 == 0 {
            assert_eq!(ask("tryInit", &[&expected.to_string(), &share.to_string()]).await, "true");
        } else {
            assert!(filter.try_init(expected, share).await.unwrap());
        }
        let most = i64::try_from(expected).unwrap();
        let mut added = 0;
        for part in [most / 100, most / 2, most, most * 3 / 2] {
            // Each side adds one half.
            let half = i64::midpoint(added, part);
            filter.add_many(&(added..half).collect::<Vec<_>>()).await.unwrap();
            ask("addAll", &[&format!("{half}..{part}")]).await;
            added = part;
            let count = filter.count().await.unwrap();
            assert_eq!(ask("count", &[]).await, count.to_string(), "{expected} at {share}, {part} added");
            let off = count.abs_diff(added.unsigned_abs());
            assert!(off * 20 <= added.unsigned_abs() + 20, "{count} of {added}");
            let others: Vec<i64> = (1_000_000..1_002_000).collect();
            let found = filter.contains_many(&others).await.unwrap().into_iter().filter(|found| *found).count();
            assert_eq!(ask("containsAll", &["1000000..1002000"]).await, found.to_string());
        }
    }
}

async fn counts_merged_by_either_are_the_same(on: Fixture) {
    let (mut java, client) = (on.java(), on.client().await);
    let names = ["a", "b", "c", "theirs", "ours"].map(|part| format!("{{{}}}:{part}", on.name));
    let logs = names.each_ref().map(|name| HyperLogLog::<i64>::new(&client, name).with_codec(Kryo));
    logs[0].add_many(&(0..3000).collect::<Vec<_>>()).await.unwrap();
    java.value_of("hll.addAll", &names[1], &["kryo", "2000..6000"]).await;
    java.value_of("hll.addAll", &names[2], &["kryo", "5999..6001"]).await;
    java.value_of("hll.mergeWith", &names[3], &["kryo", &names[0], &names[1], &names[2]]).await;
    logs[4].merge_with(&names[..3]).await.unwrap();
    let count = logs[4].count().await.unwrap();
    assert!((5_800..6_200).contains(&count), "{count}");
    assert_eq!(
        (logs[3].count().await.unwrap(), java.value_of("hll.count", &names[4], &["kryo"]).await),
        (count, count.to_string())
    );
    let together = java.value_of("hll.countWith", &names[0], &["kryo", &names[1], &names[2]]).await;
    assert_eq!((together, logs[0].count_with(&names[1..3]).await.unwrap()), (count.to_string(), count));
    // Values that the other side added are not new, in each codec.
    assert_eq!(java.value_of("hll.add", &names[4], &["kryo", "long:7"]).await, "false");
    assert!(!logs[3].add(&5_000).await.unwrap());
    let words = format!("{}:text", on.name);
    let text = HyperLogLog::<String>::new(&client, &words).with_codec(Text);
    assert!(text.add("ü").await.unwrap());
    assert_eq!(java.value_of("hll.add", &words, &["string", "ü"]).await, "false");
    assert_eq!(java.value_of("hll.add", &words, &["string", "u"]).await, "true");
    assert!(!text.add("u").await.unwrap());
}

const CITIES: [(&str, f64, f64); 6] = [
    ("Palermo", 13.361_389, 38.115_556),
    ("Catania", 15.087_269, 37.502_669),
    ("Rom", 12.496_366, 41.902_782),
    ("Suva", 178.441_9, -18.141_6),
    ("Apia", -171.751_4, -13.833_3),
    ("Tromsø", 18.955_3, 69.649_2),
];

async fn areas_of_every_unit_hold_the_same_members(on: Fixture) {
    let (mut java, client) = (on.java(), on.client().await);
    let geo: Geo<String, Text> = Geo::new(&client, &on.name);
    let mut ask = async |verb: &str, more: &[&str]| {
        java.value_of(&format!("geo.{verb}"), &on.name, &[&["string"], more].concat()).await
    };
    for (at, (city, longitude, latitude)) in CITIES.into_iter().enumerate() {
        if at % 2 == 0 {
            geo.add(city, Position::new(longitude, latitude).unwrap()).await.unwrap();
        } else {
            ask("add", &[city, &longitude.to_string(), &latitude.to_string()]).await;
        }
    }
    let shown = |members: &[String]| format!("[{}]", members.join(", "));
    let areas = [
        ("13", "38", "KILOMETERS", "300", "-", Distance::kilometers(300.0)),
        ("13", "38", "MILES", "300", "-", Distance::miles(300.0)),
        ("15", "37.5", "FEET", "50000", "-", Distance::feet(50_000.0)),
        ("179.9", "-17", "METERS", "1800000", "-", Distance::meters(1_800_000.0)),
        ("13", "40", "KILOMETERS", "400", "500", Distance::kilometers(400.0)),
        ("0", "0", "KILOMETERS", "21000", "-", Distance::kilometers(21_000.0)),
        ("-90", "0", "KILOMETERS", "10", "-", Distance::kilometers(10.0)),
    ];
    let other = format!("{{{}}}:other", on.name);
    for (longitude, latitude, unit, width, height, length) in areas {
        let at = Position::new(longitude.parse().unwrap(), latitude.parse().unwrap()).unwrap();
        let search = || match height.parse() {
            Ok(height) => geo.around(at).within_box(length, Distance::kilometers(height)),
            Err(_) => geo.around(at).within(length),
        };
        let words = [longitude, latitude, unit, width, height, "ASC"];
        let members = search().nearest_first().members().await.unwrap();
        assert_eq!(ask("around", &words).await, shown(&members), "{words:?}");
        let positions = search().nearest_first().positions().await.unwrap();
        let positioned: Vec<_> = positions.into_iter().map(|(member, _)| member).collect();
        assert_eq!(ask("aroundWithPosition", &words).await, shown(&positioned));
        let far = [longitude, latitude, unit, width, height, "DESC"];
        assert_eq!(ask("around", &far).await, shown(&search().farthest_first().members().await.unwrap()));
        let answer = ask("aroundWithDistance", &words).await;
        let distances = search().nearest_first().distances().await.unwrap();
        assert_eq!(answer.matches('=').count(), distances.len());
        for (member, away) in distances {
            let away = match unit {
                "MILES" => away.as_miles(),
                "FEET" => away.as_feet(),
                "METERS" => away.as_meters(),
                _ => away.as_kilometers(),
            };
            let theirs = answer.split(['{', '}', ',', ' ']).find_map(|word| word.strip_prefix(&format!("{member}=")));
            let theirs: f64 = theirs.unwrap_or_else(|| panic!("{member} in {answer}")).parse().unwrap();
            assert!((theirs - away).abs() <= 0.001 * away.max(1.0), "{member}: {theirs} {away} {unit}");
        }
        // If nothing is found, the target does not exist.
        let stored = ask("storeSortedAroundTo", &[&words[..], &[&other]].concat()).await;
        let ours = search().store_distances(&other).await.unwrap();
        assert_eq!((stored, ours), (members.len().to_string(), members.len() as u64));
    }
}

async fn members_moved_or_removed_by_one_side_are_so_for_both(on: Fixture) {
    let (mut java, client) = (on.java(), on.client().await);
    let geo: Geo<i64, Kryo> = Geo::<i64, Json>::new(&client, &on.name).with_codec(Kryo);
    let mut ask = async |verb: &str, more: &[&str]| {
        java.value_of(&format!("geo.{verb}"), &on.name, &[&["kryo"], more].concat()).await
    };
    let at = |longitude: f64, latitude: f64| Position::new(longitude, latitude).unwrap();
    geo.add_many([(&1, at(10.0, 50.0)), (&2, at(20.0, 60.0))]).await.unwrap();
    assert_eq!(ask("addIfExists", &["long:1", "11", "51"]).await, "true");
    assert_eq!(ask("addIfExists", &["long:3", "11", "51"]).await, "false");
    let moved = geo.position(&1).await.unwrap().unwrap();
    assert!((moved.longitude() - 11.0).abs() < 1e-4 && (moved.latitude() - 51.0).abs() < 1e-4, "{moved:?}");
    assert!(
        geo.add_if_exists(&2, at(21.0, 61.0)).await.unwrap() && !geo.add_if_exists(&3, at(0.0, 0.0)).await.unwrap()
    );
    let there = geo.position(&2).await.unwrap().unwrap();
    // Java shows the position that the server reports, and Rust has read the same.
    assert_eq!(ask("pos", &["long:2", "long:3"]).await, format!("{{2={},{}}}", there.longitude(), there.latitude()));
    assert_eq!(geo.geohashes(&[1, 3]).await.unwrap()[1], None);
    assert_eq!(ask("hash", &["long:1"]).await, format!("{{1={}}}", geo.geohash(&1).await.unwrap().unwrap()));
    assert_eq!(ask("remove", &["long:1"]).await, "true");
    assert!(!geo.contains(&1).await.unwrap() && geo.remove(&2).await.unwrap());
    assert_eq!((ask("size", &[]).await, geo.len().await.unwrap()), ("0".into(), 0));
}
