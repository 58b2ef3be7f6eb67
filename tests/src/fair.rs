//! Fair locks as observed on the server: the order of entries by the server's own record, and a
//! client that follows Redisson's rules.

use std::collections::{HashSet, VecDeque};
use std::path::Path;
use std::process::Stdio;
use std::time::{Duration, Instant};

use redgrid_testkit::{Monitor, Observer, RedisServer, SeenCommand, wait_until};
use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader, Lines};
use tokio::process::{Child, ChildStdout, Command};

/// The order in which requests joined the queue of a fair lock and acquired it, from the server's
/// `MONITOR`.
#[derive(Debug, Default)]
pub struct Record {
    name: String,
    queue: VecDeque<String>,
    /// The contents of the list while a script deletes and rewrites it.
    former: Option<HashSet<String>>,
    popped: Option<String>,
    holder: Option<String>,
    /// The last holder. Its process hands the lock over along the queue, and afterwards removes the
    /// served waiters.
    last: String,
    /// All requests in the order of their arrival: those that joined the queue, and those that
    /// acquired the lock without it.
    pub arrived: Vec<String>,
    /// Number of requests that joined the queue.
    pub places: u64,
    /// Number of grants.
    pub grants: u64,
    /// Number of grants through the queue.
    pub by_place: u64,
    /// Requests that acquired the lock before earlier ones, each with the overtaken request.
    pub overtaken: Vec<String>,
}

impl Record {
    /// Creates a record of the lock with this name, beginning now.
    pub fn of(name: &str) -> Record {
        Record { name: name.to_owned(), ..Record::default() }
    }

    /// Returns the number of queue positions without a grant: their waiters left, or were evicted.
    pub fn gone(&self) -> u64 {
        self.places - self.by_place - self.queue.len() as u64
    }

    /// Processes the server's commands.
    pub fn see(&mut self, commands: &[SeenCommand]) {
        for command in commands {
            let args: Vec<String> = command.args.iter().map(|arg| String::from_utf8_lossy(arg).into_owned()).collect();
            self.one(&command.name, &args);
        }
    }

    fn one(&mut self, name: &str, args: &[String]) {
        let Some((key, rest)) = args.split_first() else { return };
        let queue = format!("redisson_lock_queue:{{{}}}", self.name);
        if *key == queue {
            match name {
                "DEL" | "UNLINK" => self.former = Some(self.queue.drain(..).collect()),
                "RPUSH" => {
                    let again = self.former.as_ref().is_some_and(|former| rest.iter().all(|one| former.contains(one)));
                    self.places += if again { 0 } else { rest.len() as u64 };
                    self.arrived.extend(rest.iter().filter(|_| !again).cloned());
                    self.queue.extend(rest.iter().cloned());
                }
                "LPOP" => self.popped = self.queue.pop_front(),
                "LREM" => {
                    if let Some(out) = rest.last().filter(|out| self.has_passed_to(out)) {
                        self.granted_by_place(out);
                    }
                    self.queue.retain(|one| Some(one) != rest.last());
                }
                _ => {}
            }
        } else if *key == self.name && (name == "HSET" || name == "HINCRBY") && rest.last().is_some_and(|n| n == "1") {
            let who = rest[0].clone();
            if self.holder.as_ref() != Some(&who) {
                self.granted(who);
            }
        } else if *key == self.name && (name == "DEL" || name == "HDEL") {
            self.holder = None;
        }
        if name != "RPUSH" && !(*key == queue && name == "DEL") {
            self.former = None;
        }
    }

    /// Whether a removed waiter was served by a local hand-over in the process of the last holder.
    /// The result is correct only if no waiter is cancelled meanwhile.
    fn has_passed_to(&self, out: &String) -> bool {
        let process = |holder: &str| holder.rsplit_once(':').map(|(process, _)| process.to_owned());
        *out != self.last && self.queue.contains(out) && process(out).is_some_and(|of| process(&self.last) == Some(of))
    }

