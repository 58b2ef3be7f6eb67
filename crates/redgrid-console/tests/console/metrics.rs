//! The metrics of a deployment.

use std::time::Duration;

use axum::body::Body;
use axum::http::StatusCode;
use axum::http::header::{AUTHORIZATION, CONTENT_TYPE};
use redgrid_console::{Access, AccessToken, Client, Config, Console, FleetMetrics};
use redgrid_core::observe::FLEET_METRICS;
use redgrid_core::observe::fleet::{DOCTOR_FINDINGS, HOLDERS_GONE, REPLICA_LAG};
use redgrid_locks::Lock;
use redgrid_reliable_queue::ReliableQueue;
use redgrid_reliable_queue::codecs::Text;
use redgrid_semaphore::Semaphore;
use redgrid_testkit::{Replicated, wait_until};
use tokio::time::Instant;

use crate::support::{SOON, Setup, TOKEN, get, request, send, until_shown};

#[tokio::test(flavor = "multi_thread")]
async fn a_scrape_has_the_nodes_the_clients_the_locks_and_the_listed_objects() {
    let setup = Setup::start().await;
    let user = Client::connect(setup.server.url().as_str()).await.expect("a client");
    let _held = Lock::new(&user, "secret").acquire().await.expect("it is free");
    let queue: ReliableQueue<String, Text> = ReliableQueue::new(&user, "mails");
    for mail in ["a", "b", "c"] {
        queue.push(mail).await.expect("it is pushed");
    }
    queue.receive().await.expect("a message").reject("bad").await.expect("it is rejected");
    let other: ReliableQueue<String, Text> = ReliableQueue::new(&user, "others");
    other.push("a").await.expect("it is pushed");
    let printers = Semaphore::new(&user, "printers", 5);
    let _permit = printers.acquire().await.expect("a permit");
    let metrics = FleetMetrics::new(["mails"], ["printers"]).expect("few names");
    let router = Console::new(&setup.client).access(|_| Access::Read).metrics(metrics).router();

    until_shown(&router, "/metrics", "redgrid_fleet_locks_held{kind=\"lock\"} 1").await;
    // It takes two lists of clients to know that a holder is gone.
    let text = until_shown(&router, "/metrics", "redgrid_fleet_holders_gone").await;
    let node = setup.server.addr();
    for line in [
        format!("redgrid_fleet_node_up{{node=\"{node}\",role=\"primary\"}} 1"),
        "redgrid_fleet_holders_gone 0".to_owned(),
        "redgrid_fleet_queue_messages{queue=\"mails\",state=\"ready\"} 2".to_owned(),
        "redgrid_fleet_queue_messages{queue=\"mails\",state=\"dead\"} 1".to_owned(),
        "# TYPE redgrid_fleet_queue_messages gauge".to_owned(),
        "# TYPE redgrid_fleet_queue_dead_total counter".to_owned(),
        "redgrid_fleet_queue_dead_total{queue=\"mails\"} 1".to_owned(),
        "# TYPE redgrid_fleet_collector_seconds_total counter".to_owned(),
        "redgrid_fleet_semaphore_permits{semaphore=\"printers\",state=\"available\"} 4".to_owned(),
        "redgrid_fleet_semaphore_permits{semaphore=\"printers\",state=\"leased\"} 1".to_owned(),
    ] {
        assert!(text.lines().any(|of| of == line), "no {line}: {text}");
    }
    let value = |name: &str| {
        let line = text.lines().find(|line| line.starts_with(name)).unwrap_or_else(|| panic!("no {name}: {text}"));
        line.rsplit(' ').next().expect("a value").parse::<f64>().expect("a number")
    };
    let age = value("redgrid_fleet_queue_oldest_seconds{queue=\"mails\"}");
    assert!((0.0..600.0).contains(&age), "{age}");
    assert!(value("redgrid_fleet_clients{state=\"alive\"}") >= 1.0, "{text}");
    assert!(value("redgrid_fleet_sweep_age_seconds") < 600.0 && value("redgrid_fleet_scrape_seconds") < 60.0);
    assert!(!text.contains("secret") && !text.contains("others"), "only listed names are labels: {text}");

    // Every metric is in the table, and no other.
    for line in text.lines().filter(|line| !line.starts_with('#')) {
        let name = line.split(['{', ' ']).next().expect("a name");
        assert!(FLEET_METRICS.iter().any(|metric| metric.name == name), "{name}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn the_total_of_dead_letters_never_falls() {
    let setup = Setup::start().await;
    let queue: ReliableQueue<String, Text> = ReliableQueue::new(&setup.client, "mails");
    queue.push("a").await.expect("it is pushed");
    let metrics = FleetMetrics::new(["mails"], [""; 0]).expect("few names");
    let router = Console::new(&setup.client).access(|_| Access::Read).metrics(metrics).router();
    let total = |count: u64| format!("redgrid_fleet_queue_dead_total{{queue=\"mails\"}} {count}\n");
    let set = async |pushed: &str, dead: &str| {
        let totals = ["HSET", "redgrid_reliable_queue:{mails}", "count_pushed", pushed, "count_dead", dead];
        setup.observer.cmd(&totals).await.expect("an answer");
    };
    set("5000", "1000").await;
    until_shown(&router, "/metrics", &total(1_000)).await;
    // As a replica answers that lacks the last writes, beside a queue that shows when it is read.
    set("4990", "999").await;
    queue.push("b").await.expect("it is pushed");
    let text = until_shown(&router, "/metrics", "{queue=\"mails\",state=\"ready\"} 2").await;
    assert!(text.contains(&total(1_000)), "{text}");
    set("5002", "1001").await;
    until_shown(&router, "/metrics", &total(1_001)).await;
}

/// A search of so many keys goes on all the time, and rests for 98 % of it.
#[tokio::test(flavor = "multi_thread")]
async fn the_time_of_the_collector_rises_by_its_requests_and_not_by_the_rests_of_a_search() {
    let setup = Setup::start().await;
    let fill = "for i = 1, 200000 do redis.call('set', 'k' .. i, i) end";
    setup.observer.cmd(&["EVAL", fill, "0"]).await.expect("an answer");
    let router = Console::new(&setup.client).access(|_| Access::Read).metrics(FleetMetrics::default()).router();
    let seconds = async || -> f64 {
        let text = get(&router, "/metrics").await.text;
        let value = text.lines().find_map(|line| line.strip_prefix("redgrid_fleet_collector_seconds_total "));
        value.unwrap_or_else(|| panic!("no value: {text}")).parse().expect("a number")
    };
    // The first scrape waits for the first data, so the search is running afterwards.
    let (before, began) = (seconds().await, Instant::now());
    tokio::time::sleep(Duration::from_secs(5)).await;
    let (rise, time) = (seconds().await - before, began.elapsed().as_secs_f64());
    assert!(rise > 0.0 && rise < time / 2.0, "{rise} s of {time} s");
}

#[tokio::test(flavor = "multi_thread")]
async fn metrics_need_the_option_and_the_same_access_as_pages() {
    let setup = Setup::start().await;
    assert_eq!(get(&setup.console(), "/metrics").await.status, StatusCode::NOT_FOUND);
    let console = Console::new(&setup.client).token(AccessToken::new(TOKEN).expect("a long token"));
    let router = console.metrics(FleetMetrics::default()).router();
    assert_eq!(get(&router, "/metrics").await.status, StatusCode::UNAUTHORIZED);
    let bearer = request("GET", "/metrics").header(AUTHORIZATION, format!("Bearer {TOKEN}"));
    let answer = send(&router, bearer.body(Body::empty()).expect("a request")).await;
    assert_eq!(answer.status, StatusCode::OK);
    assert!(
        answer.headers[CONTENT_TYPE].to_str().is_ok_and(|form| form.starts_with("text/plain")),
        "{:?}",
        answer.headers
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn a_dead_server_is_down_and_the_scrape_still_answers() {
    let setup = Setup::start().await;
    let metrics = FleetMetrics::new(["mails"], ["printers"]).expect("few names");
    let router = Console::new(&setup.client).access(|_| Access::Read).metrics(metrics).router();
    until_shown(&router, "/metrics", "role=\"primary\"} 1").await;
    setup.server.kill().await.expect("it ends");
    let text = until_shown(&router, "/metrics", "role=\"primary\"} 0").await;
    let began = Instant::now();
    assert!(!get(&router, "/metrics").await.text.contains("redgrid_fleet_queue_messages"), "{text}");
    assert!(began.elapsed() < Duration::from_secs(30), "{:?}", began.elapsed());
}

#[tokio::test(flavor = "multi_thread")]
async fn the_servers_are_checked_for_the_metrics_without_an_open_page() {
    let setup = Setup::start().await;
    let config = Config::from_url(setup.server.url()).expect("a URL");
    let console = Console::new(&setup.client).access(|_| Access::Read).config(&config);
    let router = console.metrics(FleetMetrics::default()).router();
    until_shown(&router, "/metrics", "redgrid_fleet_doctor_findings{level=\"fail\"}").await;
}

/// The dashboard of the fleet has a panel for each of these metrics.
#[tokio::test(flavor = "multi_thread")]
async fn each_metric_of_the_fleet_has_a_value() {
    let servers = Replicated::start(1).await.expect("servers");
    let config = Config::from_url(servers.primary().url()).expect("a URL");
    let client = Client::connect(config.clone()).await.expect("a client");
    let user = Client::connect(config.clone()).await.expect("a client");
    let _held = Lock::new(&user, "sale").acquire().await.expect("it is free");
    let mails: ReliableQueue<String, Text> = ReliableQueue::new(&user, "mails");
    for mail in ["sold", "bounced"] {
        mails.push(mail).await.expect("it is pushed");
    }
    mails.receive().await.expect("a message").reject("bad").await.expect("it is rejected");
    let printers = Semaphore::new(&user, "printers", 5);
    let _permit = printers.acquire().await.expect("a permit");
    let metrics = FleetMetrics::new(["mails"], ["printers"]).expect("few names");
    let router = Console::new(&client).access(|_| Access::Read).config(&config).metrics(metrics).router();
    // Nothing is wrong in this deployment, so these can be 0.
    let can_be_0 = [&REPLICA_LAG, &HOLDERS_GONE, &DOCTOR_FINDINGS].map(|metric| metric.name);
    wait_until(SOON, async || {
        let text = get(&router, "/metrics").await.text;
        let values = |name: &'static str| {
            let of_name = text.lines().filter(move |line| line.split(['{', ' ']).next() == Some(name));
            of_name.map(|line| line.rsplit(' ').next().expect("a value").parse::<f64>().expect("a number"))
        };
        FLEET_METRICS.iter().all(|metric| {
            let is_enough = |value: f64| value > 0.0 || can_be_0.contains(&metric.name);
            values(metric.name).any(is_enough)
        })
    })
    .await;
    let text = get(&router, "/metrics").await.text;
    let replica = servers.replicas()[0].announced();
    assert!(text.contains(&format!("redgrid_fleet_replica_lag_bytes{{node=\"{replica}\"}} ")), "{text}");
}
