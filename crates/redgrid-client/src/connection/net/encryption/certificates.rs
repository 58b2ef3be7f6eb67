//! Reads certificates and keys as PEM from files or settings, and builds a rustls configuration
//! from them.

use std::path::Path;
use std::sync::Arc;

use rustls::pki_types::pem::{Error as PemError, PemObject};
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::{ClientConfig, RootCertStore};

use crate::config::{Secret, Tls};
use crate::connection::trouble::of_system;

/// A setting that cannot be used. `expected` is a part of the error message: what was expected, and
/// what is wrong. `expected` never contains a private key.
pub(super) struct Wrong {
    pub(super) setting: &'static str,
    pub(super) expected: String,
}

impl Wrong {
    fn new(setting: &'static str, expected: impl Into<String>) -> Self {
        Wrong { setting, expected: expected.into() }
    }
}

/// All PEM texts of a configuration, read at one point in time.
#[derive(PartialEq, Eq)]
pub(super) struct Pems {
    authorities: Option<Pem>,
    certificate: Option<Pem>,
    key: Option<Pem>,
}

/// One PEM text, and its origin for error messages.
#[derive(PartialEq, Eq)]
struct Pem {
    setting: &'static str,
    /// A part of error messages that names the file of the PEM text: ` in <file>`. Empty if the
    /// setting itself contains the PEM text.
    place: String,
    text: Vec<u8>,
}

impl Tls {
    pub(super) fn has_files(&self) -> bool {
        self.ca_file.is_some() || self.cert_file.is_some() || self.key_file.is_some()
    }
}

const CERTIFICATES: &str = "certificates (PEM)";
const KEY: &str = "a private key without a password (PEM)";

impl Pems {
    pub(super) fn read(tls: &Tls) -> Result<Self, Wrong> {
        let authorities = Pem::read(["tls_ca_file", "tls_ca_pem"], tls.ca_file.as_deref(), &tls.ca_pem, CERTIFICATES)?;
        let certificate =
            Pem::read(["tls_cert_file", "tls_cert_pem"], tls.cert_file.as_deref(), &tls.cert_pem, CERTIFICATES)?;
        let key = Pem::read(["tls_key_file", "tls_key_pem"], tls.key_file.as_deref(), &tls.key_pem, KEY)?;
        Ok(Pems { authorities, certificate, key })
    }

    pub(super) fn client_config(&self) -> Result<ClientConfig, Wrong> {
        // The crypto provider is passed here and not installed for the whole process, because other
        // libraries in the process may need a different one.
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let builder = ClientConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()
            .map_err(|error| Wrong::new("tls", format!("a usable crypto library, found: {error}")))?
            .with_root_certificates(self.roots()?);
        let (Some(certificate), Some(key)) = (&self.certificate, &self.key) else {
            return Ok(builder.with_no_client_auth());
        };
        builder.with_client_auth_cert(certificate.certificates()?, key.private_key()?).map_err(|error| {
            let (key_place, place) = (&key.place, &certificate.place);
            let expected = format!("the key{key_place} to belong to the certificate{place}: {error}");
            Wrong::new(key.setting, expected)
        })
    }

    /// Returns the trusted authorities.
    ///
    /// If authorities are configured, all of them must be usable. If none are configured, the
    /// usable authorities of the system are trusted.
    fn roots(&self) -> Result<RootCertStore, Wrong> {
        let mut roots = RootCertStore::empty();
        if let Some(pem) = &self.authorities {
            for certificate in pem.certificates()? {
                roots.add(certificate).map_err(|error| {
                    Wrong::new(pem.setting, format!("certificates of authorities{}: {error}", pem.place))
                })?;
            }
            return Ok(roots);
        }
        let found = rustls_native_certs::load_native_certs();
        let (_, unusable) = roots.add_parsable_certificates(found.certs);
        if unusable > 0 || !found.errors.is_empty() {
            tracing::debug!(unusable, errors = ?found.errors, "some of the system's authorities were left out");
        }
        if roots.is_empty() {
            let expected = "authorities that this system trusts, found none; `tls_ca_file` names others";
            return Err(Wrong::new("tls", expected));
        }
        Ok(roots)
    }
}

impl Pem {
    fn read(
        [of_file, of_text]: [&'static str; 2],
        file: Option<&Path>,
        text: &Option<Secret>,
        what: &str,
    ) -> Result<Option<Pem>, Wrong> {
        let Some(path) = file else {
            let pem =
                |text: &Secret| Pem { setting: of_text, place: String::new(), text: text.reveal().as_bytes().to_vec() };
            return Ok(text.as_ref().map(pem));
        };
        let place = format!(" in {}", path.display());
        match std::fs::read(path) {
            Ok(text) => Ok(Some(Pem { setting: of_file, place, text })),
            Err(error) => {
                Err(Wrong::new(of_file, format!("{what}{place}, which cannot be read: {}", of_system(&error))))
            }
        }
    }

    fn certificates(&self) -> Result<Vec<CertificateDer<'static>>, Wrong> {
        match CertificateDer::pem_slice_iter(&self.text).collect::<Result<Vec<_>, _>>() {
            Ok(none) if none.is_empty() => Err(self.unusable(CERTIFICATES, &PemError::NoItemsFound)),
            Ok(all) => Ok(all),
            Err(error) => Err(self.unusable(CERTIFICATES, &error)),
        }
    }

    fn private_key(&self) -> Result<PrivateKeyDer<'static>, Wrong> {
        PrivateKeyDer::from_pem_slice(&self.text).map_err(|error| self.unusable(KEY, &error))
    }

    fn unusable(&self, what: &str, error: &PemError) -> Wrong {
        let place = &self.place;
        let expected = match error {
            PemError::NoItemsFound => format!("{what}{place}, found none"),
            // The PEM text is not quoted, because it may contain a key.
            _ => format!("{what}{place}, found text that is damaged or not PEM"),
        };
        Wrong::new(self.setting, expected)
    }
}
