//! Servers start, restart and end as documented.

use std::{
    process::{Command, Stdio},
    time::Duration,
};

use redgrid_testkit::{Cluster, Observer, RedisServer, Replicated, Sentinels, ServerBinary, StartError, wait_until};

type Outcome = Result<(), Box<dyn std::error::Error>>;

const SOON: Duration = Duration::from_secs(60);

/// Whether the process has ended, or is a zombie.
fn is_gone(pid: u32) -> bool {
    let output = Command::new("sh")
        .args([
            "-c",
            &format!(
                "kill -0 {pid} 2>/dev/null || echo gone; sed -n 's/^State:.*Z.*/gone/p' /proc/{pid}/status 2>/dev/null"
            ),
        ])
        .output();
    output.is_ok_and(|output| !output.stdout.is_empty())
}

#[tokio::test]
async fn a_server_ends_with_its_guard_and_leaves_no_folder() -> Outcome {
    let server = RedisServer::start().await?;
    let (pid, folder) = (server.pid().ok_or("it is up")?, server.folder().to_owned());
    assert!(!is_gone(pid) && folder.is_dir());
    drop(server);
    assert!(is_gone(pid) && !folder.exists());
    Ok(())
}

/// The process that the next test kills. In a normal test run, this test does nothing.
#[tokio::test]
async fn a_process_that_is_killed() -> Outcome {
    match std::env::var("REDGRID_TESTKIT_VICTIM").as_deref().unwrap_or_default() {
        "server" => hold([&RedisServer::start().await?]).await,
        "replicated" => hold(Replicated::start(1).await?.servers()).await,
        "sentinels" => {
            let deployment = Sentinels::start().await?;
            hold(deployment.servers().iter().chain(deployment.sentinels())).await;
        }
        "cluster" => hold(Cluster::start(3, 1).await?.nodes()).await,
        _ => {}
    }
    Ok(())
}

/// Prints the servers' process ids, and keeps the servers running.
async fn hold(servers: impl IntoIterator<Item = &RedisServer>) {
    for server in servers {
        println!("server {} {}", server.pid().unwrap_or_default(), server.folder().display());
    }
    println!("no more");
    std::future::pending::<()>().await;
}

#[tokio::test]
async fn servers_end_when_their_process_is_killed() -> Outcome {
    for (what, count) in [("server", 1), ("replicated", 2), ("sentinels", 6), ("cluster", 6)] {
        let mut victim = Command::new(std::env::current_exe()?)
            .args(["--exact", "server::a_process_that_is_killed", "--nocapture"])
            .env("REDGRID_TESTKIT_VICTIM", what)
            .stdout(Stdio::piped())
            .spawn()?;
        let output = std::io::BufReader::new(victim.stdout.take().ok_or("piped")?);
        let servers: Vec<(u32, String)> = std::io::BufRead::lines(output)
            .map_while(Result::ok)
            .take_while(|line| !line.contains("no more"))
            .filter_map(|line| {
                let (pid, folder) = line.split_once("server ")?.1.split_once(' ')?;
                Some((pid.parse().ok()?, folder.to_owned()))
            })
            .collect();
        assert_eq!(servers.len(), count, "the victim prints the servers that it started");
        assert!(servers.iter().all(|(pid, _)| !is_gone(*pid)));
        // `Child::kill` is SIGKILL: no code of the victim runs after it.
        victim.kill()?;
        victim.wait()?;
        for (pid, folder) in servers {
            wait_until(SOON, async || is_gone(pid) && !std::path::Path::new(&folder).exists()).await;
        }
    }
    Ok(())
}

#[tokio::test]
async fn an_empty_restart_keeps_the_port_and_nothing_else() -> Outcome {
    let server = RedisServer::builder().append_only(true).start().await?;
    let (addr, pid) = (server.addr(), server.pid());
    server.observer().await?.cmd(&["SET", "a", "1"]).await?;
    server.restart_empty().await?;
    assert_eq!(server.addr(), addr);
    assert_ne!(server.pid(), pid);
    assert!(!server.observer().await?.exists("a").await?);
    Ok(())
}

