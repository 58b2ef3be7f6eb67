//! Shows a reliable topic: a subscriber receives every order, even those published while its
//! process was down.
//!
//! Run it with `cargo run -p redgrid-examples --example order_events`, for a server at
//! 127.0.0.1:6379 or `REDGRID_URL`.

use std::time::Duration;

use redgrid::Grid;

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let url = std::env::var("REDGRID_URL").unwrap_or_else(|_| "redis://127.0.0.1:6379".into());
    let grid = Grid::connect(&*url).await?;
    let orders = grid.reliable_topic::<String>("redgrid-example:orders");

    let mut mail = orders.subscribe().as_subscriber("mail").await?;
    orders.publish("order 17").await?;
    if let Some(Ok(delivery)) = mail.next().await
        && let Ok(order) = delivery.message()
    {
        println!("{order} is read, and not handled");
    }
    // The subscriber's process ends. Another process continues as the same subscriber.
    drop(mail);

    let mut mail = orders.subscribe().as_subscriber("mail").await?;
    match mail.next().await {
        Some(Ok(delivery)) => {
            match delivery.message() {
                Ok(order) => println!("{order} is handled"),
                Err(error) => println!("{error}"),
            }
            delivery.ack().await?;
        }
        Some(Err(error)) => println!("{error}"),
        None => println!("the client has ended"),
    }
    println!("{} are kept", orders.len().await?);

    mail.leave().await?;
    orders.object().delete().await?;
    grid.shutdown(Duration::from_secs(5)).await?;
    Ok(())
}
