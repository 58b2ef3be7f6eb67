//! Shows a configuration from a file, with environment variables that take precedence.
//!
//! Run it with `cargo run -p redgrid-examples --example config_file`, for example with
//! `REDGRID_RESPONSE_TIMEOUT=1s REDGRID_URL=redis://127.0.0.1:6379`.

use std::error::Error;
use std::path::Path;
use std::time::Duration;

use redgrid::{Config, Grid};

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    // A service calls `Config::from_env()`. This program has a default file, unless
    // `REDGRID_CONFIG` names another one. `REDGRID_URL` and `REDGRID_<SETTING>` take precedence.
    let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("data/redgrid.yaml");
    let named = std::env::vars().any(|(name, value)| name == "REDGRID_CONFIG" && !value.is_empty());
    let config = match named {
        true => Config::from_env()?,
        false => {
            Config::from_variables(std::env::vars().chain([("REDGRID_CONFIG".to_owned(), file.display().to_string())]))?
        }
    };

    println!("servers of kind `{}`", config.topology());
    for one in config.explain() {
        if one.value != one.default {
            println!("  {} = {}, from {}", one.name, one.value.as_deref().unwrap_or("none"), one.origin);
        }
    }
    for warning in config.warnings() {
        println!("  has no effect: {warning}");
    }

    let grid = Grid::connect(config).await?;
    let guard = grid.lock("config-file").acquire().timeout(Duration::from_secs(2)).await?;
    println!("acquired, token {}", guard.token());
    guard.release().await?;
    grid.shutdown(Duration::from_secs(5)).await?;
    Ok(())
}
