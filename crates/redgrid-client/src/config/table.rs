//! The table of settings: names, forms, bounds, and descriptions. Parsing, checks,
//! `redgrid config check` and docs/operating/configuration.md all read it. The defaults are those of the
//! literals that it refers to.

use std::time::Duration;

use super::draft::Draft;
use super::form::Form;
use super::settings::{LONGEST_LEASE, LONGEST_WINDOW, SHORTEST_LEASE};
use crate::name::Namespace;

/// One setting.
pub(super) struct Setting {
    pub(super) name: &'static str,
    pub(super) group: Group,
    pub(super) form: Form,
    /// A description, with the price of larger and smaller values.
    pub(super) about: &'static str,
}

impl Setting {
    /// Whether the draft has a value for it. A switch has one if it is on.
    pub(super) fn is_set(&self, draft: &mut Draft) -> bool {
        match self.form {
            Form::Switch(at) => *at(draft),
            _ => self.form.show(draft).is_some(),
        }
    }
}

/// The group of a setting; a heading of the reference.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Group {
    Servers,
    Access,
    Connections,
    Holds,
    Waiting,
    Names,
}

impl Group {
    pub(super) const ALL: [Group; 6] =
        [Group::Servers, Group::Access, Group::Connections, Group::Holds, Group::Waiting, Group::Names];
}

/// Returns the setting of this name.
pub(super) fn setting(name: &str) -> Option<&'static Setting> {
    TABLE.iter().find(|setting| setting.name == name)
}

/// Returns all names.
pub(super) fn names() -> impl Iterator<Item = &'static str> {
    TABLE.iter().map(|setting| setting.name)
}

/// Builds the table: for each setting of a group its name, its form and its description.
macro_rules! table {
    ($($group:ident { $($name:ident: $form:expr => $about:literal;)* })*) => {
        &[$($(Setting { name: stringify!($name), group: Group::$group, form: $form, about: $about },)*)*]
    };
}

const fn ms(millis: u64) -> Duration {
    Duration::from_millis(millis)
}

/// Upper bound of all times except leases. A longer one is a mistake in the unit.
const DAY: Duration = Duration::from_secs(24 * 3600);

pub(super) const READ_MODES: &[&str] = &["primary", "replica", "any"];
pub(super) const SUBSCRIPTION_MODES: &[&str] = &["primary", "replica"];
pub(super) const SHARDED: &[&str] = &["auto", "on", "off"];
pub(super) const PROTOCOLS: &[&str] = &["auto", "resp3", "resp2"];
pub(super) const DURABILITIES: &[&str] = &["primary", "replicas", "disk"];

use Form::{Address, AddressMap, Addresses, AutoTime, Choice, Count, File, Pem, Secret, Switch, Text, Time};

