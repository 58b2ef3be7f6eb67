//! Connections through a SOCKS5 proxy (RFC 1928), with user and password (RFC 1929) if the proxy
//! requires them.

use std::io;
use std::net::IpAddr;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

use crate::config::network::Socks;
use crate::connection::trouble::of_system;

const VERSION: u8 = 5;
const NO_LOGIN: u8 = 0;
const PASSWORD: u8 = 2;
const CONNECT: u8 = 1;

/// Requests a connection to `host:port` from the proxy behind `stream`. The proxy resolves the
/// name.
///
/// # Errors
///
/// A message for users; it never contains the password.
pub(crate) async fn pass(mut stream: TcpStream, proxy: &Socks, host: &str, port: u16) -> Result<TcpStream, String> {
    let at = format!("the SOCKS proxy at {}", proxy.address);
    let failed = |error: io::Error| match error.kind() {
        io::ErrorKind::UnexpectedEof => format!("{at} closed the connection; does it speak SOCKS5?"),
        _ => format!("{at}: {}", of_system(&error)),
    };
    let login = proxy.username.as_deref().zip(proxy.password.as_ref());
    let methods: &[u8] = if login.is_some() { &[VERSION, 2, NO_LOGIN, PASSWORD] } else { &[VERSION, 1, NO_LOGIN] };
    stream.write_all(methods).await.map_err(failed)?;
    let mut chosen = [0; 2];
    stream.read_exact(&mut chosen).await.map_err(failed)?;
    match (chosen, login) {
        ([VERSION, NO_LOGIN], _) => {}
        ([VERSION, PASSWORD], Some((user, password))) => {
            let mut login = vec![1];
            for field in [user, password.reveal()] {
                login.push(u8::try_from(field.len()).map_err(|_| format!("{at}: user or password is too long"))?);
                login.extend_from_slice(field.as_bytes());
            }
            stream.write_all(&login).await.map_err(failed)?;
            let mut answer = [0; 2];
            stream.read_exact(&mut answer).await.map_err(failed)?;
            if answer[1] != 0 {
                return Err(format!("{at} refuses user or password"));
            }
        }
        ([VERSION, _], _) => return Err(format!("{at} asks for another login (see `socks_username`)")),
        _ => return Err(format!("{at} does not speak SOCKS5")),
    }
    stream
        .write_all(&request(host, port).ok_or_else(|| format!("{at}: the host name is too long"))?)
        .await
        .map_err(failed)?;
    let mut answer = [0; 4];
    stream.read_exact(&mut answer).await.map_err(failed)?;
    if answer[1] != 0 {
        return Err(format!("{at} cannot reach {host}:{port}: {}", reason(answer[1])));
    }
    // The rest of the answer is the address that the proxy uses. It is read and ignored.
    let bound = match answer[3] {
        1 => 4,
        4 => 16,
        _ => usize::from(stream.read_u8().await.map_err(failed)?),
    };
    stream.read_exact(&mut vec![0; bound + 2]).await.map_err(failed)?;
    Ok(stream)
}

/// Returns the request for a connection; `None` if the name is too long for it.
fn request(host: &str, port: u16) -> Option<Vec<u8>> {
    let mut request = vec![VERSION, CONNECT, 0];
    match host.parse() {
        Ok(IpAddr::V4(ip)) => {
            request.push(1);
            request.extend(ip.octets());
        }
        Ok(IpAddr::V6(ip)) => {
            request.push(4);
            request.extend(ip.octets());
        }
        Err(_) => {
            request.extend([3, u8::try_from(host.len()).ok()?]);
            request.extend(host.as_bytes());
        }
    }
    request.extend(port.to_be_bytes());
    Some(request)
}

/// Returns the meaning of a reply code of RFC 1928, section 6.
fn reason(code: u8) -> &'static str {
    match code {
        2 => "its rules do not allow it",
        3 => "network unreachable",
        4 => "host unreachable",
        5 => "connection refused",
        6 => "the time to live expired",
        7 => "it does not know the command",
        8 => "it does not know the kind of address",
        _ => "general failure",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_request_names_an_address_or_a_host() {
        assert_eq!(request("127.0.0.1", 258), Some(vec![5, 1, 0, 1, 127, 0, 0, 1, 1, 2]));
        assert_eq!(request("db", 258), Some(vec![5, 1, 0, 3, 2, b'd', b'b', 1, 2]));
        assert_eq!(request("::1", 1).map(|request| request.len()), Some(4 + 16 + 2));
        assert_eq!(request(&"x".repeat(256), 1), None);
    }
}
