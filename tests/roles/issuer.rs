//! A process that takes ids and records them, for tests that kill it.
//!
//! `issuer URL KIND NAME FOLDER TASKS CHUNK`: KIND is `blocks` or `times`. Prints `there` once it
//! has an id. Each task appends its ids to its own file in FOLDER, eight bytes each, CHUNK at a
//! time, until the process is killed.

use std::fs::File;
use std::io::{BufWriter, Write};
use std::path::Path;

use redgrid_core::Client;
use redgrid_id_generator::{IdError, IdGenerator, TimeOrderedId};

#[derive(Clone)]
enum Ids {
    Blocks(IdGenerator),
    Times(TimeOrderedId),
}

impl Ids {
    async fn next(&self) -> Result<i64, IdError> {
        match self {
            Ids::Blocks(ids) => ids.next().await,
            Ids::Times(ids) => ids.next().await,
        }
    }
}

#[tokio::main(flavor = "multi_thread", worker_threads = 2)]
pub(crate) async fn run() -> Result<(), Box<dyn std::error::Error>> {
    let args: Vec<String> = std::env::args().skip(2).collect();
    let [url, kind, name, folder, tasks, chunk] = &args[..] else {
        return Err("issuer URL KIND NAME FOLDER TASKS CHUNK".into());
    };
    let client = Client::connect(url).await?;
    let ids = match kind.as_str() {
        "blocks" => Ids::Blocks(IdGenerator::new(&client, name)),
        "times" => Ids::Times(TimeOrderedId::new(&client, name)),
        other => return Err(format!("no such kind: {other}").into()),
    };
    let chunk: usize = chunk.parse()?;
    let mut files = Vec::new();
    for task in 0..tasks.parse()? {
        files.push(File::create_new(Path::new(folder).join(format!("{}-{task}", std::process::id())))?);
    }
    while ids.next().await.is_err() {}
    println!("there");
    let tasks = files.into_iter().map(|file| {
        let ids = ids.clone();
        tokio::spawn(async move {
            let mut file = BufWriter::with_capacity(8 * chunk, file);
            loop {
                // Retries while the server restarts.
                let Ok(id) = ids.next().await else { continue };
                if file.write_all(&id.to_le_bytes()).is_err() {
                    return;
                }
            }
        })
    });
    futures_util::future::join_all(tasks.collect::<Vec<_>>()).await;
    Ok(())
}