pub(super) static TABLE: &[Setting] = table! {
    Servers {
        single: Address(|d| &mut d.single, 6379) => "One server.";
        unix: File(|d| &mut d.unix) => "One server of this machine, by its socket.";
        primary: Address(|d| &mut d.primary, 6379) => "The primary of a fixed pair or group, without a service that promotes replicas.";
        replicas: Addresses(|d| &mut d.replicas, 6379) => "Its replicas, for reads.";
        replicated: Addresses(|d| &mut d.replicated, 6379) =>
            "All nodes of a group without sentinels, in any order. They are asked which of them is the primary.";
        sentinels: Addresses(|d| &mut d.sentinels, 26379) =>
            "The sentinels that know the primary; one that answers is enough.";
        master_name: Text(|d| &mut d.master_name, some) => "What the sentinels call the primary.";
        sentinel_username: Text(|d| &mut d.sentinel_access.username, some) =>
            "The user at the sentinels, where that is another one than `default`.";
        sentinel_password: Secret(|d| &mut d.sentinel_access.password) =>
            "The password at the sentinels. That of the servers is not tried there. One that changes comes from a provider, set in code.";
        cluster: Addresses(|d| &mut d.cluster, 6379) =>
            "Some nodes of a cluster; one that answers tells of all others.";
    }
    Access {
        username: Text(|d| &mut d.access.username, some) => "The ACL user, where that is another one than `default`.";
        password: Secret(|d| &mut d.access.password) => "Its password. One that changes comes from a provider, set in code.";
        credentials_interval: Time(|d| &mut d.settings.credentials_interval, ms(10), DAY) =>
            "How often a provider is asked for the password of the connections that live, for all of them at once; each new connection asks by itself. Shorter follows a rotation sooner; longer spares the provider.";
        database: Count(|d| &mut d.database, 0, 255) => "The database; a cluster has only 0.";
        tls: Switch(|d| &mut d.tls) => "Encryption. The server's certificate and name are always verified.";
        tls_ca_file: File(|d| &mut d.tls_options.ca_file) =>
            "File (PEM) with the authorities that may sign the server's certificate, instead of the system's. Read before each new connection, as are the next two.";
        tls_cert_file: File(|d| &mut d.tls_options.cert_file) => "File (PEM) with the client's certificate.";
        tls_key_file: File(|d| &mut d.tls_options.key_file) => "File (PEM) with its private key.";
        tls_ca_pem: Pem(|d| &mut d.tls_options.ca_pem) => "The authorities as PEM text, instead of a file.";
        tls_cert_pem: Pem(|d| &mut d.tls_options.cert_pem) => "The client's certificate as PEM text, instead of a file.";
        tls_key_pem: Pem(|d| &mut d.tls_options.key_pem) => "Its private key as PEM text, instead of a file.";
        tls_server_name: Text(|d| &mut d.tls_options.server_name, some) =>
            "The name in the server's certificate, where it is not the host that is connected to.";
    }
    Connections {
        response_timeout: Time(|d| &mut d.settings.response_timeout, ms(10), DAY) =>
            "How long one answer may take, unless a long request or reply is still on its way. Longer tolerates slow scripts and networks; shorter notices a hung server sooner. A call that was given no bound of its own ends after `response_timeout × (retries + 1)` without contact.";
        connect_timeout: Time(|d| &mut d.settings.connect_timeout, ms(10), DAY) =>
            "How long setting up one connection may take, names and certificates included. Longer tolerates distant servers; shorter turns to the next one sooner.";
        retries: Count(|d| &mut d.settings.retries, 0, 1000) =>
            "How often a request without an answer is tried again, where that is safe. More waits longer without contact; fewer gives up sooner.";
        retry_delay: Time(|d| &mut d.settings.retry_delay, ms(1), DAY) =>
            "The mean wait before that, spread by half. Longer spares a server in trouble; shorter recovers sooner.";
        ping_interval: Time(|d| &mut d.settings.ping_interval, ms(10), DAY) =>
            "How often an idle connection is asked whether it lives. A dead one is noticed after this and one `response_timeout`; shorter costs a request each.";
        connections_per_node: Count(|d| &mut d.settings.connections_per_node, 1, 16) =>
            "Connections for requests to each node; subscriptions have one of their own. One is pipelined; more help where the server has I/O threads. All requests of a name use the same one.";
        max_in_flight: Count(|d| &mut d.settings.max_in_flight, 1, 65_536) =>
            "How many requests may be under way at one node. Further ones wait in the client, and that is not part of their `response_timeout`. More takes more memory and makes one answer wait for more others; less leaves a distant server idle.";
        address_map: AddressMap(|d| &mut d.network.address_map, 6379) =>
            "Addresses that servers and sentinels name, and what they are from here (NAT, port forwarding). Others stay as they are.";
        socks_proxy: Address(|d| &mut d.socks_proxy, 1080) =>
            "A SOCKS5 proxy that opens all connections. It also resolves the names of servers.";
        socks_username: Text(|d| &mut d.socks_username, some) => "The user at the proxy.";
        socks_password: Secret(|d| &mut d.socks_password) => "The password at the proxy.";
        scan_interval: Time(|d| &mut d.settings.scan_interval, ms(10), DAY) =>
            "How often the topology is checked without a notification of a change. It bounds how long an unreported change goes unnoticed; a shorter interval sends more requests. A cluster or sentinels are asked every 100 ms while a primary does not answer, for a minute.";
        read_mode: Choice(READ_MODES, |d| &mut d.read_mode) =>
            "Which nodes answer reads: the primary, the replicas, or all. Replicas are behind by the replication lag. Locks and all that is written always ask the primary.";
        subscription_mode: Choice(SUBSCRIPTION_MODES, |d| &mut d.subscription_mode) =>
            "Where waiters listen: at the primary, or at a replica of it, which spares the primary and has each release answered by two servers. Where no replica is fit, at the primary. All services that share locks must agree.";
        max_replica_lag: Time(|d| &mut d.settings.max_replica_lag, ms(10), DAY) =>
            "How far a replica may be behind and still be asked: it is to have by now all that its primary had so long ago. Compared every `scan_interval`, so one that falls behind is found out that much later. Longer asks slow ones, too; shorter turns to the primary sooner.";
        sharded_subscriptions: Choice(SHARDED, |d| &mut d.sharded_subscriptions) =>
            "Whether a cluster's messages go by sharded channels; `auto` where the servers have them, as Redisson does. All services that share locks must agree.";
        protocol: Choice(PROTOCOLS, |d| &mut d.protocol) =>
            "Which protocol is spoken: `auto` is RESP3, and RESP2 where a server or proxy refuses `HELLO 3`. `resp2` never sends HELLO, for proxies that end the connection on it.";
    }
    Holds {
        watchdog_lease: Time(|d| &mut d.settings.watchdog_lease, SHORTEST_LEASE, LONGEST_LEASE) =>
            "The lease of holds that are renewed, every third of it. Longer survives longer pauses and failovers; shorter frees the locks of a dead process sooner.";
        durability: Choice(DURABILITIES, |d| &mut d.durability) =>
            "Where a grant and its renewals must have arrived before they count: the primary's memory, replicas, or the primary's disk. More survives more, and costs a round trip of the servers each.";
        durability_at_least: Count(|d| &mut d.durability_at_least, 1, 100) =>
            "How many replicas, with `durability: replicas`. All that may be promoted, for locks that survive any failover; then one that is missing stops new grants.";
        durability_timeout: Time(|d| &mut d.durability_timeout, ms(10), DAY) =>
            "How long that may take; then the grant is given back. Longer tolerates lagging replicas; shorter tells sooner.";
        fair_wait: Time(|d| &mut d.settings.fair_wait, ms(1000), DAY) =>
            "How long a place in the queue of a fair lock outlives a silent process. It must exceed the difference between the clocks of hosts with Java services; shorter skips the dead sooner.";
        fair_depth: Count(|d| &mut d.settings.fair_depth, 1, 1000) =>
            "How many waiters of a process have places of their own in the queue of a fair lock; the rest wait behind them inside the process. More makes shares follow demand; fewer spares the server.";
        local_handover_window: AutoTime(|d| &mut d.settings.handover_window, Duration::ZERO, LONGEST_WINDOW)
            =>
            "How long a lock may pass from task to task of a process while others wait elsewhere; `auto` is ten round trips, at least 10 ms. Longer is not faster; shorter makes processes alternate more often; `0s` asks the server for every task.";
    }
    Waiting {
        poll_interval: Time(|d| &mut d.settings.poll_interval, ms(10), DAY) =>
            "How often a waiter looks by itself although its subscription is in force. It bounds the wait after a message that never came; longer looks less.";
        poll_budget: Count(|d| &mut d.settings.poll_budget, 1, 1_000_000) =>
            "Names that waiters look at by themselves, per second and node. It bounds what waiters cost the server; more finds a release without a message sooner.";
    }
    Names {
        namespace: Text(|d| &mut d.namespace, namespace) =>
            "In front of every key and channel: `namespace:name`. No braces, at most 256 bytes.";
        client_name: Text(|d| &mut d.client_name, client_name) =>
            "What the connections are called in `CLIENT LIST`: printable ASCII without spaces.";
    }
};

fn some(text: &str) -> Result<(), &'static str> {
    if text.is_empty() { Err("at least one character") } else { Ok(()) }
}

fn namespace(text: &str) -> Result<(), &'static str> {
    Namespace::new(text).map(drop).map_err(|invalid| match invalid.rule {
        rule if rule.contains("braces") => "a namespace without braces",
        _ => "a namespace of at most 256 bytes",
    })
}

fn client_name(text: &str) -> Result<(), &'static str> {
    if text.is_empty() || text.contains(|c: char| !c.is_ascii_graphic()) {
        Err("printable ASCII without spaces, at least one character")
    } else {
        Ok(())
    }
}
