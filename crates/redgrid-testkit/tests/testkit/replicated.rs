//! A primary and its replicas.

use crate::support::{Outcome, programs};
use redgrid_testkit::{Observer, Replicated, StartError, wait_until};

const SOON: std::time::Duration = std::time::Duration::from_secs(60);

#[tokio::test]
async fn replicas_have_caught_up_and_refuse_writes() -> Outcome {
    for program in programs("replicas_have_caught_up_and_refuse_writes")? {
        // The start runs on its own task: this checks that its future is `Send`.
        let deployment = tokio::spawn(Replicated::start_with(2, program.password("p@ss \"word\""))).await??;
        assert_eq!((deployment.replicas().len(), deployment.addrs().len()), (2, 3));
        Observer::connect(&deployment.primary().url()).await?.cmd(&["SET", "a", "1"]).await?;
        for replica in deployment.replicas() {
            let client = Observer::connect(&replica.url()).await?;
            wait_until(SOON, async || client.get("a").await == Ok(Some(1))).await;
            assert_eq!(client.cmd(&["SET", "a", "2"]).await.unwrap_err().code(), Some("READONLY"));
        }
    }
    Ok(())
}

#[tokio::test]
async fn a_killed_primary_and_a_killed_replica_have_their_roles_again() -> Outcome {
    let deployment = Replicated::start(1).await?;
    let replica = &deployment.replicas()[0];
    deployment.primary().observer().await?.cmd(&["SET", "a", "1"]).await?;
    replica.restart_empty().await?;
    deployment.wait_until_ok().await?;
    assert!(replica.observer().await?.exists("a").await?);

    deployment.primary().kill().await?;
    assert!(!deployment.primary().is_running() && replica.is_running());
    assert!(replica.observer().await?.exists("a").await?, "a replica keeps its data");
    deployment.primary().restart_empty().await?;
    deployment.primary().observer().await?.cmd(&["SET", "b", "1"]).await?;
    deployment.wait_until_ok().await?;
    wait_until(SOON, async || replica.observer().await.unwrap().keys("*").await.unwrap() == ["b"]).await;
    Ok(())
}

#[tokio::test]
async fn servers_that_cannot_start_are_reported() -> Outcome {
    let options = redgrid_testkit::RedisServer::builder().config("no-such-option yes");
    let error = Replicated::start_with(1, options).await.unwrap_err();
    assert!(matches!(&error, StartError::Exited { log } if log.contains("no-such-option")), "{error}");
    Ok(())
}
