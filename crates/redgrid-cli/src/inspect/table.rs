//! The holders and waiters of a lock as a table.

use redgrid_inspect::HolderState;
use serde::Serialize;

use super::{Holder, Output, Waiter};
use crate::output::{Cell, Column, Row, Tone};
use crate::text::{printable, time_text};

/// A holder or a waiter.
#[derive(Debug, Serialize)]
pub(super) struct Party {
    role: &'static str,
    #[serde(flatten)]
    holder: Holder,
    lease_left_ms: Option<u64>,
}

impl Party {
    /// Returns the holders, and then the waiters in the queue.
    pub(super) fn all(output: Output) -> impl Iterator<Item = Party> {
        let lease_left_ms = output.lease_left_ms;
        let holders = output.holders.into_iter().map(move |holder| Party {
            role: "holder",
            lease_left_ms: holder.reader_lease_left_ms.or(lease_left_ms),
            holder,
        });
        holders.chain(output.queue.into_iter().flatten().map(Party::waiting))
    }

    fn waiting(waiter: Waiter) -> Self {
        let number = waiter.number.map(|number| format!(":{number}")).unwrap_or_default();
        let holder = Holder {
            field: format!("{}{number}", waiter.client),
            client: waiter.client,
            number: waiter.number,
            entries: 0,
            mode: "",
            state: waiter.state,
            reader_lease_left_ms: None,
            retained: false,
            host: None,
            pid: None,
            program: None,
            label: None,
            held_for_ms: None,
        };
        Party { role: "waiter", holder, lease_left_ms: None }
    }
}

/// Returns the tone of a state.
fn tone(state: &str) -> Tone {
    match state {
        state if state == HolderState::Alive.as_str() => Tone::Good,
        state if state == HolderState::Silent.as_str() => Tone::Doubtful,
        state if state == HolderState::Gone.as_str() => Tone::Bad,
        _ => Tone::Plain,
    }
}

impl Row for Party {
    const COLUMNS: &'static [Column<Self>] = &[
        Column::new("role", |row| row.role.into()),
        Column::new("client", |row| printable(&row.holder.client).into()),
        Column::new("number", |row| Cell::number(row.holder.number)),
        Column::wide("entries", |row| Cell::number(Some(row.holder.entries).filter(|entries| *entries > 0))),
        Column::new("mode", |row| row.holder.mode.into()),
        Column::new("state", |row| Cell::new(row.holder.state, tone(row.holder.state))),
        Column::new("lease", |row| match (row.role, row.lease_left_ms) {
            ("holder", None) => Cell::new("none", Tone::Doubtful),
            (_, left) => left.map(time_text).into(),
        }),
        Column::new("host", |row| row.holder.host.as_deref().map(printable).into()),
        Column::new("pid", |row| Cell::number(row.holder.pid.map(u64::from))),
        Column::new("program", |row| row.holder.program.as_deref().map(printable).into()),
        Column::wide("label", |row| row.holder.label.as_deref().map(printable).into()),
        Column::wide("held-for", |row| row.holder.held_for_ms.map(time_text).into()),
    ];

    /// Returns the holder in the form of `redgrid unlock --if-holder`.
    fn name(&self) -> String {
        self.holder.field.clone()
    }
}
