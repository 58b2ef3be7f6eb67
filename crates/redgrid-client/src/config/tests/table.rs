//! The table of settings.

use std::path::Path;
use std::time::Duration;

use super::super::draft::Draft;
use super::super::form::Value;
use super::super::table::{DURABILITIES, INTROSPECTION, PROTOCOLS, READ_MODES, SHARDED, SUBSCRIPTION_MODES, TABLE};
use super::super::{
    Access, Config, Durability, Introspection, Protocol, ReadMode, Settings, ShardedSubscriptions, SubscriptionMode,
    Tls, reference,
};
use super::value;

/// `REWRITE=1 cargo test -p redgrid-client --lib the_reference` writes the reference.
#[test]
fn the_reference_in_docs_equals_the_table() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/operating/configuration.md");
    if std::env::var_os("REWRITE").is_some() {
        std::fs::write(&path, reference()).unwrap();
    }
    // Outside the repository, the folder of the reference does not exist.
    if path.parent().is_some_and(Path::exists) {
        assert!(
            std::fs::read_to_string(&path).unwrap() == reference(),
            "docs/operating/configuration.md differs from the table"
        );
    }
}

#[test]
fn every_default_is_within_its_own_bounds_and_reads_back() {
    let mut draft = Draft::of_defaults();
    for setting in TABLE {
        if !setting.default.is_empty() {
            assert_eq!(setting.form.show(&mut draft).as_deref(), Some(setting.default), "{}", setting.name);
        }
        if let Some(shown) = setting.form.show(&mut draft) {
            assert_eq!(setting.form.read(&Value::One(shown.clone()), &mut draft), Ok(()), "{}", setting.name);
            assert_eq!(setting.form.show(&mut draft), Some(shown), "{}", setting.name);
        }
        assert!(setting.about.ends_with('.'), "{}", setting.name);
    }
    let config = Config::single("h").unwrap();
    assert!(config.explain().into_iter().skip(1).all(|one| one.value == one.default));
    assert_eq!(config.access, Access::default());
}

#[test]
fn every_field_of_the_settings_has_a_row() {
    let all = Settings {
        response_timeout: Duration::from_secs(7),
        connect_timeout: Duration::from_secs(7),
        retries: 7,
        retry_delay: Duration::from_secs(7),
        ping_interval: Duration::from_secs(7),
        credentials_interval: Duration::from_secs(7),
        connections_per_node: 7,
        max_in_flight: 99,
        scan_interval: Duration::from_secs(7),
        read_mode: ReadMode::Any,
        subscription_mode: SubscriptionMode::Replica,
        max_replica_lag: Duration::from_secs(7),
        sharded_subscriptions: ShardedSubscriptions::Off,
        protocol: Protocol::Resp2,
        watchdog_lease: Duration::from_secs(8),
        durability: Durability::Replicas { at_least: 7, timeout: Duration::from_secs(7) },
        fair_wait: Duration::from_secs(7),
        fair_depth: 7,
        handover_window: Some(Duration::from_millis(7)),
        poll_interval: Duration::from_secs(7),
        poll_budget: 7,
        namespace: crate::name::Namespace::new("seven").unwrap(),
        client_name: "seven".into(),
        introspection: Introspection::Counts,
    };
    // No value changes if all values are formatted and parsed again.
    let config = Config { settings: all.clone(), ..Config::single("h").unwrap() };
    let mut draft = Draft::of_defaults();
    for one in config.explain() {
        let form = &TABLE.iter().find(|setting| setting.name == one.name).unwrap().form;
        if let (Some(text), false) = (one.value, form.is_masked()) {
            form.read(&Value::One(text), &mut draft).unwrap();
        }
    }
    assert_eq!(draft.finish(super::super::Notes::default()).unwrap().settings, all);
}

#[test]
fn each_word_selects_its_value() {
    let config = |url: &str| Config::from_url(url).unwrap();
    for (word, mode) in READ_MODES.iter().zip([ReadMode::Primary, ReadMode::Replica, ReadMode::Any]) {
        assert_eq!(config(&format!("redis://h?read_mode={word}")).settings.read_mode, mode);
    }
    for (word, mode) in SUBSCRIPTION_MODES.iter().zip([SubscriptionMode::Primary, SubscriptionMode::Replica]) {
        assert_eq!(config(&format!("redis://h?subscription_mode={word}")).settings.subscription_mode, mode);
    }
    let kinds = [ShardedSubscriptions::Auto, ShardedSubscriptions::On, ShardedSubscriptions::Off];
    for (word, kind) in SHARDED.iter().zip(kinds) {
        assert_eq!(config(&format!("redis://h?sharded_subscriptions={word}")).settings.sharded_subscriptions, kind);
    }
    for (word, protocol) in PROTOCOLS.iter().zip([Protocol::Auto, Protocol::Resp3, Protocol::Resp2]) {
        assert_eq!(config(&format!("redis://h?protocol={word}")).settings.protocol, protocol);
    }
    for (word, mode) in INTROSPECTION.iter().zip([Introspection::Full, Introspection::Counts, Introspection::Off]) {
        assert_eq!(config(&format!("redis://h?introspection={word}")).settings.introspection, mode);
    }
    let timeout = Duration::from_secs(1);
    let kinds = [Durability::Primary, Durability::Replicas { at_least: 1, timeout }, Durability::Disk { timeout }];
    for (word, kind) in DURABILITIES.iter().zip(kinds) {
        assert_eq!(config(&format!("redis://h?durability={word}")).settings.durability, kind);
    }
}

#[test]
fn settings_in_code_are_explained_and_checked() {
    let tls = Tls::new().ca_file("/ca.pem").client_certificate("/cert.pem", "/key.pem").server_name("db");
    let config = Config::cluster(["h:1", "h:2"]).unwrap().tls(tls).fair_wait(Duration::from_secs(5));
    assert_eq!(value(&config, "tls_key_file").as_deref(), Some("/key.pem"));
    assert_eq!(value(&config, "cluster").as_deref(), Some("h:1,h:2"));
    assert_eq!(value(&config, "fair_wait").as_deref(), Some("5s"));
    let config = Config::single("h").unwrap().watchdog_lease(Duration::from_millis(5));
    let error = config.check().unwrap_err().to_string();
    assert!(error.contains("5ms") && error.contains("100ms") && error.contains("`watchdog_lease`"), "{error}");
    assert!(Config::single("h").unwrap().client_name("a b").check().is_err());
    assert!(Config::single("h").unwrap().poll_budget(0).check().is_err());
    assert!(Config::single("h").unwrap().check().is_ok());
    let replicas = |at_least| Durability::Replicas { at_least, timeout: Duration::from_secs(1) };
    let config = |at_least| Config::single("h").unwrap().durability(replicas(at_least));
    assert_eq!((config(0).settings.durability, config(0).check()), (Durability::Primary, Ok(())));
    assert_eq!((config(1).settings.durability, config(1).check()), (replicas(1), Ok(())));
    assert!(config(101).check().is_err());
}
