//! The keys of a sale. The namespace of the run is in front of each.

/// What the numbers of orders are taken from, over all products.
pub(crate) const ORDER: &str = "order";

/// A string: how many units are left.
pub(crate) fn stock(product: &str) -> String {
    format!("stock:{product}")
}

/// A list: one [`Entry`](super::books::Entry) for each order, in the order in which they were written.
pub(crate) fn orders(product: &str) -> String {
    format!("orders:{product}")
}

/// A hash: the users who ordered, and the number of the request by which each did.
pub(crate) fn buyers(product: &str) -> String {
    format!("buyers:{product}")
}

/// The lock under which an order is made.
pub(crate) fn lock(product: &str) -> String {
    format!("lock:{product}")
}

/// Everything a sale of these products leaves behind, but for the counters of the numbers of orders.
pub(crate) fn all<'a>(products: impl IntoIterator<Item = &'a str>) -> Vec<String> {
    let of_each = |product| [stock(product), orders(product), buyers(product), lock(product)];
    products.into_iter().flat_map(of_each).collect()
}
