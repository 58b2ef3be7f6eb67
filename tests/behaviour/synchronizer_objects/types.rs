//! The types of synchronizers, and one object in use of each.

use std::time::Duration;

use redgrid_atomic_long::{AtomicDouble, AtomicLong};
use redgrid_barrier::{Barrier, Condition, DoubleBarrier, Event, Notify, Phaser};
use redgrid_bucket::Bucket;
use redgrid_core::Client;
use redgrid_core::object::Object;
use redgrid_countdown_latch::CountDownLatch;
use redgrid_id_generator::IdGenerator;
use redgrid_locks::{Election, FairLock, FencedLock, Lock, RwLock, SpinLock};
use redgrid_map::Map;
use redgrid_permit_expirable_semaphore::PermitExpirableSemaphore;
use redgrid_rate_limiter::{GcraLimiter, Quota, Rate, RateLimiter};
use redgrid_semaphore::Semaphore;
use redgrid_testkit::wait_until;
use redgrid_tests::SOON;

/// Creates one object of this type, in use. Dropping the second value ends the use.
pub(crate) async fn one_of(kind: &str, client: &Client, name: &str) -> (Object, Box<dyn Send>) {
    let long = Duration::from_secs(60);
    match kind {
        "lock" => {
            let lock = Lock::new(client, name);
            let guard = lock.acquire().await.unwrap();
            (lock.object(), Box::new(guard))
        }
        "fair lock" => {
            let lock = FairLock::new(client, name);
            let guard = lock.acquire().await.unwrap();
            let other = client.clone();
            let waiting = tokio::spawn(FairLock::new(&other, name).acquire().timeout(SOON).into_future());
            waiting.abort();
            (lock.object(), Box::new(guard))
        }
        "fenced lock" => {
            let lock = FencedLock::new(client, name);
            let guard = lock.acquire().await.unwrap();
            (lock.object(), Box::new(guard))
        }
        "spin lock" => {
            let lock = SpinLock::new(client, name);
            let guard = lock.acquire().await.unwrap();
            (lock.object(), Box::new(guard))
        }
        "read" => {
            let lock = RwLock::new(client, name).fair();
            let guard = lock.read().await.unwrap();
            (lock.object(), Box::new(guard))
        }
        "upgradable read" => {
            let lock = RwLock::new(client, name);
            let guard = lock.upgradable_read().await.unwrap();
            (lock.object(), Box::new(guard))
        }
        "write" => {
            let lock = RwLock::new(client, name);
            let guard = lock.write().await.unwrap();
            (lock.object(), Box::new(guard))
        }
        "election" => {
            let election = Election::new(client, name);
            let led = election.campaign().await.unwrap();
            (election.object(), Box::new(led))
        }
        "semaphore" => {
            let semaphore = Semaphore::plain(client, name);
            assert!(semaphore.try_set_permits(2).await.unwrap());
            let permit = semaphore.acquire().await.unwrap();
            (semaphore.object(), Box::new(permit))
        }
        "semaphore with leases" => {
            let semaphore = PermitExpirableSemaphore::new(client, name);
            assert!(semaphore.try_set_permits(2).await.unwrap());
            let permit = semaphore.acquire().await.unwrap();
            (semaphore.object(), Box::new(permit))
        }
        "latch" => {
            let latch = CountDownLatch::new(client, name);
            assert!(latch.try_set_count(2).await.unwrap());
            (latch.object(), Box::new(()))
        }
        "barrier" => {
            let barrier = Barrier::new(client, name, 2);
            let waiting = tokio::spawn(barrier.wait().into_future());
            wait_until(SOON, async || barrier.object().exists().await.unwrap()).await;
            (barrier.object(), Box::new(waiting))
        }
        "double barrier" => {
            let barrier = DoubleBarrier::new(client, name, 1);
            let inside = barrier.enter().await.unwrap();
            (barrier.object(), Box::new(inside))
        }
        "phaser" => {
            let phaser = Phaser::new(client, name);
            let party = phaser.register().await.unwrap();
            (phaser.object(), Box::new(party))
        }
        "notify" => {
            let notify = Notify::new(client, name);
            notify.notify_one().await.unwrap();
            (notify.object(), Box::new(()))
        }
        "condition" => {
            let condition = Condition::new(client, name);
            let guard = Lock::new(client, format!("lock of {name}")).acquire().await.unwrap();
            let waiting = tokio::spawn({
                let condition = condition.clone();
                async move { condition.wait_within(guard, SOON).await }
            });
            wait_until(SOON, async || condition.object().exists().await.unwrap()).await;
            (condition.object(), Box::new(waiting))
        }
        "event" => {
            let event = Event::new(client, name);
            assert!(event.set().await.unwrap());
            (event.object(), Box::new(()))
        }
        "whole number" => {
            let number = AtomicLong::new(client, name);
            number.add(3).await.unwrap();
            (number.object(), Box::new(()))
        }
        "floating number" => {
            let number = AtomicDouble::new(client, name);
            number.add(0.5).await.unwrap();
            (number.object(), Box::new(()))
        }
        "ids" => {
            let ids = IdGenerator::new(client, name);
            assert!(ids.try_init(1, 10).await.unwrap());
            ids.next().await.unwrap();
            (ids.object(), Box::new(()))
        }
        "rate" => {
            let limiter = RateLimiter::new(client, name);
            assert!(limiter.try_set_rate(Rate::overall(5, long)).await.unwrap());
            assert!(limiter.try_acquire().await.unwrap().is_some());
            (limiter.object(), Box::new(()))
        }
        "gcra" => {
            let limiter = GcraLimiter::new(client, name, Quota::new(5, long));
            assert!(limiter.try_acquire().await.unwrap());
            (limiter.object(), Box::new(()))
        }
        "bucket" => {
            let bucket: Bucket<u64> = Bucket::new(client, name);
            bucket.set(&1).await.unwrap();
            (bucket.object(), Box::new(()))
        }
        "map" => {
            let map: Map<u64, u64> = Map::new(client, name);
            map.insert(&1, &1).await.unwrap();
            (map.object(), Box::new(()))
        }
        other => unreachable!("{other}"),
    }
}

