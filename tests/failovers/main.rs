//! Failovers under load, one after the other on one deployment, with checks of all promises.
//!
//! `failovers sentinel|cluster kill|stop|plan ROUNDS` prints one line of JSON, and ends with 1
//! after a broken promise. `cargo xtask failovers` runs all of them.

mod account;
mod burst;
mod deployment;
mod ledger;
mod load;
mod round;
mod writers;

use std::process::ExitCode;
use std::sync::Arc;
use std::time::{Duration, Instant};

use redgrid_core::config::Durability;
use redgrid_core::{Client, Config};
use redgrid_testkit::RedisServer;
use redgrid_tests::SOON;

use account::{Account, Report};
use deployment::{Deployment, Fault};
use ledger::Ledger;
use load::Load;
use round::Rounds;
use writers::Writers;

/// A lease longer than several failovers, so that a hold is valid before and after one.
const LEASE: Duration = Duration::from_secs(15);

/// How long replicas may take to acknowledge a grant.
const ACKNOWLEDGED_WITHIN: Duration = Duration::from_millis(500);

#[tokio::main]
async fn main() -> ExitCode {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let [topology, fault, rounds] = args.as_slice() else { return usage() };
    let (Some(fault), Ok(rounds)) = (Fault::from_word(fault), rounds.parse()) else { return usage() };
    let deployment = match topology.as_str() {
        "sentinel" => Deployment::sentinel().await,
        "cluster" => Deployment::cluster().await,
        _ => return usage(),
    };
    let began = Instant::now();
    let account = Arc::new(Account::default());
    let sums = run(&deployment, fault, rounds, &account).await;
    let report = Report::new(topology, fault.word(), sums, began.elapsed(), &account);
    println!("{}", serde_json::to_string(&report).expect("plain data"));
    for violation in &report.violations {
        eprintln!("broken: {violation}");
    }
    if report.violations.is_empty() { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

fn usage() -> ExitCode {
    eprintln!("usage: failovers sentinel|cluster kill|stop|plan ROUNDS");
    ExitCode::from(2)
}

/// Runs all rounds, then compares the servers' data with the acknowledged writes. Returns the
/// number of completed rounds.
async fn run(deployment: &Deployment, fault: Fault, rounds: u32, account: &Arc<Account>) -> u32 {
    let durable = Durability::Replicas { at_least: deployment.promotable(), timeout: ACKNOWLEDGED_WITHIN };
    let clients = [client(deployment.config()).await, client(deployment.config()).await];
    // This server does not fail: its data stays, whatever happens to the locks.
    let store = RedisServer::start().await.expect("a server starts");
    let ledger = Arc::new(Ledger::on(&store).await);
    let load = Load::start(&clients, &ledger, account, durable);
    let writers = Writers::start(&clients, account);
    load.until_moving().await;
    let runner = Rounds { deployment, clients: &clients, account, durable, fault };
    let mut completed = 0;
    for round in 0..rounds {
        match runner.run(round).await {
            Ok(()) => completed += 1,
            Err(reason) => {
                account.broken(format!("round {round} did not complete: {reason}"));
                break;
            }
        }
        load.until_moving().await;
    }
    load.end().await;
    writers.end(&clients[0]).await;
    ledger.compare(account).await;
    account.compare_lists(&clients[0]).await;
    for client in &clients {
        if let Err(late) = client.shutdown(SOON).await {
            account.broken(late.to_string());
        }
    }
    completed
}

async fn client(config: Config) -> Client {
    let client = Client::connect(config.watchdog_lease(LEASE)).await.expect("a valid configuration");
    client.wait_ready(SOON).await.expect("the servers answer");
    client
}
