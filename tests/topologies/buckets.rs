//! Buckets, and object operations, on every topology.

use std::collections::BTreeMap;
use std::time::{Duration, SystemTime};

use redgrid_bucket::{Bucket, Buckets, ObjectError};
use redgrid_core::fence::FenceError;
use redgrid_core::object::{ExpireCondition, Lifetime};
use redgrid_core::{Failure, Token};

use crate::contract::clauses;
use crate::fixture::Fixture;

const HOUR: Duration = Duration::from_secs(3600);

clauses![
    "buckets";
    a_value_is_set_compared_updated_and_deleted,
    a_stale_token_writes_nothing,
    an_object_gets_a_name_in_another_slot_and_keeps_its_lifetime,
    many_values_are_read_and_set_in_any_slot,
    a_bucket_matches_its_model,
];

async fn a_value_is_set_compared_updated_and_deleted(on: Fixture) {
    let (one, two) = (on.client().await, on.client().await);
    let (here, there): (Bucket<u64>, Bucket<u64>) = (Bucket::new(&one, &on.name), Bucket::new(&two, &on.name));
    assert!(here.try_set(&1).expires_in(HOUR).await.unwrap() && !there.try_set(&2).await.unwrap());
    assert_eq!((there.get().await.unwrap(), there.size().await.unwrap()), (Some(1), 1));
    assert!(!there.compare_and_set(&2, &3).await.unwrap());
    assert!(there.compare_and_set(&1, &3).keep_lifetime().await.unwrap());
    assert_eq!(here.update(|n| *n += 1).await.unwrap(), Some(4));
    let object = here.object();
    assert!(matches!(object.lifetime().await.unwrap(), Lifetime::Ends(left) if left <= HOUR));
    assert!(object.expire_in(2 * HOUR).only_if(ExpireCondition::ExpiresSooner).await.unwrap());
    assert!(object.persist().await.unwrap() && object.touch().await.unwrap());
    assert!(object.memory().await.unwrap().is_some() && object.idle().await.unwrap().is_some());
    assert!(object.encoding().await.unwrap().is_some() && object.exists().await.unwrap());
    assert_eq!(here.get_and_expire(HOUR).await.unwrap(), Some(4));
    assert_eq!(here.get_and_persist().await.unwrap(), Some(4));
    assert_eq!(there.get_and_set(&5).await.unwrap(), Some(4));
    let dump = object.dump().await.unwrap().unwrap();
    assert!(there.compare_and_delete(&5).await.unwrap());
    assert!(object.restore(dump).await.unwrap());
    assert_eq!(here.get_and_delete().await.unwrap(), Some(5));
    assert!(!here.delete().await.unwrap() && !object.unlink().await.unwrap());
}

async fn a_stale_token_writes_nothing(on: Fixture) {
    let client = on.client().await;
    let bucket: Bucket<u64> = Bucket::new(&client, &on.name);
    let now = u64::try_from(SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap().as_micros()).unwrap();
    bucket.set(&1).fenced(Token::new(now)).await.unwrap();
    let refused = bucket.set(&2).fenced(Token::new(now - 1)).await.unwrap_err();
    assert!(matches!(refused, ObjectError::Fenced { source: FenceError::Stale { .. }, .. }), "{refused:?}");
    assert_eq!(bucket.get().await.unwrap(), Some(1));
    assert!(bucket.delete_fenced(Token::new(now)).await.unwrap());
}

async fn an_object_gets_a_name_in_another_slot_and_keeps_its_lifetime(on: Fixture) {
    let client = on.client().await;
    let bucket = |name: &str| -> Bucket<String> { Bucket::new(&client, name) };
    // Some of these twelve names are in other slots, and at other nodes.
    let names: Vec<String> = (0..12).map(|n| format!("{}:{n}", on.name)).collect();
    let text = "here and there".to_owned();
    bucket(&names[0]).set(&text).expires_in(HOUR).await.unwrap();
    for pair in names.windows(2) {
        let (from, to) = (bucket(&pair[0]), bucket(&pair[1]));
        assert!(from.object().rename(&pair[1]).await.unwrap());
        assert!(!from.object().exists().await.unwrap());
        assert!(matches!(to.object().lifetime().await.unwrap(), Lifetime::Ends(left) if left <= HOUR));
    }
    let last = &names[11];
    for name in &names[..11] {
        assert!(bucket(last).object().copy_to(name).await.unwrap());
        assert!(!bucket(last).object().copy_to(name).await.unwrap());
        assert!(!bucket(last).object().rename(name).unless_taken().await.unwrap());
        assert!(bucket(last).object().copy_to(name).replacing().await.unwrap());
        assert_eq!(bucket(name).get().await.unwrap().as_ref(), Some(&text));
        assert!(matches!(bucket(name).object().lifetime().await.unwrap(), Lifetime::Ends(_)));
    }
    let refused = bucket(&on.name).object().rename(last).await.unwrap_err();
    assert!(matches!(refused, ObjectError::Absent { .. }), "{refused:?}");
}

async fn many_values_are_read_and_set_in_any_slot(on: Fixture) {
    let client = on.client().await;
    let buckets: Buckets<u64> = Buckets::new(&client);
    let values: BTreeMap<String, u64> = (0..100).map(|n| (format!("{}:{n}", on.name), n)).collect();
    buckets.set_each(&values).await.unwrap();
    assert_eq!(buckets.get_each(values.keys()).await.unwrap(), values);
    let together = &values;
    let one_slot =
        client.slot(&client.key(&"a".try_into().unwrap())) == client.slot(&client.key(&"b".try_into().unwrap()));
    let result = buckets.set_all(together).await;
    assert_eq!(result.is_ok(), one_slot, "{result:?}");
    assert!(one_slot || matches!(result, Err(ObjectError::Failed(Failure::InvalidArgument { option: "names", .. }))));
    let tagged = |n: u64| format!("{{{}}}:{n}", on.name);
    assert!(buckets.try_set_all([(tagged(1), &1), (tagged(2), &2)]).await.unwrap());
    assert!(!buckets.try_set_all([(tagged(2), &3), (tagged(3), &3)]).await.unwrap());
    buckets.set_all([(tagged(2), &4), (tagged(3), &5)]).await.unwrap();
    let names = (1..=4).map(tagged);
    assert_eq!(buckets.get_each(names.clone()).await.unwrap().into_values().collect::<Vec<_>>(), [1, 4, 5]);
    assert_eq!(buckets.delete_each(names.chain(values.into_keys())).await.unwrap(), 103);
}

async fn a_bucket_matches_its_model(on: Fixture) {
    redgrid_tests::model::bucket(&on.client().await, &on.name, 8).await;
}
