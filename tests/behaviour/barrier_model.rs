//! Barriers and phasers compared with models in memory: random sizes, arrivals, departures and
//! delays.

use std::time::Duration;

use redgrid_barrier::{Barrier, BarrierError, BarrierWaitResult, Party, Phaser, PhaserError};
use redgrid_testkit::wait_until;
use redgrid_tests::model::seeds;
use redgrid_tests::{SOON, client, server};
use tokio::task::JoinHandle;

use crate::barrier::{MS, count};

/// Sometimes waits for a random time, so that the next operation overlaps the previous one at any
/// stage.
async fn pause(random: &mut fastrand::Rng) {
    if random.u8(..4) == 0 {
        tokio::time::sleep(Duration::from_micros(random.u64(..4000))).await;
    }
}

/// A waiter: its task, and the round that completes it in the model.
struct Waiter {
    task: JoinHandle<Result<BarrierWaitResult, BarrierError>>,
}

#[tokio::test(flavor = "multi_thread")]
async fn a_barrier_matches_its_model() {
    let server = server().await;
    let observer = server.observer().await.unwrap();
    let clients = [client(&server).await, client(&server).await, client(&server).await];
    for seed in seeds(6) {
        let mut random = fastrand::Rng::with_seed(seed);
        let parties = random.u32(1..6);
        let name = format!("b{seed}");
        let waiting_key = format!("redgrid_barrier_waiting:{{{name}}}");
        // The model: the waiters, and the number of rounds.
        let (mut waiting, mut round): (Vec<Waiter>, u64) = (Vec::new(), 0);
        for _ in 0..60 {
            match random.u8(..4) {
                0 if !waiting.is_empty() => {
                    let leaver = waiting.swap_remove(random.usize(..waiting.len()));
                    leaver.task.abort();
                }
                _ => {
                    let barrier = Barrier::new(&clients[random.usize(..3)], &name, parties);
                    let task = tokio::spawn(barrier.wait().timeout(10 * SOON).into_future());
                    waiting.push(Waiter { task });
                }
            }
            pause(&mut random).await;
            if waiting.len() == parties as usize {
                round += 1;
                let mut leaders = 0;
                for waiter in waiting.drain(..) {
                    let result = waiter.task.await.unwrap().unwrap();
                    assert_eq!(result.generation(), round, "seed {seed}");
                    leaders += u32::from(result.is_leader());
                }
                assert_eq!(leaders, 1, "seed {seed}");
            }
            // The model advances in single steps: this many parties wait, and none of them has
            // passed.
            wait_until(SOON, async || count(&observer, &waiting_key).await == waiting.len() as u64).await;
            assert!(waiting.iter().all(|waiter| !waiter.task.is_finished()), "seed {seed}");
        }
        waiting.iter().for_each(|waiter| waiter.task.abort());
        wait_until(SOON, async || count(&observer, &waiting_key).await == 0).await;
    }
}

/// The model of a phaser: the last phase at which each party arrived.
#[derive(Default)]
struct Model {
    phase: i64,
    ended: bool,
    parties: Vec<(Party, i64)>,
}

impl Model {
    /// Advances the phase when all parties have arrived. Terminates if there are no parties.
    fn settle(&mut self) {
        if self.parties.is_empty() {
            self.ended = true;
        } else if self.parties.iter().all(|(_, at)| *at == self.phase) {
            self.phase += 1;
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_phaser_matches_its_model() {
    let server = server().await;
    let clients = [client(&server).await, client(&server).await];
    for seed in seeds(12) {
        let mut random = fastrand::Rng::with_seed(seed);
        let name = format!("p{seed}");
        let phasers = clients.each_ref().map(|client| Phaser::new(client, &name));
        let mut model = Model::default();
        for step in 0..60 {
            let phaser = &phasers[random.usize(..2)];
            let any = (!model.parties.is_empty()).then(|| random.usize(..model.parties.len()));
            match (random.u8(..8), any) {
                (0..=1, _) | (_, None) => {
                    let many = random.usize(1..4);
                    match phaser.bulk_register(many).await {
                        Ok(registered) => {
                            assert!(!model.ended, "seed {seed}, step {step}");
                            model.parties.extend(registered.into_iter().map(|party| (party, model.phase - 1)));
                        }
                        Err(PhaserError::Terminated { .. }) => assert!(model.ended, "seed {seed}, step {step}"),
                        Err(error) => panic!("{error:?}"),
                    }
                }
                (2..=5, Some(index)) => {
                    let (party, at) = &mut model.parties[index];
                    match party.arrive().await {
                        Ok(phase) => {
                            assert!(*at < model.phase, "seed {seed}, step {step}");
                            assert_eq!(phase, model.phase.unsigned_abs(), "seed {seed}, step {step}");
                            *at = model.phase;
                        }
                        Err(PhaserError::AlreadyArrived { .. }) => assert_eq!(*at, model.phase),
                        Err(error) => panic!("{error:?}"),
                    }
                    model.settle();
                }
                (6, Some(index)) => {
                    let (party, at) = model.parties.swap_remove(index);
                    let phase = party.arrive_and_deregister().await.unwrap();
                    assert_eq!(phase, model.phase.unsigned_abs(), "seed {seed}, step {step}, at {at}");
                    model.settle();
                }
                (_, Some(index)) => {
                    drop(model.parties.swap_remove(index));
                    let left = model.parties.len() as u64;
                    wait_until(SOON, async || phaser.state().await.unwrap().registered == left).await;
                    model.settle();
                }
            }
            pause(&mut random).await;
            let state = phaser.state().await.unwrap();
            let arrived = model.parties.iter().filter(|(_, at)| *at == model.phase).count() as u64;
            let expected = (model.phase.unsigned_abs(), model.ended, model.parties.len() as u64, arrived);
            let is = (state.phase, state.is_terminated, state.registered, state.arrived);
            assert_eq!(is, expected, "seed {seed}, step {step}");
            if model.ended {
                break;
            }
            // An observer can wait for completed phases only.
            if model.phase > 0 {
                assert!(phaser.wait_advance(model.phase.unsigned_abs() - 1).timeout(SOON).await.is_ok());
            }
            let early = phaser.wait_advance(model.phase.unsigned_abs()).timeout(MS).await;
            assert!(early.is_err(), "seed {seed}, step {step}: {early:?}");
        }
    }
}
