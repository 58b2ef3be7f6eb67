//! One order for each user and item, as long as there is stock: a lock, a bounded number and ids together. Many ask several times, at the
//! same time; in the end it is checked that each user has at most one order, and that as many are ordered as are gone.
//!
//! `REDGRID_URL=redis://127.0.0.1:6379 cargo run -p redgrid-examples --example one_order_per_user`

use std::collections::BTreeSet;
use std::time::{Duration, SystemTime};

use redgrid::Grid;
use redgrid::atomic_long::AtomicError;
use redgrid::id_generator::TimeOrderedId;
use redgrid::locks::AcquireError;

/// How many there are of the item.
const STOCK: i64 = 20;

/// How many users want one, and how often each asks.
const USERS: usize = 50;
const TIMES: usize = 3;

/// How long one waits for his own former request.
const PATIENCE: Duration = Duration::from_secs(10);

type Trouble = Box<dyn std::error::Error + Send + Sync>;

/// What a request led to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Answer {
    Ordered(i64),
    /// The user has one; its id.
    Before(i64),
    SoldOut,
}

/// A user's order of an item. The lock is the user's own: others do not wait for it.
async fn order(grid: &Grid, ids: &TimeOrderedId, item: &str, user: &str) -> Result<Answer, Trouble> {
    let guard = match grid.lock(format!("redgrid-example:order:{item}:{user}")).acquire().timeout(PATIENCE).await {
        Ok(guard) => guard,
        Err(error @ AcquireError::TimedOut { .. }) => return Err(format!("try again: {error}").into()),
        Err(error) => return Err(error.into()),
    };
    let answer = guard.run(order_alone(grid, ids, item, user)).await??;
    guard.release().await?;
    Ok(answer)
}

async fn order_alone(grid: &Grid, ids: &TimeOrderedId, item: &str, user: &str) -> Result<Answer, Trouble> {
    let orders = format!("redgrid-example:orders:{item}");
    if let Some(id) = grid.command("HGET").key(&orders)?.arg(user.to_owned()).query::<Option<i64>>().await? {
        return Ok(Answer::Before(id));
    }
    // An id that is not used is left out.
    let id = ids.next().await?;
    // Not below 0, whoever takes the last one.
    match grid.atomic_long(format!("redgrid-example:stock:{item}")).exactly_once().add(-1).at_least(0).await {
        Ok(_) => {}
        Err(AtomicError::OutOfBounds { .. }) => return Ok(Answer::SoldOut),
        Err(error) => return Err(error.into()),
    }
    // A process that dies here has taken one and ordered none: `redgrid demo flash-sale` keeps a ledger against that. Written under
    // the user's name, twice is once.
    let write = grid.command("HSET").key(&orders)?.arg(user.to_owned()).arg(id.to_string());
    write.idempotent().query::<()>().await?;
    Ok(Answer::Ordered(id))
}

#[tokio::main]
async fn main() -> Result<(), Trouble> {
    let url = std::env::var("REDGRID_URL").unwrap_or_else(|_| "redis://127.0.0.1:6379".into());
    let grid = Grid::connect(url.as_str()).await?;
    // An item of this run's own.
    let since = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH)?;
    let item = format!("lamp-{}", since.as_nanos());
    let ids = grid.time_ordered_id(format!("redgrid-example:order:{item}"));
    let stock = grid.atomic_long(format!("redgrid-example:stock:{item}"));
    stock.set(STOCK).await?;

    let requests = (0..USERS * TIMES).map(|request| {
        let (grid, ids, item) = (grid.clone(), ids.clone(), item.clone());
        tokio::spawn(async move { order(&grid, &ids, &item, &format!("user-{}", request % USERS)).await })
    });
    let (mut ordered, mut before, mut sold_out) = (BTreeSet::new(), BTreeSet::new(), 0);
    for request in requests.collect::<Vec<_>>() {
        match request.await?? {
            Answer::Ordered(id) => assert!(ordered.insert(id), "an id came twice"),
            Answer::Before(id) => _ = before.insert(id),
            Answer::SoldOut => sold_out += 1,
        }
    }
    let written: Vec<i64> = grid.command("HVALS").key(format!("redgrid-example:orders:{item}"))?.query().await?;
    let left = stock.get().await?;
    println!("{} orders, {sold_out} requests too late, {left} left", ordered.len());
    assert_eq!((ordered.len() as i64, left), (STOCK, 0), "all is sold, and no more");
    assert_eq!(written.into_iter().collect::<BTreeSet<_>>(), ordered, "each order is a user's");
    assert!(before.is_subset(&ordered), "who asks again is told of his order");

    grid.command("DEL").key(format!("redgrid-example:orders:{item}"))?.query::<()>().await?;
    stock.delete().await?;
    let today = ids.counter_of(ids.decode(ids.next().await?)?.time)?;
    grid.command("DEL").key(today.as_str())?.query::<()>().await?;
    grid.shutdown(Duration::from_secs(5)).await?;
    Ok(())
}
