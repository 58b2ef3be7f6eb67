//! Reliable queues: numbers, the age of the oldest message, and pages of messages.

use std::time::Duration;

use futures_util::TryStreamExt;
use redgrid_inspect::reliable_queue::codecs::Text;
use redgrid_inspect::reliable_queue::{MessageGroup, MessageState, QueueSettings, ReliableQueue};
use redgrid_inspect::{Client, ObjectFilter};
use redgrid_testkit::wait_until;

use crate::support::{SOON, client, inspector, observer, send, server};

const HOUR: Duration = Duration::from_secs(3600);

type Texts = ReliableQueue<String, Text>;

fn queue(client: &Client, name: &str) -> Texts {
    ReliableQueue::new(client, name)
}

#[tokio::test(flavor = "multi_thread")]
async fn a_queue_has_numbers_an_age_and_waiting_clients() {
    let server = server().await;
    let inspector = inspector(&server.url()).await;
    assert_eq!(inspector.queue("jobs").await.expect("an answer"), None);
    let user = client(&server.url()).await;
    let jobs = queue(&user, "jobs");
    let settings = QueueSettings { max_attempts: Some(3), ..QueueSettings::default() };
    jobs.set_settings(&settings).await.expect("they are set");
    for text in ["a", "b", "c"] {
        jobs.push(text).await.expect("it is pushed");
    }
    jobs.push("later").delay(HOUR).await.expect("it is pushed");
    let held = jobs.receive().visibility(HOUR).await.expect("a message");
    jobs.receive().await.expect("a message").reject("odd").await.expect("it was held");
    let view = inspector.queue("jobs").await.expect("an answer").expect("it exists");
    let counts = view.counts;
    assert_eq!((counts.ready, counts.delayed, counts.in_flight, counts.dead, counts.overdue), (1, 1, 1, 1, 0));
    assert!(counts.oldest_ready_age.is_some_and(|age| age < SOON) && counts.paused_since.is_none(), "{counts:?}");
    assert_eq!((view.name.as_str(), view.settings), ("jobs", settings));
    let read = async || inspector.queue("jobs").await.expect("an answer").expect("it exists");
    // The subscription of a receive lasts a second.
    wait_until(SOON, async || read().await.waiting_clients == Some(0)).await;

    jobs.pause().await.expect("it is paused");
    let waiting = tokio::spawn({
        let jobs = queue(&client(&server.url()).await, "jobs");
        async move { jobs.receive().await.map(|delivery| delivery.value()) }
    });
    wait_until(SOON, async || read().await.waiting_clients == Some(1)).await;
    assert!(read().await.counts.paused_since.is_some());
    jobs.resume().await.expect("it is resumed");
    assert_eq!(waiting.await.expect("no panic").expect("a message").expect("text"), "c");
    held.ack().await.expect("it was held");
}

#[tokio::test(flavor = "multi_thread")]
async fn all_queues_are_listed() {
    let server = server().await;
    let observer = observer(&server).await;
    let user = client(&server.url()).await;
    for n in 0..20 {
        queue(&user, &format!("jobs:{n}")).push("a").await.expect("it is pushed");
        send(&observer, &["SET", &format!("other:{n}"), "1"]).await;
    }
    queue(&user, "mails").pause().await.expect("it is paused");
    let inspector = inspector(&server.url()).await;
    let listed: Vec<_> = inspector.queues(&ObjectFilter::new()).try_collect().await.expect("a list");
    assert_eq!(listed.len(), 21);
    assert_eq!(listed.iter().filter(|view| view.counts.ready == 1).count(), 20);
    let filter = ObjectFilter::new().matching("ma*");
    let listed: Vec<_> = inspector.queues(&filter).try_collect().await.expect("a list");
    assert!(listed.len() == 1 && listed[0].counts.paused_since.is_some(), "{listed:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn messages_are_read_without_their_values() {
    let server = server().await;
    let observer = observer(&server).await;
    let jobs = queue(&client(&server.url()).await, "jobs");
    for n in 0..150 {
        jobs.push(&format!("secret {n}")).header("n", n.to_string()).await.expect("it is pushed");
    }
    let first = jobs.receive().visibility(HOUR).await.expect("a message");
    jobs.receive().await.expect("a message").reject("odd").await.expect("it was held");
    // Headers of large messages, large headers, and bytes that are not a message, are not read.
    let large = "x".repeat(5_000_000);
    jobs.push(&large).priority(9).header("trace", "7").await.expect("it is pushed");
    jobs.push("a").priority(8).header("trace", "7".repeat(5000)).await.expect("it is pushed");
    let odd = jobs.push("a").priority(7).await.expect("it is pushed").id;
    send(&observer, &["HSET", "redgrid_reliable_queue_bodies:{jobs}", &odd.to_string(), "\u{2}"]).await;

    let inspector = inspector(&server.url()).await;
    let sent = async || -> u64 {
        let stats: String = observer.query(&["INFO", "stats"]).await.expect("an answer");
        let line = stats.lines().find_map(|line| line.strip_prefix("total_net_output_bytes:")).expect("it is counted");
        line.trim().parse().expect("a number")
    };
    let before = sent().await;
    let page = inspector.messages("jobs", MessageGroup::Ready, 0).await.expect("an answer");
    assert!(sent().await - before < 50_000, "no value was sent");
    assert_eq!((page.total, page.messages.len()), (151, 100));
    let [big, wide, broken, next, ..] = &page.messages[..] else { panic!("{page:?}") };
    assert_eq!((big.priority, big.headers.as_ref(), wide.headers.as_ref()), (9, None, None));
    assert!(big.size > 5_000_000 && broken.id == odd && broken.headers.is_none(), "{big:?}, {broken:?}");
    assert_eq!(next.headers, Some(vec![("n".to_owned(), "2".to_owned())]));
    assert_eq!((next.attempts, &next.state), (0, &MessageState::Ready));
    let last = inspector.messages("jobs", MessageGroup::Ready, 100).await.expect("an answer");
    assert_eq!((last.total, last.messages.len()), (151, 51));
    assert!(last.messages.iter().all(|one| page.messages.iter().all(|other| other.id != one.id)));
    let beyond = inspector.messages("jobs", MessageGroup::Ready, u64::MAX).await.expect("an answer");
    assert_eq!((beyond.total, beyond.messages.len()), (151, 0));

    let flight = inspector.messages("jobs", MessageGroup::InFlight, 0).await.expect("an answer");
    assert_eq!((flight.messages[0].id, flight.messages[0].attempts), (first.id(), 1));
    assert!(matches!(flight.messages[0].state, MessageState::InFlight { .. }));
    let dead = inspector.messages("jobs", MessageGroup::Dead, 0).await.expect("an answer");
    assert!(matches!(&dead.messages[0].state, MessageState::Dead { reason, .. } if reason == "odd"), "{dead:?}");
    let none = inspector.messages("nothing", MessageGroup::Delayed, 0).await.expect("an answer");
    assert_eq!((none.total, none.messages.len()), (0, 0));
}
