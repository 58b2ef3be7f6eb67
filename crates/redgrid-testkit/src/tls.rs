//! Certificates for a server of one's own.

use std::{
    fs, io,
    net::SocketAddr,
    path::{Path, PathBuf},
};

use rcgen::{BasicConstraints, CertificateParams, CertifiedIssuer, DnType, IsCa, KeyPair, KeyUsagePurpose};

use crate::port;

/// The TLS side of a [`RedisServer`](crate::RedisServer): a port of its own, and the files clients need.
///
/// The server's certificate is for `127.0.0.1` and `localhost`, and signed by an authority made for this server alone.
/// All files are PEM, and last as long as the server.
#[derive(Debug)]
pub struct Tls {
    addr: SocketAddr,
    folder: PathBuf,
}

impl Tls {
    /// Makes the certificates in `folder`, and chooses a port.
    pub(crate) fn new(folder: &Path) -> io::Result<Self> {
        let tls = Self { addr: port::free_address()?, folder: folder.to_owned() };
        tls.write_certificates().map_err(io::Error::other)?;
        Ok(tls)
    }

    /// Where the server takes TLS connections. On [`addr`](crate::RedisServer::addr) it takes others.
    pub fn addr(&self) -> SocketAddr {
        self.addr
    }

    /// The certificate of the authority that signed the server's: what a client must trust.
    pub fn ca_file(&self) -> PathBuf {
        self.folder.join("ca.crt")
    }

    /// A certificate for clients, signed by the same authority.
    pub fn client_certificate_file(&self) -> PathBuf {
        self.folder.join("client.crt")
    }

    /// The key of the certificate for clients (PKCS #8).
    pub fn client_key_file(&self) -> PathBuf {
        self.folder.join("client.key")
    }

    /// The lines of the server's configuration.
    pub(crate) fn configuration(&self, clients_prove_themselves: bool) -> String {
        format!(
            "tls-port {}\ntls-cert-file {}\ntls-key-file {}\ntls-ca-cert-file {}\ntls-auth-clients {}\n",
            self.addr.port(),
            self.folder.join("server.crt").display(),
            self.folder.join("server.key").display(),
            self.ca_file().display(),
            if clients_prove_themselves { "yes" } else { "no" },
        )
    }

    fn write_certificates(&self) -> Result<(), Box<dyn std::error::Error + Send + Sync>> {
        let mut authority = params("redgrid-testkit authority")?;
        authority.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        authority.key_usages = vec![KeyUsagePurpose::KeyCertSign, KeyUsagePurpose::DigitalSignature];
        let authority = CertifiedIssuer::self_signed(authority, KeyPair::generate()?)?;
        fs::write(self.ca_file(), authority.pem())?;
        for name in ["server", "client"] {
            let key = KeyPair::generate()?;
            let certificate = params(name)?.signed_by(&key, &authority)?;
            fs::write(self.folder.join(name).with_extension("crt"), certificate.pem())?;
            fs::write(self.folder.join(name).with_extension("key"), key.serialize_pem())?;
        }
        Ok(())
    }
}

/// A certificate for this machine. Each needs another name: OpenSSL takes one that is named like its issuer for
/// self-signed.
fn params(name: &str) -> Result<CertificateParams, rcgen::Error> {
    let mut params = CertificateParams::new(["127.0.0.1", "localhost"].map(str::to_owned))?;
    params.distinguished_name.push(DnType::CommonName, name);
    Ok(params)
}

/// Whether a log says that the server cannot do TLS: an unknown option, or since Valkey 8 a missing part.
pub(crate) fn is_missing(log: &str) -> bool {
    log.contains("Failed finding TLS support") || (log.contains(">>> 'tls-port") && log.contains("Bad directive"))
}
