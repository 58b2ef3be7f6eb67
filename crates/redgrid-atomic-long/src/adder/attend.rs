//! The task of a member: it listens for as long as there are handles and a client, answers rounds and saves.
//!
//! All of it goes one after the other, so that a round, a reset and a save each find what those before them have left.

use std::collections::VecDeque;
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use redgrid_core::clock::Instant;
use redgrid_core::{BackgroundClient, ChannelEvent, OrderedSubscription, Request, ServerError};

use super::figure::Figure;
use super::member::{Desk, Member};
use super::saved::Saved;
use super::scripts::{ANSWER, Asked, ENTER, LIVES, OURS, SAVE};

/// How long the server remembers what a member has saved: three days, three times the longest interval. It is told again before that
/// is over.
const REMEMBERED: Duration = Duration::from_secs(3 * 24 * 3600);

/// So much earlier it may be forgotten, by a clock that is faster than ours: 500 ppm of it (RFC 5905, section 11.3).
const DRIFT: Duration = Duration::from_secs(130);

/// The same once it has ended: as long as a round may go on.
const REMEMBERED_ENDED: i64 = LIVES;

/// So many rounds are remembered, should one be heard twice.
const HEARD: usize = 64;

/// What is refused once is asked once more with what was found; others do not change a member's part, so this is not used up.
const TRIES: usize = 8;

/// Ends when nobody counts any more, or with the client.
pub(super) async fn attend<N: Figure>(member: Arc<Member<N>>, at: Arc<Desk>, on: BackgroundClient) {
    let _ended = Ended(Arc::clone(&member));
    // Who is told of the end finds the name free for either kind.
    let desk = at;
    let turn = desk.turn.lock().await;
    let mut hearing = on.subscribe_at_primary(member.keys.topic.clone(), &member.keys.key);
    let mut attendance = Attendance::new(Arc::clone(&member), on.clone());
    let mut closing = pin!(on.closing());
    while !member.is_left() && !on.is_closing() {
        let due = attendance.save_due();
        tokio::select! {
            biased;
            () = &mut closing => {}
            () = member.changed.notified() => {}
            () = on.clock().sleep_until(due) => attendance.save_at(due).await,
            heard = hearing.next() => attendance.take(heard).await,
        }
    }
    let told = attendance.leave(hearing).await;
    drop(turn);
    drop(desk);
    member.ended.send_replace(Some(told));
}

/// However the task ends, nobody waits for its end for nothing.
struct Ended<N: Figure>(Arc<Member<N>>);

impl<N: Figure> Drop for Ended<N> {
    fn drop(&mut self) {
        let aborted = || ServerError::Unknown { reason: "the client ended meanwhile".into() };
        self.0.ended.send_if_modified(|ended| {
            let first = ended.is_none();
            ended.get_or_insert_with(|| Err(aborted()));
            first
        });
    }
}

struct Attendance<N: Figure> {
    member: Arc<Member<N>>,
    on: BackgroundClient,
    /// What was counted here all in all, but for what was reset.
    counted: N::Wide,
    saved: Saved<N>,
    /// When it was saved, or tried.
    last_save: Instant,
    /// Before the server was told of a save.
    last_told: Instant,
    heard: VecDeque<String>,
}

impl<N: Figure> Attendance<N> {
    fn new(member: Arc<Member<N>>, on: BackgroundClient) -> Self {
        let (counted, saved, now) = (N::Wide::default(), Saved::new(), on.clock().now());
        Attendance { member, on, counted, saved, last_save: now, last_told: now, heard: VecDeque::new() }
    }

    fn count(&mut self) -> N::Wide {
        self.counted = N::plus(self.counted, N::take(&self.member.local));
        self.counted
    }

    async fn take(&mut self, heard: ChannelEvent) {
        let payload = match heard {
            ChannelEvent::Message { payload, .. } => payload,
            ChannelEvent::Resync => return self.member.has_gap(),
        };
        let Some((asked, id)) = Asked::read(&payload) else { return };
        if self.heard.iter().any(|known| known == id) {
            return;
        }
        if self.heard.len() >= HEARD {
            self.heard.pop_front();
        }
        self.heard.push_back(id.to_owned());
        // Others who asked are told of those that were not answered by their number.
        match self.answer(asked, id).await {
            Ok(true) => self.member.answered(id, Ok(())),
            Ok(false) => {}
            Err(error) => {
                tracing::debug!(name = %self.member.name, round = id, %error, "a round of an adder was not answered");
                self.member.answered(id, Err(error));
            }
        }
    }

    /// Answers a round; false where that is over.
    async fn answer(&mut self, asked: Asked, id: &str) -> Result<bool, ServerError> {
        let (until, keys) = (self.until(), self.member.keys.round(id));
        let ours = if id.starts_with(OURS) { "1" } else { "" };
        let command = if asked == Asked::Sum { N::ADDS[0] } else { "" };
        // From here on what is added belongs to the next round, or is not reset.
        let counted = self.count();
        let Some(behind) = self.enter(id, command, ours, until).await? else { return Ok(false) };
        let amount = match asked {
            // Empty where it is more than can be told.
            Asked::Sum => N::text(N::minus(counted, behind)).unwrap_or_default(),
            Asked::Reset => {
                // Only this one counts, so nothing came meanwhile. What is high is not counted on from, and what is beyond numbers ends.
                self.saved.begin_at(behind);
                self.counted = N::Wide::default();
                // What was saved after the total was reset is in it, and is taken back.
                if self.saved.is_some() && self.saved.sum() != self.counted {
                    self.save(until).await?;
                }
                String::new()
            }
        };
        let request = ANSWER.with([keys.counter, keys.semaphore, keys.round]).arg(command).arg(amount).arg(ours);
        let request = request.int(LIVES).publish_here().arg(keys.channel);
        let done: Vec<i64> = self.on.run_exactly_once_until(request, until).await?;
        Ok(done == [1])
    }

