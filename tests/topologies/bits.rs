//! Bit sets, filters, counts and positions on every topology.

use std::collections::BTreeSet;
use std::time::Duration;

use redgrid_bits::{BitSet, BloomFilter, Field, FieldOp, HyperLogLog, ObjectError, Overflow};
use redgrid_core::Failure;
use redgrid_core::object::Lifetime;
use redgrid_geo::{Distance, Geo, Position};

use crate::contract::clauses;
use crate::fixture::{Fixture, Topology};

const HOUR: Duration = Duration::from_secs(3600);

clauses![
    "bits";
    bits_are_set_counted_and_streamed,
    bit_sets_of_one_slot_are_combined,
    a_filter_finds_elements_of_all_clients,
    distinct_elements_of_all_clients_are_counted,
    members_are_placed_found_and_stored,
];

/// Returns a name in the slot of the scenario's other names. Its prefix is one for which the user
/// of the page has permissions.
fn beside(on: &Fixture, name: &str) -> String {
    format!("{}:{{{}}}:{name}", on.name.split(':').next().unwrap_or_default(), on.name)
}

async fn bits_are_set_counted_and_streamed(on: Fixture) {
    let (one, two) = (on.client().await, on.client().await);
    let (here, there) = (BitSet::new(&one, &on.name), BitSet::new(&two, &on.name));
    assert!(!here.set(3, true).await.unwrap() && there.set(3, true).await.unwrap() && there.get(3).await.unwrap());
    here.set_range(10..30, true).await.unwrap();
    there.set_range(15..=19, false).await.unwrap();
    assert_eq!(here.set_many([40, 41], true).await.unwrap(), 2);
    assert_eq!((here.count().await.unwrap(), there.count_in(12..41).await.unwrap()), (18, 14));
    assert_eq!((here.len().await.unwrap(), here.size().await.unwrap()), (42, 48));
    assert_eq!((there.next_set(4).await.unwrap(), there.next_clear(10).await.unwrap()), (Some(10), Some(15)));
    let all: BTreeSet<u64> = here.ones().try_collect().await.unwrap();
    assert_eq!(all, [3].into_iter().chain(10..15).chain(20..30).chain([40, 41]).collect());
    let (low, high) = (Field::unsigned(8, 64), Field::signed(16, 72));
    let results = here.fields([FieldOp::Add(low, 300, Overflow::Saturate), FieldOp::Set(high, -5)]).await.unwrap();
    assert_eq!((results, there.integer(high).await.unwrap()), (vec![Some(255), Some(0)], -5));
    assert_eq!(there.get_many([3, 4, 64]).await.unwrap(), [true, false, true]);
    assert_eq!(there.to_bytes().await.unwrap().len(), 11);
    here.replace(vec![0]).await.unwrap();
    assert!(there.is_empty().await.unwrap() && there.clear().await.unwrap());
}

async fn bit_sets_of_one_slot_are_combined(on: Fixture) {
    let client = on.client().await;
    let of = |name: &str| BitSet::new(&client, beside(&on, name));
    of("b").set_many([3, 4, 5], true).await.unwrap();
    of("c").set_many([4, 5, 6], true).await.unwrap();
    let others = [beside(&on, "b"), beside(&on, "c")];
    let set = of("a");
    for (way, expected) in
        [("and", vec![4]), ("xor", vec![1, 4, 6]), ("one", vec![1, 6]), ("diff1", vec![5, 6]), ("any", vec![3, 4])]
    {
        set.clear().await.unwrap();
        set.set_many([1, 3, 4], true).await.unwrap();
        set.object().expire_in(HOUR).await.unwrap();
        match way {
            "and" => set.and(&others).await,
            "xor" => set.xor(&others).await,
            "one" => set.exactly_one(&others).await,
            "diff1" => set.or_and_not(&others).await,
            _ => set.and_any(&others).await,
        }
        .unwrap();
        assert_eq!(set.ones().try_collect::<Vec<_>>().await.unwrap(), expected, "{way}");
        assert!(matches!(set.object().lifetime().await.unwrap(), Lifetime::Ends(left) if left <= HOUR), "{way}");
    }
    set.or(&others).await.unwrap();
    set.and_not([beside(&on, "c")]).await.unwrap();
    assert_eq!(
        (set.not().await.unwrap(), set.ones().try_collect::<Vec<_>>().await.unwrap()),
        (1, vec![0, 1, 2, 4, 5, 6, 7])
    );
    // In a cluster, the client refuses a name of another slot before it sends any request.
    let result = set.or([format!("{}:elsewhere", on.name)]).await;
    match on.topology() {
        Topology::Cluster => {
            assert!(
                matches!(&result, Err(ObjectError::Failed(Failure::InvalidArgument { option: "name", .. }))),
                "{result:?}"
            );
        }
        _ => assert_eq!(result.unwrap(), 1),
    }
}

