//! A process with tasks that add 1 to a number, each this many times.
//!
//! `incrementer URL NAME TASKS TIMES [once]`: prints `there` once it is connected, then the results
//! of its tasks as one line of JSON.

use redgrid_atomic_long::{AtomicError, AtomicLong, Client};
use redgrid_tests::SOON;

#[tokio::main(flavor = "multi_thread", worker_threads = 2)]
pub(crate) async fn run() -> Result<(), Box<dyn std::error::Error>> {
    let args: Vec<String> = std::env::args().skip(2).collect();
    let [url, name, tasks, times, how] = &args[..] else {
        return Err("incrementer URL NAME TASKS TIMES once|\"\"".into());
    };
    let (tasks, times): (usize, usize) = (tasks.parse()?, times.parse()?);
    let client = Client::connect(&**url).await?;
    client.wait_ready(SOON).await?;
    println!("there");
    let number = AtomicLong::new(&client, name);
    let number = if how == "once" { number.exactly_once() } else { number };
    let tasks: Vec<_> = (0..tasks)
        .map(|_| {
            let number = number.clone();
            tokio::spawn(async move {
                let mut had = Vec::with_capacity(times);
                for _ in 0..times {
                    had.push(number.increment().await?);
                }
                Ok::<_, AtomicError>(had)
            })
        })
        .collect();
    let mut had = Vec::new();
    for task in tasks {
        had.extend(task.await??);
    }
    println!("{}", serde_json::to_string(&had)?);
    Ok(())
}
