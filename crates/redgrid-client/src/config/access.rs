//! Logins: passwords, credential providers, and certificates.

use std::error::Error;
use std::fmt;
use std::path::PathBuf;
use std::sync::Arc;

use async_trait::async_trait;

/// The login, the database and the encryption for the servers that hold the data. Sentinels have a
/// login of their own.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Access {
    /// The ACL user. `None` means the default user.
    pub username: Option<String>,
    /// The password. `None` when the server needs none, or when `provider` supplies it.
    pub password: Option<Secret>,
    /// Supplies user and password for each connection, instead of `username` and `password`.
    pub provider: Option<Provider>,
    /// The database, 0 to 255. A cluster has only database 0.
    pub database: u8,
    /// Encryption. `None` means an unencrypted connection.
    pub tls: Option<Tls>,
}

/// The settings of encrypted connections. The client verifies the server's certificate and the name
/// in it. Only a `rustls::ClientConfig` of the application can replace these checks.
///
/// The certificate files are read when a client starts, and again before each new connection, so a
/// replaced certificate takes effect for new connections. Open connections are kept. If the new
/// files are unusable, the client logs a warning and continues to use the certificates that it read
/// last. The system's trust store is read when a client starts, and when one of the certificate
/// files changes.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Tls {
    /// PEM file with the certificates of the authorities that may sign the server's certificate. If
    /// neither this field nor `ca_pem` is set, the system's trust store is used.
    pub ca_file: Option<PathBuf>,
    /// PEM file with the client's certificate and its chain.
    pub cert_file: Option<PathBuf>,
    /// PEM file with the private key of the client's certificate.
    pub key_file: Option<PathBuf>,
    /// The authorities' certificates as PEM text, instead of a file.
    pub ca_pem: Option<Secret>,
    /// The client's certificate and its chain as PEM text, instead of a file.
    pub cert_pem: Option<Secret>,
    /// The private key as PEM text, instead of a file.
    pub key_pem: Option<Secret>,
    /// The name expected in the server's certificate, if it differs from the host of the
    /// connection.
    pub server_name: Option<String>,
    /// The application's own rustls configuration, instead of all certificates above.
    pub(crate) own: Option<OwnTls>,
}

impl Tls {
    /// Creates settings that verify the server's certificate against the system's trust store.
    pub fn new() -> Self {
        Tls::default()
    }

    /// Trusts the authorities in this PEM file instead of the system's trust store.
    pub fn ca_file(mut self, path: impl Into<PathBuf>) -> Self {
        self.ca_file = Some(path.into());
        self
    }

    /// Presents a client certificate. Both files are PEM.
    pub fn client_certificate(mut self, cert_file: impl Into<PathBuf>, key_file: impl Into<PathBuf>) -> Self {
        self.cert_file = Some(cert_file.into());
        self.key_file = Some(key_file.into());
        self
    }

    /// Trusts the authorities in this PEM text instead of the system's trust store.
    pub fn ca_pem(mut self, pem: impl Into<String>) -> Self {
        self.ca_pem = Some(Secret::new(pem));
        self
    }

    /// Presents a client certificate. The certificate and its key are given as PEM text.
    ///
    /// ```
    /// # let (certificate, key) = ("-----BEGIN CERTIFICATE-----", "-----BEGIN PRIVATE KEY-----");
    /// use redgrid_client::config::Tls;
    ///
    /// let tls = Tls::new().ca_file("/etc/redis/ca.pem").client_certificate_pem(certificate, key);
    /// assert!(!format!("{tls:?}").contains("PRIVATE"));
    /// ```
    pub fn client_certificate_pem(mut self, certificate: impl Into<String>, key: impl Into<String>) -> Self {
        self.cert_pem = Some(Secret::new(certificate));
        self.key_pem = Some(Secret::new(key));
        self
    }

    /// Uses the application's own rustls configuration, with its verifiers, client certificates,
    /// protocol versions and crypto provider. Create this configuration with the re-exported crate
    /// [`rustls`](crate::config::rustls), so that the versions match.
    ///
    /// Of the other TLS settings, only `server_name` may be combined with this configuration. It is
    /// an error to set certificates or authorities, too. The client uses the configuration
    /// unchanged. If certificates are replaced at run time, the configuration needs its own
    /// resolver or verifier for them.
    #[cfg(feature = "tls")]
    pub fn client_config(mut self, config: Arc<rustls::ClientConfig>) -> Self {
        self.own = Some(OwnTls(config));
        self
    }

