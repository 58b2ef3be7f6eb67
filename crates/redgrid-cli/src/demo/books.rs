//! The data of a sale on the server. It is created before the sale, read afterwards, and then
//! deleted.

use std::collections::BTreeMap;
use std::time::Duration;

use redgrid::Grid;

use super::keys;
use super::shop_lock::BoxError;

/// A recorded order.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Entry {
    /// The number of the order, unique over all products.
    pub(crate) id: i64,
    /// The buyer.
    pub(crate) user: String,
    /// Number of units.
    pub(crate) quantity: u64,
    /// Units left after the order.
    pub(crate) left: i64,
    /// The number of the purchase request.
    pub(crate) request: u64,
}

impl Entry {
    /// Formats the entry as `id:quantity:left:request:user`. The user is last, because it may
    /// contain a colon.
    pub(crate) fn line(&self) -> String {
        format!("{}:{}:{}:{}:{}", self.id, self.quantity, self.left, self.request, self.user)
    }

    /// Parses an entry.
    pub(crate) fn from_line(line: &str) -> Option<Self> {
        let mut parts = line.splitn(5, ':');
        let id = parts.next()?.parse().ok()?;
        let quantity = parts.next()?.parse().ok()?;
        let left = parts.next()?.parse().ok()?;
        let request = parts.next()?.parse().ok()?;
        Some(Entry { id, quantity, left, request, user: parts.next()?.to_owned() })
    }
}

/// The server's data about one product after the sale.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Book {
    /// Units left; `None` if the key does not exist.
    pub(crate) stock_left: Option<i64>,
    /// All orders in the order of writing.
    pub(crate) orders: Vec<Entry>,
    /// Orders that cannot be parsed.
    pub(crate) unreadable: u64,
    /// Number of users recorded as buyers.
    pub(crate) buyers: u64,
}

/// The data of all products.
pub(crate) type Books = BTreeMap<String, Book>;

/// An upper bound of a sale's duration.
const DAY: Duration = Duration::from_secs(24 * 60 * 60);

/// Entries read by one command: about 500 KB.
const PAGE: usize = 10_000;

/// Creates `stock` units of each product.
pub(crate) async fn open(grid: &Grid, products: &[&str], stock: u64) -> Result<(), BoxError> {
    for product in products {
        keys::stock(grid, product).set(&i64::try_from(stock)?).await?;
    }
    Ok(())
}

/// Reads the data of all products.
pub(crate) async fn read_back(grid: &Grid, products: &[&str]) -> Result<Books, BoxError> {
    let mut books = Books::new();
    for product in products {
        let mut book = Book {
            stock_left: keys::stock(grid, product).get().await?,
            buyers: keys::buyers(grid, product).len().await?,
            ..Book::default()
        };
        let mut from = 0;
        loop {
            let range = grid.command("LRANGE").key(keys::orders(product))?.idempotent();
            let range = range.arg(from.to_string()).arg((from + PAGE - 1).to_string());
            let lines: Vec<String> = range.query().await?;
            from += lines.len();
            for line in &lines {
                match Entry::from_line(line) {
                    Some(entry) => book.orders.push(entry),
                    None => book.unreadable += 1,
                }
            }
            if lines.len() < PAGE {
                break;
            }
        }
        books.insert((*product).to_owned(), book);
    }
    Ok(books)
}

/// Deletes all data. No process may take order numbers any more.
pub(crate) async fn delete(grid: &Grid, products: &[&str]) -> Result<(), BoxError> {
    // The counter of order numbers has one key per day: today, and yesterday if the sale passed
    // midnight.
    let ids = grid.time_ordered_id(keys::ORDER);
    let now = ids.decode(ids.next().await?)?.time;
    for day in [now, now - DAY] {
        let counter = ids.counter_of(day)?;
        grid.object(counter).unlink().await?;
    }
    for key in keys::all(products.iter().copied()) {
        grid.object(key).unlink().await?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_entry_roundtrips_through_text() {
        let entry = Entry { id: 7, user: "a:b c".into(), quantity: 3, left: 9, request: 12 };
        assert_eq!(Entry::from_line(&entry.line()), Some(entry));
        assert_eq!(Entry::from_line("7:3:9:12"), None);
        assert_eq!(Entry::from_line("x:3:9:12:ann"), None);
    }
}
