//! The process that drives a browser, and requests to it.

use std::{
    fs,
    net::{Ipv4Addr, SocketAddr},
    path::{Path, PathBuf},
    time::Duration,
};

use bytes::Bytes;
use http_body_util::{BodyExt as _, Full, Limited};
use hyper::{
    Method, Request,
    client::conn::http1,
    header::{CONTENT_TYPE, HOST},
};
use hyper_util::rt::TokioIo;
use serde_json::Value;
use tempfile::TempDir;
use tokio::{net::TcpStream, task::spawn_blocking, time::Instant};

use super::error::BrowserError;
use crate::supervisor::Supervisor;

/// A running chromedriver. It ends when this value is dropped or this process ends. Its browser
/// ends with it.
#[derive(Debug)]
pub(super) struct Driver {
    addr: SocketAddr,
    // Ended before the folder is deleted.
    _supervisor: Supervisor,
    folder: TempDir,
}

impl Driver {
    /// Starts the program on a free loopback port.
    pub(super) async fn start(program: &Path) -> Result<Self, BrowserError> {
        let folder = tempfile::Builder::new().prefix("redgrid-browser-").tempdir()?;
        fs::create_dir(folder.path().join("tmp"))?;
        let (program, path) = (program.to_owned(), folder.path().to_owned());
        let start = move || {
            let mut supervisor = Supervisor::of_driver(&program, &path)?;
            supervisor.start_server()?;
            Ok::<_, std::io::Error>(supervisor)
        };
        let supervisor = spawn_blocking(start).await.map_err(std::io::Error::other)??;
        let deadline = Instant::now() + READY_WITHIN;
        loop {
            let log = fs::read(folder.path().join("driver.log")).unwrap_or_default();
            let log = String::from_utf8_lossy(&log);
            if let Some(port) = port(&log) {
                let addr = SocketAddr::from((Ipv4Addr::LOCALHOST, port));
                return Ok(Self { addr, _supervisor: supervisor, folder });
            }
            if Instant::now() > deadline {
                return Err(BrowserError::NotReady { waited: READY_WITHIN, log: log.into_owned() });
            }
            tokio::time::sleep(READY_POLL).await;
        }
    }

    /// Returns the folder for the browser's profile.
    pub(super) fn profile(&self) -> PathBuf {
        self.folder.path().join("profile")
    }

    /// Sends a command, and returns its value. `body` is `None` for commands without one.
    pub(super) async fn send(&self, method: Method, path: &str, body: Option<&Value>) -> Result<Value, BrowserError> {
        let no_answer = |reason: String| BrowserError::NoAnswer { command: path.to_owned(), reason };
        let answer = tokio::time::timeout(ANSWER_WITHIN, self.exchange(method, path, body)).await;
        let answer = answer.map_err(|_| no_answer(format!("nothing within {ANSWER_WITHIN:?}")))?;
        let mut answer = answer.map_err(|error| no_answer(error.to_string()))?;
        let value = answer.get_mut("value").map(Value::take).unwrap_or_default();
        let text = |field: &str| value.get(field).and_then(Value::as_str).map(str::to_owned);
        match (text("error"), text("message")) {
            (Some(error), Some(message)) => Err(BrowserError::Failed { command: path.to_owned(), error, message }),
            _ => Ok(value),
        }
    }

    async fn exchange(
        &self,
        method: Method,
        path: &str,
        body: Option<&Value>,
    ) -> Result<Value, Box<dyn std::error::Error + Send + Sync>> {
        let stream = TcpStream::connect(self.addr).await?;
        let (mut sender, connection) = http1::handshake(TokioIo::new(stream)).await?;
        let text = body.map(Value::to_string).unwrap_or_default();
        let request = Request::builder().method(method).uri(format!("/{path}"));
        let request = request.header(HOST, self.addr.to_string()).header(CONTENT_TYPE, "application/json");
        let request = request.body(Full::new(Bytes::from(text)))?;
        let exchange = async {
            let response = sender.send_request(request).await?;
            let body = Limited::new(response.into_body(), LARGEST_ANSWER).collect().await?;
            Ok(serde_json::from_slice(&body.to_bytes())?)
        };
        tokio::pin!(connection);
        tokio::select! {
            answer = exchange => answer,
            Err(error) = &mut connection => Err(error.into()),
        }
    }
}

/// Reads the port from the driver's log, once the line is complete.
fn port(log: &str) -> Option<u16> {
    let (_, rest) = log.split_once("started successfully on port ")?;
    rest.split_once('.')?.0.parse().ok()
}

/// Timeout of the start: 60 s. It takes less than a second.
const READY_WITHIN: Duration = Duration::from_secs(60);

/// Poll interval of the start.
const READY_POLL: Duration = Duration::from_millis(10);

/// Timeout of a command: 2 minutes. The driver itself ends scripts and loads of pages after one
/// minute.
const ANSWER_WITHIN: Duration = Duration::from_secs(120);

/// Largest answer: 64 MiB, many times that of a screenshot.
const LARGEST_ANSWER: usize = 64 << 20;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_port_is_read_from_a_complete_line() {
        let log = "Starting ChromeDriver 156.0 on port 0\nChromeDriver was started successfully on port 41231.\n";
        assert_eq!(port(log), Some(41_231));
        assert_eq!(port(&log[..log.len() - 3]), None);
        assert_eq!(port("Starting ChromeDriver 156.0 on port 0\n"), None);
    }
}
