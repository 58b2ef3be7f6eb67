//! The task of a member: while there are handles and a client, it listens, answers rounds and
//! saves.
//!
//! All of it runs in sequence, so that a round, a reset and a save each find the state that the
//! previous one has left.

use std::collections::VecDeque;
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use redgrid_core::clock::Instant;
use redgrid_core::{BackgroundClient, ChannelEvent, OrderedSubscription, Request, ServerError};

use super::adder_number::AdderNumber;
use super::checkpoint::Checkpoint;
use super::member::{Member, MemberLock};
use super::scripts::{ANSWER, ENTER, REDGRID_PREFIX, ROUND_TTL_MS, RoundKind, SAVE};

/// The lifetime of a member's record of its last save: three days, three times the longest
/// interval. It is renewed before it expires.
const RECORD_TTL: Duration = Duration::from_secs(3 * 24 * 3600);

/// How much earlier the record may expire, because the server's clock may be faster than the local
/// one: 500 ppm of its lifetime (RFC 5905, section 11.3).
const DRIFT: Duration = Duration::from_secs(130);

/// The lifetime of the record after the end of the member, in milliseconds: as long as a round may
/// last.
const ENDED_RECORD_TTL_MS: i64 = ROUND_TTL_MS;

/// The number of remembered round ids, which detect repeated messages.
const KNOWN_ROUNDS: usize = 64;

/// The maximum number of attempts of a save or of the entry into a round.
///
/// A refused attempt is repeated with the state that the server returned. Only this client changes
/// the record of its member, so the second attempt succeeds and the limit is not reached.
const MAX_ATTEMPTS: usize = 8;

/// Runs the member until all handles are dropped, or the client ends.
pub(super) async fn run_member<N: AdderNumber>(
    member: Arc<Member<N>>,
    member_lock: Arc<MemberLock>,
    client: BackgroundClient,
) {
    let _end_guard = EndGuard(Arc::clone(&member));
    // The member lock is dropped before `_end_guard` reports the end: the name is then free for
    // either type.
    let held_lock = member_lock;
    let lock_guard = held_lock.lock.lock().await;
    let mut subscription = client.subscribe_at_primary([member.keys.topic.clone()], &member.keys.key);
    let mut task = MemberTask::new(Arc::clone(&member), client.clone());
    let mut closing = pin!(client.closing());
    while !member.is_abandoned() && !client.is_closing() {
        let due = task.save_due();
        tokio::select! {
            biased;
            () = &mut closing => {}
            () = member.changed.notified() => {}
            () = client.clock().sleep_until(due) => task.save_at(due).await,
            event = subscription.next() => task.handle_event(event).await,
        }
    }
    let result = task.leave(subscription).await;
    drop(lock_guard);
    drop(held_lock);
    member.ended.send_replace(Some(result));
}

/// Reports the end of the task even if it is aborted, so that no caller waits for ever.
struct EndGuard<N: AdderNumber>(Arc<Member<N>>);

impl<N: AdderNumber> Drop for EndGuard<N> {
    fn drop(&mut self) {
        let aborted = || ServerError::Unknown { reason: "the client ended meanwhile".into() };
        self.0.ended.send_if_modified(|ended| {
            let is_first = ended.is_none();
            ended.get_or_insert_with(|| Err(aborted()));
            is_first
        });
    }
}

struct MemberTask<N: AdderNumber> {
    member: Arc<Member<N>>,
    client: BackgroundClient,
    /// The count of this member since the last reset.
    counted: N::Wide,
    checkpoint: Checkpoint<N>,
    /// When the last save was executed or attempted.
    last_save: Instant,
    /// The time just before the last executed save request was sent.
    record_renewed: Instant,
    known_rounds: VecDeque<String>,
}

impl<N: AdderNumber> MemberTask<N> {
    fn new(member: Arc<Member<N>>, client: BackgroundClient) -> Self {
        let (counted, checkpoint, now) = (N::Wide::default(), Checkpoint::new(), client.clock().now());
        MemberTask {
            member,
            client,
            counted,
            checkpoint,
            last_save: now,
            record_renewed: now,
            known_rounds: VecDeque::new(),
        }
    }

