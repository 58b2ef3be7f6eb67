//! `redgrid unlock`: takes a lock away from its holder, and records it.

use std::io::{self, BufRead as _, IsTerminal as _, Write as _};
use std::process::ExitCode;

use clap::Args;
use redgrid::Name;
use redgrid_inspect::{
    ASK_TIMEOUT, ActionError, ActionOutcome, Actions, Answer, HolderView, Inspector, LockView, Operator, Reason,
    Refusal,
};
use serde::Serialize;

use crate::cli::Global;
use crate::exit_codes::{BUSY, HELD_BY_ANOTHER, WRONG};
use crate::failure::{Failure, one_line};
use crate::inspect::{refuse_other_values, report};
use crate::server::{Reach, Server, print_json, print_line};
use crate::text::{printable, process_text};

/// The most holders that the question names.
const SHOWN: usize = 10;

/// The end of `redgrid unlock --help`.
pub(crate) const HELP: &str = "\
The command takes the lock only from the holders that it has shown, or from that of --if-holder. A holder that enters
meanwhile keeps it. Each holder has one entry in the stream `redgrid_audit` before it loses the lock, and one with the
outcome. If the first cannot be written, nothing changes.

At a terminal the command asks for the name of the lock. Scripts pass --force.";

/// Options of `redgrid unlock`.
#[derive(Debug, Args)]
pub(crate) struct UnlockOptions {
    /// The lock
    name: String,
    /// Why, for the record: up to 200 characters
    #[arg(long, value_name = "TEXT")]
    reason: String,
    /// Only if this is the holder: CLIENT:NUMBER, or CLIENT:NUMBER:write of a writer, as
    /// `inspect -o name` prints it
    #[arg(long, value_name = "HOLDER")]
    if_holder: Option<String>,
    /// Does not ask, although the holder may be working
    #[arg(long)]
    force: bool,
    #[command(flatten)]
    reach: Reach,
}

/// The output. The fields are those of the JSON line, in its order.
#[derive(Debug, Serialize)]
struct Output {
    name: String,
    /// `done`, `free`, `held by another` or `unknown`.
    outcome: &'static str,
    freed: bool,
    /// The holders that have lost the lock.
    lost: Vec<Holder>,
    /// The fields of other holders that have the lock.
    holders: Vec<String>,
    /// The ids of the actions in the record.
    actions: Vec<String>,
    /// Whether the outcome of each action is in the record.
    recorded: bool,
    /// Whether `holders` have released the lock, which stays taken.
    #[serde(skip)]
    is_retained: bool,
    /// The ids of the actions with an unknown outcome.
    #[serde(skip)]
    unknown: Vec<String>,
}

/// A holder that has lost the lock. The fields are those of the JSON line, in its order.
#[derive(Debug, Clone, Serialize)]
struct Holder {
    /// Its field: CLIENT:NUMBER, and `:write` for a writer.
    holder: String,
    host: Option<String>,
    pid: Option<u32>,
    program: Option<String>,
    #[serde(skip)]
    process: Option<String>,
}

/// Runs `redgrid unlock`.
pub(crate) async fn run(global: &Global, options: &UnlockOptions) -> Result<ExitCode, Failure> {
    let name = Name::new(&options.name).map_err(|invalid| Failure::usage(one_line(&invalid)))?;
    let reason = Reason::new(&options.reason).map_err(|invalid| Failure::usage(format!("--reason: {invalid}")))?;
    if !options.force && !io::stdin().is_terminal() {
        return Err(Failure::usage(format!(
            "`{name}` may have a holder that is working; see `redgrid inspect`, and pass --force to take it away"
        )));
    }
    let server = Server::reach(global, &options.reach).await?;
    let ended = unlock(&server, &name, &reason, options).await;
    server.leave().await;
    let output = ended?;
    if global.json { print_json(&output) } else { print_line(&output.text()) }?;
    Ok(ExitCode::from(output.code()))
}

