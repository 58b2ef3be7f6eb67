//! The contents of the pages.

use axum::body::Body;
use axum::http::StatusCode;
use axum::http::header::{CACHE_CONTROL, CONTENT_TYPE};
use redgrid_console::{Access, Client, Console};
use redgrid_locks::{FairLock, Lock, RwLock};
use redgrid_testkit::wait_until;

use crate::support::{SOON, Setup, get, request, send, until_shown};

/// A holder of Redisson.
const JAVA: &str = "0f8fad5b-d9cb-469f-a165-70867728950e:17";

/// A holder of a redgrid client that has ended.
const GONE: &str = "0f8fad5b-d9cb-869f-a165-70867728950e:17";

/// Returns a page's row with this text.
fn row<'a>(page: &'a str, text: &str) -> &'a str {
    let rows = page.split("<tr ").find(|row| row.contains(text));
    rows.unwrap_or_else(|| panic!("no row with {text}: {page}"))
}

#[tokio::test(flavor = "multi_thread")]
async fn locks_show_their_holders_and_whether_these_live() {
    let setup = Setup::start().await;
    let user = Client::connect(setup.server.url().as_str()).await.expect("a client");
    let _held = Lock::new(&user, "mine").acquire().label("nightly").await.expect("it is free");
    setup.observer.cmd(&["HSET", "java", JAVA, "1"]).await.expect("an answer");
    setup.observer.cmd(&["PEXPIRE", "java", "60000"]).await.expect("an answer");
    setup.observer.cmd(&["HSET", "dead", GONE, "1"]).await.expect("an answer");
    setup.observer.cmd(&["HSET", "dying", GONE, "1"]).await.expect("an answer");
    setup.observer.cmd(&["PEXPIRE", "dying", "600000"]).await.expect("an answer");
    let router = setup.console();

    // For 10 s after the start of a server, clients may not have connected to it yet.
    let page = until_shown(&router, "/locks", "state unknown").await;
    assert!(!page.contains(">gone</span>"), "{page}");
    until_shown(&router, "/locks", "nightly").await;
    let page = until_shown(&router, "/locks", ">gone</span>").await;
    let mine = row(&page, "lock?name=mine");
    assert!(mine.contains("state alive") && mine.contains("data-since") && mine.contains("data-until"), "{mine}");
    let pid = format!("pid {}", std::process::id());
    assert!(mine.contains(&pid), "{mine}");
    let java = row(&page, "lock?name=java");
    assert!(java.contains("state foreign") && java.contains("number 17"), "{java}");
    let dead = row(&page, "lock?name=dead");
    assert!(dead.contains(">gone</span>") && dead.contains("no lifetime"), "{dead}");

    // The filters of the address.
    for (query, shown, hidden) in [
        ("state=gone", "dead", "java"),
        ("state=foreign", "java", "mine"),
        ("state=endless", "dead", "mine"),
        ("q=in", "mine", "dead"),
        ("kind=lock", "mine", "none such"),
    ] {
        let page = get(&router, &format!("/locks?{query}")).await.text;
        assert!(page.contains(&format!("lock?name={shown}\"")), "{query}: {page}");
        assert!(!page.contains(&format!("lock?name={hidden}\"")), "{query}: {page}");
    }

    let overview = until_shown(&router, "/", "1 lock held by clients that are gone").await;
    assert!(overview.contains("1 lock without a lifetime, held by clients that are gone"), "{overview}");
    assert!(!overview.contains("Nothing looks wrong"), "{overview}");
    until_shown(&router, "/lock?name=dead", ">gone</span>").await;
    assert!(overview.contains(&setup.server.addr().to_string()), "{overview}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_lock_page_shows_holders_readers_and_the_queue() {
    let setup = Setup::start().await;
    let user = Client::connect(setup.server.url().as_str()).await.expect("a client");
    let other = Client::connect(setup.server.url().as_str()).await.expect("a client");
    let held = FairLock::new(&user, "fair").acquire().await.expect("it is free");
    let waiter = tokio::spawn({
        let lock = FairLock::new(&other, "fair");
        async move { lock.acquire().await }
    });
    let router = setup.console();
    let page = until_shown(&router, "/lock?name=fair", other.id()).await;
    assert!(page.contains("fair lock") && page.contains(user.id()) && page.contains("1 client waiting"), "{page}");
    held.release().await.expect("it was held");
    waiter.await.expect("no panic").expect("it is free").release().await.expect("it was held");

    let rw = RwLock::new(&user, "rw");
    let _read = rw.read().await.expect("it is free");
    let page = until_shown(&router, "/lock?name=rw", "read-write lock").await;
    assert!(page.contains("<td>read</td>") && page.contains(user.id()), "{page}");

    let page = until_shown(&router, "/lock?name=nothing", "free").await;
    assert!(page.contains("Lock <bdi class=\"name\">nothing</bdi>"), "{page}");
    setup.observer.cmd(&["HSET", "map", "a", "1", "b", "2"]).await.expect("an answer");
    let page = until_shown(&router, "/lock?name=map", "This is not a lock").await;
    assert!(page.contains("a map of 2 fields"), "{page}");
    assert_eq!(get(&router, "/lock").await.status, StatusCode::BAD_REQUEST);
}

#[tokio::test(flavor = "multi_thread")]
async fn hostile_names_are_text_everywhere() {
    let setup = Setup::start().await;
    let long = "x".repeat(1_024);
    let names: [&[u8]; 7] = [
        b"<img src=x onerror=alert(1)>",
        b"\"'&;--><script>",
        "evil\u{202e}gpj.\u{200b}\u{2066}".as_bytes(),
        b"nul\0and\x1b[31m\r\nlines",
        "שלום".as_bytes(),
        b"not utf-8 \xff\xfe",
        long.as_bytes(),
    ];
    for name in names {
        setup.observer.cmd(&[b"HSET", name, JAVA.as_bytes(), b"1"]).await.expect("an answer");
    }
    let router = setup.console();
    let page = until_shown(&router, "/locks", "7 locks").await;
    for raw in ["<img", "<script>", "\u{202e}", "\u{200b}", "\u{2066}", "\0", "\x1b", "\r"] {
        assert!(!page.contains(raw), "{raw:?}: {page}");
    }
    for shown in ["&lt;img src=x onerror=alert(1)&gt;", "\\u{202e}gpj", "nul\\u{0}and", "שלום", &long] {
        assert!(page.contains(shown), "{shown}: {page}");
    }
    // Each link leads to the page of its lock.
    let links: Vec<&str> = page
        .split("href=\"")
        .filter_map(|rest| rest.split('"').next())
        .filter(|link| link.starts_with("lock?"))
        .collect();
    assert_eq!(links.len(), names.len());
    for link in links {
        assert!(link.bytes().all(|byte| byte.is_ascii_graphic()), "{link}");
        let lock = until_shown(&router, &format!("/{link}"), JAVA.split(':').next().expect("an id")).await;
        assert!(!lock.contains("<img") && !lock.contains('\u{202e}'), "{lock}");
    }
    let objects = get(&router, "/objects?pattern=*&kind=all").await;
    let page = get(&router, &format!("/{}", objects.location())).await.text;
    assert!(!page.contains("<img") && page.contains("&lt;img"), "{page}");
    // The values of a query are text, too.
    let page = get(&router, "/locks?q=%3Cscript%3E%22").await.text;
    assert!(!page.contains("<script>\"") && page.contains("&lt;script&gt;&quot;"), "{page}");
}

/// Fewer are read in a second than are open.
#[tokio::test(flavor = "multi_thread")]
async fn every_open_lock_page_is_read() {
    let setup = Setup::start().await;
    let router = setup.console();
    let pages: Vec<String> = (0..30).map(|nth| format!("/lock?name=job:{nth:02}")).collect();
    for page in &pages {
        get(&router, page).await;
    }
    for nth in 0..30 {
        setup.observer.cmd(&["HSET", &format!("job:{nth:02}"), JAVA, "1"]).await.expect("an answer");
    }
    for page in &pages {
        until_shown(&router, page, "state foreign").await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn clients_show_what_they_hold_and_wait_for() {
    let setup = Setup::start().await;
    let user = Client::connect(setup.server.url().as_str()).await.expect("a client");
    let _held = Lock::new(&user, "held:1").acquire().await.expect("it is free");
    let router = setup.console();
    let page = until_shown(&router, "/clients", "lock?name=held%3A1").await;
    let row = row(&page, user.id());
    assert!(row.contains(&format!("pid {}", std::process::id())) && row.contains("state alive"), "{row}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_search_goes_on_from_page_to_page() {
    let setup = Setup::start().await;
    for n in 0..250 {
        setup.observer.cmd(&["SET", &format!("bucket:{n}"), "1"]).await.expect("an answer");
    }
    setup.observer.cmd(&["HSET", "cart:1", "a", "1"]).await.expect("an answer");
    let router = setup.console();
    assert_eq!(get(&router, "/objects").await.status, StatusCode::OK);
    let started = get(&router, "/objects?pattern=bucket%3A*&kind=all").await;
    assert_eq!(started.status, StatusCode::SEE_OTHER);
    let address = format!("/{}", started.location());
    let mut names = std::collections::BTreeSet::new();
    for (page, expected) in [(1, 100), (2, 100), (3, 50), (1, 100)] {
        let text = get(&router, &format!("{address}&p={page}")).await.text;
        let shown: Vec<String> = text
            .split("<bdi class=\"name\">")
            .skip(1)
            .map(|rest| rest.split('<').next().expect("a name").to_owned())
            .collect();
        assert_eq!(shown.len(), expected, "{page}: {text}");
        assert_eq!(text.contains("rel=\"next\""), page < 3, "{text}");
        names.extend(shown);
    }
    assert_eq!(names.len(), 250);
    let maps = get(&router, "/objects?kind=map").await;
    let text = get(&router, &format!("/{}", maps.location())).await.text;
    assert!(text.contains("cart:1") && text.contains("1 object found"), "{text}");

    // At most 16 searches, and clear answers to wrong addresses.
    for _ in 2..16 {
        assert_eq!(get(&router, "/objects?kind=set").await.status, StatusCode::SEE_OTHER);
    }
    assert_eq!(get(&router, "/objects?kind=set").await.status, StatusCode::TOO_MANY_REQUESTS);
    for (path, status) in [
        ("/objects?search=unknown", StatusCode::NOT_FOUND),
        ("/objects?kind=nonsense", StatusCode::BAD_REQUEST),
        (&format!("{address}&p=99999999"), StatusCode::OK),
    ] {
        assert_eq!(get(&router, path).await.status, status, "{path}");
    }
    let long = format!("/objects?pattern={}", "x".repeat(5_000));
    assert_eq!(get(&router, &long).await.status, StatusCode::BAD_REQUEST);
}

#[tokio::test(flavor = "multi_thread")]
async fn the_names_that_a_search_keeps_are_bounded() {
    let setup = Setup::start().await;
    let fill = "for i = 1, 600 do redis.call('set', string.rep('x', 4090) .. string.format('%06d', i), 1) end";
    setup.observer.cmd(&["EVAL", fill, "0"]).await.expect("an answer");
    let router = setup.console();
    let started = get(&router, "/objects?pattern=x*&kind=all").await;
    let page = until_shown(&router, &format!("/{}&p=7", started.location()), "The search ends here").await;
    // The text and the bytes of 512 names of 4,096 bytes are 4 MiB.
    assert!(page.contains("512 objects found"), "{page}");

    let long = "y".repeat(5_000);
    setup.observer.cmd(&["HSET", &long, JAVA, "1"]).await.expect("an answer");
    let started = get(&router, "/objects?pattern=y*&kind=all").await;
    let page = until_shown(&router, &format!("/{}", started.location()), "1 object found").await;
    assert!(page.contains("y…") && !page.contains("lock?name=") && !page.contains(&long[..4_097]), "{page}");
}

#[tokio::test(flavor = "multi_thread")]
async fn the_doctor_reports_its_findings() {
    let setup = Setup::start().await;
    let page = until_shown(&setup.console(), "/doctor", "Checked").await;
    assert!(page.contains("persistence") && page.contains(&setup.server.addr().to_string()), "{page}");
    let without = Console::new(&setup.client).access(|_| Access::Read).router();
    assert!(get(&without, "/doctor").await.text.contains("redgrid doctor"));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_server_that_is_away_makes_the_page_stale() {
    let setup = Setup::start().await;
    let router = setup.console();
    until_shown(&router, "/", "live").await;
    setup.server.pause().await.expect("it runs");
    let page = until_shown(&router, "/", "stale since").await;
    assert!(page.contains("does not answer"), "{page}");
    setup.server.resume().await.expect("it was paused");
    wait_until(SOON, async || !get(&router, "/").await.text.contains("stale since")).await;
}

#[tokio::test]
async fn unknown_pages_do_not_exist_and_assets_are_kept() {
    let setup = Setup::start().await;
    let router = setup.console();
    for path in ["/unknown", "/locks/", "/assets/", "/assets/console.js", "/login", "/live", "/live?page=unknown"] {
        assert_eq!(get(&router, path).await.status, StatusCode::NOT_FOUND, "{path}");
    }
    let page = get(&router, "/").await.text;
    let paths: Vec<&str> = page.split('"').filter(|part| part.starts_with("assets/")).collect();
    assert_eq!(paths.len(), 3, "{page}");
    for path in paths {
        let asset = get(&router, &format!("/{path}")).await;
        assert_eq!(asset.status, StatusCode::OK, "{path}");
        assert!(asset.headers[CACHE_CONTROL].to_str().expect("text").contains("immutable"));
        assert!(asset.headers.get(CONTENT_TYPE).is_some());
    }
    // Below any path, the page has its style, and a way back.
    let deep = get(&router, "/x/y/z").await;
    assert!(deep.status == StatusCode::NOT_FOUND && deep.text.contains("href=\"../../overview\""), "{}", deep.text);
    assert!(deep.text.contains("href=\"../../assets/console"), "{}", deep.text);
    let head = send(&router, request("HEAD", "/").body(Body::empty()).expect("a request")).await;
    assert_eq!((head.status, head.text.as_str()), (StatusCode::OK, ""));
}

#[tokio::test]
async fn all_links_are_relative_so_that_it_can_be_mounted_anywhere() {
    let setup = Setup::start().await;
    let nested = axum::Router::new().nest("/a/b", setup.console());
    let service = axum::Router::new().nest_service("/a/b", setup.console());
    let slash = axum::Router::new().nest("/a/b/", setup.console());
    for router in [&nested, &service] {
        let answer = get(router, "/a/b").await;
        assert_eq!((answer.status, answer.location()), (StatusCode::SEE_OTHER, "./b/overview"));
    }
    for router in [&service, &slash] {
        assert_eq!(get(router, "/a/b/").await.status, StatusCode::OK);
    }
    for router in [&nested, &service, &slash] {
        for path in ["/a/b/overview", "/a/b/locks", "/a/b/clients"] {
            let page = get(router, path).await;
            assert_eq!(page.status, StatusCode::OK, "{path}");
            for link in page.text.split("href=\"").chain(page.text.split("src=\"")).skip(1) {
                assert!(!link.starts_with('/') && !link.starts_with("http"), "{path}: {link}");
            }
            let style = page.text.split("href=\"").find(|link| link.contains(".css\"")).expect("a stylesheet");
            let style = style.split('"').next().expect("an address");
            assert_eq!(get(router, &format!("/a/b/{style}")).await.status, StatusCode::OK, "{style}");
        }
    }
}
