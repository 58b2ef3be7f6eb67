//! The types of arguments of collections are inferred, and borrowed forms are accepted instead of
//! owned ones.

use std::time::Duration;

use redgrid_bits::{BloomFilter, HyperLogLog};
use redgrid_core::Client;
use redgrid_core::object::ObjectError;
use redgrid_list::List;
use redgrid_map::Map;
use redgrid_queue::{DelayedQueue, Deque, PriorityQueue, Queue};
use redgrid_set::Set;
use redgrid_tests::{client, server};

/// These calls compile only because the bounds are on the codec (`C: EncodesFor<T, Q>`). With a
/// bound on `Q` instead, the compiler could not infer the types of the arguments.
#[expect(dead_code, reason = "it is enough that it compiles")]
async fn types_are_inferred(client: &Client) -> Result<(), ObjectError> {
    let map = Map::<u64, String>::new(client, "map");
    map.get(&"5".parse().unwrap()).await?;
    map.remove_many(&[]).await?;
    let set = Set::<u64>::new(client, "set");
    set.contains(&7_u32.into()).await?;
    set.insert_many(&[]).await?;
    BloomFilter::<u64>::new(client, "filter").add_many(&[]).await?;
    HyperLogLog::<u64>::new(client, "log").add_many(&[]).await?;
    Queue::<u64>::new(client, "queue").push(&"5".parse().unwrap()).await?;
    List::<u64>::new(client, "list").push_many(&[]).await?;
    Ok(())
}

#[tokio::test]
async fn a_borrowed_string_is_an_element_of_strings() {
    let server = server().await;
    let client = client(&server).await;
    let queue = Queue::<String>::new(&client, "queue");
    queue.push("one").await.unwrap();
    queue.push(&"two".to_owned()).await.unwrap();
    assert_eq!(queue.push_many(["three"]).await.unwrap(), 3);
    assert!(queue.contains("two").await.unwrap() && queue.remove("two").await.unwrap());
    assert_eq!(Deque::<String>::new(&client, "queue").push_front("zero").await.unwrap(), 3);
    assert_eq!(queue.read_all().await.unwrap(), ["zero", "one", "three"]);

    let list = List::<String>::new(&client, "list");
    list.push_many(["a", "c"]).await.unwrap();
    assert_eq!(list.insert_before("c", &"b".to_owned()).await.unwrap(), Some(3));
    assert!(list.compare_and_set(0, "a", "A").await.unwrap());
    assert_eq!(list.replace(2, "C").await.unwrap(), "c");
    assert_eq!((list.index_of("b").await.unwrap(), list.read_all().await.unwrap().concat()), (Some(1), "AbC".into()));

    let delayed = DelayedQueue::<String>::new(&client, "delayed");
    delayed.push("now", Duration::ZERO).await.unwrap();
    assert_eq!(delayed.take().await.unwrap(), "now");
    let ranked = PriorityQueue::<String>::new(&client, "ranked");
    ranked.push_many([("low", 9), ("high", 1)]).await.unwrap();
    assert_eq!(ranked.pop().await.unwrap(), Some((1, "high".to_owned())));
}
