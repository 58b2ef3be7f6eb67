//! How to log in: passwords, who fetches them, and certificates.

use std::error::Error;
use std::fmt;
use std::path::PathBuf;
use std::sync::Arc;

use async_trait::async_trait;

/// How to log in at the servers that hold the data.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Access {
    /// The ACL user; none for the default user.
    pub username: Option<String>,
    /// The password; none where none is asked for, or where the provider has it.
    pub password: Option<Secret>,
    /// Who is asked for user and password before each connection, instead of the two above.
    pub provider: Option<Provider>,
    /// The database, 0 to 255; a cluster has only 0.
    pub database: u8,
    /// Encryption; none speaks in the clear.
    pub tls: Option<Tls>,
}

/// An encrypted connection. The server's certificate and its name are verified, unless a
/// `rustls::ClientConfig` of the program says otherwise.
///
/// Files are read when a client starts, and again before each new connection: a certificate that was
/// replaced is used from then on. Open connections stay. Where the new files cannot be used, the client
/// logs a warning and keeps the certificates that it has. The system's authorities are read when a client
/// starts, and when one of the files changes.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Tls {
    /// File with the certificates of the authorities that may sign the server's, as PEM. The system's
    /// authorities count where neither this nor `ca_pem` is set.
    pub ca_file: Option<PathBuf>,
    /// File with the client's certificate and the chain behind it, as PEM.
    pub cert_file: Option<PathBuf>,
    /// File with the private key of the client's certificate, as PEM.
    pub key_file: Option<PathBuf>,
    /// The text of the authorities' certificates, instead of a file.
    pub ca_pem: Option<Secret>,
    /// The text of the client's certificate and the chain behind it, instead of a file.
    pub cert_pem: Option<Secret>,
    /// The text of the private key, instead of a file.
    pub key_pem: Option<Secret>,
    /// The name that must be in the server's certificate, where it is not the host that is connected to.
    pub server_name: Option<String>,
    /// The program's own configuration of rustls, instead of all certificates above.
    pub(crate) own: Option<OwnTls>,
}

impl Tls {
    /// Verified against the authorities that the system trusts.
    pub fn new() -> Self {
        Tls::default()
    }

    /// Trusts these authorities (PEM) instead of the system's.
    pub fn ca_file(mut self, path: impl Into<PathBuf>) -> Self {
        self.ca_file = Some(path.into());
        self
    }

    /// Shows a certificate of our own; both files are PEM.
    pub fn client_certificate(mut self, cert_file: impl Into<PathBuf>, key_file: impl Into<PathBuf>) -> Self {
        self.cert_file = Some(cert_file.into());
        self.key_file = Some(key_file.into());
        self
    }

    /// Trusts the authorities of this PEM text instead of the system's.
    pub fn ca_pem(mut self, pem: impl Into<String>) -> Self {
        self.ca_pem = Some(Secret::new(pem));
        self
    }

    /// Shows a client certificate that is given as PEM text, as is its key.
    ///
    /// ```
    /// # let (certificate, key) = ("-----BEGIN CERTIFICATE-----", "-----BEGIN PRIVATE KEY-----");
    /// use redgrid_core::config::Tls;
    ///
    /// let tls = Tls::new().ca_file("/etc/redis/ca.pem").client_certificate_pem(certificate, key);
    /// assert!(!format!("{tls:?}").contains("PRIVATE"));
    /// ```
    pub fn client_certificate_pem(mut self, certificate: impl Into<String>, key: impl Into<String>) -> Self {
        self.cert_pem = Some(Secret::new(certificate));
        self.key_pem = Some(Secret::new(key));
        self
    }

    /// Encrypts as this configuration of rustls says, with verifiers, client certificates, protocol
    /// versions and a crypto provider of the program's own. The crate is re-exported as
    /// [`rustls`](crate::config::rustls), in the version that is needed here.
    ///
    /// Certificates and authorities cannot be set beside it, `server_name` can. It is used as it is:
    /// for certificates that change it needs a resolver or a verifier of its own that follows them.
    #[cfg(feature = "tls")]
    pub fn client_config(mut self, config: Arc<rustls::ClientConfig>) -> Self {
        self.own = Some(OwnTls(config));
        self
    }

    /// Expects this name in the server's certificate, whatever host is connected to.
    pub fn server_name(mut self, name: impl Into<String>) -> Self {
        self.server_name = Some(name.into());
        self
    }
}

/// The program's own configuration of rustls. Two are equal when they are the same one.
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

/// There is none without the feature `tls`.
#[cfg(not(feature = "tls"))]
#[derive(Clone, PartialEq, Eq)]
pub(crate) enum OwnTls {}

impl fmt::Debug for OwnTls {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("ClientConfig")
    }
}

/// A password or another secret. Never shown by `Debug`.
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

/// What one connection logs in with.
#[derive(Clone, Debug, PartialEq, Eq)]
// Exhaustive: credential providers return it as a literal.
pub struct Credentials {
    /// The ACL user; none for the default user.
    pub username: Option<String>,
    /// The password.
    pub password: Secret,
}

/// Knows the password of the moment: a vault, a file that is replaced, a cloud's short-lived tokens.
///
/// ```
/// use redgrid_core::config::{CredentialProvider, Credentials, Secret};
///
/// struct Mounted(std::path::PathBuf);
///
/// #[async_trait::async_trait]
/// impl CredentialProvider for Mounted {
///     async fn fetch(&self) -> Result<Credentials, Box<dyn std::error::Error + Send + Sync>> {
///         let password = std::fs::read_to_string(&self.0)?;
///         Ok(Credentials { username: Some("app".into()), password: Secret::new(password.trim_end()) })
///     }
/// }
///
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let config = redgrid_core::Config::single("127.0.0.1:6379")?.password_from(Mounted("/run/secrets/redis".into()));
/// # Ok(()) }
/// ```
#[async_trait]
pub trait CredentialProvider: Send + Sync + 'static {
    /// Asked before each connection is set up, and every `credentials_interval` for those that live. It has
    /// `connect_timeout` for an answer.
    ///
    /// # Errors
    ///
    /// What stands in the way. Connections that live stay; new ones are tried again later. Its text is shown to users: no secrets in it.
    async fn fetch(&self) -> Result<Credentials, Box<dyn Error + Send + Sync>>;
}

/// A [`CredentialProvider`] that clones share. Two are equal when they are the same one.
#[derive(Clone)]
pub struct Provider(Arc<dyn CredentialProvider>);

impl Provider {
    /// Wraps the provider.
    pub fn new(provider: impl CredentialProvider) -> Self {
        Provider(Arc::new(provider))
    }

    /// What to log in with now.
    ///
    /// # Errors
    ///
    /// Those of [`CredentialProvider::fetch`].
    pub async fn fetch(&self) -> Result<Credentials, Box<dyn Error + Send + Sync>> {
        self.0.fetch().await
    }
}

impl From<Arc<dyn CredentialProvider>> for Provider {
    fn from(provider: Arc<dyn CredentialProvider>) -> Self {
        Provider(provider)
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
