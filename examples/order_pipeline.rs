//! Shows a reliable queue: failed orders are retried, impossible ones become dead letters, and no
//! order is lost if a worker dies.
//!
//! Run it with `cargo run -p redgrid-examples --example order_pipeline`, for a server at
//! 127.0.0.1:6379 or `REDGRID_URL`.

use std::time::Duration;

use redgrid::reliable_queue::{Delivery, QueueError, QueueSettings, codecs::Json};
use redgrid::{Grid, ReliableQueue};
use serde::{Deserialize, Serialize};

#[derive(Serialize, Deserialize)]
struct Order {
    id: u32,
    pieces: i32,
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let url = std::env::var("REDGRID_URL").unwrap_or_else(|_| "redis://127.0.0.1:6379".into());
    let grid = Grid::connect(&*url).await?;
    let orders = grid.reliable_queue::<Order>("redgrid-example:orders");
    // The settings apply to all processes; the process that sets them first decides.
    let settings =
        QueueSettings { max_attempts: Some(3), visibility: Some(Duration::from_secs(10)), ..Default::default() };
    orders.try_set_settings(&settings).await?;

    for id in 1..=6 {
        let order = Order { id, pieces: if id == 4 { -1 } else { 2 } };
        // A repeated push does not create a second order.
        orders.push(&order).deduplicate(format!("order-{id}")).priority(u8::from(id == 6)).await?;
    }
    let workers: Vec<_> = (1..=2).map(|worker| tokio::spawn(work(worker, orders.clone()))).collect();
    for worker in workers {
        worker.await??;
    }

    let counts = orders.counts().await?;
    println!("{} done, {} dead", counts.totals.acknowledged, counts.dead);
    // After the cause is corrected, dead letters can be processed again.
    println!("{} are tried again", orders.dead().redrive().await?);
    orders.object().delete().await?;
    grid.shutdown(Duration::from_secs(5)).await?;
    Ok(())
}

/// Works until the queue has been empty for a while.
async fn work(worker: u32, orders: ReliableQueue<Order>) -> Result<(), QueueError> {
    loop {
        let some = orders.receive_many(2).timeout(Duration::from_millis(500)).await?;
        if some.is_empty() {
            return Ok(());
        }
        for delivery in some {
            handle(worker, &delivery).await?;
        }
    }
}

async fn handle(worker: u32, delivery: &Delivery<Order, Json>) -> Result<(), QueueError> {
    let Ok(order) = delivery.value() else { return delivery.reject("cannot be decoded").await };
    if order.pieces < 0 {
        return delivery.reject("fewer than no pieces").await;
    }
    if order.id == 2 && delivery.attempt() == 1 {
        println!("worker {worker}: order {} is tried again in a moment", order.id);
        return delivery.nack(Duration::from_millis(100)).await;
    }
    println!("worker {worker}: order {} has {} pieces (attempt {})", order.id, order.pieces, delivery.attempt());
    delivery.ack().await
}
