//! Compares latches with a model in memory, with lost replies.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use redgrid_countdown_latch::{Client, CountDownLatch, WaitError};
use redgrid_testkit::{Action, Proxy, wait_until};
use redgrid_tests::latch::{scripts, waiter};
use redgrid_tests::model::seeds;
use redgrid_tests::{SOON, client_with, server};
use tokio::task::JoinHandle;

const SEQUENCES: u64 = 24;
const STEPS: usize = 30;

/// The state of a latch.
#[derive(Default)]
struct Model {
    left: u64,
    /// The number of the current round; between rounds, that of the last one.
    round: u64,
}

impl Model {
    fn try_set(&mut self, n: u64) -> bool {
        let begins = self.left == 0;
        if begins {
            (self.left, self.round) = (n, self.round + 1);
        }
        begins
    }

    fn count_down(&mut self, n: u64) -> u64 {
        self.left = self.left.saturating_sub(n);
        self.left
    }

    fn delete(&mut self) -> bool {
        std::mem::take(&mut self.left) > 0
    }

    fn is_over(&self, round: u64) -> bool {
        self.left == 0 || self.round > round
    }
}

struct Waiting {
    client: usize,
    round: u64,
    task: JoinHandle<Result<(), WaitError>>,
}

#[tokio::test(flavor = "multi_thread")]
async fn a_latch_matches_its_model_despite_lost_replies() {
    let server = server().await;
    let proxy = Proxy::to(&server).await.unwrap();
    let settings = |config: redgrid_core::Config| config.response_timeout(Duration::from_millis(150)).retries(100);
    let url = server.url_via(proxy.addr());
    let mut clients: Vec<Client> = Vec::new();
    for _ in 0..5 {
        clients.push(client_with(&url, settings).await);
    }
    let seen = AtomicU64::new(0);
    let scripts = scripts();
    proxy.on_request(move |request| {
        let ours = request.iter().any(|part| scripts.iter().any(|script| part == script));
        match ours && seen.fetch_add(1, Ordering::Relaxed) % 13 == 5 {
            true => Action::SwallowReply,
            false => Action::Forward,
        }
    });
    let sequences = seeds(SEQUENCES);
    for seed in sequences.clone() {
        sequence(&clients, seed).await;
    }
    assert!(proxy.counts().swallowed > sequences.end, "{:?}", proxy.counts());
}

async fn sequence(clients: &[Client], seed: u64) {
    let mut random = fastrand::Rng::with_seed(seed);
    let name = format!("latch:{seed}");
    let latches: Vec<_> = clients.iter().map(|client| CountDownLatch::new(client, &name)).collect();
    let (mut model, mut waiting, mut told) = (Model::default(), Vec::<Waiting>::new(), Vec::new());
    for step in 0..STEPS {
        let latch = &latches[random.usize(..2)];
        let at = || format!("seed {seed}, step {step}");
        match random.u8(..10) {
            0..3 => {
                let n = random.u64(1..6);
                told.push(format!("set {n}"));
                assert_eq!(latch.try_set_count(n).await.unwrap(), model.try_set(n), "{}: {told:?}", at());
            }
            3..7 => {
                let n = random.u64(1..4);
                told.push(format!("count down {n}"));
                assert_eq!(latch.count_down_by(n).await.unwrap(), model.count_down(n), "{}: {told:?}", at());
            }
            7 => {
                told.push("delete".into());
                assert_eq!(latch.delete().await.unwrap(), model.delete(), "{}: {told:?}", at());
            }
            // Each of the other clients has at most one wait at a time, so that the round of each
            // wait is known.
            _ => match (2..clients.len()).find(|client| waiting.iter().all(|one| one.client != *client)) {
                Some(_) if model.left == 0 => latches[2].wait().timeout(SOON).await.unwrap(),
                Some(client) => {
                    told.push(format!("wait by {client}"));
                    let task = waiter(&clients[client], &latches[client]).await;
                    waiting.push(Waiting { client, round: model.round, task });
                }
                None => {}
            },
        }
        assert_eq!(latch.count().await.unwrap(), model.left, "{}: {told:?}", at());
        let (over, others): (Vec<_>, Vec<_>) = waiting.into_iter().partition(|one| model.is_over(one.round));
        for one in over {
            let done = tokio::time::timeout(SOON, one.task).await;
            done.unwrap_or_else(|_| panic!("{}: {} did not complete: {told:?}", at(), one.client)).unwrap().unwrap();
            wait_until(SOON, async || clients[one.client].stats().channels == 0).await;
        }
        for one in &others {
            assert!(!one.task.is_finished(), "{}: {} completed early: {told:?}", at(), one.client);
        }
        waiting = others;
    }
    latches[0].delete().await.unwrap();
    for one in waiting {
        tokio::time::timeout(SOON, one.task).await.unwrap().unwrap().unwrap();
        wait_until(SOON, async || clients[one.client].stats().channels == 0).await;
    }
}
