//! The exit codes of all commands: one table, in the help of each command and in the README.

use clap::Command;

/// The result is bad, or there is none.
pub(crate) const WRONG: u8 = 1;

/// The command line, or a file that it names, cannot be used. Also clap's exit code.
pub(crate) const USAGE: u8 = 2;

/// Another holder has the lock that was to be taken away.
pub(crate) const HELD_BY_ANOTHER: u8 = 3;

/// No server is available; `EX_UNAVAILABLE` of `sysexits.h`.
pub(crate) const UNAVAILABLE: u8 = 69;

/// Others held the lock for too long, or the outcome is unknown; `EX_TEMPFAIL` of `sysexits.h`: try
/// again later.
pub(crate) const BUSY: u8 = 75;

/// The lock was lost while the program ran; `EX_PROTOCOL` of `sysexits.h`, the next number.
pub(crate) const LOST: u8 = 76;

/// The user of the servers lacks a permission; `EX_NOPERM` of `sysexits.h`.
pub(crate) const NO_PERMISSION: u8 = 77;

/// A signal ended the command: 128 plus the number of the signal, as in shells.
pub(crate) const SIGNALLED: u8 = 128;

/// All exit codes, with their meanings.
const TABLE: [(&str, &str); 11] = [
    ("0", "done"),
    ("1", "the result is bad, or there is none"),
    ("2", "bad usage, or a file or a name that cannot be used"),
    ("3", "`unlock`: another holder has the lock"),
    ("69", "no server was reached or started, or it refused; `unlock`: it cannot be recorded"),
    ("75", "others held the lock for longer than `lock --wait` or `wait --timeout`; `unlock`: a reply was lost"),
    ("76", "`lock`: the lock was lost; the program was killed, or ended at that time"),
    ("77", "the user of the servers lacks a permission"),
    ("126, 127", "`lock`: the program cannot be run; it was not found"),
    ("129, 131", "`lock`: ended by SIGHUP, SIGQUIT while it waited"),
    ("130, 143", "ended by SIGINT, SIGTERM"),
];

/// The meanings of the codes 0 and 1 for each command; empty if the general meaning applies.
const COMMANDS: [(&str, &str, &str); 21] = [
    ("bench", "no errors", "errors, stuck tasks, two holders at once, or the job was aborted"),
    ("clients", "all were listed", ""),
    ("completions", "written", ""),
    ("config check", "the file is valid", ""),
    ("console", "ended by SIGINT or SIGTERM", "the console could not go on"),
    ("context", "done", ""),
    ("demo flash-sale", "the sale is proven right", "it is not (as `--lock none` demonstrates), or it was aborted"),
    ("demo requests", "written", ""),
    ("doctor", "no fault; with `--fail-on warn` also no warning", "a fault, or such a warning"),
    ("inspect", "answered: the lock is held or free", ""),
    ("lock", "the program ended with 0", "the program ended with 1"),
    ("ls", "all were listed", ""),
    ("man", "written", ""),
    ("queue counts", "answered", ""),
    ("queue ls", "all were listed", ""),
    ("queue peek", "answered", ""),
    ("queue redrive", "at least one message is ready again", "none was a dead letter"),
    ("top", "ended by `--once`, `--for` or a signal", ""),
    ("unlock", "the lock was taken away", "it was free"),
    ("wait", "the lock is free", ""),
    ("watch", "ended by `--for`, SIGINT or SIGTERM", ""),
];

/// Appends the table to the long help of each command.
pub(crate) fn document(command: Command) -> Command {
    append(command, "")
}

fn append(command: Command, path: &str) -> Command {
    let own = command.get_after_long_help().map(|text| format!("{text}\n\n")).unwrap_or_default();
    let command = command.after_long_help(format!("{own}{}", table(path)));
    command.mut_subcommands(|inner| {
        let path = if path.is_empty() { inner.get_name().to_owned() } else { format!("{path} {}", inner.get_name()) };
        append(inner, &path)
    })
}

