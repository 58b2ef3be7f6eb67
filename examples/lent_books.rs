//! Shows permits with ids and leases: one process lends copies of a book, and another process
//! extends the loan and returns the copy.
//!
//! Run it with `cargo run -p redgrid-examples --example lent_books`, for a server at 127.0.0.1:6379
//! or `REDGRID_URL`.

use std::time::Duration;

use redgrid::Grid;

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let url = std::env::var("REDGRID_URL").unwrap_or_else(|_| "redis://127.0.0.1:6379".into());
    let (desk, office) = (Grid::connect(&*url).await?, Grid::connect(&*url).await?);
    let lent = desk.permit_expirable_semaphore("redgrid-example:book");
    let known = office.permit_expirable_semaphore("redgrid-example:book");
    lent.try_set_permits(2).await?;

    // The loan is for an hour: the reader gets the id. If the copy is not returned, the loan ends
    // with its lease.
    let copy = lent.acquire().lease(Duration::from_secs(3600)).await?;
    let id = copy.ids().next().expect("a permit has an id");
    copy.forget();
    println!("one is lent as {id}, {} is left", known.available_permits().await?);

    // Any process that has the id may extend the lease, and return the permit.
    known.update_lease(id, Duration::from_secs(7200)).await?;
    println!("it is lent for {:?}", known.remaining_lease(id).await?);
    println!("{:?}; once more: {:?}", known.try_release(id).await?, known.try_release(id).await?);
    println!("{} are left", lent.available_permits().await?);

    lent.delete().await?;
    office.shutdown(Duration::from_secs(5)).await?;
    desk.shutdown(Duration::from_secs(5)).await?;
    Ok(())
}
