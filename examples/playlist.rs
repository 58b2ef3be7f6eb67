//! Shows lists: songs that many processes change, read page by page, and scores that the server
//! sorts.
//!
//! Run it with `cargo run -p redgrid-examples --example playlist`, for a server at 127.0.0.1:6379
//! or `REDGRID_URL`.

use std::time::Duration;

use redgrid::codecs::Long;
use redgrid::{Grid, ObjectError};

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let url = std::env::var("REDGRID_URL").unwrap_or_else(|_| "redis://127.0.0.1:6379".into());
    let grid = Grid::connect(&*url).await?;
    let songs = grid.list::<String>("redgrid-example:playlist");
    songs.clear().await?;
    let album: Vec<String> = (1..=1000).map(|n| format!("song {n}")).collect();
    songs.push_many(&album).await?;

    // Each change is one atomic step.
    songs.insert(1, "a wish").await?;
    println!("out: {}", songs.remove_at(500).await?);
    println!("next: {:?}", songs.range(..3).await?);
    match songs.remove_at(5000).await {
        Err(ObjectError::OutOfBounds { index, len, .. }) => println!("no song {index}: there are {len}"),
        other => println!("{other:?}"),
    }

    // One page is in memory at a time.
    let (mut all, mut letters) = (songs.stream(), 0);
    while let Some(song) = all.try_next().await? {
        letters += song.len();
    }
    println!("{letters} letters in {} titles", songs.len().await?);

    // The server sorts these numbers.
    let scores = grid.list_with::<i64, _>("redgrid-example:scores", Long);
    scores.clear().await?;
    scores.push_many(&[20, 70, 10, 90]).await?;
    scores.update_at(0, |score| *score += 60).await?;
    println!("best: {:?}", scores.sort().descending().limit(0, 2).await?);

    songs.clear().await?;
    scores.clear().await?;
    grid.shutdown(Duration::from_secs(5)).await?;
    Ok(())
}
