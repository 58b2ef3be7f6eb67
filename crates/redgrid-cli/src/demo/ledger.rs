//! What one product's lock protects, and how an order is written so that a death in the middle of it can be repaired.
//!
//! The list of orders is the log: an order is made when its entry is there, and the entry says what else has to be true then
//! (the stock after it, and who is a buyer by which request). Whoever has the lock next looks whether all of the last entry is
//! true, and makes it so if not. Each write is by itself; none of them knows of the others.

use redgrid::Grid;
use redgrid::id_generator::TimeOrderedId;

use super::books::Entry;
use super::keys;
use super::shop_lock::Trouble;

/// The ledger of one product. Only under the product's lock is anything it says true for longer than it takes to say it.
pub(crate) struct Ledger<'a> {
    grid: &'a Grid,
    ids: &'a TimeOrderedId,
    product: &'a str,
}

/// What has to be known to make an order.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Page {
    /// Units left.
    pub(crate) left: i64,
    /// The request by which the user has bought already.
    pub(crate) bought: Option<u64>,
    /// A number for the order. One that is not used leaves a gap, and is never given twice.
    pub(crate) id: i64,
    /// The last order, where not all of it is written.
    pub(crate) half_done: Option<Entry>,
}

impl<'a> Ledger<'a> {
    /// The ledger of `product`, whose orders have these numbers.
    pub(crate) fn of(grid: &'a Grid, ids: &'a TimeOrderedId, product: &'a str) -> Self {
        Ledger { grid, ids, product }
    }

    /// Reads what an order of `user` has to know.
    pub(crate) async fn read(&self, user: &str) -> Result<Page, Trouble> {
        let buyers = keys::buyers(self.grid, self.product);
        // The commands of one step share a round trip.
        let (state, bought, id) = tokio::join!(
            self.state(),
            buyers.get(user),
            // Mostly out of memory.
            self.ids.next(),
        );
        let (left, half_done) = state?;
        Ok(Page { left, bought: bought?, id: id?, half_done })
    }

    /// The last order, where not all of it is written.
    pub(crate) async fn half_done(&self) -> Result<Option<Entry>, Trouble> {
        Ok(self.state().await?.1)
    }

    /// Makes an order: from its entry on it is made, whatever becomes of us.
    pub(crate) async fn write(&self, entry: &Entry) -> Result<(), Trouble> {
        let orders = keys::orders(self.product);
        self.grid.command("RPUSH").key(&orders)?.arg(entry.line()).query::<()>().await?;
        self.finish(entry).await
    }

    /// Makes true what the last entry says. Done twice, it is done once.
    pub(crate) async fn finish(&self, entry: &Entry) -> Result<(), Trouble> {
        let (stock, buyers) = (keys::stock(self.grid, self.product), keys::buyers(self.grid, self.product));
        // Both are waited for, also when one fails: nothing of ours may be under way after the release.
        let (bought, left) =
            tokio::join!(buyers.set(entry.user.as_str(), &entry.request), stock.set(&entry.left).into_future(),);
        bought?;
        Ok(left?)
    }

    /// Units left, and the last order if not all of it is written. Each order has one buyer, so their numbers tell.
    async fn state(&self) -> Result<(i64, Option<Entry>), Trouble> {
        let (stock, buyers) = (keys::stock(self.grid, self.product), keys::buyers(self.grid, self.product));
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
