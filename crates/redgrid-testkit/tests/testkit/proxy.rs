//! Every fault of the proxy acts as documented, as observed on the client and on the server.

use std::time::Duration;

use redgrid_testkit::{Action, Direction, Fault, Observer, Proxy, RedisServer, wait_until};
use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    net::TcpStream,
};

type Outcome = Result<(), Box<dyn std::error::Error>>;

const SOON: Duration = Duration::from_secs(60);

/// How long to wait to verify that an event does not happen.
const NEVER: Duration = Duration::from_millis(150);

/// A plain socket: it sends and receives exactly the bytes on the wire.
struct Raw(TcpStream);

impl Raw {
    async fn connect(proxy: &Proxy) -> Result<Self, std::io::Error> {
        TcpStream::connect(proxy.addr()).await.map(Self)
    }

    async fn send(&mut self, line: &str) -> Result<(), std::io::Error> {
        self.0.write_all(format!("{line}\r\n").as_bytes()).await
    }

    /// Reads until `text` has arrived.
    async fn expect(&mut self, text: &str) -> Outcome {
        let mut seen = Vec::new();
        while !String::from_utf8_lossy(&seen).ends_with(text) {
            match tokio::time::timeout(SOON, self.0.read_buf(&mut seen)).await {
                Ok(Ok(1..)) => {}
                other => return Err(format!("{other:?} while waiting for {text:?} after {seen:?}").into()),
            }
        }
        Ok(())
    }

    async fn expect_silence(&mut self) {
        let read = tokio::time::timeout(NEVER, self.0.read_u8()).await;
        assert!(read.is_err(), "expected silence, got {read:?}");
    }

    async fn expect_end(&mut self) -> Outcome {
        let mut rest = Vec::new();
        let read = tokio::time::timeout(SOON, self.0.read_to_end(&mut rest)).await?;
        assert!(rest.is_empty(), "{read:?} after {rest:?}");
        Ok(())
    }
}

async fn setup() -> Result<(RedisServer, Proxy, Observer), Box<dyn std::error::Error>> {
    let server = RedisServer::start().await?;
    let proxy = Proxy::to(&server).await?;
    let observer = server.observer().await?;
    Ok((server, proxy, observer))
}

async fn until_value(observer: &Observer, key: &str, value: &str) {
    wait_until(SOON, async || observer.get::<String>(key).await.is_ok_and(|is| is.as_deref() == Some(value))).await;
}

#[tokio::test]
async fn a_proxy_without_faults_changes_nothing() -> Outcome {
    let (server, proxy, observer) = setup().await?;
    let through = Observer::connect(&server.url_via(proxy.addr())).await?;
    through.cmd(&["SET", "a", "b"]).await?;
    assert_eq!(observer.get::<String>("a").await?.as_deref(), Some("b"));
    let counts = proxy.counts();
    assert_eq!((counts.accepted, counts.open, counts.cut, counts.held), (1, 1, 0, 0));
    assert!(counts.commands >= 2 && counts.replies == counts.commands, "{counts:?}");
    drop(through);
    wait_until(SOON, async || proxy.counts().open == 0).await;
    Ok(())
}

#[tokio::test]
async fn a_swallowed_reply_was_executed_and_silences_its_connection() -> Outcome {
    let (_server, proxy, observer) = setup().await?;
    let mut client = Raw::connect(&proxy).await?;
    proxy.next(1, "marked", Action::SwallowReply);
    client.send("SET plain 1").await?;
    client.expect("+OK\r\n").await?;
    client.send("SET marked 1").await?;
    client.send("SET later 1").await?;
    until_value(&observer, "later", "1").await;
    assert_eq!(observer.get::<u8>("marked").await?, Some(1));
    client.expect_silence().await;
    assert_eq!(proxy.counts().swallowed, 1);

    let mut other = Raw::connect(&proxy).await?;
    other.send("SET marked 2").await?;
    other.expect("+OK\r\n").await?;
    Ok(())
}

