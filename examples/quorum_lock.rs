//! One lock over several independent servers, of which a majority decides.
//!
//! `REDGRID_QUORUM=redis://10.0.0.1:6379,redis://10.0.0.2:6379,redis://10.0.0.3:6379 cargo run -p redgrid-examples --example quorum_lock`

use std::error::Error;
use std::time::Duration;

use redgrid::Client;
use redgrid::locks::Quorum;

const NAME: &str = "redgrid-example:quorum";

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    let Ok(urls) = std::env::var("REDGRID_QUORUM") else {
        println!("REDGRID_QUORUM names three servers or more, separated by commas, that know nothing of each other");
        return Ok(());
    };
    let mut clients = Vec::new();
    for url in urls.split(',') {
        clients.push(Client::connect(url).await?);
    }
    let quorum = Quorum::new(clients.clone())?;

    // Once, when the servers are new. Without it they abstain until a minute has passed.
    let new = quorum.bootstrap().await?;
    println!("the servers were {}", if new { "new, and vote from now on" } else { "marked before" });

    let guard = quorum.lock(NAME).fenced().acquire().timeout(Duration::from_secs(90)).await?;
    println!("held by {} of {} servers, with token {:?}", guard.votes(), clients.len(), guard.token().map(u64::from));
    println!("another one finds it {:?}", quorum.lock(NAME).try_acquire().await?.map(|_| "free: this must not happen"));

    // Dropped at once when a majority may be believed no more.
    let done = guard.run(async { "the work that only one may do" }).await?;
    println!("did {done}");
    guard.release().await?;

    for client in clients {
        client.shutdown(Duration::from_secs(5)).await?;
    }
    Ok(())
}
