//! The objects of a sale, and their keys. The namespace of the run is the prefix of each key.

use redgrid::codecs::{Long, Text};
use redgrid::{Bucket, Grid, Map};

/// The generator of order numbers, for all products.
pub(crate) const ORDER: &str = "order";

/// Returns the number of units left.
pub(crate) fn stock(grid: &Grid, product: &str) -> Bucket<i64, Long> {
    grid.bucket_with(stock_key(product), Long)
}

fn stock_key(product: &str) -> String {
    format!("stock:{product}")
}

/// Returns the key of a list with one [`Entry`](super::books::Entry) per order, in the order of
/// writing.
pub(crate) fn orders(product: &str) -> String {
    format!("orders:{product}")
}

/// Returns the map from each user with an order to the number of the user's request.
pub(crate) fn buyers(grid: &Grid, product: &str) -> Map<String, u64, Text, Long> {
    grid.map_with(buyers_key(product), Text, Long)
}

fn buyers_key(product: &str) -> String {
    format!("buyers:{product}")
}

/// Returns the name of the lock around an order.
pub(crate) fn lock(product: &str) -> String {
    format!("lock:{product}")
}

/// Returns all keys of a sale of these products, except the counters of order numbers.
pub(crate) fn all<'a>(products: impl IntoIterator<Item = &'a str>) -> Vec<String> {
    let of_each = |product| [stock_key(product), orders(product), buyers_key(product), lock(product)];
    products.into_iter().flat_map(of_each).collect()
}
