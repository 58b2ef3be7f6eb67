//! Failovers under load, one after the other on one deployment, and what became of every promise.
//!
//! `failovers sentinel|cluster kill|stop|plan ROUNDS` prints one line of JSON and ends with 1 where
//! a promise was broken. `cargo xtask failovers` runs all of them.

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

/// Outlives a failover several times, so that what is believed before it is believed after it.
const LEASE: Duration = Duration::from_secs(15);

/// How long replicas may take to acknowledge a grant.
const ACKNOWLEDGED_WITHIN: Duration = Duration::from_millis(500);

#[tokio::main]
async fn main() -> ExitCode {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let [topology, fault, rounds] = words.as_slice() else { return usage() };
    let (Some(fault), Ok(rounds)) = (Fault::from_word(fault), rounds.parse()) else { return usage() };
    let deployment = match topology.as_str() {
        "sentinel" => Deployment::sentinel().await,
        "cluster" => Deployment::cluster().await,
        _ => return usage(),
    };
    let began = Instant::now();
    let account = Arc::new(Account::default());
    let sums = play(&deployment, fault, rounds, &account).await;
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

/// Plays all rounds, then counts what the servers have against what was acknowledged; how many
/// rounds came to their end.
async fn play(deployment: &Deployment, fault: Fault, rounds: u32, account: &Arc<Account>) -> u32 {
    let durable = Durability::Replicas { at_least: deployment.promotable(), timeout: ACKNOWLEDGED_WITHIN };
    let clients = [client(deployment.config()).await, client(deployment.config()).await];
    // It does not fail: what is written there stays written, whatever becomes of the locks.
    let store = RedisServer::start().await.expect("a server starts");
    let ledger = Arc::new(Ledger::on(&store).await);
    let load = Load::start(&clients, &ledger, account, durable);
    let writers = Writers::start(&clients, account);
    load.until_moving().await;
    let stage = Rounds { deployment, clients: &clients, account, durable, fault };
    let mut played = 0;
    for round in 0..rounds {
        match stage.play(round).await {
            Ok(()) => played += 1,
            Err(reason) => {
                account.broken(format!("round {round} did not come to its end: {reason}"));
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
    played
}

async fn client(config: Config) -> Client {
    let client = Client::connect(config.watchdog_lease(LEASE)).await.expect("a valid configuration");
    client.wait_ready(SOON).await.expect("the servers answer");
    client
}
