//! Shows positions on the globe: distances, and the cities near a position.
//!
//! Run it with `cargo run -p redgrid-examples --example near_me`, for a server at 127.0.0.1:6379 or
//! `REDGRID_URL`.

use std::time::Duration;

use redgrid::Grid;
use redgrid::geo::{Distance, Position};

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let url = std::env::var("REDGRID_URL").unwrap_or_else(|_| "redis://127.0.0.1:6379".into());
    let grid = Grid::connect(&*url).await?;
    let cities = grid.geo::<String>("redgrid-example:cities");
    let places =
        [("Palermo", 13.361_389, 38.115_556), ("Catania", 15.087_269, 37.502_669), ("Rome", 12.496_366, 41.902_782)];
    for (city, longitude, latitude) in places {
        cities.add(city, Position::new(longitude, latitude)?).await?;
    }
    if let Some(apart) = cities.distance("Palermo", "Rome").await? {
        println!("Palermo to Rome: {:.0} km, {:.0} miles", apart.as_kilometers(), apart.as_miles());
    }
    let here = Position::new(15.0, 37.0)?;
    for (city, away) in cities.around(here).within(Distance::kilometers(300.0)).nearest_first().distances().await? {
        println!("{city}: {:.0} km from here", away.as_kilometers());
    }

    cities.clear().await?;
    grid.shutdown(Duration::from_secs(5)).await?;
    Ok(())
}
