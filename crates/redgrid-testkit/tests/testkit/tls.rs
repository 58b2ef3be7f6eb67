//! Servers that accept TLS connections.

use std::{io, sync::Arc};

use redgrid_testkit::{Observer, RedisServer, ServerBinary, StartError, Tls};
use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    net::TcpStream,
};
use tokio_rustls::{
    TlsConnector,
    rustls::{
        ClientConfig, RootCertStore,
        pki_types::{CertificateDer, PrivateKeyDer, ServerName, pem::PemObject as _},
    },
};

type Outcome = Result<(), Box<dyn std::error::Error>>;

/// Sends PING over TLS, with or without a client certificate, and returns the reply.
async fn ping(tls: &Tls, host: &str, certified: bool) -> Result<String, Box<dyn std::error::Error>> {
    let mut roots = RootCertStore::empty();
    roots.add(CertificateDer::from_pem_file(tls.ca_file())?)?;
    let config = ClientConfig::builder().with_root_certificates(roots);
    let config = if certified {
        let certificate = CertificateDer::from_pem_file(tls.client_certificate_file())?;
        config.with_client_auth_cert(vec![certificate], PrivateKeyDer::from_pem_file(tls.client_key_file())?)?
    } else {
        config.with_no_client_auth()
    };
    let stream = TcpStream::connect(tls.addr()).await?;
    let name = ServerName::try_from(host.to_owned())?;
    let mut stream = TlsConnector::from(Arc::new(config)).connect(name, stream).await?;
    stream.write_all(b"PING\r\n").await?;
    let mut answer = vec![0; 7];
    let read = stream.read_exact(&mut answer).await;
    read.map_err(|error| io::Error::new(error.kind(), "refused after the handshake"))?;
    Ok(String::from_utf8(answer)?)
}

/// Starts a server; prints a message and returns `None` if the program lacks TLS.
async fn start(test: &str, builder: redgrid_testkit::ServerBuilder) -> Result<Option<RedisServer>, StartError> {
    match builder.start().await {
        Err(error @ StartError::NoTls { .. }) => {
            let _ = io::Write::write_all(&mut io::stderr(), format!("SKIPPED {test}: {error}\n").as_bytes());
            Ok(None)
        }
        started => started.map(Some),
    }
}

#[tokio::test]
async fn a_server_takes_tls_beside_plain_connections_and_keeps_its_certificates() -> Outcome {
    let test = "a_server_takes_tls_beside_plain_connections_and_keeps_its_certificates";
    let Some(server) = start(test, RedisServer::builder().tls()).await? else { return Ok(()) };
    let tls = server.tls().ok_or("TLS was requested")?;
    for host in ["127.0.0.1", "localhost"] {
        assert_eq!(ping(tls, host, false).await?, "+PONG\r\n");
    }
    assert!(ping(tls, "elsewhere", false).await.is_err(), "the certificate is for this machine");
    assert_eq!(server.tls_url(), Some(format!("rediss://{}", tls.addr())));
    Observer::connect(&server.url()).await?.ping().await?;

    server.restart_empty().await?;
    assert_eq!(ping(tls, "localhost", true).await?, "+PONG\r\n");
    let plain = RedisServer::start().await?;
    assert!(plain.tls().is_none() && plain.tls_url().is_none());
    Ok(())
}

#[tokio::test]
async fn a_client_certificate_is_required_on_request() -> Outcome {
    let builder = RedisServer::builder().tls_client_certificates().password("p@ss");
    let Some(server) = start("a_client_certificate_is_required_on_request", builder).await? else { return Ok(()) };
    let tls = server.tls().ok_or("TLS was requested")?;
    assert!(ping(tls, "localhost", false).await.is_err());
    assert_eq!(ping(tls, "localhost", true).await?, "-NOAUTH");
    assert_eq!(server.tls_url(), Some(format!("rediss://:p%40ss@{}", tls.addr())));
    Ok(())
}

#[tokio::test]
async fn a_program_without_tls_is_reported() -> Outcome {
    let test = "a_program_without_tls_is_reported";
    let Some(binary) = ServerBinary::newest_or_skip(test) else { return Ok(()) };
    let path = binary.path().to_owned();
    match RedisServer::builder().binary(binary).tls().start().await {
        Err(StartError::NoTls { path: named }) => assert_eq!(named, path),
        Err(error) => return Err(error.into()),
        // The newest server may support TLS; then it must start.
        Ok(server) => assert!(server.tls().is_some()),
    }
    Ok(())
}
