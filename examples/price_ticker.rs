//! Shows topics: prices are published to the subscribers of one product, and to those of all
//! products.
//!
//! Run it with `cargo run -p redgrid-examples --example price_ticker`, for a server at
//! 127.0.0.1:6379 or `REDGRID_URL`.

use std::time::Duration;

use redgrid::Grid;
use redgrid::topic::SubscriptionError;

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let url = std::env::var("REDGRID_URL").unwrap_or_else(|_| "redis://127.0.0.1:6379".into());
    let grid = Grid::connect(&*url).await?;
    let tea = grid.topic::<u32>("redgrid-example:price:tea");
    let coffee = grid.topic::<u32>("redgrid-example:price:coffee");

    // The server has confirmed the subscription: messages published from here on are received.
    let mut of_tea = tea.subscribe().await?;
    let mut of_all = grid.pattern_topic::<u32>("redgrid-example:price:*").subscribe().await?;

    println!("{} receive tea, {} receive coffee", tea.publish(&310).await?, coffee.publish(&420).await?);

    for heard in [&mut of_tea, &mut of_all] {
        match heard.next().await {
            Some(Ok(message)) => println!("{} is {}", message.channel, message.value),
            Some(Err(SubscriptionError::Gap(why))) => println!("read the current price: {why:?}"),
            Some(Err(error)) => println!("{error}"),
            None => println!("the client has ended"),
        }
    }

    grid.shutdown(Duration::from_secs(5)).await?;
    Ok(())
}
