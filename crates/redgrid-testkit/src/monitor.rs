//! Records the commands of clients.

use std::{collections::HashSet, fmt, io};

use bytes::Bytes;
use redis::RedisError;
use tokio::{
    io::{AsyncBufReadExt as _, AsyncWriteExt as _, BufReader},
    net::TcpStream,
};

use crate::{builder::TESTKIT_USER, faults::ClientInfo, observer::Observer, server::RedisServer};

/// Records every command that the server executes, by `MONITOR`.
///
/// Excluded are commands of scripts (unless [`with_scripts`](Self::with_scripts) is set), the
/// testkit's own commands, and those named by [`without`](Self::without). The server itself hides
/// some: `AUTH` and `HELLO` (they contain passwords), administrative commands such as `CONFIG`, and
/// requests that it rejected before executing them.
///
/// # Examples
///
/// ```no_run
/// # use redgrid_testkit::RedisServer;
/// # async fn demo(server: &RedisServer) -> Result<(), Box<dyn std::error::Error>> {
/// use redgrid_testkit::Monitor;
///
/// let mut monitor = Monitor::start(server).await?.without("PING");
/// // … what is to be measured …
/// let seen = monitor.take().await?;
/// assert_eq!(seen.len(), 1, "one round trip: {seen:?}");
/// # Ok(()) }
/// ```
pub struct Monitor {
    stream: BufReader<TcpStream>,
    observer: Observer,
    without: Vec<String>,
    scripts: bool,
    /// Addresses of the testkit's own connections.
    own: HashSet<String>,
    markers: u64,
}

impl Monitor {
    /// Starts recording. The record includes every command that the server executes after this call
    /// has returned.
    ///
    /// # Errors
    ///
    /// [`MonitorError`]: the server did not accept the connections.
    pub async fn start(server: &RedisServer) -> Result<Self, MonitorError> {
        let observer = server.observer().await?;
        let mut stream = BufReader::new(TcpStream::connect(server.addr()).await?);
        let (user, secret) = server.testkit_login();
        let hello = format!("AUTH {user} {secret}\r\nMONITOR\r\n");
        stream.write_all(hello.as_bytes()).await?;
        for _ in 0..2 {
            let mut line = String::new();
            stream.read_line(&mut line).await?;
            if line != "+OK\r\n" {
                return Err(MonitorError::Refused { answer: line.trim_end().to_owned() });
            }
        }
        Ok(Self { stream, observer, without: Vec::new(), scripts: false, own: HashSet::new(), markers: 0 })
    }

    /// Excludes a command by its name, whatever its arguments.
    #[must_use]
    pub fn without(mut self, name: &str) -> Self {
        self.without.push(name.to_ascii_uppercase());
        self
    }

    /// Includes commands of scripts; their source is `lua`.
    #[must_use]
    pub fn with_scripts(mut self) -> Self {
        self.scripts = true;
        self
    }

    /// Returns every command executed since the start or the last call, up to this call, in the
    /// server's order.
    ///
    /// This method sends a marker on another connection, and returns all commands before the
    /// marker. The list therefore includes all commands that were answered before this call.
    ///
    /// # Errors
    ///
    /// [`MonitorError`]: the connection was lost. The monitor cannot be used again.
    pub async fn take(&mut self) -> Result<Vec<SeenCommand>, MonitorError> {
        self.markers += 1;
        let marker = format!("{TESTKIT_USER} monitor {}", self.markers);
        self.observer.cmd(&["ECHO", &marker]).await?;
        let mut seen = Vec::new();
        loop {
            let command = self.next().await?;
            if command.name == "ECHO" && command.args.first().is_some_and(|arg| *arg == marker) {
                self.own.insert(command.source);
                break;
            }
            if command.is_own_name() {
                self.own.insert(command.source.clone());
            }
            seen.push(command);
        }
        let list: String = self.observer.query(&["CLIENT", "LIST"]).await?;
        let own = list.lines().map(ClientInfo::from_line).filter(|client| client.user == TESTKIT_USER);
        self.own.extend(own.map(|client| client.addr));
        seen.retain(|command| {
            (self.scripts || command.source != LUA)
                && !self.own.contains(&command.source)
                && !self.without.contains(&command.name)
        });
        Ok(seen)
    }