async fn a_filter_finds_elements_of_all_clients(on: Fixture) {
    let (one, two) = (on.client().await, on.client().await);
    let (here, there): (BloomFilter<String>, BloomFilter<String>) =
        (BloomFilter::new(&one, &on.name), BloomFilter::new(&two, &on.name));
    assert!(matches!(there.contains("a").await, Err(ObjectError::Absent { .. })));
    assert!(here.try_init(1000, 0.01).await.unwrap() && !there.try_init(9, 0.5).await.unwrap());
    assert!(here.add("a").await.unwrap() && !there.add("a").await.unwrap());
    assert_eq!(there.add_many(["a", "b", "c"]).await.unwrap(), 2);
    assert_eq!(here.contains_many(["a", "b", "c", "d"]).await.unwrap(), [true, true, true, false]);
    assert_eq!((here.count().await.unwrap(), here.config().await.unwrap().unwrap().hash_iterations), (3, 7));
    assert!(here.object().expire_in(HOUR).await.unwrap() && here.object().delete().await.unwrap());
    assert!(matches!(there.add("a").await, Err(ObjectError::Absent { .. })));
    assert!(there.config().await.unwrap().is_none());
}

async fn distinct_elements_of_all_clients_are_counted(on: Fixture) {
    let client = on.client().await;
    let of = |name: &str| beside(&on, name);
    let (one, two): (HyperLogLog<u64>, HyperLogLog<u64>) =
        (HyperLogLog::new(&client, of("one")), HyperLogLog::new(&client, of("two")));
    assert!(one.add(&1).await.unwrap() && one.add_many(&[2, 3]).await.unwrap() && two.add_many(&[3, 4]).await.unwrap());
    assert_eq!((one.count().await.unwrap(), one.count_with([of("two")]).await.unwrap()), (3, 4));
    one.merge_with([of("two")]).await.unwrap();
    assert_eq!(one.count().await.unwrap(), 4);
    if on.topology() == Topology::Cluster {
        let error = one.count_with([format!("{}:elsewhere", on.name)]).await.unwrap_err();
        assert!(matches!(&error, ObjectError::Failed(Failure::InvalidArgument { option: "name", .. })), "{error:?}");
    }
}

async fn members_are_placed_found_and_stored(on: Fixture) {
    let client = on.client().await;
    let of = |name: &str| beside(&on, name);
    let cities: Geo<String> = Geo::new(&client, of("cities"));
    let (palermo, catania) =
        (Position::new(13.361_389, 38.115_556).unwrap(), Position::new(15.087_269, 37.502_669).unwrap());
    assert!(cities.add("Palermo", catania).await.unwrap() && cities.add_if_exists("Palermo", palermo).await.unwrap());
    assert!(cities.add_if_absent("Catania", catania).await.unwrap() && !cities.add("Catania", catania).await.unwrap());
    let apart = cities.distance("Palermo", "Catania").await.unwrap().unwrap();
    assert!((apart.as_kilometers() - 166.2742).abs() < 0.001, "{apart:?}");
    assert_eq!(cities.geohash("Palermo").await.unwrap().as_deref(), Some("sqc8b49rny0"));
    assert!((cities.position("Palermo").await.unwrap().unwrap().longitude() - 13.361_389).abs() < 1e-5);
    assert!(cities.contains("Palermo").await.unwrap() && cities.len().await.unwrap() == 2);
    let far = Distance::kilometers(200.0);
    let found = cities.around(catania).within(far).nearest_first().distances().await.unwrap();
    assert_eq!(found.iter().map(|(city, _)| city.as_str()).collect::<Vec<_>>(), ["Catania", "Palermo"]);
    assert_eq!(cities.around_member("Palermo").within_box(far, far).at_most(1).members().await.unwrap(), ["Palermo"]);
    assert_eq!(cities.around(palermo).within(far).store(of("near")).await.unwrap(), 2);
    assert_eq!(cities.around_member("Palermo").within(far).store_distances(of("near")).await.unwrap(), 2);
    assert_eq!(cities.around_member("Rome").within(far).store(of("near")).await.unwrap(), 0);
    if on.topology() == Topology::Cluster {
        let error = cities.around(palermo).within(far).store(format!("{}:elsewhere", on.name)).await.unwrap_err();
        assert!(matches!(&error, ObjectError::Failed(Failure::InvalidArgument { option: "name", .. })), "{error:?}");
    }
    assert!(cities.remove("Palermo").await.unwrap() && cities.clear().await.unwrap());
}
