//! A process that consumes a stream, for tests that kill it.
//!
//! `stream_consumer URL STREAM GROUP CONSUMER IDLE_MS`: prints `there`, then consumes until it is
//! killed. It adds each entry to the set `STREAM:done` before the acknowledgement, and counts each
//! delivery in `STREAM:given`.

use std::io::Write;
use std::time::Duration;

use redgrid_core::{Client, Request};
use redgrid_stream::{Start, Stream};

#[tokio::main(flavor = "current_thread")]
pub(crate) async fn run() -> Result<(), Box<dyn std::error::Error>> {
    let args: Vec<String> = std::env::args().skip(2).collect();
    let [url, name, group, consumer, idle] = &args[..] else {
        return Err("stream_consumer URL STREAM GROUP CONSUMER IDLE_MS".into());
    };
    let client = Client::connect(url.as_str()).await?;
    client.wait_ready(Duration::from_secs(20)).await?;
    let stream: Stream<String, u64> = Stream::new(&client, name);
    let idle = Duration::from_millis(idle.parse()?);
    let mut deliveries =
        stream.group(group.as_str()).consumer(consumer).page(20).claim_idle(idle).create_if_missing(Start::Beginning);
    let mut out = std::io::stdout();
    writeln!(out, "there").and_then(|()| out.flush())?;
    loop {
        let Ok(Some(delivery)) = deliveries.try_next().await else { continue };
        let Some(n) = delivery.get("n") else { continue };
        let done = Request::command("SADD").key(format!("{name}:done")).arg(n.to_string()).idempotent();
        let given = Request::command("INCR").key(format!("{name}:given"));
        let worked: Result<u64, _> = client.run(done).await;
        let _: Result<u64, _> = client.run(given).await;
        if worked.is_ok() {
            let _ = delivery.ack().await;
        }
    }
}
