//! The servers and listeners of the rows.

use std::path::{Path, PathBuf};
use std::{fs, io};

use redgrid_core::config::{Config, ConfigError, Tls};
use redgrid_testkit::{Cluster, RedisServer, Sentinels, StartError};

use crate::fake::{Fake, Manner};

pub(crate) struct Targets {
    pub(crate) open: RedisServer,
    pub(crate) locked: RedisServer,
    pub(crate) encrypted: RedisServer,
    /// The certificate of this server is signed by another authority.
    pub(crate) other: RedisServer,
    /// This server requires a certificate of clients.
    pub(crate) demanding: RedisServer,
    pub(crate) expired: RedisServer,
    pub(crate) early: RedisServer,
    pub(crate) sentinels: Sentinels,
    pub(crate) cluster: Cluster,
    fakes: Vec<(&'static str, Fake)>,
    pub(crate) folder: PathBuf,
    /// A port without a listener.
    pub(crate) closed: u16,
}

const HTTP: &[u8] = b"HTTP/1.1 400 Bad Request\r\nContent-Length: 0\r\nConnection: close\r\n\r\n";

const FAKES: [(&str, Manner); 13] = [
    ("http", Manner::AnswersOnce(HTTP)),
    ("ssh", Manner::Greets(b"SSH-2.0-OpenSSH_9.2\r\n")),
    ("smtp", Manner::Greets(b"220 mail.example ESMTP\r\n")),
    ("silent", Manner::Greets(b"")),
    ("closing", Manner::Closes),
    ("noise", Manner::Answers(b"\x00\x01\x02\x03\x04\x05\x06\x07")),
    ("alert", Manner::AnswersOnce(b"\x15\x03\x01\x00\x02\x02\x46")),
    ("full", Manner::AnswersOnce(b"-ERR max number of clients reached\r\n")),
    ("protected", Manner::AnswersOnce(b"-DENIED Redis is running in protected mode because no password is set.\r\n")),
    ("loading", Manner::Answers(b"-LOADING Redis is loading the dataset in memory\r\n")),
    ("refusing", Manner::Answers(b"-ERR this proxy takes no commands\r\n")),
    ("denied", Manner::Answers(b"-NOAUTH Authentication required.\r\n")),
    ("once", Manner::AnswersOnce(b"+OK\r\n")),
];

impl Targets {
    pub(crate) async fn start() -> Result<Targets, StartError> {
        let open = RedisServer::builder().socket().start().await?;
        let folder = open.folder().join("bad-targets");
        fs::create_dir_all(&folder).expect("a folder");
        fs::write(folder.join("no-socket"), "").expect("a file");
        fs::write(folder.join("empty.pem"), "").expect("a file");
        let dated = async |name: &str, from, until| {
            certificate(&folder, name, from, until).expect("a certificate");
            let server = RedisServer::builder().tls().start().await?;
            for (ending, file) in [("crt", "server.crt"), ("key", "server.key")] {
                fs::copy(folder.join(name).with_extension(ending), server.folder().join(file)).expect("a copy");
            }
            server.restart_empty().await?;
            Ok::<_, StartError>(server)
        };
        let (expired, early) = (dated("expired", 2000, 2001).await?, dated("early", 2090, 2091).await?);
        let mut fakes = Vec::new();
        for (name, manner) in FAKES {
            fakes.push((name, Fake::start(manner).await));
        }
        let socket = tokio::net::TcpListener::bind("127.0.0.1:0").await.expect("a port");
        let closed = socket.local_addr().expect("an address").port();
        let locked = RedisServer::builder().password("right").user("app", "on >right ~* &* +@all");
        Ok(Targets {
            locked: locked.start().await?,
            encrypted: RedisServer::builder().tls().start().await?,
            other: RedisServer::builder().tls().start().await?,
            demanding: RedisServer::builder().tls_client_certificates().start().await?,
            sentinels: Sentinels::builder().sentinels(1).replicas(1).start().await?,
            cluster: Cluster::builder().start().await?,
            open,
            expired,
            early,
            fakes,
            folder,
            closed,
        })
    }

    /// Returns the address of a listener.
    pub(crate) fn fake(&self, name: &str) -> String {
        let (_, fake) = self.fakes.iter().find(|(known, _)| *known == name).expect("a fake");
        fake.addr().to_string()
    }

    /// Returns an address without a listener.
    pub(crate) fn closed(&self) -> String {
        format!("127.0.0.1:{}", self.closed)
    }
}

/// Returns a configuration for `url`.
pub(crate) fn url(url: impl AsRef<str>) -> Result<Config, ConfigError> {
    Config::from_url(url.as_ref())
}

/// Returns settings that trust the authority of a server's certificate.
pub(crate) fn trusting(server: &RedisServer) -> Tls {
    Tls::new().ca_file(server.tls().expect("TLS").ca_file())
}

/// Creates a certificate for this machine that is valid for one year only, and the authority that
/// signed it.
fn certificate(folder: &Path, name: &str, from: i32, until: i32) -> io::Result<()> {
    let make = || -> Result<_, rcgen::Error> {
        let mut authority = rcgen::CertificateParams::new(Vec::new())?;
        authority.distinguished_name.push(rcgen::DnType::CommonName, "authority of bad targets");
        authority.is_ca = rcgen::IsCa::Ca(rcgen::BasicConstraints::Unconstrained);
        let authority = rcgen::CertifiedIssuer::self_signed(authority, rcgen::KeyPair::generate()?)?;
        let key = rcgen::KeyPair::generate()?;
        let mut params = rcgen::CertificateParams::new(["127.0.0.1", "localhost"].map(str::to_owned))?;
        params.not_before = rcgen::date_time_ymd(from, 1, 1);
        params.not_after = rcgen::date_time_ymd(until, 1, 1);
        Ok([("ca", authority.pem()), ("crt", params.signed_by(&key, &authority)?.pem()), ("key", key.serialize_pem())])
    };
    for (ending, text) in make().map_err(io::Error::other)? {
        fs::write(folder.join(name).with_extension(ending), text)?;
    }
    Ok(())
}
