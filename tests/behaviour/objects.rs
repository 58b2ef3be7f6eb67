//! Operations of every object.

use std::time::{Duration, SystemTime};

use bytes::Bytes;
use redgrid_core::name::suffixed;
use redgrid_core::object::{ExpireCondition, Lifetime, Object, ObjectError};
use redgrid_core::{Code, Failure, Name, ServerError};
use redgrid_tests::{client, server};

const HOUR: Duration = Duration::from_secs(3600);

/// The keys of an object with one companion.
fn pair(key: &[u8]) -> Vec<Bytes> {
    vec![Bytes::copy_from_slice(key), suffixed(key, "beside")]
}

#[tokio::test(flavor = "multi_thread")]
async fn an_existing_object_is_described_and_deleted_with_its_companions() {
    let server = server().await;
    let (client, observer) = (client(&server).await, server.observer().await.unwrap());
    let object = Object::with_layout(&client, Name::new("a"), pair);
    assert!(!object.exists().await.unwrap() && !object.touch().await.unwrap() && !object.delete().await.unwrap());
    assert_eq!((object.memory().await.unwrap(), object.idle().await.unwrap()), (None, None));
    assert_eq!((object.encoding().await.unwrap(), object.reference_count().await.unwrap()), (None, None));
    observer.cmd(&["SET", "a", "1"]).await.unwrap();
    let alone = object.memory().await.unwrap().unwrap();
    observer.cmd(&["HSET", "{a}:beside", "f", "1"]).await.unwrap();
    assert!(object.memory().await.unwrap().unwrap() > alone);
    assert!(object.exists().await.unwrap() && object.touch().await.unwrap());
    assert!(object.idle().await.unwrap().unwrap() < HOUR);
    assert_eq!(object.encoding().await.unwrap().as_deref(), Some("int"));
    assert!(object.reference_count().await.unwrap().unwrap() > 0);
    let told = object.frequency().await.unwrap_err();
    assert!(matches!(told, ObjectError::Failed(Failure::Refused { .. })), "without its policy: {told:?}");
    assert!(object.delete().await.unwrap());
    assert!(observer.keys("*").await.unwrap().is_empty());
    observer.cmd(&["HSET", "{a}:beside", "f", "1"]).await.unwrap();
    assert!(object.unlink().await.unwrap(), "a companion alone is something, too");
}

#[tokio::test(flavor = "multi_thread")]
async fn lifetimes_are_set_on_conditions() {
    let server = server().await;
    let (client, observer) = (client(&server).await, server.observer().await.unwrap());
    let object = Object::with_layout(&client, Name::new("a"), pair);
    assert!(!object.expire_in(HOUR).await.unwrap());
    assert_eq!(object.lifetime().await.unwrap(), Lifetime::Absent);
    observer.cmd(&["MSET", "a", "1", "{a}:beside", "2"]).await.unwrap();
    assert_eq!(object.lifetime().await.unwrap(), Lifetime::Endless);
    let minutes = |n: u32| HOUR / 60 * n;
    // The object first has no lifetime, and then about half an hour.
    for (condition, endless, shorter, longer) in [
        (ExpireCondition::NoExpiry, true, false, false),
        (ExpireCondition::HasExpiry, false, true, true),
        (ExpireCondition::ExpiresSooner, false, false, true),
        (ExpireCondition::ExpiresLater, true, true, false),
    ] {
        for at in [false, true] {
            let set = async |lifetime: Duration| {
                let expire =
                    if at { object.expire_at(SystemTime::now() + lifetime) } else { object.expire_in(lifetime) };
                expire.only_if(condition).await.unwrap()
            };
            object.persist().await.unwrap();
            assert_eq!(set(minutes(30)).await, endless, "{condition:?}");
            assert!(object.expire_in(minutes(30)).await.unwrap());
            assert_eq!(set(minutes(20)).await, shorter, "{condition:?}");
            assert!(object.expire_in(minutes(30)).await.unwrap());
            assert_eq!(set(minutes(40)).await, longer, "{condition:?}");
        }
    }
    object.expire_in(HOUR).await.unwrap();
    assert!(observer.time_to_live("{a}:beside").await.unwrap().is_some());
    assert!(object.persist().await.unwrap() && !object.persist().await.unwrap());
    assert!(observer.time_to_live("{a}:beside").await.unwrap().is_none());
    let told = object.expire_in(Duration::ZERO).await.unwrap_err();
    assert!(matches!(told, ObjectError::Failed(Failure::InvalidArgument { .. })), "{told:?}");
    assert!(object.expire_at(SystemTime::now() - HOUR).await.unwrap());
    assert!(observer.keys("*").await.unwrap().is_empty());
}

