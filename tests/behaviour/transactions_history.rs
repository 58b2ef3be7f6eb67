//! Concurrent transactions, checked by their reads and writes: a serial order must explain them.
//!
//! Each written value is new, and each written element was read before, so the order of writes is
//! known. The serial order is searched as by Adya (Weak Consistency, 1999): a reader of a value
//! comes after its writer, and before the writer that overwrote it.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use redgrid_core::Client;
use redgrid_testkit::{Action, Proxy};
use redgrid_tests::{SOON, client, client_with, server};
use redgrid_transaction::{Isolation, Transaction, TransactionError};

/// Three buckets, four keys of a map, and two sets with one value each.
const ELEMENTS: usize = 9;

/// The value that a transaction read of each element it used, or 0, and the elements to which it
/// wrote its own number.
#[derive(Debug, Clone)]
struct Entry {
    id: u64,
    read: Vec<(usize, u64)>,
    written: Vec<usize>,
}

/// How many transactions each of the three clients runs.
fn transactions() -> u64 {
    std::env::var("REDGRID_TRANSACTIONS").ok().and_then(|count| count.parse().ok()).unwrap_or(150)
}

async fn read(tx: &Transaction, element: usize) -> Result<u64, TransactionError> {
    match element {
        0..3 => Ok(tx.bucket::<u64>(format!("b{element}")).get().await?.unwrap_or(0)),
        3..7 => Ok(tx.map::<usize, u64>("m").get(&element).await?.unwrap_or(0)),
        _ => Ok(tx.set::<u64>(format!("s{element}")).read_all().await?.first().copied().unwrap_or(0)),
    }
}

async fn write(tx: &Transaction, element: usize, was: u64, id: u64) -> Result<(), TransactionError> {
    match element {
        0..3 => tx.bucket::<u64>(format!("b{element}")).set(&id),
        3..7 => tx.map::<usize, u64>("m").set(&element, &id),
        _ => {
            let set = tx.set::<u64>(format!("s{element}"));
            assert!(set.remove(&was).await?, "{element} without {was}");
            set.insert(&id).await.map(drop)
        }
    }
}

/// Runs one transaction, which reads some elements and writes some of these. Returns `None` if it
/// was not committed.
async fn one(client: &Client, isolation: Isolation, id: u64) -> Option<Entry> {
    let mut entry = Entry { id, read: Vec::new(), written: Vec::new() };
    let tx = Transaction::new(client).isolation(isolation).timeout(SOON);
    let elements = fastrand::choose_multiple(0..ELEMENTS, 2 + fastrand::usize(..2));
    for element in elements {
        let was = read(&tx, element).await.unwrap();
        entry.read.push((element, was));
        if fastrand::bool() {
            write(&tx, element, was, id).await.unwrap();
            entry.written.push(element);
        }
    }
    match tx.commit().await {
        Ok(()) => Some(entry),
        Err(TransactionError::Conflict { .. }) => None,
        Err(error) => panic!("{error:?}"),
    }
}

/// The anomaly in a history: a lost update, a value that was never written, or, if `serializable`,
/// a cycle of transactions that each precede the next.
fn wrong(history: &[Entry], serializable: bool) -> Option<String> {
    let ids: HashMap<u64, usize> = history.iter().enumerate().map(|(at, entry)| (entry.id, at)).collect();
    let mut overwritten: HashMap<(usize, u64), usize> = HashMap::new();
    for (at, entry) in history.iter().enumerate() {
        for (element, was) in entry.read.iter().filter(|(element, _)| entry.written.contains(element)) {
            if let Some(other) = overwritten.insert((*element, *was), at) {
                return Some(format!("a lost update: {entry:?} and {:?}", history[other]));
            }
        }
    }
    let mut before: Vec<Vec<usize>> = vec![Vec::new(); history.len()];
    for (at, entry) in history.iter().enumerate() {
        for (element, was) in &entry.read {
            if *was != 0 {
                let Some(writer) = ids.get(was).filter(|writer| history[**writer].written.contains(element)) else {
                    return Some(format!("an uncommitted value is read: {entry:?}"));
                };
                before[at].push(*writer);
            }
            if let Some(next) = overwritten.get(&(*element, *was)).filter(|next| **next != at) {
                before[*next].push(at);
            }
        }
    }
    // Transactions without a remaining predecessor are removed, until none is left.
    let mut waits: Vec<usize> = before.iter().map(Vec::len).collect();
    let mut behind: Vec<Vec<usize>> = vec![Vec::new(); history.len()];
    before.iter().enumerate().for_each(|(at, before)| before.iter().for_each(|first| behind[*first].push(at)));
    let mut free: Vec<usize> = (0..history.len()).filter(|at| waits[*at] == 0).collect();
    let mut taken = 0;
    while let Some(at) = free.pop() {
        taken += 1;
        for next in &behind[at] {
            waits[*next] -= 1;
            if waits[*next] == 0 {
                free.push(*next);
            }
        }
    }
    let circle = || (0..history.len()).filter(|at| waits[*at] > 0).map(|at| &history[at]).take(8).collect::<Vec<_>>();
    (serializable && taken < history.len()).then(|| format!("no order of these: {:#?}", circle()))
}

