//! A console with a user that has only the published permissions of a reader.

use redgrid_console::{Access, Client, Config, Console, FleetMetrics};
use redgrid_locks::Lock;
use redgrid_reliable_queue::ReliableQueue;
use redgrid_reliable_queue::codecs::Text;
use redgrid_semaphore::Semaphore;
use redgrid_testkit::redis::Value;

use crate::live::Stream;
use crate::support::{Setup, get, until_shown};

#[tokio::test(flavor = "multi_thread")]
async fn the_published_permissions_are_enough() {
    let setup = Setup::start().await;
    let page = include_str!("../../../../docs/operating/acl.md");
    let line = page.lines().find(|line| line.starts_with("ACL SETUSER reader on ")).expect("the line for a reader");
    let words: Vec<String> = line.replace("SECRET", "secret").split(' ').map(str::to_owned).collect();
    setup.observer.cmd(&words).await.expect("it is accepted");
    let user = Client::connect(setup.server.url().as_str()).await.expect("a client");
    let _held = Lock::new(&user, "job").acquire().label("nightly").await.expect("it is free");
    setup.observer.cmd(&["ACL", "LOG", "RESET"]).await.expect("an answer");

    let reader = Client::connect(setup.server.url_for("reader", "secret")).await.expect("a client");
    let router = Console::new(&reader).access(|_| Access::Read).router();
    let mut stream = Stream::open(&router, "overview").await;
    stream.next().await.expect("a message");
    until_shown(&router, "/locks", "nightly").await;
    until_shown(&router, "/lock?name=job", user.id()).await;
    until_shown(&router, "/clients", user.id()).await;
    until_shown(&router, "/contention", "lock?name=job").await;
    until_shown(&router, "/events", "This console has no actions").await;
    let jobs = ReliableQueue::<String, Text>::new(&user, "jobs");
    jobs.push("a").header("trace", "7").await.expect("it is pushed");
    until_shown(&router, "/queues", "running").await;
    until_shown(&router, "/queue?name=jobs", "1 message,").await;
    setup.observer.cmd(&["ZADD", "redgrid_barrier_waiting:{gate}", "9e15", "a"]).await.expect("an answer");
    setup.observer.cmd(&["HSET", "redgrid_barrier:{gate}", "parties", "2"]).await.expect("an answer");
    until_shown(&router, "/synchronizers", "1 of 2 parties").await;
    setup.observer.cmd(&["HSET", "api", "rate", "10", "interval", "1000"]).await.expect("an answer");
    until_shown(&router, "/limiters", "10 in 1 s").await;
    setup.observer.cmd(&["XGROUP", "CREATE", "log", "mail", "$", "MKSTREAM"]).await.expect("an answer");
    until_shown(&router, "/streams", "1 group, 0 pending").await;
    let page = until_shown(&router, "/overview", "Nothing looks wrong.").await;
    assert!(!page.contains("Not checked"), "{page}");
    let search = get(&router, "/objects?pattern=*&kind=all").await;
    until_shown(&router, &format!("/{}", search.location()), "lock?name=job").await;
    let log: Vec<Value> = setup.observer.query(&["ACL", "LOG"]).await.expect("an answer");
    assert!(log.is_empty(), "{log:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn the_published_permissions_are_enough_for_metrics() {
    let setup = Setup::start().await;
    let page = include_str!("../../../../docs/operating/acl.md");
    let lines: Vec<&str> = page.lines().filter(|line| line.starts_with("ACL SETUSER reader on ")).collect();
    assert_eq!(lines.len(), 1, "{lines:?}");
    for line in lines {
        let words: Vec<String> = line.replace("SECRET", "secret").split(' ').map(str::to_owned).collect();
        setup.observer.cmd(&words).await.expect("it is accepted");
    }
    let queue: ReliableQueue<String, Text> = ReliableQueue::new(&setup.client, "mails");
    queue.push("a").await.expect("it is pushed");
    let _permit = Semaphore::new(&setup.client, "printers", 2).acquire().await.expect("a permit");
    setup.observer.cmd(&["ACL", "LOG", "RESET"]).await.expect("an answer");

    let reader = Client::connect(setup.server.url_for("reader", "secret")).await.expect("a client");
    let metrics = FleetMetrics::new(["mails"], ["printers"]).expect("few names");
    // With its configuration, the console also checks the servers.
    let config = Config::from_url(setup.server.url_for("reader", "secret")).expect("a URL");
    let console = Console::new(&reader).access(|_| Access::Read).config(&config);
    let router = console.metrics(metrics).router();
    let checked = until_shown(&router, "/metrics", "redgrid_fleet_doctor_findings{level=\"warn\"} 0\n").await;
    assert!(checked.contains("redgrid_fleet_doctor_findings{level=\"fail\"} 0\n"), "{checked}");
    let text = until_shown(&router, "/metrics", "redgrid_fleet_holders_gone").await;
    assert!(text.contains("{queue=\"mails\",state=\"ready\"} 1") && text.contains("oldest_seconds"), "{text}");
    assert!(text.contains("{semaphore=\"printers\",state=\"available\"} 1"), "{text}");
    let log: Vec<Value> = setup.observer.query(&["ACL", "LOG"]).await.expect("an answer");
    assert!(log.is_empty(), "{log:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn what_may_not_be_read_is_not_shown_as_nothing() {
    let setup = Setup::start().await;
    let rules = ["ACL", "SETUSER", "poor", "on", ">secret", "~*", "resetchannels", "+@all", "-pubsub", "-scan"];
    setup.observer.cmd(&rules).await.expect("it is accepted");
    let poor = Client::connect(setup.server.url_for("poor", "secret")).await.expect("a client");
    let router = Console::new(&poor).access(|_| Access::Read).router();
    let page = until_shown(&router, "/locks", "Could not search for locks").await;
    assert!(page.contains("Could not read the list of clients"), "{page}");
    let page = until_shown(&router, "/overview", "Nothing looks wrong in what was checked").await;
    assert!(page.contains("Not checked") && page.contains("not known"), "{page}");
    let page = until_shown(&router, "/lock?name=job", "How many clients wait is not known").await;
    assert!(page.contains("free"), "{page}");

    // The list of clients may have any length.
    let rules = ["ACL", "SETUSER", "blind", "on", ">secret", "~*", "&*", "+@all", "-info"];
    setup.observer.cmd(&rules).await.expect("it is accepted");
    let blind = Client::connect(setup.server.url_for("blind", "secret")).await.expect("a client");
    let router = Console::new(&blind).access(|_| Access::Read).router();
    let page = until_shown(&router, "/clients", "Could not read the list of clients").await;
    assert!(page.contains("info"), "{page}");
}

#[tokio::test(flavor = "multi_thread")]
async fn questions_that_are_refused_are_shown_and_do_not_delay_pages() {
    let setup = Setup::start().await;
    let rules = ["ACL", "SETUSER", "mute", "on", ">secret", "~*", "&*", "+@all", "-publish"];
    setup.observer.cmd(&rules).await.expect("it is accepted");
    let mute = Client::connect(setup.server.url_for("mute", "secret")).await.expect("a client");
    let router = Console::new(&mute).access(|_| Access::Read).router();
    let page = until_shown(&router, "/clients", "Could not read the reports of the clients").await;
    assert!(page.contains("not asked yet") && !page.contains("state silent"), "{page}");
    // A page waits for 1.5 s if its data does not come.
    let quick = async || {
        let began = std::time::Instant::now();
        get(&router, "/clients").await;
        began.elapsed() < std::time::Duration::from_millis(1_400)
    };
    redgrid_testkit::wait_until(crate::support::SOON, quick).await;
}