#[tokio::test]
async fn acknowledged_writes_survive_a_kill_with_an_append_only_file() -> Outcome {
    let server = RedisServer::builder().append_only(true).start().await?;
    server.observer().await?.cmd(&["SET", "a", "1"]).await?;
    server.kill().await?;
    assert_eq!(server.pid(), None);
    assert!(server.observer().await.is_err());
    server.restart_with_data().await?;
    assert_eq!(server.observer().await?.get::<u8>("a").await?, Some(1));
    Ok(())
}

#[tokio::test]
async fn a_restart_with_data_saves_first_without_an_append_only_file() -> Outcome {
    let server = RedisServer::start().await?;
    server.observer().await?.cmd(&["SET", "a", "1"]).await?;
    server.restart_with_data().await?;
    assert_eq!(server.observer().await?.get::<u8>("a").await?, Some(1));
    server.observer().await?.cmd(&["SET", "b", "1"]).await?;
    server.kill().await?;
    server.restart_with_data().await?;
    assert_eq!(server.observer().await?.keys("*").await?, ["a"], "b was never saved");
    Ok(())
}

#[tokio::test]
async fn a_paused_server_is_silent_until_it_is_resumed() -> Outcome {
    let server = RedisServer::start().await?;
    let observer = server.observer().await?;
    server.pause().await?;
    let reply = tokio::time::timeout(Duration::from_millis(100), observer.ping()).await;
    assert!(reply.is_err(), "{reply:?}");
    server.resume().await?;
    observer.ping().await?;
    server.pause().await?;
    let pid = server.pid().ok_or("paused is not down")?;
    drop(server);
    assert!(is_gone(pid), "a paused server ends too");
    Ok(())
}

#[tokio::test]
async fn passwords_and_users_are_required() -> Outcome {
    let server = RedisServer::builder()
        .password("p@ss \"word\"")
        .user("app", "on >secret ~app:* &* +@all -@dangerous")
        .config("maxmemory-policy allkeys-lru")
        .start()
        .await?;
    Observer::connect(&server.url()).await?.cmd(&["SET", "other", "1"]).await?;
    let anonymous = Observer::connect(&format!("redis://{}", server.addr())).await?;
    assert!(anonymous.ping().await.unwrap_err().to_string().contains("NOAUTH"));
    let app = Observer::connect(&server.url_for("app", "secret")).await?;
    app.cmd(&["SET", "app:1", "1"]).await?;
    assert_eq!(app.cmd(&["SET", "other", "2"]).await.unwrap_err().code(), Some("NOPERM"));
    let policy: Vec<String> = server.observer().await?.query(&["CONFIG", "GET", "maxmemory-policy"]).await?;
    assert_eq!(policy[1], "allkeys-lru");
    Ok(())
}

#[tokio::test]
async fn a_bad_configuration_is_an_error_that_shows_the_line() -> Outcome {
    let error = RedisServer::builder().config("no-such-option yes").start().await.unwrap_err();
    assert!(matches!(&error, StartError::Exited { log } if log.contains("no-such-option")), "{error}");
    Ok(())
}

#[tokio::test]
async fn many_servers_start_side_by_side() -> Outcome {
    let mut starting = tokio::task::JoinSet::new();
    for _ in 0..8 {
        starting.spawn(RedisServer::start());
    }
    let servers = starting.join_all().await.into_iter().collect::<Result<Vec<_>, _>>()?;
    for server in &servers {
        server.observer().await?.ping().await?;
    }
    Ok(())
}

#[tokio::test]
async fn the_newest_server_starts_too() -> Outcome {
    let Some(binary) = ServerBinary::newest_or_skip("the_newest_server_starts_too") else { return Ok(()) };
    let server = RedisServer::builder().binary(binary).append_only(true).start().await?;
    server.observer().await?.cmd(&["SET", "a", "1"]).await?;
    server.restart_with_data().await?;
    assert_eq!(server.observer().await?.get::<u8>("a").await?, Some(1));
    Ok(())
}