    fn count(&mut self) -> N::Wide {
        self.counted = N::plus(self.counted, N::take(&self.member.local));
        self.counted
    }

    async fn handle_event(&mut self, event: ChannelEvent) {
        let payload = match event {
            ChannelEvent::Message { payload, .. } => payload,
            ChannelEvent::Resync => return self.member.gaps.send_modify(|gaps| *gaps += 1),
        };
        let Some((kind, id)) = RoundKind::parse(&payload) else { return };
        if self.known_rounds.iter().any(|known| known == id) {
            return;
        }
        if self.known_rounds.len() >= KNOWN_ROUNDS {
            self.known_rounds.pop_front();
        }
        self.known_rounds.push_back(id.to_owned());
        // An error reaches only the rounds of this client. Another client notices that an answer is
        // missing by the number of answers.
        match self.answer(kind, id).await {
            Ok(true) => self.member.record_answer(id, Ok(())),
            Ok(false) => {}
            Err(error) => {
                tracing::debug!(name = %self.member.name, round = id, %error, "a round of an adder was not answered");
                self.member.record_answer(id, Err(error));
            }
        }
    }

    /// Answers a round. Returns false if it is over.
    async fn answer(&mut self, kind: RoundKind, id: &str) -> Result<bool, ServerError> {
        let (until, keys) = (self.deadline(), self.member.keys.round(id));
        let is_redgrid = if id.starts_with(REDGRID_PREFIX) { "1" } else { "" };
        let command = if kind == RoundKind::Sum { N::ADD_COMMANDS[0] } else { "" };
        // The count is taken first: later additions belong to the next round, or survive the reset.
        let counted = self.count();
        let Some(saved) = self.enter(id, command, is_redgrid, until).await? else { return Ok(false) };
        let amount = match kind {
            // The amount is empty if it is out of range.
            RoundKind::Sum => N::text(N::minus(counted, saved)).unwrap_or_default(),
            RoundKind::Reset => {
                // Only this task takes the local count, so nothing was counted since. A new start
                // at 0 keeps doubles exact after a high count, and ends an overflow.
                self.checkpoint.record_reset(saved);
                self.counted = N::Wide::default();
                // The total includes this member's saves after the reset of the total: subtract
                // them again.
                if self.checkpoint.exists() && self.checkpoint.sum() != self.counted {
                    self.save(until).await?;
                }
                String::new()
            }
        };
        let request = ANSWER.with([keys.counter, keys.semaphore, keys.round]).arg(command).arg(amount).arg(is_redgrid);
        let request = request.int(ROUND_TTL_MS).publish_arg().arg(keys.channel);
        let done: Vec<i64> = self.client.run_exactly_once_until(request, until).await?;
        Ok(done == [1])
    }

    /// Enters a round. Returns this member's part of the total that the round includes; `None` if
    /// the round is over.
    async fn enter(
        &mut self,
        id: &str,
        command: &'static str,
        is_redgrid: &'static str,
        until: Instant,
    ) -> Result<Option<N::Wide>, ServerError> {
        for _ in 0..MAX_ATTEMPTS {
            let (names, keys) = (&self.member.keys, self.member.keys.round(id));
            let keys = [keys.round, names.total.clone(), names.saved(&self.member.id), keys.counter];
            let request =
                ENTER.with(keys).arg(command).arg(is_redgrid).int(ROUND_TTL_MS).deadline_arg().late_reply_has_time();
            let reply: Vec<String> = self.client.run_until(request.idempotent(), until).await?;
            let [saves, record] = &reply[..] else { return Ok(None) };
            if self.checkpoint.matches(record) {
                let saved = saves.parse().ok().and_then(|saves| self.checkpoint.sum_at(saves));
                return saved.ok_or_else(|| unknown("the round is older than the recorded saves")).map(Some);
            }
            // The server stores another save of this member than this process has recorded.
            self.save(until).await?;
        }
        Err(unknown("the server had a different save in each attempt"))
    }

    /// Returns the time of the next save.
    fn save_due(&self) -> Instant {
        self.member.save_interval().map_or(Instant::MAX, |interval| self.last_save + interval)
    }

