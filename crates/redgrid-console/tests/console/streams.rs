//! The page of topics, streams and caches.

use axum::http::StatusCode;

use crate::live::Stream;
use crate::queues::{cells, row};
use crate::support::{Setup, get, until_shown};

async fn send(setup: &Setup, commands: &[&[&str]]) {
    for command in commands {
        setup.observer.cmd(command).await.unwrap_or_else(|error| panic!("{command:?}: {error}"));
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn topics_streams_and_caches_are_listed() {
    let setup = Setup::start().await;
    let commands: [&[&str]; 16] = [
        &["XADD", "log", "1-0", "text", "secret"],
        &["XADD", "log", "2-0", "text", "secret"],
        &["XADD", "log", "3-0", "text", "secret"],
        &["XGROUP", "CREATE", "log", "mail <b>\u{202e}", "0"],
        &["XREADGROUP", "GROUP", "mail <b>\u{202e}", "one", "COUNT", "1", "STREAMS", "log", ">"],
        &["XGROUP", "CREATE", "log", "done", "3-0"],
        &["XADD", "news", "*", "m", "1"],
        &["XGROUP", "CREATE", "news", "web", "$"],
        &["ZADD", "{news}:timeout", "9e15", "web", "1000", "dead"],
        &["HSET", "sessions", "a", "1", "b", "2", "c", "3"],
        &["ZADD", "redisson__timeout__set:{sessions}", "1000", "a", "9e15", "b"],
        &["ZADD", "redisson__idle__set:{sessions}", "9e15", "b"],
        &["HSET", "{sessions}:redisson_options", "max-size", "500", "mode", "LFU"],
        &["XGROUP", "CREATE", "new", "mail", "$", "MKSTREAM"],
        &["HSET", "map", "a", "1"],
        &["SET", "text", "1"],
    ];
    send(&setup, &commands).await;
    let router = setup.console();
    let page = until_shown(&router, "/streams", "4 objects").await;
    let page = if page.contains("being read") { until_shown(&router, "/streams", "map cache").await } else { page };
    assert!(page.contains("aria-current=\"page\">Streams and caches"), "{page}");
    for raw in ["secret", "<b>", "\u{202e}"] {
        assert!(!page.contains(raw), "{raw:?}: {page}");
    }
    let log = row(&page, ">log<");
    assert!(log.contains("mail &lt;b&gt;\\u{202e}") && log.contains("1 consumer"), "{log}");
    let shown = cells(log);
    assert_eq!((shown[0].as_str(), shown[1].as_str(), shown[3].as_str()), ("stream", "3", "3-0"), "{shown:?}");
    let is_old = setup.server.binary().version().major < 7;
    let state =
        if is_old { "2 groups, 1 pending, how far behind is not known" } else { "2 groups, 1 pending, up to 2 behind" };
    assert_eq!(shown[2], state);
    let news = cells(row(&page, ">news<"));
    assert_eq!(news[..2], ["reliable topic", "1"], "{news:?}");
    assert!(news[2].starts_with("2 subscribers, 1 of them without a lease, 0 pending, none is behind"), "{news:?}");
    assert!(row(&page, ">news<").contains("data-ago"), "{news:?}");
    let sessions = cells(row(&page, ">sessions<"));
    let state = "2, 1 of them over, with a lifetime; 1 with an idle time; at most 500 (LFU)";
    assert_eq!((&*sessions[0], &*sessions[1], &*sessions[2]), ("map cache", "3", state), "{sessions:?}");
    let new = cells(row(&page, ">new<"));
    assert_eq!((&*new[1], &*new[3]), ("0", "none yet"), "{new:?}");

    let filtered = get(&router, "/streams?q=ses").await.text;
    assert!(filtered.contains(">sessions<") && !filtered.contains(">log<"), "{filtered}");
    assert_eq!(get(&router, "/streams?p=99999999999").await.status, StatusCode::OK);
}

#[tokio::test(flavor = "multi_thread")]
async fn an_open_page_follows_a_stream() {
    let setup = Setup::start().await;
    send(&setup, &[&["XGROUP", "CREATE", "log", "mail", "$", "MKSTREAM"]]).await;
    let router = setup.console();
    let mut page = Stream::open(&router, "streams").await;
    page.until("1 group, 0 pending, none is behind").await;
    send(&setup, &[&["XADD", "log", "*", "a", "1"]]).await;
    send(&setup, &[&["XREADGROUP", "GROUP", "mail", "one", "STREAMS", "log", ">"]]).await;
    page.until("1 group, 1 pending, none is behind").await;
    send(&setup, &[&["DEL", "log"]]).await;
    page.until("\"order\":[]").await;
}

/// Names that are not UTF-8, or that a lock could not have, are read, too.
#[tokio::test(flavor = "multi_thread")]
async fn streams_of_other_programs_are_read_whatever_their_names_are() {
    let setup = Setup::start().await;
    let names: [&[u8]; 4] = [b"not utf-8 \xff\xfe", b"{tag}", b"<img src=x onerror=alert(1)>", b"nul\0\r\n"];
    for name in names {
        setup.observer.cmd(&[b"XADD", name, b"7-0", b"a", b"1"]).await.expect("an answer");
    }
    let router = setup.console();
    let page = until_shown(&router, "/streams", "4 objects").await;
    let page = if page.contains("being read") { until_shown(&router, "/streams", "0 groups").await } else { page };
    assert_eq!(page.matches("0 groups").count(), names.len(), "{page}");
    for shown in ["not utf-8 \\xff\\xfe", "{tag}", "&lt;img src=x", "nul\\u{0}\\u{d}\\u{a}"] {
        assert!(page.contains(shown), "{shown}: {page}");
    }
    assert!(!page.contains("<img") && !page.contains('\0'), "{page}");
}
