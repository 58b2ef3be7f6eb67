//! One history: three clients change numbers, each through its own proxy, during faults, and record
//! their results.

use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use futures_util::future::join_all;
use redgrid_atomic_long::{AtomicError, AtomicLong, Client};
use redgrid_core::Failure;
use redgrid_testkit::{Action, Fault, Proxy, RedisServer, wait_until};
use redgrid_tests::{SOON, client_with};

use super::plan::{CLIENTS, FaultSpan, HistoryFault, Plan, TASKS};
use super::search::{Answer, Call, Op, changed};

/// Response timeout of a client.
const TIMEOUT: Duration = Duration::from_millis(80);

/// The highest number of unanswered calls of a task. Each may take effect at any time, which
/// multiplies the possible orders.
const ENOUGH_UNANSWERED: usize = 2;

/// Starts a server that keeps confirmed writes. One history after the other uses it.
pub(crate) async fn server() -> RedisServer {
    RedisServer::builder().append_only(true).start().await.expect("a server starts")
}

/// Runs the plan, and returns the calls to each number.
pub(crate) async fn run(plan: &Plan, server: &RedisServer, seed: u64) -> Vec<Vec<Call>> {
    let names: Vec<String> = (0..2).map(|number| format!("number:{seed}:{number}")).collect();
    let mut clients = Vec::new();
    for _ in 0..CLIENTS {
        let proxy = Proxy::to(server).await.expect("a free port");
        let quick = |config: redgrid_atomic_long::Config| {
            config.response_timeout(TIMEOUT).retries(2).retry_delay(Duration::from_millis(10))
        };
        clients.push((client_with(&server.url_via(proxy.addr()), quick).await, proxy));
    }
    let began = Instant::now();
    let record = Arc::new(Mutex::new(vec![Vec::new(); names.len()]));
    let tasks = plan.tasks.iter().cloned().enumerate().map(|(task, steps)| {
        let caller = (task / TASKS, task % TASKS);
        let numbers = numbers(&clients[caller.0].0, &names, plan.exactly_once);
        let record = Arc::clone(&record);
        tokio::spawn(async move {
            let mut unanswered = 0;
            for step in steps {
                tokio::time::sleep(Duration::from_millis(step.pause)).await;
                let requests = step.ops.iter().map(async |op| {
                    let from = nanos(began);
                    let result = outcome(&numbers[step.number], *op, step.leaves_after).await?;
                    Some(Call { caller, op: *op, from, answer: result.map(|answer| (nanos(began), answer)) })
                });
                let calls: Vec<Call> = join_all(requests).await.into_iter().flatten().collect();
                unanswered += calls.iter().filter(|call| call.answer.is_none()).count();
                record.lock().expect("no panic above")[step.number].extend(calls);
                if unanswered >= ENOUGH_UNANSWERED {
                    return;
                }
            }
        })
    });
    // Faults of the server do not overlap: it is not killed while it is stopped.
    let one_at_a_time = tokio::sync::Mutex::new(());
    let faults = plan.faults.iter().map(|fault| fault.inject(server, &one_at_a_time, &clients[fault.client].1));
    let (ended, _) = tokio::join!(join_all(tasks), join_all(faults));
    ended.into_iter().for_each(|task| task.expect("no panic in a task"));
    for (_, proxy) in &clients {
        proxy.heal();
        proxy.release_held().await;
    }
    let last = last_read(server, &names, began).await;
    for (client, _) in clients {
        let _ = client.shutdown(Duration::from_millis(100)).await;
    }
    let mut calls = std::mem::take(&mut *record.lock().expect("no panic above"));
    calls.iter_mut().zip(last).for_each(|(calls, last)| calls.push(last));
    calls
}

fn numbers(client: &Client, names: &[String], exactly_once: bool) -> Vec<AtomicLong> {
    let number = |name| {
        let number = AtomicLong::new(client, name);
        if exactly_once { number.exactly_once() } else { number }
    };
    names.iter().map(number).collect()
}

/// Reads the final values from the server itself.
async fn last_read(server: &RedisServer, names: &[String], began: Instant) -> Vec<Call> {
    wait_until(SOON, async || server.observer().await.is_ok()).await;
    let observer = server.observer().await.expect("it was there");
    let mut calls = Vec::new();
    for name in names {
        let from = nanos(began);
        let number: i64 = observer.get(name).await.expect("the server answers").unwrap_or(0);
        let answer = Some((nanos(began), Answer::Number(number)));
        calls.push(Call { caller: (CLIENTS, 0), op: Op::Get, from, answer });
    }
    calls
}