    fn granted_by_place(&mut self, who: &str) {
        self.grants += 1;
        match self.queue.front() {
            Some(head) if head == who => self.by_place += 1,
            head => self.overtaken.push(format!("{who} before {head:?}")),
        }
    }

    fn granted(&mut self, who: String) {
        self.grants += 1;
        let popped = self.popped.take();
        match (self.queue.front(), popped) {
            // Redisson removes a waiter's position before its entry, this library afterwards.
            (_, Some(popped)) if popped == who => self.by_place += 1,
            (Some(head), _) if *head == who => self.by_place += 1,
            (None, _) => self.arrived.push(who.clone()),
            (Some(head), _) => self.overtaken.push(format!("{who} before {head}")),
        }
        self.last.clone_from(&who);
        self.holder = Some(who);
    }
}

/// A client of a fair lock that follows Redisson's rules, implemented here. Tests use it for states
/// of a host that are impossible to set up with a real Redisson, such as a wrong clock.
#[derive(Debug)]
pub struct Theirs {
    observer: Observer,
    name: String,
    /// The client's holder id.
    pub holder: String,
    /// How far the client's clock is ahead, in milliseconds.
    pub ahead: i64,
    wait: Duration,
}

const PURGE: &str = "
    local lock, queue, scores = KEYS[1], KEYS[2], KEYS[3]
    local me, wait, clock = ARGV[1], tonumber(ARGV[2]), redis.call('TIME')
    local now = clock[1] * 1000 + math.floor(clock[2] / 1000) + tonumber(ARGV[3])
    local head = redis.call('LINDEX', queue, 0)
    while head do
      local score = redis.call('ZSCORE', scores, head)
      if not score or tonumber(score) > now then break end
      redis.call('ZREM', scores, head)
      redis.call('LPOP', queue)
      head = redis.call('LINDEX', queue, 0)
    end";

const TRY: &str = "
    if redis.call('EXISTS', lock) == 0 and (not head or head == me) then
      redis.call('LPOP', queue)
      redis.call('ZREM', scores, me)
      for _, other in ipairs(redis.call('ZRANGE', scores, 0, -1)) do
        redis.call('ZINCRBY', scores, -wait, other)
      end
      redis.call('HSET', lock, me, '1')
      redis.call('PEXPIRE', lock, ARGV[4])
      return -1
    end
    if redis.call('ZSCORE', scores, me) then
      return math.max(0, redis.call('PTTL', lock))
    end
    local last = redis.call('LINDEX', queue, -1)
    local base = redis.call('PTTL', lock)
    if last and redis.call('ZSCORE', scores, last) then
      base = redis.call('ZSCORE', scores, last) - now
    end
    redis.call('ZADD', scores, base + wait + now, me)
    redis.call('RPUSH', queue, me)
    return base";

const UNLOCK: &str = "
    if redis.call('HEXISTS', lock, me) == 1 then
      redis.call('DEL', lock)
    end
    if head then
      redis.call('PUBLISH', ARGV[5] .. ':' .. head, '0')
    end
    return 0";

impl Theirs {
    /// Creates the holder with this number, and with Redisson's default wait. Its host's clock is
    /// `ahead` milliseconds ahead.
    pub fn new(observer: &Observer, name: &str, number: u64, ahead: i64) -> Theirs {
        let holder = format!("00000000-0000-4000-8000-000000000000:{number}");
        let wait = Duration::from_secs(300);
        Theirs { observer: observer.clone(), name: name.to_owned(), holder, ahead, wait }
    }

    async fn run(&self, what: &str, lease: Duration) -> i64 {
        let script = format!("{PURGE}{what}");
        let of = |prefix: &str| format!("{prefix}:{{{}}}", self.name);
        let (queue, scores) = (of("redisson_lock_queue"), of("redisson_lock_timeout"));
        let (wait, lease) = (self.wait.as_millis().to_string(), lease.as_millis().to_string());
        let (ahead, channel) = (self.ahead.to_string(), of("redisson_lock__channel"));
        let command: [&str; 11] =
            ["EVAL", &script, "3", &self.name, &queue, &scores, &self.holder, &wait, &ahead, &lease, &channel];
        self.observer.query(&command).await.expect("the script runs")
    }

