//! `redgrid completions` and `redgrid man`: what shells and readers know of the command line.

use std::io;
use std::path::PathBuf;
use std::process::ExitCode;

use clap::{Args, Command, CommandFactory};
use clap_complete::Shell;
use serde::Serialize;

use crate::cli::{Cli, Global};
use crate::exit_codes;
use crate::failure::Failure;
use crate::output::{notice, print_json, print_line, write_out};

/// The end of `redgrid completions --help`.
pub(crate) const COMPLETIONS_HELP: &str = "\
  bash         redgrid completions bash > ~/.local/share/bash-completion/completions/redgrid
  zsh          redgrid completions zsh > \"${fpath[1]}/_redgrid\"
  fish         redgrid completions fish > ~/.config/fish/completions/redgrid.fish
  powershell   redgrid completions powershell >> $PROFILE";

/// Options of `redgrid completions`.
#[derive(Debug, Args)]
pub(crate) struct CompletionsOptions {
    /// The shell
    #[arg(value_enum)]
    shell: Shell,
}

/// Options of `redgrid man`.
#[derive(Debug, Args)]
pub(crate) struct ManOptions {
    /// The folder, which is made if it does not exist; such as ~/.local/share/man/man1
    folder: PathBuf,
}

/// Where the pages are. The field is that of its JSON.
#[derive(Debug, Serialize)]
struct Written {
    folder: String,
}

/// Runs `redgrid completions`.
pub(crate) fn completions(options: &CompletionsOptions) -> Result<ExitCode, Failure> {
    let mut script = Vec::new();
    clap_complete::generate(options.shell, &mut visible(Cli::command()), "redgrid", &mut script);
    let script = String::from_utf8(script).map_err(|error| Failure::broken(error.to_string()))?;
    write_out(&script)?;
    Ok(ExitCode::SUCCESS)
}

/// Leaves out the hidden subcommand of `demo`, which some scripts would offer.
fn visible(command: Command) -> Command {
    command.mut_subcommand("demo", |demo| {
        let inner: Vec<_> = demo.get_subcommands().filter(|inner| !inner.is_hide_set()).cloned().collect();
        Command::new("demo").about(demo.get_about().cloned().unwrap_or_default()).subcommands(inner)
    })
}

/// Runs `redgrid man`: writes a page for each command.
pub(crate) fn man(global: &Global, options: &ManOptions) -> Result<ExitCode, Failure> {
    let folder = &options.folder;
    let pages = || {
        std::fs::create_dir_all(folder)?;
        clap_mangen::generate_to(exit_codes::document(Cli::command()), folder)?;
        io::Result::Ok(())
    };
    pages().map_err(|error| Failure::usage(format!("cannot write pages to {}: {error}", folder.display())))?;
    if global.json {
        return print_json(&Written { folder: folder.display().to_string() });
    }
    if global.quiet {
        return Ok(ExitCode::SUCCESS);
    }
    if std::env::var_os("MANPATH").is_none() {
        notice(global, "`man redgrid` finds the pages if the folder is a man1 of MANPATH");
    }
    print_line(&format!("the pages are in {}", folder.display()))
}
