//! Detects what kind of process listens at an address, if no connection to a Redis or Valkey server
//! can be set up there.
//!
//! The probe sends a plain-text line and then the first message of a TLS handshake, each on a
//! connection of its own.

use std::time::Duration;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::time::timeout;

use crate::config::network::Stream;
use crate::connection::trouble::Trouble;

/// Limit for connecting and for an answer: 250 ms each. The probe starts [`super::set_up::LATE`]
/// (300 ms) after the login began, and waits for up to two answers. So if connecting is quick, the
/// probe ends within a second after the login began.
const TIMEOUT: Duration = Duration::from_millis(250);

/// The kind of process that listens at an address.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Listener {
    /// A server that speaks RESP without TLS.
    Plain,
    Tls,
    Http,
    Ssh,
    /// The answer matches none of these protocols.
    Other,
    /// Connections are accepted but get no answer.
    Silent,
}

impl Listener {
    /// Returns why no connection to this listener is possible; `None` if it is of the expected
    /// kind.
    pub(super) fn trouble(self, is_encrypted: bool) -> Option<Trouble> {
        let lasting = |message: &str| Some(Trouble::lasting(message));
        match (self, is_encrypted) {
            (Listener::Plain, true) => {
                lasting("the server does not speak TLS there (`redis://` instead of `rediss://`)")
            }
            (Listener::Tls, false) => lasting("the server speaks TLS there (`rediss://` instead of `redis://`)"),
            (Listener::Http, _) => lasting("an HTTP server answers there, no Redis or Valkey"),
            (Listener::Ssh, _) => lasting("an SSH server answers there, no Redis or Valkey"),
            (Listener::Other, _) => lasting("the process there does not speak the protocol of Redis and Valkey"),
            // A server that hangs may recover.
            (Listener::Silent, _) => Some(Trouble::passing("the server accepts connections, but sends nothing")),
            (Listener::Plain, false) | (Listener::Tls, true) => None,
        }
    }
}

/// Detects within a second what kind of process listens at the target of `open`.
///
/// Returns `None` if a connection cannot be opened. Also returns `None` if the listener closes the
/// first connection without an answer, and sends nothing on the second connection.
pub(super) async fn listener<F>(open: impl Fn() -> F) -> Option<Listener>
where
    F: Future<Output = Option<Box<dyn Stream>>>,
{
    let plain = first_bytes(open(), b"PING\r\n").await?;
    if let First::Bytes(bytes) = &plain {
        return Some(of_answer(bytes));
    }
    // A TLS server takes the plain-text line for the beginning of a handshake message. It closes
    // the connection, or waits for the rest of the message.
    match (plain, first_bytes(open(), &client_hello()).await?) {
        (_, First::Bytes(bytes)) => Some(of_answer(&bytes)),
        (First::Nothing, _) => Some(Listener::Silent),
        _ => None,
    }
}

enum First {
    Bytes(Vec<u8>),
    /// No data arrived in time.
    Nothing,
    End,
}

/// Sends `question` and reads the first bytes of the answer; `None` without a connection.
async fn first_bytes(open: impl Future<Output = Option<Box<dyn Stream>>>, question: &[u8]) -> Option<First> {
    let mut stream = timeout(TIMEOUT, open).await.ok()??;
    let mut bytes = vec![0; 64];
    let probing = async {
        stream.write_all(question).await?;
        stream.read(&mut bytes).await
    };
    Some(match timeout(TIMEOUT, probing).await {
        Ok(Ok(0) | Err(_)) => First::End,
        Ok(Ok(count)) => {
            bytes.truncate(count);
            First::Bytes(bytes)
        }
        Err(_) => First::Nothing,
    })
}

fn of_answer(bytes: &[u8]) -> Listener {
    match bytes {
        // A handshake message or an alert, of any TLS version.
        [0x15 | 0x16, 3, ..] => Listener::Tls,
        [b'+' | b'-' | b'$' | b'*' | b':' | b'%' | b'_', ..] => Listener::Plain,
        bytes if bytes.starts_with(b"HTTP/") => Listener::Http,
        bytes if bytes.starts_with(b"SSH-") => Listener::Ssh,
        _ => Listener::Other,
    }
}

/// Builds the first message of a TLS 1.2 handshake with a few common ciphers (RFC 5246, 7.4.1.2).
///
/// A TLS server answers with a handshake message or an alert; both show that it speaks TLS.
fn client_hello() -> Vec<u8> {
    const CIPHERS: [u8; 8] = [0xc0, 0x2b, 0xc0, 0x2f, 0xc0, 0x30, 0x00, 0x9c];
    let mut hello = vec![3, 3];
    // The fields are: a random number (any value serves here), no session, the ciphers, and no
    // compression.
    hello.extend([0x5a; 32]);
    hello.extend([0, 0, 8]);
    hello.extend(CIPHERS);
    hello.extend([1, 0]);
    let length = u8::try_from(hello.len()).unwrap_or(u8::MAX);
    let mut record = vec![0x16, 3, 1, 0, length + 4, 1, 0, 0, length];
    record.extend(hello);
    record
}

#[cfg(test)]
mod tests {
    use std::net::SocketAddr;

    use tokio::net::{TcpListener, TcpStream};

    use super::*;

    async fn at(address: SocketAddr) -> Option<Listener> {
        let open = || async move { Some(Box::new(TcpStream::connect(address).await.ok()?) as Box<dyn Stream>) };
        listener(open).await
    }

    /// Probes a listener that sends `answer` on each connection and then closes the connection.
    async fn found(answer: &'static [u8]) -> Option<Listener> {
        let socket = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = socket.local_addr().unwrap();
        let serving = tokio::spawn(async move {
            while let Ok((mut stream, _)) = socket.accept().await {
                let _ = stream.read(&mut [0; 256]).await;
                let _ = stream.write_all(answer).await;
            }
        });
        let found = at(address).await;
        serving.abort();
        found
    }

    #[tokio::test]
    async fn a_listener_is_known_by_its_first_bytes() {
        assert_eq!(found(b"HTTP/1.1 400 Bad Request\r\n").await, Some(Listener::Http));
        assert_eq!(found(b"SSH-2.0-x\r\n").await, Some(Listener::Ssh));
        assert_eq!(found(b"-NOAUTH Authentication required.\r\n").await, Some(Listener::Plain));
        assert_eq!(found(b"\x15\x03\x01\x00\x02\x02\x46").await, Some(Listener::Tls));
        assert_eq!(found(b"220 mail ESMTP\r\n").await, Some(Listener::Other));
        assert_eq!(found(b"").await, None);
    }

    #[tokio::test]
    async fn a_listener_that_says_nothing_is_silent_and_a_closed_port_is_nothing() {
        let socket = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = socket.local_addr().unwrap();
        assert_eq!(at(address).await, Some(Listener::Silent));
        drop(socket);
        assert_eq!(at(address).await, None);
    }
}