    /// Tries to acquire, and joins the queue if the lock is busy. Returns true if it holds the
    /// lock.
    pub async fn try_for(&self, lease: Duration) -> bool {
        self.run(TRY, lease).await == -1
    }

    /// Releases the lock.
    pub async fn unlock(&self) {
        self.run(UNLOCK, Duration::ZERO).await;
    }
}

/// Returns the waiters of a fair lock, the next one first.
pub async fn queue(observer: &Observer, name: &str) -> Vec<String> {
    observer.query(&["LRANGE", &format!("redisson_lock_queue:{{{name}}}"), "0", "-1"]).await.expect("a list")
}

/// Waits until the queue of the fair lock `a` has this many positions.
pub async fn until_waiting(observer: &Observer, places: usize) {
    wait_until(crate::SOON, async || queue(observer, "a").await.len() == places).await;
}

/// Starts a process of the program `contender`. Once the process reads a line, each of its tasks
/// acquires the fair lock `name` `times` times. Returns the process and its output.
///
/// # Errors
///
/// A description: the process did not start, or was not ready in time.
pub async fn contender(
    program: impl AsRef<Path>,
    url: &str,
    name: &str,
    (tasks, times): (usize, u64),
) -> Result<(Child, Lines<BufReader<ChildStdout>>), Box<dyn std::error::Error>> {
    let mut child = Command::new(program.as_ref())
        .args(["contender", url, name, &tasks.to_string(), &times.to_string(), "0"])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .kill_on_drop(true)
        .spawn()?;
    let mut lines = BufReader::new(child.stdout.take().ok_or("no output")?).lines();
    match tokio::time::timeout(crate::SOON, lines.next_line()).await??.as_deref() {
        Some("ready") => Ok((child, lines)),
        said => Err(format!("a process said {said:?}").into()),
    }
}

/// Starts a process as [`contender`] does, and makes its tasks begin.
///
/// # Panics
///
/// If the process is not ready in time.
pub async fn contending(program: impl AsRef<Path>, url: &str, name: &str, (tasks, times): (usize, u64)) -> Child {
    let (mut child, _) = contender(program, url, name, (tasks, times)).await.expect("it is ready");
    child.stdin.as_mut().expect("its input").write_all(b"\n").await.expect("it reads");
    child
}

/// The result of processes that contend for a fair lock.
#[derive(Debug)]
pub struct Contest {
    /// The server's record.
    pub record: Record,
    /// The duration.
    pub took: Duration,
}

/// Runs this many processes of the program `contender` on the fair lock `a`. Each process has this
/// many tasks, and each task acquires the lock this often.
///
/// # Errors
///
/// A description: a process did not start or did not complete, or the server is down.
pub async fn contest(
    server: &RedisServer,
    contender: &Path,
    (processes, tasks, times): (usize, usize, u64),
    within: Duration,
) -> Result<Contest, Box<dyn std::error::Error>> {
    let mut monitor = Monitor::start(server).await?.with_scripts();
    let mut record = Record::of("a");
    let mut running = Vec::new();
    for _ in 0..processes {
        running.push(self::contender(contender, &server.url(), "a", (tasks, times)).await?);
    }
    let began = Instant::now();
    for (child, _) in &mut running {
        child.stdin.as_mut().ok_or("no input")?.write_all(b"\n").await?;
    }
    let all = processes as u64 * tasks as u64 * times;
    while record.grants < all {
        if began.elapsed() > within {
            return Err(format!("{} of {all} in {within:?}: {record:?}", record.grants).into());
        }
        record.see(&monitor.take().await?);
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    let took = began.elapsed();
    for (_, lines) in &mut running {
        let done = tokio::time::timeout(crate::SOON, lines.next_line()).await??.unwrap_or_default();
        if !done.starts_with("done ") {
            return Err(format!("a process said {done:?}").into());
        }
    }
    record.see(&monitor.take().await?);
    Ok(Contest { record, took })
}
