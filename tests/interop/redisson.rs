//! The Java process: dispatches commands and replies to its actors.

use std::collections::HashMap;
use std::process::Stdio;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use redgrid_tests::process::{Signal, send_signal};
use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader, Lines};
use tokio::process::{Child, ChildStdin, ChildStdout, Command};
use tokio::sync::mpsc::{UnboundedSender, unbounded_channel};

use crate::actor::Actor;
use crate::program::Program;

/// A Redisson client in a process of its own. The process ends when this value is dropped, or when
/// the test process ends in any way.
#[derive(Debug)]
pub(crate) struct Redisson {
    id: String,
    child: tokio::sync::Mutex<Child>,
    input: tokio::sync::Mutex<ChildStdin>,
    inboxes: Arc<Inboxes>,
    actors: AtomicU64,
}

/// A start needs a second of CPU time, and several may start at once on a busy machine.
const START: Duration = Duration::from_secs(60);

/// The senders to each actor, by its name.
type Inboxes = Mutex<HashMap<String, UnboundedSender<String>>>;

impl Redisson {
    /// Starts the process with Redisson's defaults, except for the address and the watchdog's
    /// lease.
    pub(crate) async fn start(program: &Program, url: &str, watchdog: Duration) -> Arc<Redisson> {
        let mut java = Command::new(&program.java);
        // The process runs for only a few seconds, so a quick start matters more than optimized
        // code.
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

    /// Returns an actor with a thread of its own in the Java process.
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

    /// Sends the process a signal, see [`send_signal`].
    pub(crate) async fn signal(&self, signal: Signal) {
        send_signal(self.child.lock().await.id().expect("it lives"), signal);
    }

    /// Kills the process with `kill -9`, and returns when it is gone.
    pub(crate) async fn kill(&self) {
        self.child.lock().await.kill().await.expect("it can be killed");
    }
}

async fn deliver(mut output: Lines<BufReader<ChildStdout>>, inboxes: Arc<Inboxes>) {
    while let Ok(Some(line)) = output.next_line().await {
        let Some((actor, words)) = line.split_once('\t') else { continue };
        if let Some(inbox) = inboxes.lock().unwrap().get(actor) {
            // The actor of a finished scenario may be gone.
            let _ = inbox.send(words.to_owned());
        }
    }
    // Closes all inboxes, so that no actor waits for an answer that cannot arrive.
    inboxes.lock().unwrap().clear();
}
