//! TLS, by rustls. The server's certificate is verified. Only a `rustls::ClientConfig` that the
//! program supplies can change this.

#[cfg(feature = "tls")]
mod certificates;

#[cfg(feature = "tls")]
pub(crate) use with::Encryption;
#[cfg(not(feature = "tls"))]
pub(crate) use without::Encryption;

#[cfg(feature = "tls")]
mod with {
    use std::io;
    use std::sync::Arc;

    use rustls::ClientConfig;
    use rustls::pki_types::ServerName;
    use tokio_rustls::TlsConnector;

    use super::certificates::{Pems, Wrong};
    use crate::config::network::Stream;
    use crate::config::{Config, ConfigError, Tls};
    use crate::sync::Mutex;

    /// TLS state that all connections of a client share: certificates, and sessions to resume.
    pub(crate) struct Encryption {
        tls: Tls,
        current: Mutex<Current>,
        /// Locked while the files are read, so that reads never overlap. Thus a slow read cannot
        /// replace newer contents, and a file system that hangs blocks at most one thread.
        reading: Arc<tokio::sync::Mutex<()>>,
    }

    struct Current {
        connector: TlsConnector,
        /// The PEM texts from which the connector was made. `None` if no file is configured: then
        /// the texts cannot change.
        pems: Option<Pems>,
        /// Why the files cannot be used at the moment; this reason has been logged.
        trouble: Option<String>,
    }

    impl Encryption {
        /// Reads the configured certificates. Returns `None` if TLS is not configured.
        ///
        /// # Errors
        ///
        /// [`ConfigError`] names the setting, and the file if there is one.
        pub(crate) fn of(config: &Config) -> Result<Option<Arc<Self>>, ConfigError> {
            let Some(tls) = &config.access.tls else { return Ok(None) };
            let wrong = |Wrong { setting, expected }| ConfigError::Value { origin: config.origin(setting), expected };
            if let Some(name) = &tls.server_name {
                ServerName::try_from(name.as_str()).map_err(|_| {
                    let expected = format!("a host name or an IP address, found `{}`", name.escape_debug());
                    wrong(Wrong { setting: "tls_server_name", expected })
                })?;
            }
            let (client, pems) = match &tls.own {
                Some(own) => (ClientConfig::clone(&own.0), None),
                None => {
                    let pems = Pems::read(tls).map_err(wrong)?;
                    (pems.client_config().map_err(wrong)?, tls.has_files().then_some(pems))
                }
            };
            let current = Mutex::new(Current { connector: Arc::new(client).into(), pems, trouble: None });
            Ok(Some(Arc::new(Encryption { tls: tls.clone(), current, reading: Arc::default() })))
        }

        /// Encrypts a stream to the server `host`.
        ///
        /// The server's certificate must be valid for the configured `server_name` or, without this
        /// setting, for `host`.
        pub(crate) async fn encrypt(&self, stream: Box<dyn Stream>, host: &str) -> io::Result<Box<dyn Stream>> {
            let name = self.tls.server_name.as_deref().unwrap_or(host).to_owned();
            let name = ServerName::try_from(name).map_err(io::Error::other)?;
            let connector = self.current.lock().connector.clone();
            Ok(Box::new(connector.connect(name, stream).await?))
        }

        /// Reads the files again, and applies changes.
        ///
        /// If the files are unusable, the former certificates stay in use. The reason is logged.
        /// While later reads fail for the same reason, it is not logged again.
        ///
        /// # Cancel safety
        ///
        /// The future can be dropped at any time. A read that has begun then continues in the
        /// background, and the next read waits for its end.
        pub(crate) async fn refresh(self: &Arc<Self>) {
            if self.current.lock().pems.is_none() {
                return;
            }
            let shared = Arc::clone(self);
            let reading = Arc::clone(&shared.reading).lock_owned().await;
            // A blocking thread reads the files, because they may be on a slow disk or on another
            // machine.
            let read = tokio::task::spawn_blocking(move || {
                shared.read_again();
                drop(reading);
            });
            let _ = read.await;
        }