pub(crate) fn object_of(kind: &str, client: &Client, name: &str) -> Object {
    match kind {
        "lock" => Lock::new(client, name).object(),
        "fair lock" => FairLock::new(client, name).object(),
        "fenced lock" => FencedLock::new(client, name).object(),
        "spin lock" => SpinLock::new(client, name).object(),
        "read" | "upgradable read" | "write" => RwLock::new(client, name).object(),
        "election" => Election::new(client, name).object(),
        "semaphore" => Semaphore::plain(client, name).object(),
        "semaphore with leases" => PermitExpirableSemaphore::new(client, name).object(),
        "latch" => CountDownLatch::new(client, name).object(),
        "barrier" => Barrier::new(client, name, 2).object(),
        "double barrier" => DoubleBarrier::new(client, name, 1).object(),
        "phaser" => Phaser::new(client, name).object(),
        "notify" => Notify::new(client, name).object(),
        "condition" => Condition::new(client, name).object(),
        "event" => Event::new(client, name).object(),
        "whole number" => AtomicLong::new(client, name).object(),
        "floating number" => AtomicDouble::new(client, name).object(),
        "ids" => IdGenerator::new(client, name).object(),
        "rate" => RateLimiter::new(client, name).object(),
        "gcra" => GcraLimiter::new(client, name, Quota::new(5, Duration::from_secs(60))).object(),
        "bucket" => Bucket::<u64>::new(client, name).object(),
        "map" => Map::<u64, u64>::new(client, name).object(),
        other => unreachable!("{other}"),
    }
}

pub(crate) const TYPES: [&str; 24] = [
    "lock",
    "fair lock",
    "fenced lock",
    "spin lock",
    "read",
    "upgradable read",
    "write",
    "election",
    "semaphore",
    "semaphore with leases",
    "latch",
    "barrier",
    "double barrier",
    "phaser",
    "notify",
    "condition",
    "event",
    "whole number",
    "floating number",
    "ids",
    "rate",
    "gcra",
    "bucket",
    "map",
];