#[tokio::test]
async fn a_held_request_arrives_after_its_connection_closed() -> Outcome {
    let (_server, proxy, observer) = setup().await?;
    let mut client = Raw::connect(&proxy).await?;
    proxy.on_request(|cmd| if cmd[0] == "SET" { Action::Hold } else { Action::Forward });
    client.send("SET late copy").await?;
    wait_until(SOON, async || proxy.counts().held == 1).await;
    client.expect_silence().await;
    drop(client);
    wait_until(SOON, async || proxy.counts().open == 0).await;
    assert!(!observer.exists("late").await?);

    proxy.heal();
    assert_eq!(proxy.counts().held, 1, "healing does not release held requests");
    assert_eq!(proxy.release_held().await, 1);
    assert_eq!(observer.get::<String>("late").await?.as_deref(), Some("copy"));
    assert_eq!((proxy.counts().held, proxy.release_held().await), (0, 0));
    Ok(())
}

#[tokio::test]
async fn a_held_request_survives_a_cut_and_later_ones_do_not() -> Outcome {
    let (_server, proxy, observer) = setup().await?;
    let mut client = Raw::connect(&proxy).await?;
    proxy.next(1, "held", Action::Hold);
    client.send("SET held 1").await?;
    client.send("SET behind 1").await?;
    wait_until(SOON, async || proxy.counts().commands == 2).await;
    proxy.cut_all();
    client.expect_end().await?;
    assert_eq!(proxy.release_held().await, 1);
    assert_eq!(observer.keys("*").await?, ["held"]);
    Ok(())
}

#[tokio::test]
async fn a_held_request_keeps_its_place_while_its_client_stays() -> Outcome {
    let (_server, proxy, observer) = setup().await?;
    let mut client = Raw::connect(&proxy).await?;
    proxy.next(1, "first", Action::Hold);
    client.send("RPUSH list first").await?;
    client.send("RPUSH list second").await?;
    wait_until(SOON, async || proxy.counts().commands == 2).await;
    assert_eq!(proxy.release_held().await, 1);
    client.expect(":1\r\n:2\r\n").await?;
    assert_eq!(observer.query::<Vec<String>>(&["LRANGE", "list", "0", "-1"]).await?, ["first", "second"]);
    Ok(())
}

#[tokio::test]
async fn cuts_before_and_after_differ_on_the_server_only() -> Outcome {
    let (_server, proxy, observer) = setup().await?;
    for (action, executed) in [(Action::CutBefore, false), (Action::CutAfterForward, true)] {
        let mut client = Raw::connect(&proxy).await?;
        client.send("DEL key").await?;
        client.expect("0\r\n").await?;
        proxy.next(1, "SET", action);
        client.send("SET key 1").await?;
        client.expect_end().await?;
        assert_eq!(observer.exists("key").await?, executed, "{action:?}");
    }
    assert_eq!(proxy.counts().cut, 2);
    Ok(())
}

#[tokio::test]
async fn cutting_all_spares_new_connections() -> Outcome {
    let (_server, proxy, _observer) = setup().await?;
    let (mut one, mut two) = (Raw::connect(&proxy).await?, Raw::connect(&proxy).await?);
    for client in [&mut one, &mut two] {
        client.send("PING").await?;
        client.expect("+PONG\r\n").await?;
    }
    proxy.cut_all();
    one.expect_end().await?;
    two.expect_end().await?;
    let mut three = Raw::connect(&proxy).await?;
    three.send("PING").await?;
    three.expect("+PONG\r\n").await?;
    assert_eq!((proxy.counts().open, proxy.counts().cut), (1, 2));
    Ok(())
}

#[tokio::test]
async fn refused_connections_leave_the_others_and_come_back_on_the_same_port() -> Outcome {
    let (_server, proxy, _observer) = setup().await?;
    let mut before = Raw::connect(&proxy).await?;
    before.send("PING").await?;
    before.expect("+PONG\r\n").await?;
    for _ in 0..3 {
        proxy.refuse_connections().await?;
        let refused = TcpStream::connect(proxy.addr()).await.map(drop).map_err(|error| error.kind());
        assert_eq!(refused, Err(std::io::ErrorKind::ConnectionRefused));
        before.send("PING").await?;
        before.expect("+PONG\r\n").await?;
        proxy.accept_connections().await?;
        let mut after = Raw::connect(&proxy).await?;
        after.send("PING").await?;
        after.expect("+PONG\r\n").await?;
    }
    Ok(())
}

