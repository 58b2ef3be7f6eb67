//! URLs.

use super::super::{Address, Config, MasterSlave, Secret, Sentinel, Servers, Tls};
use super::value;

fn url(text: &str) -> Config {
    Config::from_url(text).unwrap_or_else(|error| panic!("{text}: {error}"))
}

fn at(host: &str, port: u16) -> Address {
    Address::new(host, port)
}

#[test]
fn a_url_is_read_with_all_its_parts() {
    let config = url("redis://alice:p%40ss@db.example:7000/3");
    assert_eq!(config.servers, Servers::Single(at("db.example", 7000)));
    assert_eq!((config.access.username.as_deref(), config.access.database), (Some("alice"), 3));
    assert_eq!(config.access.password.as_ref().map(Secret::reveal), Some("p@ss"));
    for (text, address) in [
        ("redis://127.0.0.1", at("127.0.0.1", 6379)),
        ("valkey://[::1]:7", at("::1", 7)),
        ("redis://h/", at("h", 6379)),
        ("redis://:secret@h:1", at("h", 1)),
    ] {
        assert_eq!(url(text).servers, Servers::Single(address), "{text}");
    }
}

#[test]
fn a_scheme_selects_the_topology() {
    let sentinel = Sentinel {
        provider: None,
        sentinels: vec![at("h1", 26379), at("h2", 5000)],
        master_name: "my master".into(),
        username: None,
        password: Some(Secret::new("p")),
    };
    let config = url("redis-sentinel://u:pw@h1,h2:5000/my%20master/4?sentinel_password=p");
    assert_eq!((&config.servers, config.access.database), (&Servers::Sentinel(sentinel), 4));
    let cluster = Servers::Cluster(vec![at("h1", 7000), at("h2", 6379)]);
    assert_eq!(url("redis-cluster://h1:7000,h2").servers, cluster);
    assert_eq!(url("valkey-cluster://h1:7000,h2/").servers, cluster);
    let group =
        Servers::MasterSlave(MasterSlave { primary: at("p", 6379), replicas: vec![at("r1", 1), at("r2", 6379)] });
    assert_eq!(url("redis-master-slave://p,r1:1,r2").servers, group);
    for text in [
        "unix:///run/r.sock",
        "redis+unix:///run/r.sock",
        "redis+uds:///run/r.sock",
        "redis+unix://u:p@/run/r.sock?database=2",
    ] {
        assert_eq!(url(text).servers, Servers::Unix("/run/r.sock".into()), "{text}");
    }
}

#[test]
fn encryption_is_in_the_scheme_or_a_setting() {
    for text in [
        "rediss://h",
        "valkeys://h",
        "rediss-sentinel://h/m",
        "valkeys-cluster://h",
        "redis://h?tls=true",
        "rediss://h?tls=true",
    ] {
        assert_eq!(url(text).access.tls, Some(Tls::default()), "{text}");
    }
    assert_eq!(url("redis://h?tls=false").access.tls, None);
    assert_eq!(value(&url("rediss://h?tls_ca_file=/etc/ca.pem"), "tls_ca_file").as_deref(), Some("/etc/ca.pem"));
}

#[test]
fn settings_follow_in_the_query() {
    let config = url(
        "redis://h?response_timeout=1s&namespace=prod&read_mode=replica&local_handover_window=auto&retry_delay=250ms&client_name=a%2Bb",
    );
    for (name, text) in [
        ("response_timeout", "1s"),
        ("namespace", "prod"),
        ("read_mode", "replica"),
        ("retry_delay", "250ms"),
        ("client_name", "a+b"),
    ] {
        assert_eq!(value(&config, name).as_deref(), Some(text), "{name}");
    }
    // A value set in code overrides a value of the URL.
    assert_eq!(
        value(&config.response_timeout(std::time::Duration::from_secs(9)), "response_timeout").as_deref(),
        Some("9s")
    );
}

#[test]
fn constructors_and_urls_agree() {
    for (made, text) in [
        (Config::single("h:1"), "redis://h:1"),
        (Config::master_slave("p", ["a", "b:2"]), "redis-master-slave://p,a,b:2"),
        (Config::master_slave("p", [""; 0]), "redis-master-slave://p"),
        (Config::replicated(["a", "b:2"]), "redis-replicated://a,b:2"),
        (Config::sentinel("m", ["a", "b"]), "redis-sentinel://a,b/m"),
        (Config::cluster(["a", "b"]), "redis-cluster://a,b"),
        (Config::unix("/s"), "unix:///s"),
    ] {
        assert_eq!(made.unwrap().servers, url(text).servers, "{text}");
    }
    assert_eq!(url("valkeys-replicated://:p@a,b/3").access.database, 3);
    assert!(
        Config::cluster([""; 0]).is_err()
            && Config::replicated([""; 0]).is_err()
            && Config::sentinel("m", [""; 0]).is_err()
            && Config::sentinel("", ["a"]).is_err()
    );
    assert!(Config::single("").is_err() && Config::unix("").is_err() && Config::single("redis://h").is_err());
}
