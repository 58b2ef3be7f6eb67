//! A deployment with something on every page.

use std::time::Duration;

use redgrid::{Grid, LockGuard};

use crate::support::{Running, Setup, redgrid};

const HOUR: Duration = Duration::from_secs(3_600);

/// A holder of a redgrid client that has ended.
const GONE: &str = "0f8fad5b-d9cb-869f-a165-70867728950e:17";

/// The values that must live as long as the data is shown.
pub(crate) struct Data {
    _user: Grid,
    _hold: LockGuard,
    _programs: [Running; 2],
    _in_flight: Box<dyn std::any::Any>,
}

/// Pages with their addresses; each has a name for its screenshot, and a text that it shows when
/// its data is there.
pub(crate) const PAGES: [(&str, &str, &str); 16] = [
    ("overview", "overview", "Nothing frees"),
    ("locks", "locks", "nightly"),
    ("lock", "lock?name=orders:42", "1 task"),
    ("contention", "contention", "orders:42"),
    ("queues", "queues", "running"),
    ("queue", "queue?name=mails", "Oldest ready"),
    ("dead-letters", "queue?name=mails&state=dead", "unknown recipient"),
    ("synchronizers", "synchronizers", "5 synchronizers"),
    ("limiters", "limiters", "1 limiter"),
    ("streams", "streams", "orders:paid"),
    ("clients", "clients", "4 clients"),
    ("objects", "objects", "Pattern of the names"),
    ("search", "objects?pattern=*&kind=all", "objects found"),
    ("doctor", "doctor", "Checked"),
    ("events", "events", "a stuck import"),
    ("action", "action?do=delete&object=cart:7", "Type the name"),
];

/// Fills the server.
pub(crate) async fn fill(setup: &Setup) -> Result<Data, Box<dyn std::error::Error>> {
    let user = Grid::connect(setup.server.url().as_str()).await?;
    let hold = user.lock("reports").acquire().label("nightly").await?;
    let url = setup.server.url();
    // The first holds the lock, and the second waits for it.
    let run = |_| Running::start(redgrid(&["--url", &url, "lock", "orders:42", "--", "sleep", "600"]));
    let programs = [0, 1].map(run);
    let commands: [&[&str]; 18] = [
        &["HSET", "import", GONE, "1"],
        &["SET", "mail", "3"],
        &["ZADD", "{mail}:timeout", "92233720368547758", "0123456789abcdef", "92233720368547758", "fedcba9876543210"],
        &["SET", "warm-up", "2"],
        &["SET", "redgrid_latch:{warm-up}", "5"],
        &["HSET", "redgrid_barrier:{gate}", "round", "4", "parties", "3"],
        &["ZADD", "redgrid_barrier_waiting:{gate}", "9e15", "a", "9e15", "b"],
        &["HSET", "leader", GONE, "1"],
        &["HSET", "redgrid_leader:{leader}", "holder", GONE, "term", "12"],
        &["HSET", "redgrid_event:{bell}", "set", "1", "until", "0", "times", "6"],
        &["HSET", "api", "rate", "10", "interval", "60000", "type", "0", "keepAliveTime", "0"],
        &["SET", "{api}:value", "4"],
        &["XADD", "orders:paid", "*", "order", "41"],
        &["XGROUP", "CREATE", "orders:paid", "billing", "0"],
        &["HSET", "cart:7", "apples", "3", "pears", "2"],
        &["SADD", "tags", "new", "sale"],
        &["SET", "banner", "hello", "EX", "3600"],
        &["PEXPIRE", "leader", "600000"],
    ];
    for command in commands {
        setup.observer.cmd(command).await?;
    }
    setup.hold(b"stock").await;
    let mails = user.reliable_queue::<String>("mails");
    for mail in ["a", "b", "c", "d", "e"] {
        mails.push(mail).header("campaign", "spring").await?;
    }
    mails.push("later").delay(HOUR).await?;
    let in_flight = mails.receive().visibility(HOUR).await?;
    mails.receive().await?.reject("unknown recipient").await?;
    mails.receive().await?.reject("the attachment is too large").await?;
    user.reliable_queue::<String>("invoices").pause().await?;
    setup.observer.cmd(&["SET", "old", "1"]).await?;
    Ok(Data { _user: user, _hold: hold, _programs: programs, _in_flight: Box::new(in_flight) })
}
