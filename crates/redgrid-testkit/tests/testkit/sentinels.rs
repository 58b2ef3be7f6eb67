//! Sentinels and their servers.

use std::{collections::HashMap, time::Duration};

use crate::support::{Outcome, programs};
use redgrid_testkit::{Observer, RedisServer, Sentinels};

#[tokio::test]
async fn sentinels_know_all_servers_and_each_other() -> Outcome {
    for program in programs("sentinels_know_all_servers_and_each_other")? {
        let deployment = tokio::spawn(Sentinels::builder().server_options(program).start()).await??;
        assert_eq!((deployment.sentinels().len(), deployment.servers().len()), (3, 3));
        assert_eq!(deployment.current_primary().await?.addr(), deployment.servers()[0].addr());
        let hosts: Vec<String> = deployment.addrs().iter().map(ToString::to_string).collect();
        assert_eq!(deployment.url(), format!("redis-sentinel://{}/mymaster", hosts.join(",")));

        let sentinel = Observer::connect(&deployment.sentinels()[0].url()).await?;
        for (kind, known) in [("SENTINELS", &deployment.sentinels()[1..]), ("REPLICAS", &deployment.servers()[1..])] {
            let members: Vec<HashMap<String, String>> =
                sentinel.query(&["SENTINEL", kind, deployment.master_name()]).await?;
            let mut listed: Vec<String> = members.iter().map(|one| format!("{}:{}", one["ip"], one["port"])).collect();
            let mut known: Vec<String> = known.iter().map(|one| one.addr().to_string()).collect();
            listed.sort();
            known.sort();
            assert_eq!(listed, known);
        }
    }
    Ok(())
}

#[tokio::test]
async fn a_killed_primary_is_replaced_and_comes_back_as_a_replica() -> Outcome {
    for program in programs("a_killed_primary_is_replaced_and_comes_back_as_a_replica")? {
        let deployment = Sentinels::builder().server_options(program).start().await?;
        let old = deployment.current_primary().await?;
        old.kill().await?;
        let new = deployment.wait_for_primary_other_than(old.addr()).await?;
        new.observer().await?.cmd(&["SET", "a", "1"]).await?;
        deployment.wait_until_ok().await?;

        old.restart_with_data().await?;
        deployment.wait_until_ok().await?;
        assert_eq!(deployment.current_primary().await?.addr(), new.addr());
        assert!(old.observer().await?.exists("a").await?);

        // The sentinels' setting survives its next restart.
        old.kill().await?;
        old.restart_empty().await?;
        let info: String = old.observer().await?.query(&["INFO", "replication"]).await?;
        assert!(info.contains(&format!("master_port:{}", new.addr().port())), "{info}");
        deployment.wait_until_ok().await?;
    }
    Ok(())
}

#[tokio::test]
async fn a_paused_primary_is_replaced_and_continues_as_a_replica() -> Outcome {
    let deployment = Sentinels::start().await?;
    let old = deployment.current_primary().await?;
    old.pause().await?;
    assert!(!old.is_running());
    let new = deployment.wait_for_primary_other_than(old.addr()).await?;
    old.resume().await?;
    deployment.wait_until_ok().await?;
    assert_eq!(deployment.current_primary().await?.addr(), new.addr());
    Ok(())
}

#[tokio::test]
async fn a_failover_on_request_keeps_the_data_and_all_servers() -> Outcome {
    for program in programs("a_failover_on_request_keeps_the_data_and_all_servers")? {
        let deployment = Sentinels::builder().server_options(program).start().await?;
        let old = deployment.current_primary().await?;
        old.observer().await?.cmd(&["SET", "a", "1"]).await?;
        old.observer().await?.cmd(&["WAIT", "2", "5000"]).await?;
        let new = deployment.fail_over().await?;
        assert_ne!(new.addr(), old.addr());
        assert!(new.observer().await?.exists("a").await?);
        assert_eq!(old.observer().await?.cmd(&["SET", "a", "2"]).await.unwrap_err().code(), Some("READONLY"));
        assert_eq!(deployment.server_at(new.addr()).map(RedisServer::pid), Some(new.pid()));
    }
    Ok(())
}

#[tokio::test]
async fn servers_and_sentinels_have_passwords_of_their_own() -> Outcome {
    for program in programs("servers_and_sentinels_have_passwords_of_their_own")? {
        let deployment = Sentinels::builder()
            .replicas(1)
            .down_after(Duration::from_millis(800))
            .server_options(program.password("d@ta \"1\""))
            .sentinel_options(RedisServer::builder().password("s@ntinel").user("app", "on >secret +@all"))
            .start()
            .await?;
        assert!(deployment.url().starts_with("redis-sentinel://:d%40ta%20%221%22@127.0.0.1:"), "{}", deployment.url());
        let sentinel = &deployment.sentinels()[0];
        for url in [sentinel.url(), sentinel.url_for("app", "secret")] {
            Observer::connect(&url).await?.cmd(&["SENTINEL", "MASTERS"]).await?;
        }
        assert!(Observer::connect(&sentinel.url_for("default", "d@ta \"1\"")).await.is_err());
        let old = deployment.current_primary().await?;
        Observer::connect(&old.url()).await?.ping().await?;
        assert!(Observer::connect(&old.url_for("default", "s@ntinel")).await.is_err());

        old.kill().await?;
        let new = deployment.wait_for_primary_other_than(old.addr()).await?;
        Observer::connect(&new.url()).await?.cmd(&["SET", "a", "1"]).await?;
        old.restart_with_data().await?;
        deployment.wait_until_ok().await?;
    }
    Ok(())
}

#[tokio::test]
async fn a_sentinel_that_was_down_catches_up() -> Outcome {
    for program in programs("a_sentinel_that_was_down_catches_up")? {
        let deployment = Sentinels::builder().server_options(program).start().await?;
        let sentinel = &deployment.sentinels()[2];
        sentinel.kill().await?;
        let old = deployment.current_primary().await?;
        old.kill().await?;
        let new = deployment.wait_for_primary_other_than(old.addr()).await?;
        sentinel.restart_with_data().await?;
        sentinel.restart_empty().await?;
        deployment.wait_until_ok().await?;
        assert_eq!(deployment.current_primary().await?.addr(), new.addr());
    }
    Ok(())
}
