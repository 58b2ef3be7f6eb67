//! One order, from acquiring the lock to releasing it: read, check and write as separate commands.

use std::collections::HashSet;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use redgrid::Grid;
use redgrid::id_generator::TimeOrderedId;
use tokio::time::Instant;

use super::books::Entry;
use super::keys;
use super::ledger::Ledger;
use super::shop_lock::{BoxError, enter};
use super::wire::{Assignment, Tally};
use crate::cli::LockKind;
use crate::failure::one_line;

/// Makes orders.
pub(crate) struct Shop {
    grid: Grid,
    ids: TimeOrderedId,
    lock: LockKind,
    lease: Duration,
    /// Products that are sold out. Stock only decreases, so further requests for them are refused
    /// without a lock.
    empty: Mutex<HashSet<String>>,
}

/// The outcome of a request.
enum OrderOutcome {
    Ordered,
    NotEnough { left: i64 },
    Repeated,
}

impl Shop {
    /// Creates a shop with this kind of lock and this lease.
    pub(crate) fn new(grid: Grid, lock: LockKind, lease: Duration) -> Self {
        let ids = grid.time_ordered_id(keys::ORDER);
        Shop { grid, ids, lock, lease, empty: Mutex::default() }
    }

    /// Serves one request, and returns its outcome.
    pub(crate) async fn serve(&self, assignment: &Assignment) -> Tally {
        let request = &assignment.request;
        // For a redistributed request this shortcut is wrong: a previous worker may have made its
        // order, with the last unit.
        if !assignment.again && self.is_empty(&request.product) {
            return Tally { sold_out: 1, ..Tally::default() };
        }
        let requested_at = Instant::now();
        let turn = match enter(&self.grid, self.lock, self.lease, &request.product).await {
            Ok(turn) => turn,
            Err(error) => return unserved(&error),
        };
        let mut finished = 0;
        let answer = turn.run(self.order(assignment, &mut finished)).await.flatten();
        let left = turn.leave().await;
        let took = requested_at.elapsed();
        let mut tally = match answer {
            Ok(OrderOutcome::Ordered) => {
                let micros = u64::try_from(took.as_micros()).unwrap_or(u64::MAX);
                Tally { ordered: vec![micros], units: request.quantity, ..Tally::default() }
            }
            Ok(OrderOutcome::NotEnough { left }) => {
                if left <= 0 {
                    self.remember_empty(&request.product);
                }
                Tally { sold_out: 1, ..Tally::default() }
            }
            Ok(OrderOutcome::Repeated) => Tally { repeated: 1, ..Tally::default() },
            Err(error) => unserved(&error),
        };
        tally.finished = finished;
        if let Err(error) = left {
            tally.lost = 1;
            tally.error = tally.error.or_else(|| Some(one_line(&*error)));
        }
        tally
    }

    /// Completes the last order of `product` if its worker died. Returns the number of completed
    /// orders.
    pub(crate) async fn settle(&self, product: &str) -> Result<u64, BoxError> {
        if self.lock == LockKind::None {
            return Ok(0);
        }
        let turn = enter(&self.grid, self.lock, self.lease, product).await?;
        let ledger = Ledger::of(&self.grid, &self.ids, product);
        let settled = turn.run(async {
            match ledger.incomplete().await? {
                Some(entry) => ledger.finish(&entry).await.map(|()| 1),
                None => Ok(0),
            }
        });
        let settled = settled.await.flatten();
        turn.leave().await?;
        settled
    }

    /// Reads, checks and writes. This is correct only while the lock is held.
    async fn order(&self, assignment: &Assignment, finished: &mut u64) -> Result<OrderOutcome, BoxError> {
        let request = &assignment.request;
        let ledger = Ledger::of(&self.grid, &self.ids, &request.product);
        let mut page = ledger.read(&request.user).await?;
        // Without a lock, an incomplete order may belong to a worker that is still writing it.
        if let Some(entry) = page.incomplete.filter(|_| self.lock != LockKind::None) {
            ledger.finish(&entry).await?;
            *finished += 1;
            page.left = entry.left;
            if entry.user == request.user {
                page.bought = Some(entry.request);
            }
        }
        match page.bought {
            // This request was served before: a worker made the order, and died before it
            // reported it.
            Some(number) if number == assignment.number => return Ok(OrderOutcome::Ordered),
            Some(_) => return Ok(OrderOutcome::Repeated),
            None => {}
        }
        let Some(left) = page.left.checked_sub_unsigned(request.quantity).filter(|left| *left >= 0) else {
            return Ok(OrderOutcome::NotEnough { left: page.left });
        };
        let id = page.id;
        let quantity = request.quantity;
        let user = request.user.clone();
        ledger.write(&Entry { id, quantity, left, request: assignment.number, user }).await?;
        Ok(OrderOutcome::Ordered)
    }

