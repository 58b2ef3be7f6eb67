//! A cluster, its failovers and the migration of its slots.

use std::time::Duration;

use crate::support::{Outcome, programs};
use redgrid_testkit::{Cluster, Observer, RedisServer, TopologyError, wait_until};

const SOON: Duration = Duration::from_secs(60);

#[tokio::test]
async fn a_cluster_serves_all_slots_and_has_replicas() -> Outcome {
    for program in programs("a_cluster_serves_all_slots_and_has_replicas")? {
        let starting = Cluster::builder().server_options(program.password("p@ss \"word\"")).start();
        let cluster = tokio::spawn(starting).await??;
        assert_eq!((cluster.nodes().len(), cluster.addrs().len()), (6, 6));
        assert!(cluster.url().starts_with("redis-cluster://:p%40ss%20%22word%22@127.0.0.1:"), "{}", cluster.url());
        assert_eq!(cluster.url().matches("127.0.0.1:").count(), 6);
        for (slot, place) in [(0, 0), (5460, 0), (5461, 1), (10_922, 1), (10_923, 2), (16_383, 2)] {
            let primary = cluster.primary_of(slot).await?;
            assert_eq!(primary.addr(), cluster.nodes()[place].addr(), "{slot}");
            assert_eq!(cluster.replicas_of(primary).await?.len(), 1);
        }
        let slot = cluster.slot_of("a").await?;
        assert_eq!(slot, 15_495);
        Observer::connect(&cluster.primary_of(slot).await?.url()).await?.cmd(&["SET", "a", "1"]).await?;
        let moved = cluster.primary_of(0).await?.observer().await?.cmd(&["SET", "a", "1"]).await.unwrap_err();
        assert_eq!(moved.code(), Some("MOVED"));
        let addr = moved.redirect_node().ok_or("an address")?.0.parse()?;
        assert_eq!(cluster.node_at(addr).map(RedisServer::pid), Some(cluster.primary_of(slot).await?.pid()));
    }
    Ok(())
}

#[tokio::test]
async fn a_killed_primary_is_replaced_and_comes_back_as_a_replica() -> Outcome {
    for program in programs("a_killed_primary_is_replaced_and_comes_back_as_a_replica")? {
        let cluster = Cluster::builder().server_options(program).start().await?;
        let old = cluster.primary_of(0).await?;
        old.kill().await?;
        // The other primaries are not affected.
        cluster.primary_of(16_383).await?.observer().await?.cmd(&["SET", "a", "1"]).await?;
        let new = cluster.primary_of(0).await?;
        assert_ne!(new.addr(), old.addr());
        cluster.wait_until_ok().await?;

        old.restart_empty().await?;
        cluster.wait_until_ok().await?;
        let replicas = cluster.replicas_of(new).await?;
        assert_eq!(replicas.iter().map(|replica| replica.addr()).collect::<Vec<_>>(), [old.addr()]);
    }
    Ok(())
}

#[tokio::test]
async fn a_paused_primary_is_replaced_and_continues_as_a_replica() -> Outcome {
    let cluster = Cluster::start(3, 1).await?;
    let old = cluster.primary_of(0).await?;
    old.pause().await?;
    let new = cluster.primary_of(0).await?;
    old.resume().await?;
    cluster.wait_until_ok().await?;
    assert_eq!(cluster.primary_of(0).await?.addr(), new.addr());
    assert_eq!(cluster.replicas_of(new).await?[0].addr(), old.addr());
    Ok(())
}

#[tokio::test]
async fn a_failover_on_request_keeps_the_data() -> Outcome {
    for program in programs("a_failover_on_request_keeps_the_data")? {
        let cluster = Cluster::builder().server_options(program).start().await?;
        let slot = cluster.slot_of("a").await?;
        let old = cluster.primary_of(slot).await?;
        old.observer().await?.cmd(&["SET", "a", "1"]).await?;
        let new = cluster.fail_over(old).await?;
        assert_eq!(new.observer().await?.get("a").await?, Some(1));
        assert_eq!(cluster.replicas_of(new).await?[0].addr(), old.addr());
    }
    let lonely = Cluster::start(1, 0).await?;
    let error = lonely.fail_over(&lonely.nodes()[0]).await.unwrap_err();
    assert!(matches!(error, TopologyError::NoReplica { .. }), "{error}");
    Ok(())
}

