//! The Java process: dispatches commands and replies to its actors.

use std::collections::HashMap;
use std::process::Stdio;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader, Lines};
use tokio::process::{Child, ChildStdin, ChildStdout, Command};
use tokio::sync::mpsc::{UnboundedSender, unbounded_channel};

use crate::actor::Actor;
use crate::program::Program;

/// A Redisson client in a process of its own. It ends with its value, and with the test process
/// however that ends.
#[derive(Debug)]
pub(crate) struct Redisson {
    id: String,
    child: tokio::sync::Mutex<Child>,
    input: tokio::sync::Mutex<ChildStdin>,
    inboxes: Arc<Inboxes>,
    actors: AtomicU64,
}

/// A second of work, and several may start at once on a busy machine.
const START: Duration = Duration::from_secs(60);

/// Where the lines of each actor go.
type Inboxes = Mutex<HashMap<String, UnboundedSender<String>>>;

impl Redisson {
    /// Starts it with Redisson's defaults but for the address and the watchdog's lease.
    pub(crate) async fn start(program: &Program, url: &str, watchdog: Duration) -> Arc<Redisson> {
        let mut java = Command::new(&program.java);
        // Lives for seconds: a quick start counts for more than fast code.
        java.args(["-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC", "-Xmx256m"]);
        java.args(["-Dorg.slf4j.simpleLogger.defaultLogLevel=warn", "-cp", &program.classpath, "Peer", url]);
        java.arg(watchdog.as_millis().to_string()).stdin(Stdio::piped()).stdout(Stdio::piped()).kill_on_drop(true);
        let mut child = java.spawn().expect("java runs");
        let input = tokio::sync::Mutex::new(child.stdin.take().expect("it has an input"));
        let mut output = BufReader::new(child.stdout.take().expect("it has an output")).lines();
        let hello = tokio::time::timeout(START, output.next_line()).await.expect("Redisson starts in time");
        let hello = hello.expect("its output can be read").unwrap_or_default();
        let id = hello.strip_prefix("ready\t").unwrap_or_else(|| panic!("Redisson said {hello:?}")).to_owned();
        let inboxes = Arc::new(Inboxes::default());
        tokio::spawn(deliver(output, inboxes.clone()));
        Arc::new(Redisson { id, child: child.into(), input, inboxes, actors: AtomicU64::new(0) })
    }

    /// The client's id, as in its holder fields.
    pub(crate) fn id(&self) -> &str {
        &self.id
    }

    /// A thread of its own over there.
    pub(crate) fn actor(self: &Arc<Self>) -> Actor {
        let name = format!("t{}", self.actors.fetch_add(1, Ordering::Relaxed));
        let (inbox, lines) = unbounded_channel();
        self.inboxes.lock().unwrap().insert(name.clone(), inbox);
        Actor::new(name, self.clone(), lines)
    }

    pub(crate) async fn send(&self, words: &[&str]) {
        let line = words.join("\t") + "\n";
        self.input.lock().await.write_all(line.as_bytes()).await.expect("Redisson takes a command");
    }

    /// Sends it a signal, as `-STOP`.
    pub(crate) async fn signal(&self, signal: &str) {
        let pid = self.child.lock().await.id().expect("it lives").to_string();
        let sent = Command::new("kill").args([signal, &pid]).status().await;
        assert!(sent.expect("there is a kill").success());
    }

    /// `kill -9`; when this returns, it is gone.
    pub(crate) async fn kill(&self) {
        self.child.lock().await.kill().await.expect("it can be killed");
    }
}

async fn deliver(mut output: Lines<BufReader<ChildStdout>>, inboxes: Arc<Inboxes>) {
    while let Ok(Some(line)) = output.next_line().await {
        let Some((actor, words)) = line.split_once('\t') else { continue };
        if let Some(inbox) = inboxes.lock().unwrap().get(actor) {
            // A scenario that is over does not listen any more.
            let _ = inbox.send(words.to_owned());
        }
    }
    // Whoever still waits for an answer is told that none comes.
    inboxes.lock().unwrap().clear();
}
