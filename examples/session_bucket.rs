//! Shows a value with a lifetime: many tasks change a session concurrently without a lock, and no
//! change is lost.
//!
//! Run it with `cargo run -p redgrid-examples --example session_bucket`, for a server at
//! 127.0.0.1:6379 or `REDGRID_URL`.

use std::time::Duration;

use redgrid::Grid;
use serde::{Deserialize, Serialize};

#[derive(Debug, Serialize, Deserialize)]
struct Session {
    user: String,
    visits: u32,
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let url = std::env::var("REDGRID_URL").unwrap_or_else(|_| "redis://127.0.0.1:6379".into());
    let grid = Grid::connect(&*url).await?;
    let session = grid.bucket::<Session>("redgrid-example:session:42");
    let new = Session { user: "ada".into(), visits: 0 };
    session.set(&new).expires_in(Duration::from_secs(30 * 60)).await?;

    // No change is lost, even if other processes change the value at the same time. The lifetime is
    // kept.
    let visits = (0..10).map(|_| {
        let session = session.clone();
        tokio::spawn(async move { session.update(|session| session.visits += 1).await })
    });
    for visit in visits.collect::<Vec<_>>() {
        visit.await??;
    }
    println!("{:?}, {:?}", session.get().await?, session.object().lifetime().await?);

    if let Some(last) = session.get_and_delete().await? {
        println!("{} has left after {} visits", last.user, last.visits);
    }

    // Reads or writes many values with one request for each slot.
    let (all, names) =
        (grid.buckets::<Session>(), ["bob", "eve"].map(|user| format!("redgrid-example:session:{user}")));
    all.set_each(names.iter().map(|name| (name, &new))).await?;
    println!("{} are here", all.get_each(&names).await?.len());
    println!("{} have left", all.delete_each(&names).await?);
    grid.shutdown(Duration::from_secs(5)).await?;
    Ok(())
}
