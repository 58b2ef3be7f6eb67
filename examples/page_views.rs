//! Shows adders: two services count page views in memory without requests, and sum them over both.
//!
//! Two clients represent two services. Each saves its count every second and when it ends, so that
//! its views are kept.
//!
//! Run it with `cargo run -p redgrid-examples --example page_views`, for a server at 127.0.0.1:6379
//! or `REDGRID_URL`.

use std::time::Duration;

use redgrid::Grid;
use redgrid::atomic_long::AdderError;

const NAME: &str = "redgrid-example:page_views";

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let url = std::env::var("REDGRID_URL").unwrap_or_else(|_| "redis://127.0.0.1:6379".into());
    let services = [Grid::connect(&*url).await?, Grid::connect(&*url).await?];
    let views = [
        services[0].long_adder(NAME).saving(Duration::from_secs(1))?,
        services[1].long_adder(NAME).saving(Duration::from_secs(1))?,
    ];
    for views in &views {
        // After this call, sums include this service.
        views.ready().await?;
    }
    views[0].reset().await?;

    let visitors = views.clone().map(|views| tokio::spawn(async move { (0..100_000).for_each(|_| views.increment()) }));
    for visitor in visitors {
        visitor.await?;
    }
    println!("{} views", views[0].sum().await?);

    // One service shuts down: its count is saved.
    services[1].shutdown(Duration::from_secs(5)).await?;
    views[0].add(1);
    match views[0].sum().timeout(Duration::from_secs(2)).await {
        Ok(sum) => println!("{sum} views, also without the second service"),
        Err(AdderError::Partial { answered, expected, so_far, .. }) => {
            println!("{so_far} views, from {answered} of {expected} services");
        }
        Err(error) => return Err(error.into()),
    }
    views[0].reset().await?;
    services[0].command("DEL").key(format!("redgrid_adder:{{{NAME}}}"))?.query::<u64>().await?;
    services[0].shutdown(Duration::from_secs(5)).await?;
    Ok(())
}
