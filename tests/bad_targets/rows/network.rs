//! Names, ports, sockets and proxies.

use std::io;
use std::net::SocketAddr;

use async_trait::async_trait;
use redgrid_core::config::{Address, Config, Dialer, Resolver, Stream};

use crate::Row;
use crate::targets::{Targets, trusting, url};

pub(super) fn rows(targets: &Targets) -> Vec<Row> {
    let (closed, port) = (targets.closed(), targets.closed);
    let encrypted = |to: String| url(to).map(|config| config.tls(trusting(&targets.encrypted)));
    let unknown = "no-such-host.invalid:7";
    let (missing, file) = (targets.folder.join("missing.sock"), targets.folder.join("no-socket"));
    let long = targets.folder.join("long".repeat(40));
    let resolved = |resolver: Names| Config::single("db.test").map(|config| config.resolver(resolver));
    let proxied = |proxy: &str| {
        let (host, port) = proxy.split_once(':').expect("an address");
        let proxy = Address::new(host, port.parse().expect("a port"));
        Config::single("db.test").map(|config| config.socks_proxy(proxy, None))
    };
    vec![
        Row::new("a closed port", url(format!("redis://{closed}")), &closed, &["Connection refused"]),
        Row::new("a closed port, encrypted", encrypted(format!("rediss://{closed}")), &closed, &["Connection refused"]),
        Row::new("a closed port of IPv6", url(format!("redis://[::1]:{port}")), format!("[::1]:{port}"), &[]),
        Row::new("an unknown name", url(format!("redis://{unknown}")), unknown, &["cannot be resolved"]).lasting(),
        Row::new("an unknown name, encrypted", encrypted(format!("rediss://{unknown}")), unknown, &["resolved"])
            .lasting(),
        Row::new("a name that a resolver does not know", resolved(Names::Unknown), "db.test:6379", &["no such name"])
            .lasting(),
        Row::new("a name without addresses", resolved(Names::Empty), "db.test:6379", &["has no address"]).lasting(),
        Row::new("a resolver that fails", resolved(Names::Fail), "db.test:6379", &["the resolver is overloaded"]),
        Row::new(
            "a name whose addresses are all closed",
            resolved(Names::At(vec![([127, 0, 0, 1], port).into(), ([127, 0, 0, 2], port).into()])),
            "db.test:6379",
            &["127.0.0.2", "Connection refused"],
        ),
        Row::new(
            "a dialer that fails",
            Config::single("db.test").map(|config| config.dialer(Broken)),
            "db.test:6379",
            &["the tunnel is down"],
        ),
        Row::new("a proxy that is not there", proxied(&closed), "db.test:6379", &["SOCKS", "Connection refused"]),
        Row::new("a proxy that is an HTTP server", proxied(&targets.fake("http")), "db.test:6379", &["SOCKS5"]),
        Row::new("a socket that is missing", Config::unix(&missing), missing.display(), &["No such file"]),
        Row::new("a file that is no socket", Config::unix(&file), file.display(), &["Connection refused"]),
        Row::new("a path too long for a socket", Config::unix(&long), long.display(), &["path must be shorter"]),
        Row::new("a host with a `$`", url("redis://a$b"), "", &["$"]).lasting(),
        Row::new("an address of IPv6 without brackets", url("redis://::1:7"), "", &["["]).lasting(),
        Row::new(
            "a database that does not exist",
            url(format!("{}/99", targets.open.url())),
            targets.open.addr(),
            &["DB index"],
        )
        .lasting(),
    ]
}

/// A resolver whose answers lead to no usable server.
enum Names {
    Unknown,
    Empty,
    Fail,
    At(Vec<SocketAddr>),
}

#[async_trait]
impl Resolver for Names {
    async fn resolve(&self, _: &str, _: u16) -> io::Result<Vec<SocketAddr>> {
        match self {
            Names::Unknown => Err(io::Error::new(io::ErrorKind::NotFound, "no such name")),
            Names::Empty => Ok(Vec::new()),
            Names::Fail => Err(io::Error::other("the resolver is overloaded")),
            Names::At(addresses) => Ok(addresses.clone()),
        }
    }
}

struct Broken;

#[async_trait]
impl Dialer for Broken {
    async fn dial(&self, _: &str, _: u16) -> io::Result<Box<dyn Stream>> {
        Err(io::Error::other("the tunnel is down"))
    }
}
