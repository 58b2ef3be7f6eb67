//! Shows a Bloom filter that remembers visited pages with ten bits for each.
//!
//! Run it with `cargo run -p redgrid-examples --example crawler`, for a server at 127.0.0.1:6379 or
//! `REDGRID_URL`.

use std::time::Duration;

use redgrid::Grid;

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let url = std::env::var("REDGRID_URL").unwrap_or_else(|_| "redis://127.0.0.1:6379".into());
    let grid = Grid::connect(&*url).await?;
    let seen = grid.bloom_filter::<String>("redgrid-example:seen");
    seen.try_init(100_000, 0.01).await?;

    for page in ["/", "/docs", "/docs", "/about", "/"] {
        // `true` is certain. One in a hundred new pages is reported as already visited.
        match seen.add(page).await? {
            true => println!("{page} is fetched"),
            false => println!("{page} was seen before"),
        }
    }
    let config = seen.config().await?.expect("it was made above");
    println!("about {} pages in {} bytes", seen.count().await?, config.size / 8);

    seen.object().delete().await?;
    grid.shutdown(Duration::from_secs(5)).await?;
    Ok(())
}