    async fn save_at(&mut self, due: Instant) {
        if due > self.client.clock().now() {
            return;
        }
        let (counted, until) = (self.count(), self.deadline());
        let needs_renewal =
            self.checkpoint.exists() && self.client.clock().now().since(self.record_renewed) > RECORD_TTL / 4;
        if counted != self.checkpoint.sum() || needs_renewal {
            // A failed save is repeated at the next interval.
            if let Err(error) = self.save(until).await {
                tracing::debug!(name = %self.member.name, %error, "the count of an adder was not saved");
            }
        }
        self.last_save = self.client.clock().now();
    }

    /// Saves the count to the total.
    async fn save(&mut self, until: Instant) -> Result<(), ServerError> {
        for _ in 0..MAX_ATTEMPTS {
            let counted = self.counted;
            let Some(save) = self.checkpoint.next_save(counted) else {
                return Err(unexpected("a finite sum", "more".into()));
            };
            let keys = [self.member.keys.total.clone(), self.member.keys.saved(&self.member.id)];
            let request = SAVE.with(keys).deadline_arg().late_reply_has_time().idempotent();
            let request = request
                .arg(save.last_record.clone())
                .arg(save.next_record.clone())
                .arg(N::ADD_COMMANDS[1])
                .arg(save.amount.clone());
            let lifetime = i64::try_from(RECORD_TTL.as_millis()).unwrap_or(i64::MAX);
            let now = self.client.clock().now();
            let reply: Vec<String> = self.client.run_until(request.int(lifetime), until).await?;
            let number = |text: &str| text.parse().map_err(|_| unexpected("a number of saves", text.to_owned()));
            match reply.iter().map(String::as_str).collect::<Vec<_>>()[..] {
                ["1", saves, born] => {
                    self.checkpoint.record_save(save, number(saves)?, born.to_owned());
                    self.record_renewed = now;
                    if self.checkpoint.sum() == counted {
                        return Ok(());
                    }
                }
                ["0", saves, born, "", _] => {
                    let may_be_expired = now.since(self.record_renewed) + DRIFT >= RECORD_TTL;
                    self.checkpoint.adopt_missing(number(saves)?, born.to_owned(), may_be_expired);
                }
                ["0", _, born, record, at] => {
                    let adopted = self.checkpoint.adopt(record, number(at)?, born.to_owned());
                    adopted.ok_or_else(|| unexpected("a save", record.to_owned()))?;
                }
                _ => return Err(unexpected("the status of a save", format!("{reply:?}"))),
            }
        }
        Err(unknown("the server had a different save in each attempt"))
    }

    /// Answers the rounds that have arrived, saves, and ends the subscription. It answers further
    /// rounds until the server has confirmed the end: rounds that were published before it count
    /// this member.
    async fn leave(&mut self, mut subscription: OrderedSubscription) -> Result<(), ServerError> {
        while let Some(event) = subscription.take() {
            self.handle_event(event).await;
        }
        let (counted, until) = (self.count(), self.deadline());
        let result = match self.member.save_interval() {
            Some(_) if counted != self.checkpoint.sum() => self.save(until).await,
            _ => Ok(()),
        };
        if self.checkpoint.exists() {
            let saved_key = self.member.keys.saved(&self.member.id);
            let request = Request::command("PEXPIRE").key(saved_key).int(ENDED_RECORD_TTL_MS).idempotent();
            let _ = self.client.run_until::<i64>(request, until).await;
        }
        let mut draining = subscription.drain();
        let clock = self.client.clock().clone();
        while let Some(event) = tokio::select! {
            biased;
            event = draining.next() => event,
            () = clock.sleep_until(until) => None,
        } {
            self.handle_event(event).await;
        }
        result
    }

    /// Returns the deadline of requests that begin now.
    fn deadline(&self) -> Instant {
        self.client.clock().now() + self.client.contact_timeout()
    }
}

fn unknown(reason: &'static str) -> ServerError {
    ServerError::Unknown { reason: reason.into() }
}

fn unexpected(expected: &'static str, got: String) -> ServerError {
    ServerError::Decode { expected, got }
}
