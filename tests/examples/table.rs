//! Each program with its servers and the lines that it prints. `expected.rs` has the notation.

use crate::deployment::Servers::{self, Cluster, Newest, Quorum, Sentinels, Single};
use crate::expected::Order::{self, Any, Given};

/// A program and its outcome.
pub(crate) struct Example {
    pub(crate) name: &'static str,
    pub(crate) servers: Servers,
    pub(crate) order: Order,
    pub(crate) prints: &'static str,
}

const fn example(name: &'static str, servers: Servers, order: Order, prints: &'static str) -> Example {
    Example { name, servers, order, prints }
}

pub(crate) const EXAMPLES: &[Example] = &[
    // The longest one begins first.
    example(
        "segmented_sale",
        Single,
        Given,
        "5* pair …: one lock …, eight segments …
        240 sold by 32 workers, each time to exactly 0
        medians: one lock …, eight segments …, … times as fast",
    ),
    example(
        "cart_keys",
        Single,
        Given,
        "5 carts live on for an hour
        3* redgrid-example:cart:…: … left
        5 of 5 objects are gone",
    ),
    example(
        "chat_rooms",
        Newest,
        Given,
        "redgrid-example:room:rust: hello, redgrid-example:room:rust
        redgrid-example:room:redis: hello, redgrid-example:room:redis
        1 hears of redgrid-example:room:rust",
    ),
    example(
        "cluster",
        Cluster,
        Given,
        "order 1: acquired, token …
        order 2: acquired, token …
        order 3: acquired, token …
        order 4: acquired, token …
        order 5: acquired, token …",
    ),
    example(
        "condition_queue",
        Single,
        Given,
        "taker …: item 1
        taker …: item 2
        taker …: item 3
        taker …: item 4
        taker …: item 5
        taker …: item 6",
    ),
    example(
        "config_file",
        Single,
        Given,
        "servers of kind `single`
        single = …, from `host` in REDGRID_URL
        response_timeout = 2s, from `response_timeout` in …redgrid.yaml
        watchdog_lease = 20s, from `watchdog_lease` in …redgrid.yaml
        namespace = redgrid-example, from `namespace` in …redgrid.yaml
        acquired, token …",
    ),
    example(
        "connection_limiter",
        Single,
        Any,
        "service 0: done
        service 1: done
        service 2: done
        at most 5 of 5 connections were open at a time",
    ),
    example(
        "crawler",
        Single,
        Given,
        "/ is fetched
        /docs is fetched
        /docs was seen before
        /about is fetched
        / was seen before
        about 3 pages in … bytes",
    ),
    example(
        "election",
        Single,
        Any,
        "observed: node 1 leads, term …
        observed: node 2 leads, term …
        observed: node 3 leads, term …
        * observed: nobody leads",
    ),
    example(
        "errors",
        Single,
        Given,
        "free: acquired
        → held: work, then release
        held by another: …
        → others held it all the time; nothing is held; try later or give up
        wrong type: …
        → the server refused; nothing is held; remove the cause
        bad name: …
        → a mistake in the program
        bad lease: …
        → a mistake in the program
        no server: …
        → no server was reached in time; nothing is held; try later
        after shutdown: …
        → this client is closing; nothing is held; end",
    ),
    example(
        "events",
        Single,
        Given,
        "single: 1 primaries
        ready: true, holding 0
        … answered in …, trouble: None
        lost …: …
        connected to … again
        still held: true
        ready: true, holding 1
        … answered in …, trouble: None",
    ),
    example(
        "fair_tickets",
        Single,
        Given,
        "buyer 1 is in line, 0 before it
        buyer 2 is in line, 1 before it
        buyer 3 is in line, 2 before it
        buyer 4 is in line, 3 before it
        buyer 5 is in line, 4 before it
        buyer 6 is in line, 5 before it
        6 wait; the counter opens
        buyer 1 has ticket …
        buyer 2 has ticket …
        buyer 3 has ticket …
        buyer 4 has ticket …
        buyer 5 has ticket …
        buyer 6 has ticket …",
    ),
    example(
        "fan_out_and_wait",
        Single,
        Any,
        "service 0: part 0 is done, … to go
        service 0: part 1 is done, … to go
        service 1: part 2 is done, … to go
        service 1: part 3 is done, … to go
        service 2: part 4 is done, … to go
        service 2: part 5 is done, … to go
        index: all parts are there
        report: all parts are there",
    ),
    example(
        "fence",
        Single,
        Given,
        "two adds 50: 550
        one is refused: … has written since
        the account has 550",
    ),
    example(
        "fenced_lock",
        Single,
        Given,
        "one: holds it with token …
        two: holds it with token …, which is higher: true
        one: reads that the last token is Some(…)
        one: is refused, as it holds redgrid-example:ledger already",
    ),
    example(
        "hand_over",
        Single,
        Given,
        "parent: acquired, token …
        parent: detached; to be attached within …
        parent: free for others: false
        child: attached, token …, held true
        parent: the child ended with exit status: 0
        parent: `redgrid-example:deployment` was handed over and is not ours any more",
    ),
    example(
        "high_scores",
        Single,
        Given,
        r#"ada is new today: true
        bob is new today: true
        ada is new today: false
        eve is new today: true
        friends who play today: ["ada", "eve"]
        better than before: false
        bob has 300 now, and Some(1) are better
        the best: [("ada", 310.0), ("bob", 300.0)]
        below 300: 1
        due by second 30: [(5, "warm-up"), (30, "half time")]; next: Some((5, "warm-up"))"#,
    ),
    example(
        "hit_counter",
        Single,
        Given,
        "10000 hits
        ticket 1
        10 paid",
    ),
    example(
        "job_queue",
        Single,
        Any,
        "worker …: job 0
        worker …: job 1
        worker …: job 2
        worker …: job 3
        worker …: job 4
        worker …: job 5
        worker …: job 6
        worker …: job 7
        worker …: job 8
        worker …: job 9
        left: 0",
    ),
    example(
        "job_start_barrier",
        Single,
        Any,
        "4* worker …: round 1
        4* worker …: round 2
        2* worker … was the last to come
        4* worker …: all parts are written
        alone: gave up after …",
    ),
    example(
        "last_orders",
        Single,
        Given,
        "the last: [8, 9, 10, 11, 12]; gone: 7
        room for Some(0) before the oldest goes",
    ),
    example(
        "lent_books",
        Single,
        Given,
        "one is lent as …, 1 is left
        it is lent for …
        Released; once more: Unknown
        2 are left",
    ),
    example(
        "lock_basic",
        Single,
        Given,
        "acquired, token …, valid for another …
        busy, as it should be
        the server says: held by …, … left
        released; locked now: false",
    ),
    example(
        "lock_wait_and_lease",
        Single,
        Given,
        "one: holds it with a lease of 1.5 s, and dies
        two: gave up after …
        two: got it … after one had died
        two: holds it for at least another …
        two: tried for 100 ms: busy",
    ),
    example(
        "login_codes",
        Newest,
        Given,
        "ada's code is Some(271828), for …
        314159: false
        271828: true
        271828: false",
    ),
    example(
        "move_money",
        Single,
        Given,
        "moved 70, and 30 are left
        there are only 30: nothing is moved",
    ),
    example(
        "multi_lock",
        Single,
        Given,
        "redgrid-example:ann has 0
        redgrid-example:bob has 300
        redgrid-example:eve has 0
        together 300: nothing was lost",
    ),
    example(
        "near_me",
        Single,
        Given,
        "Palermo to Rome: 428 km, 266 miles
        Catania: 56 km from here
        Palermo: 190 km from here",
    ),
    example("one_order_per_user", Single, Given, "20 orders, 90 requests too late, 0 left"),
    example(
        "open_for_business",
        Single,
        Any,
        "opened just now: true
        ann is here
        bob is here
        2* a worker waited for the bell: …
        ann serves a customer
        bob serves a customer",
    ),
    example(
        "order_events",
        Single,
        Given,
        "order 17 is read, and not handled
        order 17 is handled
        0 are kept",
    ),
    example(
        "order_ids",
        Single,
        Given,
        "10000 orders; then …: number … of its day, at …
        ticket 1000000",
    ),
    example(
        "order_pipeline",
        Single,
        Any,
        "worker …: order 1 has 2 pieces (attempt 1)
        worker …: order 2 is tried again in a moment
        worker …: order 2 has 2 pieces (attempt 2)
        worker …: order 3 has 2 pieces (attempt 1)
        worker …: order 5 has 2 pieces (attempt 1)
        worker …: order 6 has 2 pieces (attempt 1)
        5 done, 1 dead
        1 are tried again",
    ),
    example(
        "order_stream",
        Single,
        Given,
        "…: 2 × book
        …: 1 × lamp
        …: 5 × book
        one ships …
        other ships …
        one ships …
        other ships …
        0 are pending, of 4 orders
        7 books were ordered",
    ),
    example(
        "page_views",
        Single,
        Given,
        "200000 views
        200001 views, also without the second service",
    ),
    example(
        "phaser_steps",
        Single,
        Any,
        "builder 1: fetch
        builder 2: fetch
        builder 3: fetch
        watching: step 0 is over
        builder 1: compile
        builder 2: compile
        builder 3: compile
        watching: step 1 is over
        builder 1: test
        builder 2: test
        builder 3: test
        ended: true",
    ),
    example(
        "playlist",
        Single,
        Given,
        r#"out: song 500
        next: ["song 1", "a wish", "song 2"]
        no song 5000: there are 1000
        7891 letters in 1000 titles
        best: [90, 80]"#,
    ),
    example(
        "price_cache",
        Single,
        Given,
        r#"the table loads P0001
        3* P0001 costs Some(100)
        * the table gets [("P0001", 10…)]
        the table gets [("P0001", 110)]"#,
    ),
    example(
        "price_list",
        Single,
        Given,
        "1000 prices are cached
        1000 prices in …, … % of all without the server
        …",
    ),
    example(
        "price_ticker",
        Single,
        Given,
        "2 receive tea, 1 receive coffee
        redgrid-example:price:tea is 310
        redgrid-example:price:tea is 310",
    ),
    example(
        "quorum_lock",
        Quorum,
        Given,
        "the servers were new, and vote from now on
        held by … of 3 servers, with token …
        another one finds it None
        did the work that only one may do",
    ),
    example(
        "rate_limit",
        Single,
        Given,
        "45* … ms  service … sends mail …
        call 1: 200 OK
        call 2: 200 OK
        call 3: 200 OK
        call 4: 200 OK
        call 5: 200 OK
        call 6: …
        call 7: …
        call 8: …",
    ),
    example(
        "read_write",
        Single,
        Given,
        "two readers; may a writer enter? false
        alone, token …
        reading what was written; may others read? true
        in now: …",
    ),
    example(
        "reentry",
        Single,
        Given,
        "by holder: two guards of one hold, token …
        by holder: still held after the inner release: true
        reenter: still held by the last guard: true
        reenter: locked after the last release: false
        scope: outer … and inner … are one hold: true
        no holder: the second gets in: false
        deadlock: refused to wait for `redgrid-example:reentry`",
    ),
    example(
        "reminders",
        Single,
        Given,
        "3 to come, the first in …
        cancelled: true
        now: stretch
        now: tea",
    ),
    example(
        "rotating_credentials",
        Single,
        Given,
        "acquired with the password of Monday
        the password of Monday is no longer valid
        still held: true
        released",
    ),
    example(
        "run_once",
        Single,
        Given,
        "interval 1: 1 of 5 replicas ran the job
        interval 2: 1 of 5 replicas ran the job
        runs in all: 2",
    ),
    example(
        "seats",
        Single,
        Given,
        "Ada: seat 42
        Bob: another guest was faster
        the first free seat is Some(20)
        21 of the first hundred are taken",
    ),
    example(
        "seen_cache",
        Single,
        Given,
        "1: handled
        2: handled
        1: seen, and forgotten in …
        3: handled
        2: seen, and forgotten in …
        3 seen",
    ),
    example(
        "sentinel",
        Sentinels,
        Given,
        "acquired from the primary, token …
        acquired, and known to a replica, token …",
    ),
    example(
        "session_bucket",
        Single,
        Given,
        r#"Some(Session { user: "ada", visits: 10 }), Ends(…)
        ada has left after 10 visits
        2 are here
        2 have left"#,
    ),
    example(
        "session_cache",
        Single,
        Given,
        r#"4711 is Some("ada"), for …
        4711 is Some("ada lovelace")
        1 session
        …"4711"…
        …"4711"…
        …"4712"…
        …"4712"…
        …"4711"…"#,
    ),
    example(
        "sharded_carts",
        Single,
        Given,
        "1000 carts; of 42: Some(1)
        0 is in …, with … others
        1 is in …, with … others
        2 is in …, with … others
        2998 items in all",
    ),
    example(
        "sharded_crawl",
        Single,
        Given,
        r#"a.org/ is fetched, the first of its host
        b.org/ is fetched, the first of its host
        a.org/x is fetched
        2 hosts, about 3 pages, 3 done
        next: Some(1500000)
        "a.org" is in …"#,
    ),
    example(
        "spin_lock",
        Single,
        Given,
        "two: waits, and has subscribed 0 channels
        two: found it free … after its release",
    ),
    example(
        "stock_events",
        Single,
        Given,
        "redgrid-example:stock-events: … by hset
        redgrid-example:cart:42: Expired by expired",
    ),
    example(
        "stock_map",
        Single,
        Given,
        "sold: true, left: Some(1)
        200 of 1000 are out of stock
        1 sales today",
    ),
    example(
        "tags_multimap",
        Single,
        Given,
        r#"new: 2
        post 2 is about redis: true
        3 tags of 2 posts
        posts about rust: ["post 1"]
        post 1: ["written", "read", "read"]
        closed with ["written", "read", "read"]
        2 readers: …
        post 1 has no readers; 0 posts are read
        tags live for …
        2 posts removed"#,
    ),
    example(
        "transfer_batch",
        Single,
        Given,
        "2 has 130
        cannot run `transfer`: the server refused: POOR there are only 70
        3 has 95, 4 has 105
        10 accounts closed",
    ),
    example(
        "undo_deque",
        Single,
        Given,
        r#"forgotten: Some("draw")
        undone: Some("write")
        left: ["paint", "erase"]"#,
    ),
    example(
        "urgent_jobs",
        Single,
        Given,
        r#"4 jobs, the last of them …
        0: newsletter
        1: alarm
        5: invoice 1
        5: invoice 2"#,
    ),
    example(
        "visitors",
        Single,
        Given,
        "monday: about …, tuesday: about …
        both: about …",
    ),
    example(
        "watch_and_stop",
        Single,
        Any,
        "* worker: step …
        operator: freed by force: Ok(…)
        worker: stopped within … of the release: …; held now: false
        helper saw … steps
        worker: …",
    ),
    example(
        "with_token",
        Single,
        Given,
        "with: written true
        two: token …, written true
        one: token …, written false
        one: …
        the ledger says: by two",
    ),
    example(
        "word_completion",
        Single,
        Given,
        r#"l…: ["latch", "lease", "list"] of 6
        lock…: ["lock", "locker", "locket"] of 3
        before "list": Some(2); the last: Some("map")
        up to "list", backwards: ["list", "lease", "latch"]
        1 from "m" on are removed"#,
    ),
];
