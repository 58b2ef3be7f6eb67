//! The pages of queues, synchronizers and rate limiters.

use std::time::Duration;

use axum::http::StatusCode;
use redgrid_console::{Access, Client, Console};
use redgrid_inspect::reliable_queue::codecs::Text;
use redgrid_inspect::reliable_queue::{QueueSettings, ReliableQueue};

use crate::live::Stream;
use crate::support::{Setup, get, until_shown};

const HOUR: Duration = Duration::from_secs(3600);

type Texts = ReliableQueue<String, Text>;

async fn queue(setup: &Setup, name: &str) -> Texts {
    let user = Client::connect(setup.server.url().as_str()).await.expect("a client");
    ReliableQueue::new(&user, name)
}

/// Returns a page's row with this text.
pub(crate) fn row<'a>(page: &'a str, text: &str) -> &'a str {
    let rows = page.split("<tr").find(|row| row.contains(text));
    rows.unwrap_or_else(|| panic!("no row with {text}: {page}"))
}

/// Returns the texts of the cells of a row.
pub(crate) fn cells(row: &str) -> Vec<String> {
    let plain = |text: &str| {
        let (mut plain, mut is_tag) = (String::new(), false);
        for character in text.chars() {
            match character {
                '<' => is_tag = true,
                '>' => is_tag = false,
                other if !is_tag => plain.push(other),
                _ => {}
            }
        }
        plain
    };
    row.split("<td").skip(1).map(|cell| plain(&format!("<td{cell}"))).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn queues_are_listed_with_their_states() {
    let setup = Setup::start().await;
    let (jobs, mails) = (queue(&setup, "jobs").await, queue(&setup, "mails").await);
    for text in ["a", "b", "c", "d"] {
        jobs.push(text).await.expect("it is pushed");
    }
    jobs.push("later").delay(HOUR).await.expect("it is pushed");
    let _held = jobs.receive().visibility(HOUR).await.expect("a message");
    jobs.receive().await.expect("a message").reject("odd").await.expect("it was held");
    drop(jobs.receive().visibility(Duration::from_millis(1)).await.expect("a message"));
    mails.pause().await.expect("it is paused");
    setup.observer.cmd(&["HSET", "redgrid_queue", "a", "1"]).await.expect("an answer");
    let router = setup.console();
    let page = until_shown(&router, "/queues", "2 queues").await;
    let page = if page.contains("being read") { until_shown(&router, "/queues", "running").await } else { page };
    let shown = cells(row(&page, "queue?name=jobs"));
    assert_eq!(shown[0], "running", "{page}");
    assert!(shown[2].starts_with("since "), "the oldest message has an age: {shown:?}");
    // Ready, in flight, overdue, delayed, dead.
    assert_eq!([&shown[1], &shown[3], &shown[4], &shown[5], &shown[6]], ["2", "1", "1", "1", "1"], "{shown:?}");
    let paused = cells(row(&page, "queue?name=mails"));
    assert!(paused[0].starts_with("paused since ") && paused[1] == "0" && paused[2] == "–", "{paused:?}");
    assert!(page.contains("aria-current=\"page\">Queues"), "{page}");

    let filtered = get(&router, "/queues?q=mai").await.text;
    assert!(filtered.contains("queue?name=mails") && !filtered.contains("queue?name=jobs"), "{filtered}");
    // The explorer leads to the page of a queue.
    let objects = get(&router, "/objects?kind=reliable+queue").await;
    let found = get(&router, &format!("/{}", objects.location())).await.text;
    assert!(found.contains("queue?name=jobs"), "{found}");
}

#[tokio::test(flavor = "multi_thread")]
async fn an_open_list_follows_a_queue() {
    let setup = Setup::start().await;
    let jobs = queue(&setup, "jobs").await;
    jobs.push("a").await.expect("it is pushed");
    let router = setup.console();
    let mut list = Stream::open(&router, "queues").await;
    list.until("running").await;
    jobs.pause().await.expect("it is paused");
    list.until("paused").await;
    let mut one = Stream::open(&router, "queue&name=jobs").await;
    one.until("paused").await;
    jobs.resume().await.expect("it is resumed");
    one.until("running").await;
    list.until("running").await;
    jobs.object().delete().await.expect("an answer");
    one.until("There is no reliable queue of this name").await;
    list.until("\"order\":[]").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_queue_page_shows_messages_by_state_and_no_values() {
    let setup = Setup::start().await;
    let jobs = queue(&setup, "jobs").await;
    jobs.set_settings(&QueueSettings { capacity: Some(500), ..QueueSettings::default() }).await.expect("they are set");
    for n in 0..120 {
        let push = jobs.push(&format!("secret {n}")).header("trace", format!("<b>{n}</b>"));
        push.await.expect("it is pushed");
    }
    let held = jobs.receive().visibility(HOUR).await.expect("a message");
    let odd = jobs.receive().await.expect("a message");
    odd.reject("<img src=x onerror=alert(1)>\u{202e}").await.expect("it was held");
    jobs.push("later").delay(HOUR).await.expect("it is pushed");
    let router = setup.console();

    let page = until_shown(&router, "/queue?name=jobs", "Dead letters").await;
    assert!(page.contains("118 messages") && page.contains("1 to 100"), "{page}");
    assert!(page.contains("trace") && page.contains("&lt;b&gt;2&lt;/b&gt;"), "{page}");
    assert!(!page.contains("secret") && !page.contains("<b>2</b>"), "{page}");
    assert!(page.contains("rel=\"next\"") && page.contains("<dd>500</dd>"), "{page}");
    let next = get(&router, "/queue?name=jobs&state=ready&p=2").await.text;
    assert!(next.contains("101 to 118") && !next.contains("rel=\"next\""), "{next}");
    let flight = get(&router, "/queue?name=jobs&state=flight").await.text;
    assert!(row(&flight, &held.id().to_string()).contains("in flight"), "{flight}");
    let dead = get(&router, "/queue?name=jobs&state=dead").await.text;
    let shown = row(&dead, &odd.id().to_string());
    assert!(shown.contains("&lt;img src=x") && shown.contains("\\u{202e}") && !shown.contains("<img"), "{shown}");
    let delayed = get(&router, "/queue?name=jobs&state=delayed").await.text;
    assert!(delayed.contains("1 message,") && delayed.contains("data-until"), "{delayed}");
    // Beyond the end, of an unknown state, of no queue, and without a name.
    let beyond = get(&router, "/queue?name=jobs&p=99999999999").await;
    assert_eq!(beyond.status, StatusCode::OK);
    assert!(beyond.text.contains("118 messages") && !beyond.text.contains("rel=\"next\""), "{}", beyond.text);
    assert!(get(&router, "/queue?name=jobs&state=nonsense").await.text.contains("118 messages"));
    let nothing = until_shown(&router, "/queue?name=nothing", "There is no reliable queue of this name").await;
    assert!(nothing.contains("0 messages"), "{nothing}");
    assert_eq!(get(&router, "/queue").await.status, StatusCode::BAD_REQUEST);
    // A name that is too hostile for a queue is an answer, too.
    let hostile = get(&router, "/queue?name=%3Cscript%3E%00%22").await;
    assert!(hostile.status == StatusCode::OK && !hostile.text.contains("<script>\u{0}"), "{}", hostile.text);
}

#[tokio::test(flavor = "multi_thread")]
async fn dead_letters_can_be_marked_by_those_who_may_act() {
    let setup = Setup::start().await;
    let jobs = queue(&setup, "jobs &").await;
    jobs.push("a").await.expect("it is pushed");
    jobs.push("b").await.expect("it is pushed");
    let odd = jobs.receive().await.expect("a message");
    odd.reject("odd").await.expect("it was held");
    let operating = Console::new(&setup.client).access(|_| Access::Operate).operate().router();
    for (router, state, can_mark) in
        [(&setup.console(), "dead", false), (&operating, "dead", true), (&operating, "ready", false)]
    {
        let page = get(router, &format!("/queue?name=jobs%20%26&state={state}")).await.text;
        let mark = format!("name=\"id\" value=\"{}\"", odd.id());
        for part in [mark.as_str(), "name=\"object\" value=\"jobs%20%26\"", "name=\"do\" value=\"redrive\""] {
            assert_eq!(page.contains(part), can_mark, "{state}: {part}: {page}");
        }
    }
    let chosen = format!("/action?object=jobs%2520%2526&id={}&do=redrive", odd.id());
    let confirm = get(&operating, &chosen).await;
    assert!(confirm.status == StatusCode::OK && confirm.text.contains("1 dead letter"), "{}", confirm.text);
    let none = get(&operating, "/action?object=jobs%2520%2526&do=redrive").await;
    assert_eq!(none.status, StatusCode::BAD_REQUEST, "{}", none.text);
}

#[tokio::test(flavor = "multi_thread")]
async fn synchronizers_and_limiters_are_listed() {
    let setup = Setup::start().await;
    let commands: [&[&str]; 12] = [
        &["SET", "mail", "3"],
        &["ZADD", "{mail}:timeout", "9e15", "0123456789abcdef", "9e15", "fedcba9876543210"],
        &["SET", "import", "2"],
        &["SET", "redgrid_latch:{import}", "5"],
        &["HSET", "redgrid_barrier:{gate}", "round", "4", "parties", "3"],
        &["ZADD", "redgrid_barrier_waiting:{gate}", "9e15", "a", "9e15", "b", "1", "dead"],
        &["HSET", "leader", "0f8fad5b-d9cb-869f-a165-70867728950e:7", "1"],
        &["HSET", "redgrid_leader:{leader}", "holder", "0f8fad5b-d9cb-869f-a165-70867728950e:7", "term", "12"],
        &["HSET", "redgrid_event:{bell}", "set", "1", "until", "0", "times", "6"],
        &["HSET", "api", "rate", "10", "interval", "60000", "type", "0", "keepAliveTime", "0"],
        &["SET", "{api}:value", "4"],
        &["SET", "other", "1"],
    ];
    for command in commands {
        setup.observer.cmd(command).await.expect("an answer");
    }
    let router = setup.console();
    let page = until_shown(&router, "/synchronizers", "5 synchronizers").await;
    for (name, shown) in [
        ("mail", "3 free, 2 leased"),
        ("import", "count 2, round 5"),
        ("gate", "2 of 3 parties are here, round 4"),
        ("bell", "set, 6 times so far"),
        ("leader", "term 12"),
    ] {
        let row = cells(row(&page, &format!(">{name}<")));
        assert!(row[1].contains(shown), "{name}: {row:?}");
    }
    let leader = row(&page, "lock?name=leader");
    assert!(leader.contains("state gone"), "{leader}");
    let page = until_shown(&router, "/limiters", "1 limiter").await;
    let api = cells(row(&page, ">api<"));
    assert_eq!(api[..2], ["10 in 1 min 0 s", "4"], "{api:?}");
}