#[tokio::test(flavor = "multi_thread")]
async fn companion_keys_are_renamed_together() {
    let server = server().await;
    let (client, observer) = (client(&server).await, server.observer().await.unwrap());
    let of = |name: &str| Object::with_layout(&client, Name::new(name), pair);
    let told = of("a").rename("b").await.unwrap_err();
    assert!(matches!(&told, ObjectError::Absent { name } if name.as_str() == "a"), "{told:?}");
    assert!(matches!(of("a").copy_to("b").await, Err(ObjectError::Absent { .. })));
    observer.cmd(&["SET", "a", "1", "PX", "3600000"]).await.unwrap();
    observer.cmd(&["SET", "{a}:beside", "2"]).await.unwrap();
    observer.cmd(&["MSET", "b", "old", "{b}:beside", "old"]).await.unwrap();
    assert!(!of("a").rename("b").unless_taken().await.unwrap() && !of("a").copy_to("b").await.unwrap());
    assert!(of("a").rename("b").await.unwrap());
    assert_eq!(observer.keys("*").await.unwrap().len(), 2);
    assert_eq!(observer.get::<String>("{b}:beside").await.unwrap().as_deref(), Some("2"));
    assert!(matches!(of("b").lifetime().await.unwrap(), Lifetime::Ends(_)));
    assert!(of("b").copy_to("c").await.unwrap() && of("b").copy_to("c").replacing().await.unwrap());
    assert!(matches!(of("c").lifetime().await.unwrap(), Lifetime::Ends(_)));
    // An object without a companion replaces one that has a companion.
    observer.cmd(&["DEL", "{c}:beside"]).await.unwrap();
    assert!(of("c").rename("b").await.unwrap());
    assert_eq!(observer.keys("*").await.unwrap(), ["b"]);
    assert!(of("b").rename("b").await.unwrap(), "its own name changes nothing");
    assert!(matches!(of("b").rename("{}").await, Err(ObjectError::Failed(Failure::InvalidName(_)))));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_dump_is_restored() {
    let server = server().await;
    let (client, observer) = (client(&server).await, server.observer().await.unwrap());
    let of = |name: &str| Object::with_layout(&client, Name::new(name), pair);
    assert_eq!(of("a").dump().await.unwrap(), None);
    observer.cmd(&["RPUSH", "a", "1", "2"]).await.unwrap();
    let dump = of("a").dump().await.unwrap().unwrap();
    assert_eq!(dump.parts().iter().map(Option::is_some).collect::<Vec<_>>(), [true, false]);
    assert!(!of("a").restore(dump.clone()).await.unwrap());
    assert!(of("b").restore(dump.clone()).expires_in(HOUR).await.unwrap());
    assert!(matches!(of("b").lifetime().await.unwrap(), Lifetime::Ends(_)));
    assert!(of("b").restore(dump.clone()).replacing().await.unwrap());
    assert_eq!(of("b").lifetime().await.unwrap(), Lifetime::Endless);
    assert_eq!(observer.query::<Vec<String>>(&["LRANGE", "b", "0", "-1"]).await.unwrap(), ["1", "2"]);
    let told = Object::new(&client, "c").restore(dump).await.unwrap_err();
    assert!(matches!(told, ObjectError::Failed(Failure::InvalidArgument { option: "dump", .. })), "{told:?}");
    let told = Object::new(&client, "c").restore(Bytes::from_static(b"nonsense")).await.unwrap_err();
    assert!(
        matches!(
            &told,
            ObjectError::Failed(Failure::Refused { source: ServerError::Refused { code: Code::Other, .. }, .. })
        ),
        "{told:?}"
    );
}
