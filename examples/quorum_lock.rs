//! Shows one lock over several independent servers, of which a majority decides.
//!
//! Run it with `cargo run -p redgrid-examples --example quorum_lock`, and the URLs of the servers
//! in `REDGRID_QUORUM`, separated by commas.

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

    // Needed once, when the servers are new. Without it, new servers do not vote for a minute.
    let new = quorum.bootstrap().await?;
    println!("the servers were {}", if new { "new, and vote from now on" } else { "marked before" });

    let guard = quorum.lock(NAME).fenced().acquire().timeout(Duration::from_secs(90)).await?;
    println!("held by {} of {} servers, with token {:?}", guard.votes(), clients.len(), guard.token().map(u64::from));
    println!("another one finds it {:?}", quorum.lock(NAME).try_acquire().await?.map(|_| "free: this must not happen"));

    // The work is dropped as soon as a majority is not certain any more.
    let done = guard.run(async { "the work that only one may do" }).await?;
    println!("did {done}");
    guard.release().await?;

    for client in clients {
        client.shutdown(Duration::from_secs(5)).await?;
    }
    Ok(())
}
