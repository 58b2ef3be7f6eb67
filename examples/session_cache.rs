//! A map cache: sessions that end an hour after their beginning, or when nobody has used them for ten minutes.
//!
//! `cargo run -p redgrid-examples --example session_cache`

use std::time::Duration;

use redgrid::Grid;
use redgrid::cache::{Limit, Notice};

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let url = std::env::var("REDGRID_URL").unwrap_or_else(|_| "redis://127.0.0.1:6379".into());
    let grid = Grid::connect(&*url).await?;
    let minutes = |minutes: u64| Duration::from_secs(60 * minutes);

    // A thousand at most: who has not come for longest goes first.
    let sessions = grid.map_cache::<String, String>("redgrid-example:sessions");
    sessions.set_limit(Limit::least_recently_used(1000)).await?;
    let mut events = sessions.events().begin().await?;

    sessions.set("4711", &"ada".to_owned()).expires_in(minutes(60)).idle_for(minutes(10)).await?;
    println!("4711 is {:?}, for {:?}", sessions.get("4711").await?, sessions.lifetime("4711").await?);

    // Another value lives as long as the one before; a look is no use of it.
    sessions.replace("4711", &"ada lovelace".to_owned()).await?;
    println!("4711 is {:?}", sessions.peek("4711").await?);

    // One that is over before we look again.
    sessions.set("4712", &"bob".to_owned()).expires_in(Duration::from_millis(1)).await?;
    while sessions.get("4712").await?.is_some() {}
    println!("{} session", sessions.len().await?);
    sessions.remove("4711").await?;

    for _ in 0..5 {
        match tokio::time::timeout(Duration::from_secs(5), events.next()).await? {
            Some(Notice::Event(event)) => println!("{event:?}"),
            Some(other) => println!("look for yourself: {other:?}"),
            None => break,
        }
    }
    sessions.object().delete().await?;
    grid.shutdown(Duration::from_secs(5)).await?;
    Ok(())
}