#[tokio::test]
async fn a_slot_moves_in_steps() -> Outcome {
    for program in programs("a_slot_moves_in_steps")? {
        let cluster = Cluster::builder().server_options(program.password("p@ss")).start().await?;
        let slot = cluster.slot_of("{x}").await?;
        let from = cluster.primary_of(slot).await?;
        let to = cluster.nodes()[..3].iter().find(|node| node.addr() != from.addr()).ok_or("another primary")?;
        let (old, new) = (from.observer().await?, to.observer().await?);
        for key in ["{x}1", "{x}2", "{x}3"] {
            old.cmd(&["SET", key, key]).await?;
        }
        let error = cluster.move_keys(slot).await.unwrap_err();
        assert!(matches!(error, TopologyError::NotMigrating { slot: reported } if reported == slot), "{error}");

        cluster.begin_migration(slot, to).await?;
        cluster.wait_until_ok().await?;
        assert_eq!(old.get::<String>("{x}1").await?.as_deref(), Some("{x}1"));
        let ask = old.cmd(&["GET", "{x}4"]).await.unwrap_err();
        assert_eq!(
            (ask.code(), ask.redirect_node().map(|(addr, _)| addr)),
            (Some("ASK"), Some(&*to.addr().to_string()))
        );

        assert!(cluster.move_key("{x}1").await?);
        assert!(!cluster.move_key("{x}1").await?);
        assert_eq!(old.cmd(&["GET", "{x}1"]).await.unwrap_err().code(), Some("ASK"));
        new.cmd(&["ASKING"]).await?;
        assert_eq!(new.cmd(&["MGET", "{x}1", "{x}2"]).await.unwrap_err().code(), Some("TRYAGAIN"));
        assert_eq!(new.cmd(&["GET", "{x}1"]).await.unwrap_err().code(), Some("MOVED"));
        assert_eq!(cluster.move_keys(slot).await?, 2);
        assert_eq!(cluster.primary_of(slot).await?.addr(), from.addr());

        cluster.finish_migration(slot).await?;
        assert_eq!(cluster.primary_of(slot).await?.addr(), to.addr());
        assert_eq!(new.get::<String>("{x}3").await?.as_deref(), Some("{x}3"));
        assert_eq!(old.cmd(&["GET", "{x}1"]).await.unwrap_err().code(), Some("MOVED"));

        cluster.migrate_slot(slot, from).await?;
        assert_eq!(old.keys("*").await?, ["{x}1", "{x}2", "{x}3"]);
    }
    Ok(())
}

#[tokio::test]
async fn many_slots_move_at_once() -> Outcome {
    for program in programs("many_slots_move_at_once")? {
        let cluster = Cluster::builder().server_options(program.password("p@ss")).start().await?;
        let (from, to) = (&cluster.nodes()[0], &cluster.nodes()[1]);
        let (old, new) = (from.observer().await?, to.observer().await?);
        // These keys belong to the slots 5, 91 and 1584.
        for key in ["460", "108", "3"] {
            old.cmd(&["SET", key, key]).await?;
        }
        cluster.migrate_slots(0..=99, to, (7, Duration::ZERO)).await?;
        for slot in [0, 50, 99] {
            assert_eq!(cluster.primary_of(slot).await?.addr(), to.addr());
        }
        assert_eq!(cluster.primary_of(100).await?.addr(), from.addr());
        assert_eq!((old.keys("*").await?, new.keys("*").await?), (vec!["3".into()], vec!["108".into(), "460".into()]));
    }
    Ok(())
}

#[tokio::test]
async fn full_coverage_closes_the_cluster_when_a_slot_is_not_served() -> Outcome {
    let cluster = Cluster::builder().replicas_per_primary(0).full_coverage(true).start().await?;
    cluster.nodes()[0].kill().await?;
    let client = cluster.nodes()[2].observer().await?;
    wait_until(SOON, async || {
        client.cmd(&["SET", "a", "1"]).await.is_err_and(|error| error.code() == Some("CLUSTERDOWN"))
    })
    .await;
    Ok(())
}