async fn unlock(server: &Server, name: &Name, reason: &Reason, options: &UnlockOptions) -> Result<Output, Failure> {
    let inspector = Inspector::new(server.grid.client());
    let view = inspector.lock(name.as_str()).await.map_err(|error| server.failed(&error))?;
    refuse_other_values(&view)?;
    // A user without the permission to ask takes the lock away all the same.
    let answers = inspector.ask(&view.ask_ids(), ASK_TIMEOUT).await.unwrap_or_default();
    let retained = retained(&view, options.if_holder.as_deref());
    let expected = match &retained[..] {
        [] => expected(&view, &answers, options.if_holder.as_deref()),
        _ => Vec::new(),
    };
    if !options.force && !expected.is_empty() {
        confirm(name, &expected)?;
    }
    let actions = Actions::new(&inspector, operator());
    let mut output = Output::new(name);
    if !retained.is_empty() {
        output.holders = retained;
        output.is_retained = true;
        output.ends("held by another");
    }
    for holder in expected {
        let report = actions.force_release(name.as_str(), &holder.holder, reason).await;
        let report = report.map_err(|error| refused(server, &error, &output))?;
        let id = report.id.clone();
        output.actions.push(report.id);
        output.recorded &= report.is_recorded;
        match report.outcome {
            ActionOutcome::Done { .. } => {
                output.freed = true;
                output.lost.push(holder);
                output.ends("done");
            }
            ActionOutcome::Refused(Refusal::Free) => output.ends("free"),
            ActionOutcome::Refused(Refusal::HeldByAnother { holders }) => {
                output.holders = holders;
                output.ends("held by another");
            }
            ActionOutcome::Refused(refusal) => {
                let text = format!("`{name}` was not taken away: {refusal}");
                return Err(output.fails(Failure::unavailable(text)));
            }
            _ => {
                output.unknown.push(id);
                output.ends("unknown");
            }
        }
    }
    Ok(output)
}

/// Returns the fields of the holders that have released the lock, which stays taken for their
/// `hold_at_least`: the one that is named, or all of them if there are no other holders.
fn retained(view: &LockView, if_holder: Option<&str>) -> Vec<String> {
    let fields = view.holders.iter().filter(|holder| holder.is_retained).map(HolderView::field);
    match if_holder {
        // The holder may have been read before it released the lock.
        Some(named) => {
            fields.filter(|field| field.strip_prefix(named).is_some_and(|rest| matches!(rest, "" | ":kept"))).collect()
        }
        None if view.holders.iter().all(|holder| holder.is_retained) => fields.take(SHOWN).collect(),
        None => Vec::new(),
    }
}

/// Returns the holders from which the lock is to be taken.
fn expected(view: &LockView, answers: &[Answer], if_holder: Option<&str>) -> Vec<Holder> {
    let known = |view: &LockView| {
        let holders = view.holders.iter().filter(|holder| !holder.is_retained);
        let described = holders.map(|holder| {
            let report = report(holder, answers);
            Holder {
                holder: holder.field(),
                host: report.map(|report| report.host.clone()).filter(|host| !host.is_empty()),
                pid: report.map(|report| report.pid),
                program: report.map(|report| report.program.clone()).filter(|program| !program.is_empty()),
                process: report.map(process_text),
            }
        });
        described.collect::<Vec<_>>()
    };
    let known = known(view);
    match if_holder {
        None => known,
        Some(field) => {
            // A reader that writes by now has another field: it keeps the lock.
            let found = known.iter().find(|holder| holder.holder == field);
            let unknown = Holder { holder: field.to_owned(), host: None, pid: None, program: None, process: None };
            vec![found.cloned().unwrap_or(unknown)]
        }
    }
}

/// Asks for the name of the lock.
fn confirm(name: &Name, expected: &[Holder]) -> Result<(), Failure> {
    let broken = |error: io::Error| Failure::broken(format!("cannot ask at the terminal: {error}"));
    let mut terminal = io::stderr();
    for holder in expected.iter().take(SHOWN) {
        writeln!(terminal, "{} loses `{}`, although it may be working.", holder.text(), printable(name.as_str()))
            .map_err(broken)?;
    }
    if expected.len() > SHOWN {
        writeln!(terminal, "So do {} more holders.", expected.len() - SHOWN).map_err(broken)?;
    }
    write!(terminal, "Type the name of the lock to confirm: ").and_then(|()| terminal.flush()).map_err(broken)?;
    let mut typed = String::new();
    io::stdin().lock().read_line(&mut typed).map_err(broken)?;
    if typed.trim() == printable(name.as_str()).trim() {
        return Ok(());
    }
    Err(Failure::usage("the typed name is not that of the lock; nothing was changed"))
}

/// Returns the user and the host of this command.
fn operator() -> Operator {
    let set = |name| std::env::var(name).ok().filter(|value| !value.is_empty());
    let who = set("USER").or_else(|| set("LOGNAME")).unwrap_or_else(|| format!("uid {}", nix::unistd::getuid()));
    let host = nix::unistd::gethostname().ok().and_then(|host| host.into_string().ok());
    let host = host.unwrap_or_else(|| "an unknown host".to_owned());
    Operator::new(who, format!("redgrid unlock at {host}, pid {}", std::process::id()))
}

