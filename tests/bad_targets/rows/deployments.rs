//! Sentinels, clusters and replicas.

use std::fmt::Display;

use redgrid_core::config::Config;

use crate::Row;
use crate::targets::Targets;

pub(super) fn rows(targets: &Targets) -> Vec<Row> {
    [sentinels(targets), clusters(targets), groups(targets)].into_iter().flatten().collect()
}

fn sentinels(targets: &Targets) -> Vec<Row> {
    let (open, closed, locked) = (targets.open.addr(), targets.closed(), targets.locked.addr());
    let (sentinel, name) = (targets.sentinels.addrs()[0], targets.sentinels.master_name());
    let asked = |at: &dyn Display| Config::sentinel(name, [at.to_string()]);
    let unknown = Config::sentinel("unknown", [sentinel.to_string()]);
    let (http, silent, host) = (targets.fake("http"), targets.fake("silent"), "no-such-host.invalid");
    vec![
        Row::new("a sentinel that is not there", asked(&closed), &closed, &["sentinel", "Connection refused"]),
        Row::new("a name that the sentinel does not know", unknown, sentinel, &["`unknown`", "No such master"])
            .lasting(),
        Row::new("a server that is no sentinel", asked(&open), open, &["unknown command"]).lasting(),
        Row::new("a sentinel that wants a password", asked(&locked), locked, &["not authorized", "NOAUTH"]).lasting(),
        Row::new("a sentinel that is an HTTP server", asked(&http), &http, &["HTTP server"]).lasting(),
        Row::new("a sentinel that says nothing", asked(&silent), &silent, &["sends nothing"]),
        Row::new("a sentinel with an unknown name", asked(&host), "no-such-host.invalid:26379", &["resolved"])
            .lasting(),
        Row::new("a sentinel as a server", Config::single(sentinel.to_string()), sentinel, &["unknown command"]),
    ]
}

fn clusters(targets: &Targets) -> Vec<Row> {
    let (open, closed, locked) = (targets.open.addr(), targets.closed(), targets.locked.addr());
    let cluster = |at: &dyn Display| Config::cluster([at.to_string()]);
    let (http, host) = (targets.fake("http"), "no-such-host.invalid");
    let node = targets.cluster.nodes()[0].addr();
    vec![
        Row::new("a seed that is not there", cluster(&closed), &closed, &["Connection refused"]),
        Row::new("a server without a cluster", cluster(&open), open, &["cluster support disabled"]).lasting(),
        Row::new("a seed that wants a password", cluster(&locked), locked, &["not authorized", "NOAUTH"]).lasting(),
        Row::new("a seed that is an HTTP server", cluster(&http), &http, &["HTTP server"]).lasting(),
        Row::new("a seed with an unknown name", cluster(&host), "no-such-host.invalid:6379", &["resolved"]).lasting(),
        Row::new(
            "a cluster with a wrong password",
            cluster(&node).map(|config| config.credentials(Some("app"), "wrong")),
            node,
            &["not authorized", "WRONGPASS"],
        )
        .lasting(),
        Row::new(
            "two seeds that are wrong in different ways",
            Config::cluster([open.to_string(), format!("{host}:6379")]),
            "",
            &["no node of the cluster"],
        )
        .lasting(),
    ]
}

fn groups(targets: &Targets) -> Vec<Row> {
    let group = |primary: &dyn Display| Config::master_slave(primary.to_string(), [targets.closed()]);
    let (locked, replica) = (targets.locked.addr(), targets.sentinels.servers()[1].addr());
    vec![
        Row::new("a primary that wants a password", group(&locked), locked, &["not authorized", "NOAUTH"]).lasting(),
        Row::new(
            "a primary with an unknown name",
            group(&"no-such-host.invalid"),
            "no-such-host.invalid",
            &["resolved"],
        )
        .lasting(),
        Row::new(
            "a node of a list that wants a password",
            Config::replicated([locked.to_string()]),
            locked,
            &["not authorized", "NOAUTH"],
        )
        .lasting(),
        Row::new("a replica as the primary", group(&replica), replica, &["not a primary", "slave"]),
    ]
}
