//! Verifies whether a sale was correct, from its requests and the server's data after it.

use std::collections::{HashMap, HashSet};

use super::books::Books;
use super::report::grouped;
use super::requests::Request;

/// The result of the verification.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Proof {
    /// Recorded orders.
    pub(crate) orders: u64,
    /// Units in these orders.
    pub(crate) units: u64,
    /// Units left, over all products.
    pub(crate) stock_left: i64,
    /// Units sold beyond the stock, over all products.
    pub(crate) oversold: u64,
    /// Orders with the number of an earlier order.
    pub(crate) duplicate_ids: u64,
    /// Orders of users that had already ordered the product.
    pub(crate) duplicate_users: u64,
    /// Why the sale is not proven correct, one clause each; empty if it is.
    pub(crate) faults: Vec<String>,
}

/// Checks the data of a sale that began with `stock` units of each product and answered all
/// `requests`.
///
/// The conditions do not depend on the order of service. Sold and remaining units add up to the
/// stock. No product is oversold. No number and no buyer appears twice. Every order was requested.
/// A refused request could not have been served with the remaining units.
pub(crate) fn check(stock: u64, requests: &[Request], books: &Books) -> Proof {
    let mut proof = Proof::default();
    let mut ids = HashSet::new();
    let mut missing = 0;
    let mut unaccounted = 0;
    let mut negative = 0;
    let mut unreadable = 0;
    let mut other_buyers = 0;
    let mut by_user: HashMap<(&str, &str), UserRequests> = HashMap::new();
    for request in requests {
        by_user.entry((&request.product, &request.user)).or_default().quantities.push(request.quantity);
    }
    for (product, book) in books {
        let mut units = 0_u64;
        let mut users = HashSet::new();
        for order in &book.orders {
            units = units.saturating_add(order.quantity);
            proof.duplicate_ids += u64::from(!ids.insert(order.id));
            proof.duplicate_users += u64::from(!users.insert(&order.user));
            by_user.entry((product, &order.user)).or_default().ordered.push(order.quantity);
        }
        let left = book.stock_left.unwrap_or_default();
        missing += u64::from(book.stock_left.is_none());
        negative += u64::from(left < 0);
        unreadable += book.unreadable;
        other_buyers += u64::from(users.len() as u64 != book.buyers);
        let accounted = i128::from(units) + i128::from(left);
        unaccounted += (accounted - i128::from(stock)).unsigned_abs();
        proof.orders += book.orders.len() as u64;
        proof.units = proof.units.saturating_add(units);
        proof.stock_left = proof.stock_left.saturating_add(left);
        proof.oversold = proof.oversold.saturating_add(units.saturating_sub(stock));
    }
    let left = |product: &str| books.get(product).and_then(|book| book.stock_left).unwrap_or_default();
    let unasked: usize = by_user.values().map(UserRequests::never_asked).sum();
    let turned_away = by_user.iter().filter(|((product, _), one)| one.could_be_served(left(product))).count();

    let mut fault = |count: u128, what: &str| {
        if count > 0 {
            proof.faults.push(format!("{} {what}", grouped(count)));
        }
    };
    fault(proof.oversold.into(), "units were sold beyond the stock");
    fault(unaccounted, "units of stock and orders do not add up");
    fault(proof.duplicate_ids.into(), "orders have the number of another order");
    fault(proof.duplicate_users.into(), "orders are a user's second order of a product");
    fault(negative.into(), "products have a negative stock");
    fault(missing.into(), "products have lost their stock key");
    fault(unreadable.into(), "orders cannot be read back");
    fault(other_buyers.into(), "products have other buyers than orders");
    fault(unasked as u128, "orders have no request");
    fault(turned_away as u128, "buyers were refused although there was enough stock");
    proof
}

/// The requests of one user for one product, and the recorded orders.
#[derive(Default)]
struct UserRequests {
    quantities: Vec<u64>,
    ordered: Vec<u64>,
}

impl UserRequests {
    fn never_asked(&self) -> usize {
        self.ordered.iter().filter(|quantity| !self.quantities.contains(quantity)).count()
    }

    /// Whether a refused request could have been served. Stock only decreases, so a quantity that
    /// is available at the end was available at any earlier time.
    fn could_be_served(&self, left: i64) -> bool {
        self.ordered.is_empty()
            && self.quantities.iter().any(|quantity| i64::try_from(*quantity).is_ok_and(|q| q <= left))
    }
}

#[cfg(test)]
mod tests {
    use super::super::books::{Book, Entry};
    use super::*;

    fn wants(user: &str, quantity: u64) -> Request {
        Request { user: user.into(), product: "lamp".into(), quantity }
    }

    fn books(left: i64, buyers: u64, orders: &[(i64, &str, u64)]) -> Books {
        let entry =
            |&(id, user, quantity): &(i64, &str, u64)| Entry { id, user: user.into(), quantity, left: 0, request: 0 };
        let orders = orders.iter().map(entry).collect();
        Books::from([("lamp".into(), Book { stock_left: Some(left), orders, unreadable: 0, buyers })])
    }

    #[test]
    fn a_right_sale_is_proven() {
        let requests = [wants("ann", 2), wants("bob", 3), wants("ann", 2), wants("eve", 6)];
        let proof = check(10, &requests, &books(5, 2, &[(1, "ann", 2), (3, "bob", 3)]));
        assert!(proof.faults.is_empty(), "{proof:?}");
        assert_eq!((proof.orders, proof.units, proof.stock_left), (2, 5, 5));
    }

    #[test]
    fn each_condition_is_needed() {
        let requests = [wants("ann", 2), wants("bob", 3)];
        let right = [(1, "ann", 2), (2, "bob", 3)];
        let mut gone = books(0, 2, &right);
        gone.values_mut().for_each(|book| book.stock_left = None);
        let mut garbled = books(5, 2, &right);
        garbled.values_mut().for_each(|book| book.unreadable = 1);
        let cases: [(u64, Books, &str); 10] = [
            (4, books(0, 2, &right), "1 units were sold beyond the stock"),
            (10, books(7, 2, &right), "2 units of stock and orders do not add up"),
            (10, books(5, 2, &[(1, "ann", 2), (1, "bob", 3)]), "1 orders have the number of another order"),
            (10, books(3, 2, &[(1, "ann", 2), (2, "bob", 3), (3, "ann", 2)]), "1 orders are a user's second order"),
            (4, books(-1, 2, &right), "1 products have a negative stock"),
            (5, gone, "1 products have lost their stock key"),
            (10, garbled, "1 orders cannot be read back"),
            (10, books(5, 3, &right), "1 products have other buyers than orders"),
            (10, books(4, 2, &[(1, "ann", 3), (2, "bob", 3)]), "1 orders have no request"),
            (10, books(8, 1, &[(1, "ann", 2)]), "1 buyers were refused although there was enough"),
        ];
        for (stock, books, fault) in cases {
            let proof = check(stock, &requests, &books);
            assert!(proof.faults.iter().any(|told| told.starts_with(fault)), "{fault}: {:?}", proof.faults);
        }
    }
}
