//! The scripts, which only read. The header of each of them is its contract.

use redgrid_core::BulkScript;
use redgrid_keys::HOLDERS_LUA;

pub(crate) static LOCK: BulkScript =
    BulkScript::with_preludes([HOLDERS_LUA, ""], "inspect/lock", include_str!("scripts/lock.lua"));
pub(crate) static CLASSIFY: BulkScript =
    BulkScript::with_preludes([HOLDERS_LUA, ""], "inspect/classify", include_str!("scripts/classify.lua"));
pub(crate) static QUEUE: BulkScript = BulkScript::new("inspect/queue", include_str!("scripts/queue.lua"));
pub(crate) static SYNCHRONIZER: BulkScript =
    BulkScript::new("inspect/synchronizer", include_str!("scripts/synchronizer.lua"));
pub(crate) static LIMITER: BulkScript = BulkScript::new("inspect/limiter", include_str!("scripts/limiter.lua"));
pub(crate) static STREAM: BulkScript = BulkScript::new("inspect/stream", include_str!("scripts/stream.lua"));
pub(crate) static MAP_CACHE: BulkScript = BulkScript::new("inspect/map_cache", include_str!("scripts/map_cache.lua"));
pub(crate) static AUDIT: BulkScript = BulkScript::new("inspect/audit", include_str!("scripts/audit.lua"));
pub(crate) static LEASES: BulkScript = BulkScript::new("inspect/leases", include_str!("scripts/leases.lua"));

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_script_states_its_contract() {
        let locks = [LOCK.body(), CLASSIFY.body(), QUEUE.body(), LEASES.body()];
        let others = [SYNCHRONIZER.body(), LIMITER.body(), STREAM.body(), MAP_CACHE.body(), AUDIT.body()];
        for script in locks.into_iter().chain(others) {
            for part in ["-- KEYS", "-- Returns", "-- Work:", "ent twice"] {
                assert!(script.text().contains(part), "{}: {part}", script.name());
            }
        }
    }
}
