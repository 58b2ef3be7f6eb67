//! TLS, by rustls. The server's certificate is always verified; the only thing to choose is the name that must be in it.

#[cfg(feature = "tls")]
pub(super) use with::Encryption;
#[cfg(not(feature = "tls"))]
pub(super) use without::Encryption;

#[cfg(feature = "tls")]
mod with {
    use std::net::SocketAddr;
    use std::path::Path;
    use std::sync::Arc;

    use fred::prelude::{Config as FredConfig, Server as FredServer};
    use fred::types::config::TlsConnector;
    use rustls::pki_types::pem::{Error as PemError, PemObject};
    use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName};
    use rustls::{ClientConfig, RootCertStore};

    use crate::config::{Address, Config, ConfigError, Tls};

    /// What all connections of a client share: certificates, and sessions to take up again.
    #[derive(Clone)]
    pub(in crate::connection) struct Encryption {
        connector: TlsConnector,
        server_name: Option<String>,
    }

    impl Encryption {
        /// Reads the files that the configuration names; `None` where it speaks in the clear.
        pub(in crate::connection) fn of(config: &Config) -> Result<Option<Self>, ConfigError> {
            let Some(tls) = &config.access.tls else { return Ok(None) };
            let wrong = |name, expected| ConfigError::Value { origin: config.origin(name), expected };
            if let Some(name) = &tls.server_name {
                ServerName::try_from(name.as_str()).map_err(|_| {
                    wrong("tls_server_name", format!("a host name or an IP address, found `{}`", name.escape_debug()))
                })?;
            }
            // Named here, and not installed for the whole process: another library may want another one.
            let provider = Arc::new(rustls::crypto::ring::default_provider());
            let builder = ClientConfig::builder_with_provider(provider)
                .with_safe_default_protocol_versions()
                .map_err(|error| wrong("tls", format!("a usable crypto library, found: {error}")))?
                .with_root_certificates(authorities(tls).map_err(|(name, expected)| wrong(name, expected))?);
            let client = match (&tls.cert_file, &tls.key_file) {
                (Some(cert), Some(key)) => {
                    let chain = certificates(cert).map_err(|expected| wrong("tls_cert_file", expected))?;
                    let secret = private_key(key).map_err(|expected| wrong("tls_key_file", expected))?;
                    builder.with_client_auth_cert(chain, secret).map_err(|error| {
                        let (key, cert) = (key.display(), cert.display());
                        let expected = format!("the key in {key} to belong to the certificate in {cert}: {error}");
                        wrong("tls_key_file", expected)
                    })?
                }
                _ => builder.with_no_client_auth(),
            };
            Ok(Some(Encryption { connector: client.into(), server_name: tls.server_name.clone() }))
        }

        /// The server at `address`, reached at `at`, with the name that its certificate must have: the host, unless it is set.
        pub(in crate::connection) fn server(&self, address: &Address, at: SocketAddr) -> FredServer {
            let name = self.server_name.clone().unwrap_or_else(|| address.host.clone());
            FredServer::new_with_tls(at.ip().to_string(), at.port(), Some(name))
        }

        pub(in crate::connection) fn set_up(&self, config: &mut FredConfig) {
            config.tls = Some(self.connector.clone().into());
        }
    }

    /// Who may sign: those of the file, all of them usable, or those of the system, as far as they are.
    fn authorities(tls: &Tls) -> Result<RootCertStore, (&'static str, String)> {
        let mut roots = RootCertStore::empty();
        match &tls.ca_file {
            Some(path) => {
                for certificate in certificates(path).map_err(|expected| ("tls_ca_file", expected))? {
                    roots.add(certificate).map_err(|error| {
                        ("tls_ca_file", format!("certificates of authorities in {}: {error}", path.display()))
                    })?;
                }
            }
            None => {
                let found = rustls_native_certs::load_native_certs();
                let (_, unusable) = roots.add_parsable_certificates(found.certs);
                if unusable > 0 || !found.errors.is_empty() {
                    tracing::debug!(unusable, errors = ?found.errors, "some of the system's authorities were left out");
                }
                if roots.is_empty() {
                    let expected = "authorities that this system trusts, found none; `tls_ca_file` names others";
                    return Err(("tls", expected.into()));
                }
            }
        }
        Ok(roots)
    }

    fn certificates(path: &Path) -> Result<Vec<CertificateDer<'static>>, String> {
        let all = CertificateDer::pem_file_iter(path).and_then(Iterator::collect::<Result<Vec<_>, _>>);
        match all {
            Ok(none) if none.is_empty() => Err(format!("certificates (PEM) in {}, found none", path.display())),
            Ok(all) => Ok(all),
            Err(error) => Err(unreadable("certificates (PEM)", path, &error)),
        }
    }

    fn private_key(path: &Path) -> Result<PrivateKeyDer<'static>, String> {
        PrivateKeyDer::from_pem_file(path)
            .map_err(|error| unreadable("a private key without a password (PEM)", path, &error))
    }

    fn unreadable(what: &str, path: &Path, error: &PemError) -> String {
        let path = path.display();
        match error {
            PemError::Io(error) => format!("{what} in {path}, which can not be read: {error}"),
            PemError::NoItemsFound => format!("{what} in {path}, found none"),
            // No text of the file: it may hold a key.
            _ => format!("{what} in {path}, which is damaged or something else"),
        }
    }
}

#[cfg(not(feature = "tls"))]
mod without {
    use std::net::SocketAddr;

    use fred::prelude::{Config as FredConfig, Server as FredServer};

    use crate::config::{Address, Config, ConfigError};

    /// There is none.
    #[derive(Clone)]
    pub(in crate::connection) enum Encryption {}

    impl Encryption {
        pub(in crate::connection) fn of(config: &Config) -> Result<Option<Self>, ConfigError> {
            if config.access.tls.is_none() {
                return Ok(None);
            }
            let clause = "needs the feature `tls` of redgrid, which this program is built without".into();
            Err(ConfigError::Unsupported { origin: config.origin("tls"), clause })
        }

        pub(in crate::connection) fn server(&self, _: &Address, _: SocketAddr) -> FredServer {
            match *self {}
        }

        pub(in crate::connection) fn set_up(&self, _: &mut FredConfig) {
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
