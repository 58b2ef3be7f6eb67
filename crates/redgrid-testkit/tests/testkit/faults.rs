//! The faults of the server as a client observes them, and the monitor that records commands.

use redgrid_testkit::{Kind, Monitor, Observer, RedisServer, ServerBinary};

type Outcome = Result<(), Box<dyn std::error::Error>>;

const SCRIPT: &str = "redis.call('SET', KEYS[1], ARGV[1]) return 1";

/// Starts the default server, and the newest one if it exists.
async fn servers(test: &str) -> Result<Vec<RedisServer>, redgrid_testkit::StartError> {
    let mut servers = vec![RedisServer::start().await?];
    if let Some(binary) = ServerBinary::newest_or_skip(&format!("{test} on the newest server")) {
        servers.push(RedisServer::builder().binary(binary).start().await?);
    }
    Ok(servers)
}

async fn subscribe(server: &RedisServer, resp3: bool) -> Result<tokio::net::TcpStream, std::io::Error> {
    use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
    let mut stream = tokio::net::TcpStream::connect(server.addr()).await?;
    if resp3 {
        stream.write_all(b"HELLO 3\r\n").await?;
    }
    stream.write_all(b"SUBSCRIBE news\r\n").await?;
    let mut seen = Vec::new();
    while !seen.ends_with(b":1\r\n") {
        stream.read_buf(&mut seen).await?;
    }
    Ok(stream)
}

#[tokio::test]
async fn connections_are_killed_by_kind_and_by_name() -> Outcome {
    for server in servers("connections_are_killed_by_kind_and_by_name").await? {
        let observer = server.observer().await?;
        let (normal, named) = (Observer::connect(&server.url()).await?, Observer::connect(&server.url()).await?);
        named.cmd(&["CLIENT", "SETNAME", "worker"]).await?;
        let _subscribers = (subscribe(&server, false).await?, subscribe(&server, true).await?);
        assert_eq!(server.clients().await?.len(), 4);

        assert_eq!(server.kill_connections(Kind::PubSub).await?, 2);
        assert!(observer.pubsub_channels("*").await?.is_empty());
        assert_eq!(server.kill_connections_named("worker").await?, 1);
        assert!(named.ping().await.is_err());
        normal.ping().await?;
        assert_eq!(server.kill_connections(Kind::Normal).await?, 1);
        assert!(normal.ping().await.is_err());
        observer.ping().await?;
    }
    Ok(())
}

#[tokio::test]
async fn scripts_and_keys_are_removed() -> Outcome {
    for server in servers("scripts_and_keys_are_removed").await? {
        let client = Observer::connect(&server.url()).await?;
        let sha: String = client.query(&["SCRIPT", "LOAD", SCRIPT]).await?;
        client.cmd(&["EVALSHA", &sha, "1", "a", "x"]).await?;
        assert!(server.delete_key("a").await?);
        assert!(!server.delete_key("a").await?);
        client.cmd(&["EVALSHA", &sha, "1", "b", "x"]).await?;
        server.flush_all().await?;
        assert!(client.keys("*").await?.is_empty());
        server.flush_scripts().await?;
        let error = client.cmd(&["EVALSHA", &sha, "1", "a", "x"]).await.unwrap_err();
        assert!(error.to_string().to_uppercase().contains("NOSCRIPT"), "{error}");
    }
    Ok(())
}

#[tokio::test]
async fn commands_are_denied_and_allowed_again() -> Outcome {
    for server in servers("commands_are_denied_and_allowed_again").await? {
        let client = Observer::connect(&server.url()).await?;
        server.deny(&["set", "@pubsub"]).await?;
        for refused in [&["SET", "a", "1"][..], &["PUBLISH", "c", "m"]] {
            assert_eq!(client.cmd(refused).await.unwrap_err().code(), Some("NOPERM"));
        }
        assert_eq!(client.get::<String>("a").await?, None);
        server.observer().await?.cmd(&["SET", "a", "1"]).await?;
        server.allow(&["set", "@pubsub"]).await?;
        client.cmd(&["SET", "a", "2"]).await?;
    }
    Ok(())
}

#[tokio::test]
async fn memory_runs_out_and_is_free_again() -> Outcome {
    for server in servers("memory_runs_out_and_is_free_again").await? {
        let client = Observer::connect(&server.url()).await?;
        server.out_of_memory(true).await?;
        let error = client.cmd(&["SET", "a", "1"]).await.unwrap_err();
        assert!(error.to_string().contains("OOM"), "{error}");
        server.out_of_memory(false).await?;
        client.cmd(&["SET", "a", "1"]).await?;
    }
    Ok(())
}

#[tokio::test]
async fn a_monitor_lists_commands_in_order_without_scripts_and_testkit() -> Outcome {
    for server in servers("a_monitor_lists_commands_in_order_without_scripts_and_testkit").await? {
        let client = Observer::connect(&server.url()).await?;
        let old_observer = server.observer().await?;
        let mut monitor = Monitor::start(&server).await?.without("ping");
        client.cmd(&["EVAL", SCRIPT, "1", "a", "x"]).await?;
        client.ping().await?;
        old_observer.get::<String>("a").await?;
        server.observer().await?.get::<String>("a").await?;
        client.cmd(&[&b"GET"[..], b"\xff\"\n"]).await?;

        let seen = monitor.take().await?;
        let names: Vec<&str> = seen.iter().map(|seen| seen.name.as_str()).collect();
        assert_eq!(names, ["EVAL", "GET"], "{seen:?}");
        assert_eq!(seen[1].args, [&b"\xff\"\n"[..]]);
        assert!(seen.iter().all(|one| one.source == seen[0].source));
        assert_eq!(monitor.take().await?, []);
    }
    Ok(())
}

#[tokio::test]
async fn a_monitor_misses_nothing_that_was_answered() -> Outcome {
    let server = RedisServer::start().await?;
    let client = Observer::connect(&server.url()).await?;
    let mut monitor = Monitor::start(&server).await?;
    for round in 1..=200 {
        for _ in 0..round % 5 {
            client.cmd(&["INCR", "n"]).await?;
        }
        assert_eq!(monitor.take().await?.len(), round % 5);
    }
    Ok(())
}

#[tokio::test]
async fn the_observer_reads_keys_lifetimes_time_and_channels() -> Outcome {
    let server = RedisServer::start().await?;
    let observer = server.observer().await?;
    observer.cmd(&["SET", "a", "1", "PX", "60000"]).await?;
    observer.cmd(&["SET", "b", "1"]).await?;
    assert_eq!(observer.keys("*").await?, ["a", "b"]);
    let left = observer.time_to_live("a").await?.ok_or("it expires")?;
    assert!(left.as_millis() > 50_000 && left.as_millis() <= 60_000, "{left:?}");
    assert_eq!((observer.time_to_live("b").await?, observer.time_to_live("c").await?), (None, None));
    let (one, two) = (observer.server_time_micros().await?, observer.server_time_micros().await?);
    assert!(one > 1_600_000_000_000_000 && two >= one);
    let _subscriber = subscribe(&server, false).await?;
    assert_eq!(observer.pubsub_channels("*").await?, ["news"]);
    Ok(())
}

#[tokio::test]
#[should_panic(expected = "testkit/faults.rs")]
async fn a_failed_wait_names_its_location() {
    redgrid_testkit::wait_until(std::time::Duration::from_millis(5), async || false).await;
}
