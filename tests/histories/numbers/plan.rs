//! The operations on numbers, and the faults, drawn from a seed.

use fastrand::Rng;
use redgrid_atomic_long::Comparison;

use super::search::{MOST, Op};

/// Clients of a history, each with its own proxy to the server.
pub(crate) const CLIENTS: usize = 3;

/// Tasks of a client.
pub(crate) const TASKS: usize = 2;

/// The highest number of steps of a task, one after the other.
const STEPS: usize = 8;

/// The highest number of calls of all tasks: together with the final read they fit into a search.
const ALL: usize = MOST - 1;

/// The course of a history; only the timing depends on the machine.
#[derive(Debug)]
pub(crate) struct Plan {
    /// The steps of each task, those of the first client first.
    pub(crate) tasks: Vec<Vec<Step>>,
    pub(crate) faults: Vec<FaultSpan>,
    pub(crate) exactly_once: bool,
}

/// The concurrent calls of a task, mostly one call.
#[derive(Debug, Clone)]
pub(crate) struct Step {
    /// Which of two numbers.
    pub(crate) number: usize,
    pub(crate) ops: Vec<Op>,
    /// The pause before it, in milliseconds.
    pub(crate) pause: u64,
    /// The task stops waiting for the step after this time, in milliseconds.
    pub(crate) leaves_after: Option<u64>,
}

/// A fault with its time, in milliseconds after the start.
#[derive(Debug, Clone, Copy)]
pub(crate) struct FaultSpan {
    pub(crate) at: u64,
    pub(crate) lasts: u64,
    pub(crate) client: usize,
    pub(crate) fault: HistoryFault,
}

#[derive(Debug, Clone, Copy)]
pub(crate) enum HistoryFault {
    /// Requests pass, and their replies are dropped.
    Swallow(usize),
    /// The server executes the request, and the connection is cut.
    CutAfter(usize),
    /// The connection is cut, and the request is lost.
    CutBefore(usize),
    /// Requests arrive late, possibly long after their clients gave up.
    Late(usize),
    /// All connections of the client are cut.
    CutAll,
    /// Nothing passes; data arrives afterwards.
    Stall,
    /// Nothing passes; data sent meanwhile is lost.
    BlackHole,
    /// The server is killed and restarted with all confirmed writes.
    Restart,
    /// The server is stopped.
    Pause,
    /// The server removes all scripts.
    FlushScripts,
}

impl Plan {
    pub(crate) fn draw(seed: u64) -> Plan {
        let mut rng = Rng::with_seed(seed);
        let (numbers, extreme) = (rng.usize(1..3), rng.u8(..4) == 0);
        let task = |rng: &mut Rng| {
            let steps = rng.usize(4..=STEPS);
            let (mut left, mut task) = (ALL / (CLIENTS * TASKS), Vec::new());
            for _ in 0..steps {
                let mut step = Step::draw(rng, numbers, extreme);
                step.ops.truncate(left);
                left -= step.ops.len();
                task.push(step);
            }
            task
        };
        let tasks = (0..CLIENTS * TASKS).map(|_| task(&mut rng)).collect();
        // One history in eight has no faults.
        let faults = if seed % 8 == 1 { 0 } else { rng.usize(1..6) };
        let mut faults: Vec<FaultSpan> = (0..faults).map(|_| FaultSpan::draw(&mut rng)).collect();
        faults.sort_by_key(|fault| fault.at);
        Plan { tasks, faults, exactly_once: rng.bool() }
    }
}

impl Step {
    fn draw(rng: &mut Rng, numbers: usize, extreme: bool) -> Step {
        let by = |rng: &mut Rng| match extreme {
            true if rng.u8(..3) == 0 => [i64::MAX, i64::MIN, i64::MAX - 1, 1 << 53][rng.usize(..4)],
            _ => rng.i64(-3..6),
        };
        let how = |rng: &mut Rng| {
            let or_equal = [Comparison::LessOrEqual, Comparison::GreaterOrEqual, Comparison::Equal];
            let other = [Comparison::Less, Comparison::Greater, Comparison::NotEqual];
            if rng.bool() { or_equal[rng.usize(..3)] } else { other[rng.usize(..3)] }
        };
        let add = |rng: &mut Rng| if rng.bool() { Op::Add(by(rng)) } else { Op::GetAndAdd(by(rng)) };
        let one = |rng: &mut Rng| match rng.u8(..24) {
            0..3 => Op::Get,
            3..9 => Op::Add(by(rng)),
            9..11 => Op::GetAndAdd(by(rng)),
            11 => Op::AddAtMost { by: by(rng), most: by(rng), clamps: rng.bool() },
            12 => Op::Set(by(rng)),
            13..15 => Op::GetAndSet(by(rng)),
            15 => Op::GetAndDelete,
            16 => Op::Delete,
            17..19 => Op::CompareAndSet(by(rng), by(rng)),
            19 => Op::SetIf(how(rng), by(rng), by(rng)),
            20 => Op::DeleteIf(how(rng), by(rng)),
            _ => Op::Update,
        };
        // Concurrent additions are sent in one batch, except the first.
        let ops = if rng.u8(..5) == 0 { (0..rng.usize(3..5)).map(|_| add(rng)).collect() } else { vec![one(rng)] };
        let pause = if rng.bool() { 0 } else { rng.u64(0..25) };
        let leaves_after = (rng.u8(..12) == 0).then(|| rng.u64(0..4));
        Step { number: rng.usize(..numbers), ops, pause, leaves_after }
    }
}

impl FaultSpan {
    fn draw(rng: &mut Rng) -> FaultSpan {
        let fault = match rng.u8(..20) {
            0..4 => HistoryFault::Swallow(rng.usize(1..3)),
            4..7 => HistoryFault::CutAfter(rng.usize(1..3)),
            7 => HistoryFault::CutBefore(rng.usize(1..3)),
            8..12 => HistoryFault::Late(rng.usize(1..3)),
            12 => HistoryFault::CutAll,
            13..15 => HistoryFault::Stall,
            15 => HistoryFault::BlackHole,
            16..18 => HistoryFault::Restart,
            18 => HistoryFault::Pause,
            _ => HistoryFault::FlushScripts,
        };
        FaultSpan { at: rng.u64(..80), lasts: rng.u64(20..250), client: rng.usize(..CLIENTS), fault }
    }
}
