//! Shows a lexicographically sorted set, which completes words as they are typed.
//!
//! Run it with `cargo run -p redgrid-examples --example word_completion`, for a server at
//! 127.0.0.1:6379 or `REDGRID_URL`.

use std::time::Duration;

use redgrid::Grid;

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let url = std::env::var("REDGRID_URL").unwrap_or_else(|_| "redis://127.0.0.1:6379".into());
    let grid = Grid::connect(&*url).await?;
    let words = grid.lex_sorted_set("redgrid-example:words");
    words.insert_many(["latch", "lease", "list", "lock", "locker", "locket", "map"]).await?;

    // All words with a prefix are one range of the set. The server finds both ends of the range.
    for typed in ["l", "lock"] {
        let completions = || words.by_value(typed.to_owned()..format!("{typed}{}", char::MAX));
        let offered = completions().limit(0, 3).values().await?;
        println!("{typed}…: {offered:?} of {}", completions().count().await?);
    }
    println!("before \"list\": {:?}; the last: {:?}", words.rank("list").await?, words.last().await?);
    println!("up to \"list\", backwards: {:?}", words.by_value(..="list".to_owned()).rev().values().await?);
    println!("{} from \"m\" on are removed", words.by_value("m".to_owned()..).remove().await?);

    words.clear().await?;
    grid.shutdown(Duration::from_secs(5)).await?;
    Ok(())
}
