//! How to log in: passwords, who fetches them, and certificates.

use std::error::Error;
use std::fmt;
use std::path::PathBuf;
use std::sync::Arc;

use async_trait::async_trait;

/// How to log in at the servers that hold the data.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
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

/// An encrypted connection. The server's certificate and its name are always verified.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Tls {
    /// Who may sign the server's certificate, as PEM; the system's authorities where there is none.
    pub ca_file: Option<PathBuf>,
    /// The certificate that we show, as PEM, and the chain behind it.
    pub cert_file: Option<PathBuf>,
    /// Its private key, as PEM.
    pub key_file: Option<PathBuf>,
    /// The name that must be in the server's certificate, where it is not the host that is connected to.
    pub server_name: Option<String>,
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

    /// Expects this name in the server's certificate, whatever host is connected to.
    pub fn server_name(mut self, name: impl Into<String>) -> Self {
        self.server_name = Some(name.into());
        self
    }
}

/// A password. Never shown by `Debug`.
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
