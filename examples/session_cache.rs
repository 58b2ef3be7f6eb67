//! Shows a map cache: sessions end an hour after their start, or after ten minutes without use.
//!
//! Run it with `cargo run -p redgrid-examples --example session_cache`, for a server at
//! 127.0.0.1:6379 or `REDGRID_URL`.

use std::time::Duration;

use redgrid::Grid;
use redgrid::cache::{Limit, Notice};

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let url = std::env::var("REDGRID_URL").unwrap_or_else(|_| "redis://127.0.0.1:6379".into());
    let grid = Grid::connect(&*url).await?;
    let minutes = |minutes: u64| Duration::from_secs(60 * minutes);

    // The cache has at most a thousand sessions; the least recently used one is removed first.
    let sessions = grid.map_cache::<String, String>("redgrid-example:sessions");
    sessions.set_limit(Limit::least_recently_used(1000)).await?;
    let mut events = sessions.events().begin().await?;

    sessions.set("4711", &"ada".to_owned()).expires_in(minutes(60)).idle_for(minutes(10)).await?;
    println!("4711 is {:?}, for {:?}", sessions.get("4711").await?, sessions.lifetime("4711").await?);

    // A new value keeps the lifetime of the old one. `peek` does not count as use.
    sessions.replace("4711", &"ada lovelace".to_owned()).await?;
    println!("4711 is {:?}", sessions.peek("4711").await?);

    // This session ends before the next call.
    sessions.set("4712", &"bob".to_owned()).expires_in(Duration::from_millis(1)).await?;
    while sessions.get("4712").await?.is_some() {}
    println!("{} session", sessions.len().await?);
    sessions.remove("4711").await?;

    for _ in 0..5 {
        match tokio::time::timeout(Duration::from_secs(5), events.next()).await? {
            Some(Notice::Event(event)) => println!("{event:?}"),
            Some(other) => println!("events may be missing: {other:?}"),
            None => break,
        }
    }
    sessions.object().delete().await?;
    grid.shutdown(Duration::from_secs(5)).await?;
    Ok(())
}
