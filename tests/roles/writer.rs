//! A process that writes under locks, for tests that stop it past its leases.
//!
//! `writer URL LEASE_MS`: for each line `ROUND COUNT` on its standard input it acquires COUNT
//! locks, named `ROUND:0` and so on. One task for each lock reads and writes while the lock is
//! held: `{name}:plain` directly, `{name}:fenced` through the fence `{name}`. It prints `writing`
//! when every task has written, and `done REFUSED` when all locks are lost, with the number of
//! writes that the fences rejected.

use std::io::{BufRead, Write};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use redgrid_locks::{Client, Fence, FenceError, Lock, LockGuard};

#[tokio::main(flavor = "multi_thread", worker_threads = 2)]
pub(crate) async fn run() -> Result<(), Box<dyn std::error::Error>> {
    let args: Vec<String> = std::env::args().skip(2).collect();
    let [url, lease] = &args[..] else { return Err("writer URL LEASE_MS".into()) };
    let lease = Duration::from_millis(lease.parse()?);
    let client = Client::connect(url).await?;
    for line in std::io::stdin().lock().lines() {
        let line = line?;
        let (round, count) = line.split_once(' ').ok_or("ROUND COUNT")?;
        let (wrote, mut writing) = tokio::sync::mpsc::channel(1);
        let refused = Arc::new(AtomicU64::new(0));
        let tasks: Vec<_> = (0..count.parse::<u64>()?)
            .map(|n| {
                let (name, client) = (format!("{round}:{n}"), client.clone());
                let (wrote, refused) = (wrote.clone(), Arc::clone(&refused));
                tokio::spawn(async move {
                    // On a slow machine the lease may end before its reply arrives. Then this task
                    // does not write.
                    let Ok(guard) = Lock::new(&client, &name).acquire().lease(lease).await else { return };
                    // This sender is dropped when the first write of the task is done.
                    let mut wrote = Some(wrote);
                    while guard.is_held() {
                        refused.fetch_add(write(&client, &name, &guard).await, Ordering::Relaxed);
                        wrote.take();
                    }
                })
            })
            .collect();
        drop(wrote);
        let _: Option<()> = writing.recv().await;
        say("writing")?;
        for task in tasks {
            task.await?;
        }
        say(&format!("done {}", refused.load(Ordering::Relaxed)))?;
    }
    Ok(())
}

/// Reads, then writes both ways without checking the lock, as a program that trusts its lease.
/// Returns the number of writes rejected as stale.
async fn write(client: &Client, name: &str, guard: &LockGuard) -> u64 {
    let (plain, token) = (format!("{{{name}}}:plain"), guard.token());
    let read = async || client.command("GET").key(&plain)?.query::<Option<u64>>().await.map_err(Into::into);
    let set =
        async || client.command("SET").key(&plain)?.arg(token.to_string()).query::<()>().await.map_err(Into::into);
    // The pause may have broken the connections. Such errors are ignored, because nothing is
    // written then.
    let _: Result<_, Box<dyn std::error::Error + Send + Sync>> = read().await;
    let _: Result<_, Box<dyn std::error::Error + Send + Sync>> = set().await;
    let fence = Fence::new(client, format!("{{{name}}}"));
    let fenced = fence.set(format!("{{{name}}}:fenced"), token.to_string(), token).await;
    u64::from(matches!(fenced, Err(FenceError::Stale { .. })))
}

fn say(word: &str) -> std::io::Result<()> {
    let mut out = std::io::stdout();
    writeln!(out, "{word}")?;
    out.flush()
}