#[test]
fn an_invalid_history_is_detected() {
    let entry = |id, read: &[(usize, u64)], written: &[usize]| Entry { id, read: read.into(), written: written.into() };
    let good = [entry(1, &[(0, 0), (1, 0)], &[0]), entry(2, &[(0, 1), (1, 0)], &[1]), entry(3, &[(0, 1), (1, 2)], &[])];
    assert_eq!(wrong(&good, true), None);
    let lost = [entry(1, &[(0, 0)], &[0]), entry(2, &[(0, 0)], &[0])];
    assert!(wrong(&lost, false).is_some());
    let dirty = [entry(1, &[(0, 7)], &[])];
    assert!(wrong(&dirty, false).is_some());
    let skewed = [entry(1, &[(0, 0), (1, 0)], &[0]), entry(2, &[(0, 0), (1, 0)], &[1])];
    assert!(wrong(&skewed, true).is_some() && wrong(&skewed, false).is_none());
    let half = [entry(1, &[(0, 0), (1, 0)], &[0, 1]), entry(2, &[(0, 1), (1, 0)], &[])];
    assert!(wrong(&half, true).is_some() && wrong(&half, false).is_none());
}

#[tokio::test(flavor = "multi_thread")]
async fn serializable_transactions_have_an_order() {
    checked(Isolation::Serializable).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn committed_reads_lose_no_update() {
    checked(Isolation::ReadCommitted).await;
}

/// Three clients run three tasks each. One of them loses every tenth reply to a commit.
async fn checked(isolation: Isolation) {
    let server = server().await;
    let proxy = Proxy::to(&server).await.unwrap();
    let patient = |config: redgrid_core::Config| config.response_timeout(Duration::from_millis(300)).retries(60);
    let lossy = client_with(&server.url_via(proxy.addr()), patient).await;
    let (seen, ids) = (AtomicU64::new(0), Arc::new(AtomicU64::new(1)));
    proxy.on_request(move |request| {
        let is_commit = request.get(3).is_some_and(|key| key.starts_with(b"redgrid_once:"));
        match is_commit && seen.fetch_add(1, Ordering::Relaxed) % 10 == 9 {
            true => Action::SwallowReply,
            false => Action::Forward,
        }
    });
    let clients = [client(&server).await, client(&server).await, lossy];
    // Each set has one value from the beginning. Two transactions could both add a value to an
    // empty set without a conflict, unless they are serializable.
    let tx = Transaction::new(&clients[0]);
    for set in 7..ELEMENTS {
        tx.set::<u64>(format!("s{set}")).insert(&0).await.unwrap();
    }
    tx.commit().await.unwrap();
    let tasks: Vec<_> = (0..9)
        .map(|task| {
            let (client, ids) = (clients[task % 3].clone(), Arc::clone(&ids));
            tokio::spawn(async move {
                let mut done = Vec::new();
                for _ in 0..transactions() / 3 {
                    done.extend(one(&client, isolation, ids.fetch_add(1, Ordering::Relaxed)).await);
                }
                done
            })
        })
        .collect();
    let mut history = Vec::new();
    for task in tasks {
        history.extend(task.await.unwrap());
    }
    // One more transaction reads the final values.
    let tx = Transaction::new(&clients[0]).serializable();
    let mut last = Entry { id: u64::MAX, read: Vec::new(), written: Vec::new() };
    for element in 0..ELEMENTS {
        last.read.push((element, read(&tx, element).await.unwrap()));
    }
    tx.commit().await.unwrap();
    history.push(last);
    let begun = ids.load(Ordering::Relaxed);
    println!("{isolation:?}: {} of {begun} committed, {} answers lost", history.len(), proxy.counts().swallowed);
    assert!(history.len() > 20, "{} of {begun}", history.len());
    assert_eq!(wrong(&history, isolation == Isolation::Serializable), None);
}
