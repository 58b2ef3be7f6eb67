//! Shows a native map cache: login codes that the server itself deletes after five minutes.
//!
//! Run it with `cargo run -p redgrid-examples --example login_codes`, for a server at
//! 127.0.0.1:6379 or `REDGRID_URL`: Redis 7.4, Valkey 9 or newer.

use std::time::Duration;

use redgrid::Grid;
use redgrid::object::ObjectError;

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let url = std::env::var("REDGRID_URL").unwrap_or_else(|_| "redis://127.0.0.1:6379".into());
    let grid = Grid::connect(&*url).await?;
    let codes = grid.native_map_cache::<String, u32>("redgrid-example:login-codes");

    match codes.set("ada", &271_828).expires_in(Duration::from_secs(300)).await {
        Err(ObjectError::Unsupported { .. }) => println!("this server has no lifetimes of fields: use a `MapCache`"),
        result => {
            result?;
            println!("ada's code is {:?}, for {:?}", codes.get("ada").await?, codes.lifetime("ada").await?);

            // Comparing and removing is one step: of two concurrent attempts with the correct code,
            // one succeeds.
            for guess in [314_159, 271_828, 271_828] {
                println!("{guess}: {}", codes.compare_and_remove("ada", &guess).await?);
            }
        }
    }

    codes.clear().await?;
    grid.shutdown(Duration::from_secs(5)).await?;
    Ok(())
}