/// Formats the table for the command with this path, such as `queue ls`.
fn table(path: &str) -> String {
    let is_it = |command: &str| path.strip_prefix(command).is_some_and(|rest| rest.is_empty() || rest.starts_with(' '));
    let own = COMMANDS.iter().find(|(command, _, _)| is_it(command));
    let mut text = "Exit codes:".to_owned();
    for (code, meaning) in TABLE {
        let own = match (code, own) {
            ("0", Some((_, done, _))) => done,
            ("1", Some((_, _, bad))) => bad,
            _ => "",
        };
        text.push_str(&format!("\n  {code:<8}  {}", if own.is_empty() { meaning } else { own }));
    }
    text
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory;

    use super::*;
    use crate::cli::Cli;

    const README: &str = include_str!("../README.md");

    /// Returns the paths of all commands without subcommands, except hidden ones.
    fn leaves(command: &Command, path: &str, found: &mut Vec<String>) {
        for inner in command.get_subcommands().filter(|inner| !inner.is_hide_set()) {
            let path = format!("{path} {}", inner.get_name());
            let path = path.trim_start();
            if inner.has_subcommands() { leaves(inner, path, found) } else { found.push(path.to_owned()) }
        }
    }

    #[test]
    fn the_readme_has_the_same_exit_codes() {
        for (code, meaning) in TABLE {
            assert!(README.contains(&format!("\n| {code} | {meaning} |\n")), "{code}: {meaning}");
        }
        for (command, done, bad) in COMMANDS {
            let row = format!("\n| `{command}` | {done} | {bad} |\n").replace("|  |", "| |");
            assert!(README.contains(&row), "{row}");
        }
    }

    #[test]
    fn the_readme_names_each_command_and_each_option_of_all_commands() {
        let mut commands = Vec::new();
        leaves(&Cli::command(), "", &mut commands);
        for command in &commands {
            assert!(README.contains(&format!("| `redgrid {command}")), "{command}");
        }
        let known = |path: &str| commands.iter().any(|command| command == path || command.starts_with(path));
        assert!(COMMANDS.iter().all(|(command, _, _)| known(command) || cfg!(not(feature = "console"))));
        let cli = Cli::command();
        for option in cli.get_arguments().filter(|option| option.is_global_set()) {
            let long = option.get_long().unwrap_or_default();
            let short = option.get_short().map(|short| format!("`-{short}`, ")).unwrap_or_default();
            let value = option.get_value_names().filter(|_| option.get_action().takes_values());
            let value = value.and_then(|names| names.first()).map(|name| format!(" {name}")).unwrap_or_default();
            assert!(README.contains(&format!("\n| {short}`--{long}{value}` | ")), "{short}--{long}{value}");
        }
    }

    #[test]
    fn the_readme_names_each_option_of_each_command() {
        fn check(command: &Command) {
            let own = command.get_arguments().filter(|option| !option.is_global_set() && !option.is_hide_set());
            for option in own {
                let long = option.get_long().map(|long| format!("--{long}"));
                let short = option.get_short().map(|short| format!("-{short}"));
                let names: Vec<_> = long.into_iter().chain(short).collect();
                let is_named = names.iter().any(|name| {
                    let mut places = README.match_indices(name.as_str()).map(|(at, name)| &README[at + name.len()..]);
                    places.any(|rest| !rest.starts_with(|next: char| next == '-' || next.is_ascii_alphanumeric()))
                });
                assert!(is_named || names.is_empty(), "{}: {names:?}", command.get_name());
            }
            command.get_subcommands().filter(|inner| !inner.is_hide_set()).for_each(check);
        }
        check(&Cli::command());
    }

    #[test]
    fn each_command_has_the_whole_table_in_its_help() {
        fn check(command: &mut Command) {
            let help = command.render_long_help().to_string();
            for (code, _) in TABLE {
                assert!(help.contains(&format!("\n  {code:<8}  ")), "{} has no {code}: {help}", command.get_name());
            }
            for inner in command.get_subcommands_mut().filter(|inner| inner.get_name() != "help") {
                check(inner);
            }
        }
        let mut cli = document(Cli::command());
        cli.build();
        check(&mut cli);
    }
}
