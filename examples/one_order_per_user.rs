//! Shows a lock, a bounded number and ids in one program: each user may order each item once, while
//! stock lasts.
//!
//! Many requests compete. At the end, the program checks that no user has more than one order, and
//! that the number of orders is the number of sold items.
//!
//! Run it with `cargo run -p redgrid-examples --example one_order_per_user`, for a server at
//! 127.0.0.1:6379 or `REDGRID_URL`.

use std::collections::BTreeSet;
use std::time::{Duration, SystemTime};

use redgrid::Grid;
use redgrid::atomic_long::AtomicError;
use redgrid::id_generator::TimeOrderedId;
use redgrid::locks::AcquireError;

/// The stock of the item.
const STOCK: i64 = 20;

/// The number of users, and the number of requests of each.
const USERS: usize = 50;
const TIMES: usize = 3;

/// How long a request waits for an earlier request of the same user.
const PATIENCE: Duration = Duration::from_secs(10);

type Trouble = Box<dyn std::error::Error + Send + Sync>;

/// The result of a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Answer {
    Ordered(i64),
    /// The user already has an order, with this id.
    Before(i64),
    SoldOut,
}

/// Orders an item for a user. Each user has a separate lock, so requests of different users do not
/// wait for each other.
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
    // An unused id leaves a gap.
    let id = ids.next().await?;
    // The number cannot fall below 0, over all processes.
    match grid.atomic_long(format!("redgrid-example:stock:{item}")).exactly_once().add(-1).at_least(0).await {
        Ok(_) => {}
        Err(AtomicError::OutOfBounds { .. }) => return Ok(Answer::SoldOut),
        Err(error) => return Err(error.into()),
    }
    // If the process dies here, one item is taken without an order; `redgrid demo flash-sale` keeps
    // a ledger to prevent this. The field is the user's name, so a repeated write has no further
    // effect.
    let write = grid.command("HSET").key(&orders)?.arg(user.to_owned()).arg(id.to_string());
    write.idempotent().query::<()>().await?;
    Ok(Answer::Ordered(id))
}

#[tokio::main]
async fn main() -> Result<(), Trouble> {
    let url = std::env::var("REDGRID_URL").unwrap_or_else(|_| "redis://127.0.0.1:6379".into());
    let grid = Grid::connect(url.as_str()).await?;
    // The name of the item is unique to this run.
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
    assert!(before.is_subset(&ordered), "a repeated request returns the user's order");

    grid.command("DEL").key(format!("redgrid-example:orders:{item}"))?.query::<()>().await?;
    stock.delete().await?;
    let today = ids.counter_of(ids.decode(ids.next().await?)?.time)?;
    grid.command("DEL").key(today.as_str())?.query::<()>().await?;
    grid.shutdown(Duration::from_secs(5)).await?;
    Ok(())
}
