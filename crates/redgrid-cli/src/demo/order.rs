//! One order, from the lock to its release: read, check, write, with plain commands.

use std::collections::HashSet;
use std::sync::{Mutex, PoisonError};

use redgrid::Grid;
use tokio::time::Instant;

use super::books::Entry;
use super::keys;
use super::requests::Request;
use super::shop_lock::{Trouble, enter};
use super::wire::Tally;
use crate::cli::LockKind;
use crate::failure::chain;

/// Where orders are made.
pub(crate) struct Shop {
    grid: Grid,
    lock: LockKind,
    /// Products without a unit left. Stock only falls, so nobody has to be asked about them again.
    empty: Mutex<HashSet<String>>,
}

/// What a request led to.
enum Answer {
    Ordered,
    NotEnough { left: i64 },
    Repeated,
}

impl Shop {
    /// A shop with this kind of lock.
    pub(crate) fn new(grid: Grid, lock: LockKind) -> Self {
        Shop { grid, lock, empty: Mutex::default() }
    }

    /// Serves one request, and tells what became of it.
    pub(crate) async fn serve(&self, request: &Request) -> Tally {
        if self.is_empty(&request.product) {
            return Tally { sold_out: 1, ..Tally::default() };
        }
        let asked = Instant::now();
        let turn = match enter(&self.grid, self.lock, &request.product).await {
            Ok(turn) => turn,
            Err(trouble) => return unserved(&trouble),
        };
        let answer = turn.run(self.order(request)).await.flatten();
        let left = turn.leave().await;
        let took = asked.elapsed();
        let mut tally = match answer {
            Ok(Answer::Ordered) => {
                let micros = u64::try_from(took.as_micros()).unwrap_or(u64::MAX);
                Tally { ordered: vec![micros], units: request.quantity, ..Tally::default() }
            }
            Ok(Answer::NotEnough { left }) => {
                if left <= 0 {
                    self.remember_empty(&request.product);
                }
                Tally { sold_out: 1, ..Tally::default() }
            }
            Ok(Answer::Repeated) => Tally { repeated: 1, ..Tally::default() },
            Err(trouble) => unserved(&trouble),
        };
        if let Err(trouble) = left {
            tally.lost = 1;
            tally.error = tally.error.or_else(|| Some(chain(&*trouble)));
        }
        tally
    }

    /// Reads, checks and writes. Only a lock around it makes it right.
    async fn order(&self, request: &Request) -> Result<Answer, Trouble> {
        let Request { user, product, quantity } = request;
        let (stock, buyers, orders) = (keys::stock(product), keys::buyers(product), keys::orders(product));
        // The commands of one step share a round trip. A number that is not used leaves a gap, and is never given twice.
        let (left, bought, id) = tokio::join!(
            self.grid.command("GET").key(&stock)?.idempotent().query::<i64>(),
            self.grid.command("SISMEMBER").key(&buyers)?.arg(user.clone()).idempotent().query::<bool>(),
            self.grid.command("INCR").key(keys::LAST_ORDER)?.query::<u64>(),
        );
        let (left, id) = (left?, id?);
        if bought? {
            return Ok(Answer::Repeated);
        }
        let Some(rest) = left.checked_sub_unsigned(*quantity).filter(|rest| *rest >= 0) else {
            return Ok(Answer::NotEnough { left });
        };
        let entry = Entry { id, user: user.clone(), quantity: *quantity };
        // All three are waited for, also when one fails: nothing of ours may be under way after the release.
        let (set, pushed, added) = tokio::join!(
            self.grid.command("SET").key(&stock)?.arg(rest.to_string()).query::<()>(),
            self.grid.command("RPUSH").key(&orders)?.arg(entry.line()).query::<()>(),
            self.grid.command("SADD").key(&buyers)?.arg(user.clone()).query::<()>(),
        );
        set.and(pushed).and(added)?;
        Ok(Answer::Ordered)
    }

    fn is_empty(&self, product: &str) -> bool {
        self.empty.lock().unwrap_or_else(PoisonError::into_inner).contains(product)
    }

    fn remember_empty(&self, product: &str) {
        self.empty.lock().unwrap_or_else(PoisonError::into_inner).insert(product.to_owned());
    }
}

fn unserved(trouble: &Trouble) -> Tally {
    Tally { unserved: 1, error: Some(chain(&**trouble)), ..Tally::default() }
}
