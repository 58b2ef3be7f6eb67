//! The objects of a sale, and their keys. The namespace of the run is in front of each.

use redgrid::codecs::{Long, Text};
use redgrid::{Bucket, Grid, Map};

/// What the numbers of orders are taken from, over all products.
pub(crate) const ORDER: &str = "order";

/// How many units are left.
pub(crate) fn stock(grid: &Grid, product: &str) -> Bucket<i64, Long> {
    grid.bucket_with(stock_key(product), Long)
}

fn stock_key(product: &str) -> String {
    format!("stock:{product}")
}

/// A list: one [`Entry`](super::books::Entry) for each order, in the order in which they were written.
pub(crate) fn orders(product: &str) -> String {
    format!("orders:{product}")
}

/// The users who ordered, and the number of the request by which each did.
pub(crate) fn buyers(grid: &Grid, product: &str) -> Map<String, u64, Text, Long> {
    grid.map_with(buyers_key(product), Text, Long)
}

fn buyers_key(product: &str) -> String {
    format!("buyers:{product}")
}

/// The lock under which an order is made.
pub(crate) fn lock(product: &str) -> String {
    format!("lock:{product}")
}

/// Everything a sale of these products leaves behind, but for the counters of the numbers of orders.
pub(crate) fn all<'a>(products: impl IntoIterator<Item = &'a str>) -> Vec<String> {
    let of_each = |product| [stock_key(product), orders(product), buyers_key(product), lock(product)];
    products.into_iter().flat_map(of_each).collect()
}