/// Returns the result of a step: `None` if it certainly had no effect, `Some(None)` if it may take
/// effect now or later.
async fn outcome(number: &AtomicLong, op: Op, leaves_after: Option<u64>) -> Option<Option<Answer>> {
    let call = send(number, op);
    let result = match leaves_after {
        None => call.await,
        Some(millis) => match tokio::time::timeout(Duration::from_millis(millis), call).await {
            Ok(result) => result,
            Err(_) => return Some(None),
        },
    };
    match result {
        Ok(answer) => Some(Some(answer)),
        Err(AtomicError::Overflow { .. }) => Some(Some(Answer::Overflow)),
        Err(AtomicError::OutOfBounds { value, .. }) => match value {
            redgrid_atomic_long::Value::Long(value) => Some(Some(Answer::OutOfBounds(value))),
            _ => panic!("a whole number was reported as {value}"),
        },
        Err(AtomicError::Failed(Failure::OutcomeUnknown { .. })) => Some(None),
        Err(
            AtomicError::Failed(Failure::Unavailable { .. })
            | AtomicError::Contended { .. }
            | AtomicError::Failed(Failure::Refused { .. }),
        ) => None,
        Err(other) => panic!("{op:?} ended {other:?}"),
    }
}

async fn send(number: &AtomicLong, op: Op) -> Result<Answer, AtomicError> {
    Ok(match op {
        Op::Get => Answer::Number(number.get().await?),
        Op::Add(1) => Answer::Number(number.increment().await?),
        Op::Add(-1) => Answer::Number(number.decrement().await?),
        Op::Add(by) => Answer::Number(number.add(by).await?),
        Op::GetAndAdd(by) => Answer::Number(number.get_and_add(by).await?),
        Op::AddAtMost { by, most, clamps } => {
            let add = number.add(by).at_most(most);
            Answer::Number(if clamps { add.saturating() } else { add }.await?)
        }
        Op::Set(new) => {
            number.set(new).await?;
            Answer::Done
        }
        Op::GetAndSet(new) => Answer::Number(number.get_and_set(new).await?),
        Op::GetAndDelete => Answer::Number(number.get_and_delete().await?),
        Op::Delete => Answer::Truth(number.delete().await?),
        Op::CompareAndSet(expected, new) => Answer::Truth(number.compare_and_set(expected, new).await?),
        Op::SetIf(how, to, new) => Answer::Truth(number.set_if(how, to, new).await?),
        Op::DeleteIf(how, to) => Answer::Truth(number.delete_if(how, to).await?),
        Op::Update => Answer::Number(number.update(changed).await?),
    })
}

impl FaultSpan {
    /// Causes the fault, and ends it.
    async fn inject(self, server: &RedisServer, one_at_a_time: &tokio::sync::Mutex<()>, proxy: &Proxy) {
        let lasts = Duration::from_millis(self.lasts);
        tokio::time::sleep(Duration::from_millis(self.at)).await;
        match self.fault {
            HistoryFault::Swallow(n) => proxy.next(n, "number:", Action::SwallowReply),
            HistoryFault::CutAfter(n) => proxy.next(n, "number:", Action::CutAfterForward),
            HistoryFault::CutBefore(n) => proxy.next(n, "number:", Action::CutBefore),
            HistoryFault::Late(n) => {
                proxy.next(n, "number:", Action::Hold);
                tokio::time::sleep(lasts).await;
                proxy.release_held().await;
            }
            HistoryFault::CutAll => proxy.cut_all(),
            HistoryFault::Stall => {
                proxy.set_both(Fault::Stall);
                tokio::time::sleep(lasts).await;
                proxy.set_both(Fault::Pass);
            }
            HistoryFault::BlackHole => {
                proxy.set_both(Fault::BlackHole);
                tokio::time::sleep(lasts).await;
                proxy.set_both(Fault::Pass);
                proxy.cut_all();
            }
            HistoryFault::Restart => {
                let _turn = one_at_a_time.lock().await;
                server.kill().await.expect("it can be killed");
                tokio::time::sleep(lasts / 4).await;
                server.restart_with_data().await.expect("it comes back");
            }
            HistoryFault::Pause => {
                let _turn = one_at_a_time.lock().await;
                server.pause().await.expect("it can be stopped");
                tokio::time::sleep(lasts).await;
                server.resume().await.expect("it goes on");
            }
            HistoryFault::FlushScripts => {
                let _turn = one_at_a_time.lock().await;
                server.flush_scripts().await.expect("it answers");
            }
        }
    }
}

fn nanos(began: Instant) -> u64 {
    u64::try_from(began.elapsed().as_nanos()).unwrap_or(u64::MAX)
}