/// Returns the failure of an action that was not begun.
fn refused(server: &Server, error: &ActionError, output: &Output) -> Failure {
    output.fails(match error {
        ActionError::NotALock { .. } => Failure::usage(one_line(error)),
        error => server.failed(error),
    })
}

impl Output {
    fn new(name: &Name) -> Self {
        Output {
            name: name.as_str().to_owned(),
            outcome: "free",
            freed: false,
            lost: Vec::new(),
            holders: Vec::new(),
            actions: Vec::new(),
            recorded: true,
            is_retained: false,
            unknown: Vec::new(),
        }
    }

    /// Adds the outcome for a holder. If outcomes differ, `unknown` is kept before `done`, and
    /// `done` before the others.
    fn ends(&mut self, outcome: &'static str) {
        let rank = |outcome| match outcome {
            "unknown" => 3,
            "done" => 2,
            "held by another" => 1,
            _ => 0,
        };
        if rank(outcome) >= rank(self.outcome) {
            self.outcome = outcome;
        }
    }

    fn code(&self) -> u8 {
        match self.outcome {
            "done" => 0,
            "held by another" => HELD_BY_ANOTHER,
            "unknown" => BUSY,
            _ => WRONG,
        }
    }

    /// Adds the changes before a failure. If one of them is unknown, so is the outcome.
    fn fails(&self, failure: Failure) -> Failure {
        let failure = failure.and(&self.after());
        if self.unknown.is_empty() { failure } else { Failure::with(BUSY, failure.to_string()) }
    }

    /// Describes the changes before an error.
    fn after(&self) -> String {
        let lost = match self.lost.len() {
            0 if self.unknown.is_empty() => "nothing was changed".to_owned(),
            0 => String::new(),
            count => format!("{count} holders had lost it before"),
        };
        let unknown = match self.unknown.len() {
            0 => String::new(),
            _ => format!("the outcome of the actions {} is unknown", self.unknown.join(", ")),
        };
        let clauses = [lost, unknown].into_iter().filter(|clause| !clause.is_empty());
        clauses.collect::<Vec<_>>().join("; ")
    }

    fn text(&self) -> String {
        let name = printable(&self.name);
        let mut text = match self.outcome {
            "unknown" => format!("{name}: the outcome is unknown, look at it with `redgrid inspect`"),
            "done" => {
                let lost: Vec<_> = self.lost.iter().map(Holder::text).collect();
                format!("{name}: taken from {}", lost.join(" and "))
            }
            "held by another" if self.is_retained => {
                let holders = self.holders.join(" and ");
                let holders = printable(&holders);
                format!("{name}: not freed, it is released and stays taken until the lease of {holders} ends")
            }
            "held by another" if self.holders.is_empty() => format!("{name}: not freed, another holder had it"),
            "held by another" => {
                format!("{name}: not freed, it has passed to {}", printable(&self.holders.join(" and ")))
            }
            _ => format!("{name}: was free"),
        };
        if !self.recorded {
            text.push_str("; the outcome could not be recorded");
        }
        text
    }
}

impl Holder {
    fn text(&self) -> String {
        let process = self.process.as_ref().map(|process| format!(" ({process})")).unwrap_or_default();
        format!("{}{process}", printable(&self.holder))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::exit_codes::UNAVAILABLE;

    fn failed(output: &Output) -> (String, String) {
        let failure = output.fails(Failure::unavailable("no server"));
        (failure.to_string(), format!("{:?}", failure.code()))
    }

    #[test]
    fn an_unknown_outcome_before_an_error_is_reported() {
        let code = |code: u8| format!("{:?}", ExitCode::from(code));
        let mut output = Output::new(&Name::new("job").expect("a name"));
        assert_eq!(failed(&output), ("no server; nothing was changed".to_owned(), code(UNAVAILABLE)));
        output.unknown.push("17".to_owned());
        let text = "no server; the outcome of the actions 17 is unknown";
        assert_eq!(failed(&output), (text.to_owned(), code(BUSY)));
        output.lost.push(Holder { holder: "a:1".to_owned(), host: None, pid: None, program: None, process: None });
        let text = "no server; 1 holders had lost it before; the outcome of the actions 17 is unknown";
        assert_eq!(failed(&output), (text.to_owned(), code(BUSY)));
    }
}
