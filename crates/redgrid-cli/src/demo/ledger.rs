//! The data that one product's lock protects, and how an order is written so that it can be
//! repaired after a crash.
//!
//! The list of orders is the log: an order exists once its entry is written. The entry contains the
//! stock after the order, and the buyer with the request. The next owner of the lock checks the
//! last entry, and performs its missing writes. The writes are separate and independent commands.

use redgrid::Grid;
use redgrid::id_generator::TimeOrderedId;

use super::books::Entry;
use super::keys;
use super::shop_lock::BoxError;

/// The ledger of one product. Its results stay valid only while the caller holds the product's
/// lock.
pub(crate) struct Ledger<'a> {
    grid: &'a Grid,
    ids: &'a TimeOrderedId,
    product: &'a str,
}

/// The data needed to make an order.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Page {
    /// Units left.
    pub(crate) left: i64,
    /// The earlier request with which the user has already bought the product.
    pub(crate) bought: Option<u64>,
    /// A number for the order. An unused number leaves a gap; it is never reused.
    pub(crate) id: i64,
    /// The last order, if it is incomplete.
    pub(crate) incomplete: Option<Entry>,
}

impl<'a> Ledger<'a> {
    /// Creates the ledger of `product`; `ids` generates the order numbers.
    pub(crate) fn of(grid: &'a Grid, ids: &'a TimeOrderedId, product: &'a str) -> Self {
        Ledger { grid, ids, product }
    }

    /// Reads the data for an order of `user`.
    pub(crate) async fn read(&self, user: &str) -> Result<Page, BoxError> {
        let buyers = keys::buyers(self.grid, self.product);
        // The commands of one step share a round trip.
        let (state, bought, id) = tokio::join!(
            self.state(),
            buyers.get(user),
            // Usually taken from a local block, without a request.
            self.ids.next(),
        );
        let (left, incomplete) = state?;
        Ok(Page { left, bought: bought?, id: id?, incomplete })
    }

    /// Returns the last order if it is incomplete.
    pub(crate) async fn incomplete(&self) -> Result<Option<Entry>, BoxError> {
        Ok(self.state().await?.1)
    }

    /// Makes an order: it exists once its entry is written, even if this process dies.
    pub(crate) async fn write(&self, entry: &Entry) -> Result<(), BoxError> {
        let orders = keys::orders(self.product);
        self.grid.command("RPUSH").key(&orders)?.arg(entry.line()).query::<()>().await?;
        self.finish(entry).await
    }

    /// Completes the last entry. Idempotent.
    pub(crate) async fn finish(&self, entry: &Entry) -> Result<(), BoxError> {
        let stock = keys::stock(self.grid, self.product);
        let buyers = keys::buyers(self.grid, self.product);
        // The calls are joined so that each ends even if the other fails: no request may be in
        // flight when the lock is released.
        let (bought, left) =
            tokio::join!(buyers.set(entry.user.as_str(), &entry.request), stock.set(&entry.left).into_future(),);
        bought?;
        Ok(left?)
    }

    /// Returns the units left, and the last order if it is incomplete. Each order has one buyer, so
    /// an incomplete order shows in the number of orders and buyers.
    async fn state(&self) -> Result<(i64, Option<Entry>), BoxError> {
        let stock = keys::stock(self.grid, self.product);
        let buyers = keys::buyers(self.grid, self.product);
        let orders = keys::orders(self.product);
        let (left, bought, made, last) = tokio::join!(
            stock.get(),
            buyers.len(),
            self.grid.command("LLEN").key(&orders)?.idempotent().query::<u64>(),
            self.grid.command("LINDEX").key(&orders)?.arg("-1").idempotent().query::<Option<String>>(),
        );
        let left = left?.ok_or_else(|| format!("the stock of `{}` is gone", self.product))?;
        let whole = bought? == made?;
        let last = last?.as_deref().and_then(Entry::from_line);
        Ok((left, last.filter(|last| !whole || last.left != left)))
    }
}
