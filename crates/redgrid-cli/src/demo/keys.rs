//! The keys of a sale. The namespace of the run is in front of each.

/// Number of the last order, over all products.
pub(crate) const LAST_ORDER: &str = "last-order";

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

/// Everything a sale of these products leaves behind.
pub(crate) fn all<'a>(products: impl IntoIterator<Item = &'a str>) -> Vec<String> {
    let mut keys = vec![LAST_ORDER.to_owned()];
    keys.extend(
        products.into_iter().flat_map(|product| [stock(product), orders(product), buyers(product), lock(product)]),
    );
    keys
}
