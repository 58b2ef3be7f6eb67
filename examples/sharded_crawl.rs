//! Shows a sharded set, Bloom filter and bit set, for a crawl that is too large for one node.
//!
//! Run it with `cargo run -p redgrid-examples --example sharded_crawl`, for a cluster at
//! `REDGRID_URL`, such as `redis-cluster://127.0.0.1:7000`.

use std::time::Duration;

use redgrid::Grid;

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let url = std::env::var("REDGRID_URL").unwrap_or_else(|_| "redis://127.0.0.1:6379".into());
    let grid = Grid::connect(&*url).await?;
    let hosts = grid.sharded_set::<String>("redgrid-example:hosts").with_shards(8);
    let pages = grid.sharded_bloom_filter::<String>("redgrid-example:pages").with_shards(8);
    let done = grid.sharded_bit_set("redgrid-example:done").with_shards(8).with_size(1 << 23);
    pages.try_init(100_000, 0.01).await?;

    // Each call is one step in one part. The value or the index determines the part.
    for (number, (host, page)) in
        [("a.org", "/"), ("b.org", "/"), ("a.org", "/x"), ("a.org", "/")].into_iter().enumerate()
    {
        let new_host = hosts.insert(host).await?;
        if pages.add(&format!("{host}{page}")).await? {
            println!("{host}{page} is fetched{}", if new_host { ", the first of its host" } else { "" });
            done.set(number as u64 * 1_500_000, true).await?; // far apart: in different parts
        }
    }

    // Each of these calls sends a command to every part, all concurrently.
    println!("{} hosts, about {} pages, {} done", hosts.len().await?, pages.count().await?, done.count().await?);
    println!("next: {:?}", done.next_set(1).await?);
    println!("\"a.org\" is in {:?}", hosts.shard_of("a.org").await?.object().name());

    for object in [hosts.object(), pages.object(), done.object()] {
        object.delete().await?;
    }
    grid.shutdown(Duration::from_secs(5)).await?;
    Ok(())
}
