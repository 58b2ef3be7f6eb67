//! Shows sharded topics: a cluster sends the messages of a room only to the nodes of that room's
//! slot.
//!
//! Run it with `cargo run -p redgrid-examples --example chat_rooms`, for servers of Redis 7.0 or
//! newer at `REDGRID_URL`, such as `redis-cluster://127.0.0.1:7000`.

use std::time::Duration;

use redgrid::Grid;
use redgrid::topic::SubscriptionError;

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let url = std::env::var("REDGRID_URL").unwrap_or_else(|_| "redis://127.0.0.1:6379".into());
    let grid = Grid::connect(&*url).await?;
    let rooms = ["rust", "redis"].map(|room| grid.sharded_topic::<String>(format!("redgrid-example:room:{room}")));

    let mut heard = Vec::new();
    for room in &rooms {
        heard.push(room.subscribe().await?); // receives messages from here on
    }
    for room in &rooms {
        room.publish(&format!("hello, {}", room.channel()?)).await?;
    }

    for of_room in &mut heard {
        match of_room.next().await {
            Some(Ok(message)) => println!("{}: {}", message.channel, message.value),
            Some(Err(SubscriptionError::Gap(why))) => println!("something may have been said: {why:?}"),
            Some(Err(error)) => println!("{error}"),
            None => println!("the client has ended"),
        }
    }
    println!("{} hears of {}", rooms[0].count_subscribers().await?, rooms[0].channel()?);

    grid.shutdown(Duration::from_secs(5)).await?;
    Ok(())
}