    fn is_empty(&self, product: &str) -> bool {
        self.empty.lock().unwrap_or_else(PoisonError::into_inner).contains(product)
    }

    fn remember_empty(&self, product: &str) {
        self.empty.lock().unwrap_or_else(PoisonError::into_inner).insert(product.to_owned());
    }
}

fn unserved(error: &BoxError) -> Tally {
    Tally { unserved: 1, error: Some(one_line(&**error)), ..Tally::default() }
}

#[cfg(test)]
mod tests {
    use redgrid_testkit::RedisServer;

    use super::super::books::{self, Book};
    use super::super::requests::Request;
    use super::super::shop_lock::LEASE;
    use super::super::worker::{READY_TIMEOUT, connect};
    use super::*;
    use crate::named::Named;

    fn wants(number: u64, user: &str, quantity: u64) -> Assignment {
        let request = Request { user: user.into(), product: "lamp".into(), quantity };
        Assignment { number, again: true, request }
    }

    async fn shop() -> (RedisServer, Shop) {
        let server = RedisServer::start().await.unwrap();
        let grid = connect(&Named::of_url(server.url(), "the test"), "test", READY_TIMEOUT).await.unwrap();
        books::open(&grid, &["lamp"], 10).await.unwrap();
        (server, Shop::new(grid, LockKind::Redgrid, LEASE))
    }

    async fn book(shop: &Shop) -> Book {
        books::read_back(&shop.grid, &["lamp"]).await.unwrap().remove("lamp").unwrap()
    }

    /// Writes an order of 3 units by `ann`, but only its entry and the writes selected by the
    /// flags.
    async fn cut_off(shop: &Shop, bought: bool, taken: bool) -> Entry {
        let grid = &shop.grid;
        let entry = Entry { id: 1, quantity: 3, left: 7, request: 40, user: "ann".into() };
        let write = async |command: redgrid::client::Command| command.query::<()>().await.unwrap();
        write(grid.command("RPUSH").key(keys::orders("lamp")).unwrap().arg(entry.line())).await;
        if bought {
            keys::buyers(grid, "lamp").set("ann", &40).await.unwrap();
        }
        if taken {
            keys::stock(grid, "lamp").set(&7).await.unwrap();
        }
        entry
    }

    const CUTS: [(bool, bool); 4] = [(false, false), (true, false), (false, true), (true, true)];

    #[tokio::test]
    async fn an_order_that_was_cut_off_anywhere_is_finished_by_the_next_one() {
        for (bought, taken) in CUTS {
            let (_server, shop) = shop().await;
            cut_off(&shop, bought, taken).await;
            let tally = shop.serve(&wants(41, "bob", 2)).await;
            assert_eq!((tally.ordered.len(), tally.finished), (1, u64::from(!(bought && taken))), "{tally:?}");
            let book = book(&shop).await;
            assert_eq!((book.stock_left, book.buyers, book.orders.len()), (Some(5), 2, 2), "{book:?}");
            assert!(book.orders[1].id > 1 && book.orders[1].left == 5, "{book:?}");
        }
    }

    #[tokio::test]
    async fn a_request_that_was_cut_off_is_answered_once_and_its_repetition_refused() {
        for (bought, taken) in CUTS {
            let (_server, shop) = shop().await;
            cut_off(&shop, bought, taken).await;
            assert_eq!(shop.serve(&wants(40, "ann", 3)).await.ordered.len(), 1);
            assert_eq!(shop.serve(&wants(44, "ann", 3)).await.repeated, 1);
            let book = book(&shop).await;
            assert_eq!((book.stock_left, book.buyers, book.orders.len()), (Some(7), 1, 1), "{book:?}");
        }
    }

    #[tokio::test]
    async fn without_a_next_one_the_sale_itself_finishes_the_last_order() {
        for (bought, taken) in CUTS {
            let (_server, shop) = shop().await;
            let entry = cut_off(&shop, bought, taken).await;
            assert_eq!(shop.settle("lamp").await.unwrap(), u64::from(!(bought && taken)));
            assert_eq!(shop.settle("lamp").await.unwrap(), 0);
            let book = book(&shop).await;
            assert_eq!((book.stock_left, book.buyers, book.orders), (Some(7), 1, vec![entry]));
        }
    }
}