    /// Expects this name in the server's certificate, instead of the host of the connection.
    pub fn server_name(mut self, name: impl Into<String>) -> Self {
        self.server_name = Some(name.into());
        self
    }
}

/// The application's own rustls configuration. Two values are equal if they are the same `Arc`.
#[cfg(feature = "tls")]
#[derive(Clone)]
pub(crate) struct OwnTls(pub(crate) Arc<rustls::ClientConfig>);

#[cfg(feature = "tls")]
impl PartialEq for OwnTls {
    fn eq(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.0, &other.0)
    }
}

#[cfg(feature = "tls")]
impl Eq for OwnTls {}

/// The application's own rustls configuration. Without the feature `tls` this type has no values.
#[cfg(not(feature = "tls"))]
#[derive(Clone, PartialEq, Eq)]
pub(crate) enum OwnTls {}

impl fmt::Debug for OwnTls {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("ClientConfig")
    }
}

/// A password or another secret. `Debug` never shows it.
#[derive(Clone, PartialEq, Eq)]
pub struct Secret(String);

impl Secret {
    /// Wraps the secret.
    pub fn new(secret: impl Into<String>) -> Self {
        Secret(secret.into())
    }

    pub(crate) fn reveal(&self) -> &str {
        &self.0
    }
}

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("***")
    }
}

/// The user and password of one connection.
#[derive(Clone, Debug, PartialEq, Eq)]
// Not `#[non_exhaustive]`: credential providers construct it.
pub struct Credentials {
    /// The ACL user. `None` means the default user.
    pub username: Option<String>,
    /// The password.
    pub password: Secret,
}

/// Supplies the current user and password, for example from a vault, from a file whose content
/// changes, or from a cloud's short-lived tokens.
///
/// ```
/// use redgrid_client::config::{CredentialProvider, Credentials, Secret};
///
/// struct Mounted(std::path::PathBuf);
///
/// #[async_trait::async_trait]
/// impl CredentialProvider for Mounted {
///     async fn fetch(&self) -> Result<Credentials, Box<dyn std::error::Error + Send + Sync>> {
///         let password = std::fs::read_to_string(&self.0)?;
///         let password = Secret::new(password.trim_end());
///         Ok(Credentials { username: Some("app".into()), password })
///     }
/// }
///
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let config = redgrid_client::Config::single("127.0.0.1:6379")?
///     .password_from(Mounted("/run/secrets/redis".into()));
/// # Ok(()) }
/// ```
#[async_trait]
pub trait CredentialProvider: Send + Sync + 'static {
    /// Returns the current user and password. The client calls this method before each connection
    /// is set up. While connections are open, it also calls this method every
    /// `credentials_interval`: one call for all connections together. The call must complete within
    /// `connect_timeout`.
    ///
    /// # Errors
    ///
    /// The reason why there are no credentials. Open connections stay open, and the client tries
    /// later to open the missing ones. The text is shown to users, so it must contain no secrets.
    async fn fetch(&self) -> Result<Credentials, Box<dyn Error + Send + Sync>>;
}

/// A [`CredentialProvider`]; clones of this value share it. Two values are equal if they are the
/// same `Arc`.
#[derive(Clone)]
pub struct Provider(Arc<dyn CredentialProvider>);

impl Provider {
    /// Wraps the provider.
    pub fn new(provider: impl CredentialProvider) -> Self {
        Provider(Arc::new(provider))
    }

    /// Returns the current user and password.
    ///
    /// # Errors
    ///
    /// The errors of [`CredentialProvider::fetch`].
    pub async fn fetch(&self) -> Result<Credentials, Box<dyn Error + Send + Sync>> {
        self.0.fetch().await
    }
}

impl PartialEq for Provider {
    fn eq(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.0, &other.0)
    }
}

impl Eq for Provider {}

impl fmt::Debug for Provider {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Provider")
    }
}
