//! Users and passwords.

use std::time::Duration;

use async_trait::async_trait;
use redgrid_core::config::{CredentialProvider, Credentials, Secret};

use crate::Row;
use crate::targets::{Targets, url};

pub(super) fn rows(targets: &Targets) -> Vec<Row> {
    let at = targets.locked.addr();
    let wrong: &[&str] = &["not authorized", "WRONGPASS"];
    let provided = |provider: Provider| {
        let config = url(format!("redis://{at}"))?;
        Ok(config.connect_timeout(Duration::from_millis(500)).password_from(provider))
    };
    vec![
        Row::new("a wrong password", url(format!("redis://:wrong@{at}")), at, wrong).lasting(),
        Row::new("no password", url(format!("redis://{at}")), at, &["not authorized", "NOAUTH"]).lasting(),
        Row::new("a wrong user", url(format!("redis://unknown:right@{at}")), at, wrong).lasting(),
        Row::new("a wrong password of a user", url(format!("redis://app:wrong@{at}")), at, wrong).lasting(),
        Row::new("an empty password", url(format!("redis://app:@{at}")), at, wrong).lasting(),
        Row::new(
            "a login that is never enough",
            url(format!("redis://{}", targets.fake("denied"))),
            targets.fake("denied"),
            &["not authorized", "NOAUTH"],
        )
        .lasting(),
        Row::new(
            "a server in protected mode",
            url(format!("redis://{}", targets.fake("protected"))),
            targets.fake("protected"),
            &["not authorized", "protected mode"],
        )
        .lasting(),
        Row::new(
            "a user without a password",
            url(format!("redis://app@{at}")),
            "",
            &["a user logs in with a password"],
        )
        .lasting(),
        Row::new("a provider that fails", provided(Provider::Fails), at, &["the vault is sealed"]),
        Row::new("a provider that panics", provided(Provider::Panics), at, &["panicked"]),
        Row::new("a provider that is slow", provided(Provider::Hangs), at, &["did not answer"]),
        Row::new("a provider with a wrong password", provided(Provider::Wrong), at, &["WRONGPASS"]),
    ]
}

/// Providers that return no usable credentials.
#[derive(Clone, Copy)]
enum Provider {
    Fails,
    Panics,
    Hangs,
    Wrong,
}

#[async_trait]
impl CredentialProvider for Provider {
    async fn fetch(&self) -> Result<Credentials, Box<dyn std::error::Error + Send + Sync>> {
        match self {
            Provider::Fails => Err("the vault is sealed".into()),
            Provider::Panics => panic!("a provider"),
            Provider::Hangs => std::future::pending().await,
            Provider::Wrong => Ok(Credentials { username: None, password: Secret::new("wrong") }),
        }
    }
}