        fn read_again(&self) {
            let changed = Pems::read(&self.tls).and_then(|pems| {
                if self.current.lock().pems.as_ref() == Some(&pems) {
                    return Ok(None);
                }
                Ok(Some((pems.client_config()?, pems)))
            });
            let mut current = self.current.lock();
            match changed {
                Ok(None) => current.trouble = None,
                Ok(Some((client, pems))) => {
                    *current = Current { connector: Arc::new(client).into(), pems: Some(pems), trouble: None };
                    tracing::info!("new connections use the certificates that the files have now");
                }
                Err(Wrong { setting, expected }) => {
                    if current.trouble.as_ref() != Some(&expected) {
                        tracing::warn!("`{setting}`: expected {expected}; the former certificates are still used");
                        current.trouble = Some(expected);
                    }
                }
            }
        }
    }

    #[cfg(all(test, unix))]
    mod tests {
        use std::future::Future;
        use std::time::Duration;

        use rustls::RootCertStore;

        use super::*;

        fn encryption(tls: Tls) -> Arc<Encryption> {
            let client = ClientConfig::builder_with_provider(Arc::new(rustls::crypto::ring::default_provider()))
                .with_safe_default_protocol_versions()
                .unwrap()
                .with_root_certificates(RootCertStore::empty())
                .with_no_client_auth();
            let pems = Pems::read(&Tls::default()).ok();
            let current = Mutex::new(Current { connector: Arc::new(client).into(), pems, trouble: None });
            Arc::new(Encryption { tls, current, reading: Arc::default() })
        }

        async fn in_time<T>(limit: Duration, work: impl Future<Output = T>) -> Option<T> {
            tokio::time::timeout(limit, work).await.ok()
        }

        #[test]
        fn a_file_system_that_hangs_occupies_one_thread() {
            let pipe = std::env::temp_dir().join(format!("redgrid-certificates-{}", std::process::id()));
            // Opening the pipe for reading blocks until there is a writer, and there never is one.
            assert!(std::process::Command::new("mkfifo").arg(&pipe).status().unwrap().success());
            let encryption = encryption(Tls { ca_file: Some(pipe.clone()), ..Tls::default() });
            let runtime =
                tokio::runtime::Builder::new_current_thread().enable_time().max_blocking_threads(2).build().unwrap();
            let is_free = runtime.block_on(async {
                for _ in 0..3 {
                    assert!(in_time(Duration::from_millis(20), encryption.refresh()).await.is_none());
                }
                in_time(Duration::from_secs(10), tokio::task::spawn_blocking(|| ())).await.is_some()
            });
            // The read that has begun never ends, so the shutdown must not wait for it.
            runtime.shutdown_background();
            std::fs::remove_file(&pipe).unwrap();
            assert!(is_free, "no blocking thread is left");
        }
    }
}

#[cfg(not(feature = "tls"))]
mod without {
    use std::io;
    use std::sync::Arc;

    use crate::config::network::Stream;
    use crate::config::{Config, ConfigError};

    /// This type has no values: without the feature `tls`, no connection is encrypted.
    pub(crate) enum Encryption {}

    impl Encryption {
        pub(crate) fn of(config: &Config) -> Result<Option<Arc<Self>>, ConfigError> {
            if config.access.tls.is_none() {
                return Ok(None);
            }
            let clause = "needs the feature `tls` of redgrid, which this program is built without".into();
            Err(ConfigError::Unsupported { origin: config.origin("tls"), clause })
        }

        pub(crate) async fn encrypt(&self, _: Box<dyn Stream>, _: &str) -> io::Result<Box<dyn Stream>> {
            match *self {}
        }

        pub(crate) async fn refresh(&self) {
            match *self {}
        }
    }
}

#[cfg(all(test, not(feature = "tls")))]
mod tests {
    use crate::Config;

    #[test]
    fn without_the_feature_encryption_is_refused_and_the_feature_named() {
        let error = super::Encryption::of(&Config::from_url("rediss://h").unwrap()).err().unwrap().to_string();
        assert!(error.contains("the feature `tls`") && error.contains("the URL"), "{error}");
    }
}