#[tokio::test]
async fn a_delay_delays_one_direction_and_does_not_add_up() -> Outcome {
    let (_server, proxy, observer) = setup().await?;
    let by = Duration::from_millis(500);
    let mut client = Raw::connect(&proxy).await?;
    proxy.set(Direction::ToClient, Fault::Delay(by));
    let start = tokio::time::Instant::now();
    client.send("SET a 1\r\nSET b 1\r\nSET c 1\r\nSET d 1\r\nSET e 1").await?;
    until_value(&observer, "e", "1").await;
    client.expect(&"+OK\r\n".repeat(5)).await?;
    let took = start.elapsed();
    assert!(took >= by, "{took:?}");
    assert!(took < 4 * by, "five replies wait concurrently, not one after the other: {took:?}");
    Ok(())
}

#[tokio::test]
async fn a_stall_keeps_what_a_black_hole_loses() -> Outcome {
    for (fault, kept) in [(Fault::Stall, true), (Fault::BlackHole, false)] {
        for direction in [Direction::ToServer, Direction::ToClient] {
            let (_server, proxy, observer) = setup().await?;
            let mut client = Raw::connect(&proxy).await?;
            proxy.set(direction, fault);
            client.send("SET key 1").await?;
            let executed = direction == Direction::ToClient;
            if executed {
                until_value(&observer, "key", "1").await;
            }
            client.expect_silence().await;
            assert_eq!(observer.exists("key").await?, executed, "{fault:?} {direction:?}");

            proxy.heal();
            if kept {
                client.expect("+OK\r\n").await?;
                continue;
            }
            client.send("SET after 1").await?;
            if executed {
                until_value(&observer, "after", "1").await;
            }
            client.expect_silence().await;
            assert_eq!(observer.exists("after").await?, executed, "{fault:?} {direction:?}");
            let mut new = Raw::connect(&proxy).await?;
            new.send("PING").await?;
            new.expect("+PONG\r\n").await?;
        }
    }
    Ok(())
}

#[tokio::test]
async fn publishes_are_dropped_in_both_protocols_while_replies_pass() -> Outcome {
    let (_server, proxy, observer) = setup().await?;
    for (hello, ping, pong) in [("PING", "PING", "*2\r\n$4\r\npong\r\n$0\r\n\r\n"), ("HELLO 3", "PING", "+PONG\r\n")] {
        let before = proxy.counts().publishes_dropped;
        let mut client = Raw::connect(&proxy).await?;
        client.send(hello).await?;
        client.send("SUBSCRIBE news").await?;
        client.expect("$4\r\nnews\r\n:1\r\n").await?;
        observer.cmd(&["PUBLISH", "news", "heard"]).await?;
        client.expect("$4\r\nnews\r\n$5\r\nheard\r\n").await?;

        proxy.drop_publishes(true);
        observer.cmd(&["PUBLISH", "news", "unheard"]).await?;
        client.send(ping).await?;
        client.expect(pong).await?;
        assert_eq!(proxy.counts().publishes_dropped, before + 1);
        proxy.drop_publishes(false);
        observer.cmd(&["PUBLISH", "news", "again"]).await?;
        client.expect("again\r\n").await?;
    }
    Ok(())
}

#[tokio::test]
async fn a_dead_server_shows_as_a_closed_connection() -> Outcome {
    let (server, proxy, _observer) = setup().await?;
    let mut client = Raw::connect(&proxy).await?;
    client.send("PING").await?;
    client.expect("+PONG\r\n").await?;
    server.kill().await?;
    client.expect_end().await?;
    Raw::connect(&proxy).await?.expect_end().await?;
    server.restart_empty().await?;
    let mut after = Raw::connect(&proxy).await?;
    after.send("PING").await?;
    after.expect("+PONG\r\n").await?;
    Ok(())
}
