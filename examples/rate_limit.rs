//! Shows rate limiters: three services together send at most 20 mails in any second.
//!
//! Run it with `cargo run -p redgrid-examples --example rate_limit`, for a server at 127.0.0.1:6379
//! or `REDGRID_URL`.

use std::time::{Duration, Instant};

use redgrid::Grid;
use redgrid::rate_limiter::{LimitError, Quota, Rate};

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let url = std::env::var("REDGRID_URL").unwrap_or_else(|_| "redis://127.0.0.1:6379".into());
    let services = [Grid::connect(&*url).await?, Grid::connect(&*url).await?, Grid::connect(&*url).await?];

    // A limiter with a log of permits, which Java services can share. The first service sets the
    // rate.
    let began = Instant::now();
    let mut sending = Vec::new();
    for (service, grid) in services.iter().enumerate() {
        let mails = grid.rate_limiter("redgrid-example:mails");
        mails.try_set_rate(Rate::overall(20, Duration::from_secs(1)).keep_alive(Duration::from_secs(60))).await?;
        sending.push(tokio::spawn(async move {
            for mail in 1..=15 {
                mails.acquire().timeout(Duration::from_secs(10)).await?;
                println!("{:>5} ms  service {service} sends mail {mail}", began.elapsed().as_millis());
            }
            Ok::<_, LimitError>(())
        }));
    }
    for service in sending {
        service.await??;
    }

    // This limiter spaces calls evenly and allows bursts of 5; its state is one number on the
    // server.
    let calls = services[0].gcra_limiter("redgrid-example:calls", Quota::per_second(20).burst(5));
    for call in 1..=8 {
        println!("call {call}: {}", if calls.try_acquire().await? { "200 OK" } else { "429 Too Many Requests" });
    }

    calls.reset().await?;
    services[0].rate_limiter("redgrid-example:mails").delete().await?;
    for grid in services {
        grid.shutdown(Duration::from_secs(5)).await?;
    }
    Ok(())
}