    async fn next(&mut self) -> Result<SeenCommand, MonitorError> {
        let mut line = Vec::new();
        if self.stream.read_until(b'\n', &mut line).await? == 0 {
            return Err(io::Error::from(io::ErrorKind::UnexpectedEof).into());
        }
        SeenCommand::from_line(line.trim_ascii_end())
            .ok_or_else(|| MonitorError::NotUnderstood { line: String::from_utf8_lossy(&line).into_owned() })
    }
}

impl fmt::Debug for Monitor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Monitor").field("without", &self.without).finish_non_exhaustive()
    }
}

/// A command that the server executed.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct SeenCommand {
    /// The command's name in capitals; a subcommand is the first argument.
    pub name: String,
    /// The arguments after the name.
    pub args: Vec<Bytes>,
    /// The client's address, as in [`ClientInfo::addr`].
    pub source: String,
}

impl SeenCommand {
    /// Reads a line such as `+1339518083.107412 [0 127.0.0.1:60866] "keys" "*"`.
    fn from_line(line: &[u8]) -> Option<Self> {
        let at = |from: usize, byte: u8| line[from..].iter().position(|one| *one == byte).map(|at| from + at);
        let opening = at(0, b'[')?;
        let space = at(opening, b' ')?;
        let closing = line.windows(3).position(|three| three == b"] \"").filter(|closing| *closing > space)?;
        let source = std::str::from_utf8(&line[space + 1..closing]).ok()?.to_owned();
        let mut words = quoted_words(&line[closing + 2..])?.into_iter();
        let name = String::from_utf8_lossy(&words.next()?).to_ascii_uppercase();
        Some(Self { name, args: words.collect(), source })
    }

    /// Whether this is the `CLIENT SETNAME` of a testkit connection.
    fn is_own_name(&self) -> bool {
        self.name == "CLIENT"
            && matches!(&self.args[..], [verb, name] if verb.eq_ignore_ascii_case(b"setname") && name == TESTKIT_USER)
    }
}

/// Splits words that are quoted as in `"a" "b\x00"`; `None` for a line in any other format.
fn quoted_words(mut rest: &[u8]) -> Option<Vec<Bytes>> {
    let mut words = Vec::new();
    while !rest.is_empty() {
        rest = rest.strip_prefix(b"\"")?;
        let mut word = Vec::new();
        loop {
            let (byte, after) = rest.split_first()?;
            rest = after;
            match byte {
                b'"' => break,
                b'\\' => {
                    let (escape, after) = rest.split_first()?;
                    rest = after;
                    word.push(match escape {
                        b'n' => b'\n',
                        b'r' => b'\r',
                        b't' => b'\t',
                        b'a' => 7,
                        b'b' => 8,
                        b'x' => {
                            let (digits, after) = rest.split_at_checked(2)?;
                            rest = after;
                            u8::from_str_radix(std::str::from_utf8(digits).ok()?, 16).ok()?
                        }
                        other => *other,
                    });
                }
                other => word.push(*other),
            }
        }
        words.push(word.into());
        rest = rest.strip_prefix(b" ").unwrap_or(rest);
    }
    Some(words)
}

/// The monitor does not receive the commands of the server.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum MonitorError {
    /// The monitoring connection failed.
    #[error("the monitoring connection failed: {0}")]
    Connection(#[from] io::Error),
    /// The connection that sends the markers failed.
    #[error("the connection beside the monitoring one failed: {0}")]
    Marker(#[from] RedisError),
    /// The server does not allow monitoring.
    #[error("the server answered {answer:?} instead of showing its commands")]
    Refused {
        /// The server's reply.
        answer: String,
    },
    /// A line in another format than that of `MONITOR`.
    #[error("the server showed {line:?}, which is no command")]
    NotUnderstood {
        /// The line.
        line: String,
    },
}

/// The source of a script's commands in the monitor.
const LUA: &str = "lua";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_is_taken_apart_however_its_arguments_are_quoted() {
        let line = br#"+1339518083.107412 [0 127.0.0.1:60866] "set" "a \"b\" ] \"c" "\x00\xff\r\n\\" """#;
        let seen = SeenCommand::from_line(line).unwrap();
        assert_eq!((seen.name.as_str(), seen.source.as_str()), ("SET", "127.0.0.1:60866"));
        assert_eq!(seen.args, [&b"a \"b\" ] \"c"[..], b"\x00\xff\r\n\\", b""]);
        let script = SeenCommand::from_line(br#"+1339518083.107412 [0 lua] "get" "x""#).unwrap();
        assert_eq!(script.source, LUA);
        assert_eq!(SeenCommand::from_line(b"-ERR no"), None);
    }
}
