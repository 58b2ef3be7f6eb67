//! The holds of clients that have left: the console reads whether they still exist.

use std::collections::BTreeMap;
use std::sync::Arc;

use redgrid_inspect::{HolderView, InspectError, LockView};

use crate::board::is_lock;
use crate::object_name::full_id;
use crate::snapshot::{Presence, Process, Snapshot};

/// The most holds of clients that have left that are read.
const MOST_LEFT: usize = 500;

/// A client and the number of its hold, by the name of the lock.
type LeftHolds = BTreeMap<String, (String, u64)>;

/// Returns the holds of clients at the time they left, by the name of the lock. A client that
/// leaves in an orderly way has released it; a client that was killed has not.
pub(super) fn left_holds(snapshot: &Snapshot) -> LeftHolds {
    let has_left = |(client, process): &(&String, &Process)| {
        process.left_at.is_some() && matches!(snapshot.living.presence(client), Presence::Absent { .. })
    };
    let holds = snapshot.processes.iter().filter(has_left).flat_map(|(client, process)| {
        let held = process.report().map(|report| report.held.as_slice()).unwrap_or_default();
        let locks = held.iter().filter(|held| is_lock(&held.kind));
        locks.map(move |held| (full_id(&process.namespace, &held.name), (client.clone(), held.number)))
    });
    holds.take(MOST_LEFT).collect()
}

/// Returns the holds that are over, as these readings show.
pub(super) fn over(left: &LeftHolds, read: &[(String, Result<LockView, InspectError>)]) -> Vec<(String, String, u64)> {
    let over = read.iter().filter_map(|(name, lock)| {
        let (client, number) = left.get(name)?;
        let is_it = |holder: &HolderView| holder.client == *client && holder.number == Some(*number);
        let is_over = lock.as_ref().is_ok_and(|lock| !lock.holders.iter().any(is_it));
        is_over.then(|| (name.clone(), client.clone(), *number))
    });
    over.collect()
}

/// Removes holds from the last reports of clients that have left.
pub(super) fn forget_over(snapshot: &mut Snapshot, over: &[(String, String, u64)]) {
    for (name, client, number) in over {
        let process = Arc::make_mut(&mut snapshot.processes).get_mut(client);
        let Some(process) = process.filter(|process| process.left_at.is_some()) else { continue };
        let Process { report: Some((report, _)), namespace, .. } = process else { continue };
        Arc::make_mut(report).held.retain(|held| held.number != *number || full_id(namespace, &held.name) != *name);
    }
}

#[cfg(test)]
mod tests {
    use redgrid_core::report::{ClientReport, HeldReport};

    use super::*;
    use crate::snapshot::Living;

    #[test]
    fn a_hold_that_is_over_is_forgotten_with_its_client() {
        let client = "0f8fad5b-d9cb-869f-a165-70867728950e";
        let mut report = ClientReport::default();
        for (name, number) in [("a", 7), ("b", 8)] {
            let mut held = HeldReport::default();
            (held.name, held.kind, held.number) = (name.into(), "lock".into(), number);
            report.held.push(held);
        }
        let report = Some((Arc::new(report), 1_000));
        let process = Process { report, left_at: Some(2_000), ..Process::default() };
        let processes = Arc::new(BTreeMap::from([(client.to_owned(), process)]));
        let mut snapshot = Snapshot { processes, ..Snapshot::default() };
        // The client may reconnect.
        assert!(left_holds(&snapshot).is_empty());
        for at in [2_000, 4_000] {
            let list = Living::of(Vec::new(), true).after(&snapshot.living, at);
            snapshot.living.answered(list, at);
        }
        let names = |snapshot: &Snapshot| left_holds(snapshot).into_keys().collect::<Vec<_>>();
        assert_eq!(names(&snapshot), ["a", "b"]);
        forget_over(&mut snapshot, &[("a".into(), client.into(), 7), ("b".into(), client.into(), 9)]);
        assert_eq!(names(&snapshot), ["b"]);
    }
}
