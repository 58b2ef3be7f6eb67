//! What a sale keeps on the server: opened before it, read back after it, deleted in the end.

use std::collections::BTreeMap;
use std::time::Duration;

use redgrid::Grid;

use super::keys;
use super::shop_lock::Trouble;

/// An order as it is recorded.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Entry {
    /// Its number, unique over all products.
    pub(crate) id: i64,
    /// Who bought.
    pub(crate) user: String,
    /// How many units.
    pub(crate) quantity: u64,
    /// Units left after it.
    pub(crate) left: i64,
    /// The number of the request that it answers.
    pub(crate) request: u64,
}

impl Entry {
    /// The entry as text: `id:quantity:left:request:user`. The user comes last, because a colon may be in there.
    pub(crate) fn line(&self) -> String {
        format!("{}:{}:{}:{}:{}", self.id, self.quantity, self.left, self.request, self.user)
    }

    /// The entry from its text.
    pub(crate) fn from_line(line: &str) -> Option<Self> {
        let mut parts = line.splitn(5, ':');
        let id = parts.next()?.parse().ok()?;
        let quantity = parts.next()?.parse().ok()?;
        let left = parts.next()?.parse().ok()?;
        let request = parts.next()?.parse().ok()?;
        Some(Entry { id, quantity, left, request, user: parts.next()?.to_owned() })
    }
}

/// What the server holds about one product after the sale.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Book {
    /// Units left; `None` when the key is gone.
    pub(crate) stock_left: Option<i64>,
    /// All orders, as they were written.
    pub(crate) orders: Vec<Entry>,
    /// Orders that can not be read.
    pub(crate) unreadable: u64,
    /// How many users are recorded as buyers.
    pub(crate) buyers: u64,
}

/// The books of all products.
pub(crate) type Books = BTreeMap<String, Book>;

/// No sale takes longer.
const DAY: Duration = Duration::from_secs(24 * 60 * 60);

/// Entries read in one command: some 500 KB.
const PAGE: usize = 10_000;

/// Puts `stock` units of each product on sale.
pub(crate) async fn open(grid: &Grid, products: &[&str], stock: u64) -> Result<(), Trouble> {
    for product in products {
        keys::stock(grid, product).set(&i64::try_from(stock)?).await?;
    }
    Ok(())
}

/// Reads everything back.
pub(crate) async fn read_back(grid: &Grid, products: &[&str]) -> Result<Books, Trouble> {
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

/// Deletes everything. Nobody takes numbers for orders any more.
pub(crate) async fn delete(grid: &Grid, products: &[&str]) -> Result<(), Trouble> {
    // The days of the sale: this one, and the one before where midnight came between.
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
    fn an_entry_comes_back_as_it_was_written() {
        let entry = Entry { id: 7, user: "a:b c".into(), quantity: 3, left: 9, request: 12 };
        assert_eq!(Entry::from_line(&entry.line()), Some(entry));
        assert_eq!(Entry::from_line("7:3:9:12"), None);
        assert_eq!(Entry::from_line("x:3:9:12:ann"), None);
    }
}