    /// Takes part in a round: what of the total that goes into it was counted here; none where the round is over.
    async fn enter(
        &mut self,
        id: &str,
        command: &'static str,
        ours: &'static str,
        until: Instant,
    ) -> Result<Option<N::Wide>, ServerError> {
        for _ in 0..TRIES {
            let (names, keys) = (&self.member.keys, self.member.keys.round(id));
            let keys = [keys.round, names.total.clone(), names.saved(&self.member.id), keys.counter];
            let request = ENTER.with(keys).arg(command).arg(ours).int(LIVES).not_after_here().tells_time();
            let told: Vec<String> = self.on.run_until(request.idempotent(), until).await?;
            let [saves, saved] = &told[..] else { return Ok(None) };
            if self.saved.is(saved) {
                let behind = saves.parse().ok().and_then(|saves| self.saved.at(saves));
                return behind.ok_or_else(|| lost("the round is older than what is known of saves")).map(Some);
            }
            // The server has another save than this process knows.
            self.save(until).await?;
        }
        Err(lost("what was saved was something else each time"))
    }

    /// When the next save is due.
    fn save_due(&self) -> Instant {
        self.member.saves_every().map_or(Instant::MAX, |interval| self.last_save + interval)
    }

    async fn save_at(&mut self, due: Instant) {
        if due > self.on.clock().now() {
            return;
        }
        let (counted, until) = (self.count(), self.until());
        let is_old = self.saved.is_some() && self.on.clock().now().since(self.last_told) > REMEMBERED / 4;
        if counted != self.saved.sum() || is_old {
            // What could not be saved is saved the next time.
            if let Err(error) = self.save(until).await {
                tracing::debug!(name = %self.member.name, %error, "what an adder has counted was not saved");
            }
        }
        self.last_save = self.on.clock().now();
    }

    /// Has the server know all that was counted here.
    async fn save(&mut self, until: Instant) -> Result<(), ServerError> {
        for _ in 0..TRIES {
            let counted = self.counted;
            let Some(save) = self.saved.next(counted) else { return Err(unexpected("a finite sum", "more".into())) };
            let keys = [self.member.keys.total.clone(), self.member.keys.saved(&self.member.id)];
            let request = SAVE.with(keys).not_after_here().tells_time().idempotent();
            let request = request.arg(save.last.clone()).arg(save.next.clone()).arg(N::ADDS[1]).arg(save.by.clone());
            let lifetime = i64::try_from(REMEMBERED.as_millis()).unwrap_or(i64::MAX);
            let now = self.on.clock().now();
            let told: Vec<String> = self.on.run_until(request.int(lifetime), until).await?;
            let number = |text: &str| text.parse().map_err(|_| unexpected("a number of saves", text.to_owned()));
            match told.iter().map(String::as_str).collect::<Vec<_>>()[..] {
                ["1", saves, born] => {
                    self.saved.landed(save, number(saves)?, born.to_owned());
                    self.last_told = now;
                    if self.saved.sum() == counted {
                        return Ok(());
                    }
                }
                ["0", saves, born, "", _] => {
                    let may_be_forgotten = now.since(self.last_told) + DRIFT >= REMEMBERED;
                    self.saved.found_none(number(saves)?, born.to_owned(), may_be_forgotten);
                }
                ["0", _, born, last, at] => {
                    let found = self.saved.found(last, number(at)?, born.to_owned());
                    found.ok_or_else(|| unexpected("a save", last.to_owned()))?;
                }
                _ => return Err(unexpected("what became of a save", format!("{told:?}"))),
            }
        }
        Err(lost("what was saved was something else each time"))
    }

    /// Answers what was heard, saves, and answers what is heard until the server has ended the subscription: whoever publishes before
    /// that counts this member.
    async fn leave(&mut self, mut hearing: OrderedSubscription) -> Result<(), ServerError> {
        while let Some(heard) = hearing.take() {
            self.take(heard).await;
        }
        let (counted, until) = (self.count(), self.until());
        let told = match self.member.saves_every() {
            Some(_) if counted != self.saved.sum() => self.save(until).await,
            _ => Ok(()),
        };
        if self.saved.is_some() {
            let saved = self.member.keys.saved(&self.member.id);
            let request = Request::command("PEXPIRE").key(saved).int(REMEMBERED_ENDED).idempotent();
            let _ = self.on.run_until::<i64>(request, until).await;
        }
        let mut last = hearing.drain();
        let clock = self.on.clock().clone();
        while let Some(heard) = tokio::select! {
            biased;
            heard = last.next() => heard,
            () = clock.sleep_until(until) => None,
        } {
            self.take(heard).await;
        }
        told
    }

    /// How long it is tried to have contact.
    fn until(&self) -> Instant {
        self.on.clock().now() + self.on.contact_timeout()
    }
}

fn lost(reason: &'static str) -> ServerError {
    ServerError::Unknown { reason: reason.into() }
}

fn unexpected(expected: &'static str, got: String) -> ServerError {
    ServerError::Decode { expected, got }
}
