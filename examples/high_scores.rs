//! Shows three kinds of sets: players of the day, the best scores, and events in the order of their
//! times.
//!
//! Run it with `cargo run -p redgrid-examples --example high_scores`, for a server at
//! 127.0.0.1:6379 or `REDGRID_URL`.

use std::time::Duration;

use redgrid::Grid;
use redgrid::set::Only;

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let url = std::env::var("REDGRID_URL").unwrap_or_else(|_| "redis://127.0.0.1:6379".into());
    let grid = Grid::connect(&*url).await?;

    // Each player is in the set once. Names with the same text in braces share a slot, so the
    // server can combine the sets.
    let today = grid.set::<String>("redgrid-example:{game}:today");
    let friends = grid.set::<String>("redgrid-example:{game}:friends");
    for player in ["ada", "bob", "ada", "eve"] {
        println!("{player} is new today: {}", today.insert(player).await?);
    }
    friends.insert_many(["eve", "ada", "zoe"]).await?;
    let mut both = today.intersection(["redgrid-example:{game}:friends"]).values().await?;
    both.sort();
    println!("friends who play today: {both:?}");

    // The server keeps the order, and returns ranks.
    let scores = grid.scored_sorted_set::<String>("redgrid-example:{game}:scores");
    scores.insert_many([("ada", 310.0), ("bob", 250.0), ("eve", 290.0)]).await?;
    println!("better than before: {}", scores.insert_if(Only::Higher, "bob", 240.0).await?);
    println!(
        "bob has {} now, and {:?} are better",
        scores.add_score("bob", 50.0).await?,
        scores.rev_rank("bob").await?
    );
    println!("the best: {:?}", scores.by_rank(..2).rev().entries().await?);
    println!("below 300: {}", scores.by_score(..300.0).count().await?);

    // Sorted by value: a time, and the event at that time.
    let due = grid.sorted_set::<(u64, String)>("redgrid-example:{game}:due");
    for (second, what) in [(90, "end"), (30, "half time"), (5, "warm-up")] {
        due.insert(&(second, what.to_owned())).await?;
    }
    let now = due.by_value(..(31, String::new())).values().await?;
    println!("due by second 30: {now:?}; next: {:?}", due.pop_first().await?);

    for cleared in [today.clear().await?, friends.clear().await?, scores.clear().await?, due.clear().await?] {
        assert!(cleared);
    }
    grid.shutdown(Duration::from_secs(5)).await?;
    Ok(())
}
