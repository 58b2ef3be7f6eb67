//! Shows a phaser: no builder begins a step before all have finished the previous one, and builders
//! may leave.
//!
//! Run it with `cargo run -p redgrid-examples --example phaser_steps`, for a server at
//! 127.0.0.1:6379 or `REDGRID_URL`.

use std::error::Error;
use std::time::Duration;

use redgrid::Grid;
use redgrid::barrier::{Party, PhaserError};

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    let url = std::env::var("REDGRID_URL").unwrap_or_else(|_| "redis://127.0.0.1:6379".into());
    let grid = Grid::connect(url.as_str()).await?;
    // The name is unique to this run: a phaser terminates when its last party leaves.
    let phaser = grid.phaser(format!("redgrid-example:build:{}", std::process::id()));

    // All parties register together, so the first step cannot end before all are registered.
    let builders = phaser.bulk_register(3).await?;
    let builders: Vec<_> = builders.into_iter().zip(1..).map(|(party, n)| tokio::spawn(build(party, n))).collect();

    // An observer does not register.
    for phase in 0.. {
        match phaser.wait_advance(phase).timeout(Duration::from_secs(30)).await {
            Ok(_) => println!("watching: step {phase} is over"),
            Err(PhaserError::Terminated { .. }) => break, // all parties have left
            Err(error) => return Err(error.into()),
        }
    }
    for builder in builders {
        builder.await?.map_err(|error| error.to_string())?;
    }
    println!("ended: {}", phaser.state().await?.is_terminated);
    phaser.reset().await?;
    grid.shutdown(Duration::from_secs(5)).await?;
    Ok(())
}

async fn build(party: Party, n: u32) -> Result<(), Box<dyn Error + Send + Sync>> {
    for step in ["fetch", "compile"] {
        tokio::time::sleep(Duration::from_millis(60) * n).await;
        println!("builder {n}: {step}");
        party.arrive_and_wait().timeout(Duration::from_secs(30)).await?;
    }
    println!("builder {n}: test");
    party.arrive_and_deregister().await?;
    Ok(())
}
