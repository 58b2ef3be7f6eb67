//! Certificates for a server of a test.

use std::{
    fs, io,
    net::SocketAddr,
    path::{Path, PathBuf},
};

use rcgen::{BasicConstraints, CertificateParams, CertifiedIssuer, DnType, IsCa, KeyPair, KeyUsagePurpose};

use crate::port::ReservedAddress;

/// TLS of a [`RedisServer`](crate::RedisServer): its port, and the files for clients.
///
/// The server's certificate is for `127.0.0.1` and `localhost`, signed by an authority created for
/// this server or its deployment. All files are PEM, and exist as long as the server.
#[derive(Debug)]
pub struct Tls {
    address: Box<ReservedAddress>,
    folder: PathBuf,
}

/// An authority that signs certificates.
pub(crate) struct Authority(CertifiedIssuer<'static, KeyPair>);

impl Authority {
    pub(crate) fn new() -> io::Result<Self> {
        let authority = || {
            let mut authority = params("redgrid-testkit authority")?;
            authority.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
            authority.key_usages = vec![KeyUsagePurpose::KeyCertSign, KeyUsagePurpose::DigitalSignature];
            CertifiedIssuer::self_signed(authority, KeyPair::generate()?)
        };
        authority().map(Self).map_err(io::Error::other)
    }

    /// Writes three files into `folder`: the authority's certificate, and a certificate with its
    /// key for the server and for clients.
    fn write(&self, folder: &Path) -> Result<(), Box<dyn std::error::Error + Send + Sync>> {
        fs::write(folder.join(CA), self.0.pem())?;
        for name in ["server", "client"] {
            let key = KeyPair::generate()?;
            let certificate = params(name)?.signed_by(&key, &self.0)?;
            fs::write(folder.join(name).with_extension("crt"), certificate.pem())?;
            fs::write(folder.join(name).with_extension("key"), key.serialize_pem())?;
        }
        Ok(())
    }
}

impl Tls {
    /// Creates the certificates in `folder`, signed by `authority`.
    pub(crate) fn new(address: ReservedAddress, folder: &Path, authority: &Authority) -> io::Result<Self> {
        authority.write(folder).map_err(io::Error::other)?;
        Ok(Self { address: Box::new(address), folder: folder.to_owned() })
    }

    /// Returns the address for TLS connections. For plain connections use
    /// [`addr`](crate::RedisServer::addr).
    pub fn addr(&self) -> SocketAddr {
        self.address.addr()
    }

    /// Returns the authority's certificate, which clients must trust.
    pub fn ca_file(&self) -> PathBuf {
        self.folder.join(CA)
    }

    /// Returns the certificate for clients, signed by the same authority.
    pub fn client_certificate_file(&self) -> PathBuf {
        self.folder.join("client.crt")
    }

    /// Returns the key of the certificate for clients (PKCS #8).
    pub fn client_key_file(&self) -> PathBuf {
        self.folder.join("client.key")
    }

    /// Returns the lines of the server's configuration.
    pub(crate) fn configuration(&self, clients_prove_themselves: bool) -> String {
        format!(
            "tls-port {}\ntls-cert-file {}\ntls-key-file {}\ntls-ca-cert-file {}\ntls-auth-clients {}\n",
            self.addr().port(),
            self.folder.join("server.crt").display(),
            self.folder.join("server.key").display(),
            self.ca_file().display(),
            if clients_prove_themselves { "yes" } else { "no" },
        )
    }
}

/// The file of the authority's certificate.
const CA: &str = "ca.crt";

/// Returns the parameters of a certificate for this machine. Each certificate needs a different
/// name: OpenSSL considers a certificate self-signed if it has the name of its issuer.
fn params(name: &str) -> Result<CertificateParams, rcgen::Error> {
    let mut params = CertificateParams::new(["127.0.0.1", "localhost"].map(str::to_owned))?;
    params.distinguished_name.push(DnType::CommonName, name);
    Ok(params)
}

/// Whether a log shows that the server lacks TLS: an unknown option, or since Valkey 8 a missing
/// module.
pub(crate) fn is_missing(log: &str) -> bool {
    log.contains("Failed finding TLS support") || (log.contains(">>> 'tls-port") && log.contains("Bad directive"))
}
