//! Shows a map as a cache of a table: prices are loaded on demand, and changes are written to the
//! table later.
//!
//! Run it with `cargo run -p redgrid-examples --example price_cache`, for a server at
//! 127.0.0.1:6379 or `REDGRID_URL`.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use redgrid::Grid;
use redgrid::map::{Loader, StoreError, WriteBehind, Writer, async_trait};

/// Represents a database table.
#[derive(Clone, Default)]
struct Table(Arc<Mutex<BTreeMap<String, u64>>>);

#[async_trait]
impl Loader<String, u64> for Table {
    async fn load(&self, product: &String) -> Result<Option<u64>, StoreError> {
        println!("the table loads {product}");
        Ok(self.0.lock().unwrap().get(product).copied())
    }
}

#[async_trait]
impl Writer<String, u64> for Table {
    async fn write(&self, prices: &[(String, u64)]) -> Result<(), StoreError> {
        println!("the table gets {prices:?}");
        self.0.lock().unwrap().extend(prices.iter().cloned());
        Ok(())
    }

    async fn delete(&self, products: &[String]) -> Result<(), StoreError> {
        self.0.lock().unwrap().retain(|product, _| !products.contains(product));
        Ok(())
    }
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let url = std::env::var("REDGRID_URL").unwrap_or_else(|_| "redis://127.0.0.1:6379".into());
    let grid = Grid::connect(url.as_str()).await?;
    let table = Table::default();
    table.0.lock().unwrap().insert("P0001".into(), 100);

    let prices = grid.map::<String, u64>("redgrid-example:prices");
    prices.clear().await?;
    let backed = prices
        .backed()
        .loader(table.clone())
        .writer(table.clone())
        .write_behind(WriteBehind { delay: Duration::from_millis(200), ..WriteBehind::default() })
        .on_loss(|loss| eprintln!("the table will not have {:?}: {}", loss.keys, loss.error))
        .build()?;
    for _ in 0..3 {
        println!("P0001 costs {:?}", backed.get(&"P0001".to_owned()).await?);
    }
    for price in 101..=110 {
        backed.set("P0001".to_owned(), price).await?;
    }
    // The shutdown writes the pending changes. Ten changes of one price are combined into one
    // write.
    grid.shutdown(Duration::from_secs(5)).await?;
    Grid::connect(url.as_str()).await?.map::<String, u64>("redgrid-example:prices").clear().await?;
    assert_eq!(table.0.lock().unwrap()["P0001"], 110);
    Ok(())
}
