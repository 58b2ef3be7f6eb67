//! The programs that tests start, in one, so that they are linked once.
//!
//! `role NAME ARGUMENTS`: the file of each role describes its arguments and its output.

mod adder;
mod contender;
mod fair_order;
mod historian;
mod holder;
mod incrementer;
mod issuer;
mod party;
mod stream_consumer;
mod streamer;
mod taker;
mod transferrer;
mod waiter;
mod worker;
mod writer;

use std::process::ExitCode;

fn main() -> Result<ExitCode, Box<dyn std::error::Error>> {
    match std::env::args().nth(1).ok_or("role NAME ARGUMENTS")?.as_str() {
        "adder" => adder::run()?,
        "contender" => contender::run()?,
        "fair_order" => return fair_order::run(),
        "historian" => historian::run()?,
        "holder" => holder::run()?,
        "incrementer" => incrementer::run()?,
        "issuer" => issuer::run()?,
        "party" => party::run()?,
        "stream_consumer" => stream_consumer::run()?,
        "streamer" => streamer::run(),
        "taker" => taker::run()?,
        "transferrer" => transferrer::run()?,
        "waiter" => waiter::run()?,
        "worker" => worker::run()?,
        "writer" => writer::run()?,
        other => return Err(format!("there is no role `{other}`").into()),
    }
    Ok(ExitCode::SUCCESS)
}
