//! Listeners that are no Redis or Valkey servers, or are not ready.

use crate::Row;
use crate::targets::{Targets, url};

pub(super) fn rows(targets: &Targets) -> Vec<Row> {
    let row = |what, name: &str, cause| {
        Row::new(what, url(format!("redis://{}", targets.fake(name))), targets.fake(name), cause)
    };
    vec![
        row("HTTP", "http", &["HTTP server"]).lasting(),
        row("SSH", "ssh", &["SSH server"]).lasting(),
        row("mail", "smtp", &["does not speak the protocol"]).lasting(),
        row("noise", "noise", &["does not speak the protocol"]).lasting(),
        row("an alert", "alert", &["speaks TLS"]).lasting(),
        row("silence", "silent", &["sends nothing"]),
        row("connections that are closed at once", "closing", &["closed"]),
        row("one answer, and a close", "once", &["closed"]),
        row("a proxy that takes no commands", "refusing", &["takes no commands"]),
        row("a server that is full", "full", &["max number of clients"]),
        row("a server that loads its data", "loading", &["LOADING"]),
    ]
}
