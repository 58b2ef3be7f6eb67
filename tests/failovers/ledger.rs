//! A store outside the deployment that rejects stale tokens: its counts are final.

use std::collections::HashMap;
use std::sync::{Mutex, PoisonError};

use redgrid_core::Token;
use redgrid_testkit::{Observer, RedisServer};

use crate::account::{Account, Mode};

/// Writes a value unless a higher token has written before. The holder of the lock reads and adds.
const FENCED_SET: &str = "\
if tonumber(ARGV[1]) < tonumber(redis.call('HGET', KEYS[1], 'fence') or '0') then return 0 end
redis.call('HSET', KEYS[1], 'fence', ARGV[1], 'count', ARGV[2])
return 1";

pub(crate) struct Ledger {
    store: Observer,
    /// Acknowledged increments of each name.
    acknowledged: Mutex<HashMap<(Mode, String), u64>>,
}

impl Ledger {
    pub(crate) async fn on(store: &RedisServer) -> Self {
        Ledger { store: store.observer().await.expect("the store answers"), acknowledged: Mutex::default() }
    }

    pub(crate) async fn read(&self, name: &str) -> u64 {
        let count: Option<u64> = self.store.query(&["HGET", name, "count"]).await.expect("the store answers");
        count.unwrap_or(0)
    }

    /// Writes a count; returns whether the store accepted it.
    pub(crate) async fn write(&self, mode: Mode, name: &str, token: Token, count: u64) -> bool {
        let (token, count) = (token.to_string(), count.to_string());
        let taken = self.store.query::<bool>(&["EVAL", FENCED_SET, "1", name, &token, &count]).await;
        let taken = taken.expect("the store answers");
        if taken {
            let mut acknowledged = self.acknowledged.lock().unwrap_or_else(PoisonError::into_inner);
            *acknowledged.entry((mode, name.to_owned())).or_default() += 1;
        }
        taken
    }

    /// Compares each counter with the acknowledged increments.
    pub(crate) async fn compare(&self, account: &Account) {
        let acknowledged = self.acknowledged.lock().unwrap_or_else(PoisonError::into_inner).clone();
        for ((mode, name), acknowledged) in acknowledged {
            account.counter(mode, &name, acknowledged, self.read(&name).await);
        }
    }
}
