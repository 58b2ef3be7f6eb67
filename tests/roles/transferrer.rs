//! A process that moves money between the accounts of a map and a bucket, until it is killed.
//!
//! `transferrer URL committed|serializable`: prints `there` once it is connected.

use redgrid_tests::SOON;
use redgrid_transaction::{Client, Isolation, Transaction, TransactionError};

#[tokio::main(flavor = "multi_thread", worker_threads = 2)]
pub(crate) async fn run() -> Result<(), Box<dyn std::error::Error>> {
    let args: Vec<String> = std::env::args().skip(2).collect();
    let [url, isolation] = &args[..] else { return Err("transferrer URL committed|serializable".into()) };
    let isolation = if isolation == "committed" { Isolation::ReadCommitted } else { Isolation::Serializable };
    let client = Client::connect(&**url).await?;
    client.wait_ready(SOON).await?;
    println!("there");
    let tasks: Vec<_> = (0..2).map(|task| tokio::spawn(moving(client.clone(), isolation, task))).collect();
    for task in tasks {
        task.await??;
    }
    Ok(())
}

async fn moving(client: Client, isolation: Isolation, task: u32) -> Result<(), TransactionError> {
    for n in 0_u64.. {
        let (from, to, amount) = (fastrand::u32(..4), fastrand::u32(..4), fastrand::i64(1..20));
        let id = format!("{}:{task}:{n}", client.id());
        let tx = Transaction::new(&client).isolation(isolation).retries(1_000).timeout(SOON);
        let moved = tx.run(|tx| {
            let id = id.clone();
            async move {
                let accounts = tx.map::<u32, i64>("accounts");
                let has = accounts.get(&from).await?.unwrap_or(0);
                accounts.set(&from, &(has - amount))?;
                if from == to {
                    let cash = tx.bucket::<i64>("cash");
                    let has = cash.get().await?.unwrap_or(0);
                    cash.set(&(has + amount))?;
                } else {
                    let has = accounts.get(&to).await?.unwrap_or(0);
                    accounts.set(&to, &(has + amount))?;
                }
                let moves = tx.bucket::<u64>("moves").get().await?.unwrap_or(0);
                tx.bucket::<u64>("moves").set(&(moves + 1))?;
                tx.set::<String>("log").insert(&*id).await?;
                Ok::<_, TransactionError>(())
            }
        });
        moved.await?;
    }
    Ok(())
}
