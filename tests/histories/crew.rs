//! The processes of a history, each with its own proxy to the server.

use std::process::Stdio;
use std::sync::{Arc, Mutex};

use redgrid_testkit::{Proxy, RedisServer};
use redgrid_tests::SOON;
use redgrid_tests::history::{Event, Orders};
use tokio::io::{AsyncBufReadExt, BufReader};
use tokio::process::{Child, Command};
use tokio::task::JoinHandle;

/// One process.
pub(crate) struct Worker {
    pub(crate) proxy: Proxy,
    child: tokio::sync::Mutex<Child>,
    pid: u32,
    /// Whether it was killed, or is about to be: its process id gets no signals any more.
    killed: Mutex<bool>,
    record: Arc<Mutex<Vec<Event>>>,
    reading: Mutex<Option<JoinHandle<()>>>,
}

impl Worker {
    pub(crate) async fn start(server: &RedisServer, orders: Orders) -> Worker {
        let proxy = Proxy::to(server).await.expect("a free port");
        let orders = Orders { url: server.url_via(proxy.addr()), ..orders };
        let mut child = Command::new(env!("CARGO_BIN_EXE_role"))
            .arg("historian")
            .arg(serde_json::to_string(&orders).expect("plain data"))
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .kill_on_drop(true)
            .spawn()
            .expect("the historian starts");
        let pid = child.id().expect("it has just been started");
        let mut lines = BufReader::new(child.stdout.take().expect("it is piped")).lines();
        let record = Arc::new(Mutex::new(Vec::new()));
        let written = Arc::clone(&record);
        let reading = tokio::spawn(async move {
            // The last line of a killed process may be incomplete.
            while let Ok(Some(line)) = lines.next_line().await {
                if let Ok(event) = serde_json::from_str(&line) {
                    written.lock().expect("no panic above").push(event);
                }
            }
        });
        let (child, killed, reading) = (child.into(), false.into(), Some(reading).into());
        Worker { proxy, child, pid, killed, record, reading }
    }

    pub(crate) fn stop(&self) {
        self.signal("-STOP");
    }

    pub(crate) fn go_on(&self) {
        self.signal("-CONT");
    }

    pub(crate) fn kill(&self) {
        self.signal("-KILL");
        *self.killed.lock().expect("no panic above") = true;
    }

    fn signal(&self, signal: &str) {
        // The process is reaped only at the end, so the system does not reuse its id before that.
        if !*self.killed.lock().expect("no panic above") {
            let _ =
                std::process::Command::new("kill").args([signal, &self.pid.to_string()]).stderr(Stdio::null()).status();
        }
    }

    /// Waits for the process to end. Returns its record, and the error if it ended badly.
    pub(crate) async fn end(&self) -> (Vec<Event>, Option<String>) {
        let ended = tokio::time::timeout(SOON, self.child.lock().await.wait()).await.map(Result::ok);
        let killed = *self.killed.lock().expect("no panic above");
        let wrong = match ended {
            Err(_) => Some(format!("process {} did not end", self.pid)),
            Ok(Some(status)) if !status.success() && !killed => {
                Some(format!("process {} ended with {status}", self.pid))
            }
            Ok(_) => None,
        };
        if wrong.is_some() {
            self.kill();
        }
        let reading = self.reading.lock().expect("no panic above").take();
        if let Some(reading) = reading {
            let _ = tokio::time::timeout(SOON, reading).await;
        }
        (std::mem::take(&mut *self.record.lock().expect("no panic above")), wrong)
    }
}
