//! `redgrid context`: servers with names.

mod file;

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use clap::{Args, Subcommand};
use redgrid::Config;
use serde::Serialize;

pub(crate) use self::file::{Context, ContextFile, ContextServers};

use crate::cli::Global;
use crate::failure::{Failure, one_line};
use crate::named::{Named, read_url};
use crate::output::{Cell, Column, Listing, OutputOptions, Row, Tone, notice, print_json, print_line};
use crate::server::address;
use crate::text::printable;

/// The end of `redgrid context --help`.
pub(crate) const HELP: &str = "\
The contexts are in redgrid/contexts.toml in the folder XDG_CONFIG_HOME, or else in ~/.config. Only you may read the
file. A command uses the context of --context, else that of the variable REDGRID_CONTEXT, else the one in use. --url,
--url-file, --config and the variables REDGRID_URL and REDGRID_CONFIG come before the one in use.

  redgrid context set prod --url-file - --production < url.txt
  redgrid context use prod
  redgrid ls";

/// Subcommands of `redgrid context`.
#[derive(Debug, Subcommand)]
pub(crate) enum ContextCommand {
    /// List the contexts
    #[command(after_long_help = "Columns: name, current, topology, servers, namespace, production.")]
    List {
        #[command(flatten)]
        output: OutputOptions,
    },
    /// Use a context where a command names no servers
    Use {
        /// The context
        name: String,
    },
    /// Add or replace a context: name the servers with --url-file, --url or --config
    #[command(after_long_help = SET_HELP)]
    Set(SetOptions),
    /// Remove a context
    Remove {
        /// The context
        name: String,
    },
}

/// The end of `redgrid context set --help`.
const SET_HELP: &str = "\
With --url-file - the URL is read from stdin, and stored in the contexts. With --url-file FILE only the path of the file
is stored: the URL is read at each use. A password in --url can be seen in the list of processes.";

/// Options of `redgrid context set`.
#[derive(Debug, Args)]
pub(crate) struct SetOptions {
    /// The context
    name: String,
    /// Prefix of every name
    #[arg(long, value_name = "NAMESPACE")]
    namespace: Option<String>,
    /// Print a banner before each command that uses these servers
    #[arg(long)]
    production: bool,
}

/// A context. The fields are those of its JSON, in their order.
#[derive(Debug, Serialize)]
struct Listed {
    name: String,
    current: bool,
    topology: Option<&'static str>,
    /// The addresses, without user and password.
    servers: Option<String>,
    namespace: Option<String>,
    production: bool,
    /// Why it cannot be used.
    error: Option<String>,
}

impl Row for Listed {
    const COLUMNS: &'static [Column<Self>] = &[
        Column::new("name", |row| printable(&row.name).into()),
        Column::new("current", |row| if row.current { Cell::new("yes", Tone::Good) } else { "".into() }),
        Column::new("topology", |row| row.topology.into()),
        Column::new("servers", |row| match &row.error {
            Some(error) => Cell::new(printable(error), Tone::Bad),
            None => row.servers.as_deref().map(printable).into(),
        }),
        Column::new("namespace", |row| row.namespace.as_deref().map(printable).into()),
        Column::new("production", |row| if row.production { Cell::new("yes", Tone::Bad) } else { "".into() }),
    ];

    fn name(&self) -> String {
        self.name.clone()
    }
}

/// A change of the contexts. The fields are those of its JSON, in their order.
#[derive(Debug, Serialize)]
struct Changed<'a> {
    name: &'a str,
    change: &'static str,
}

/// Runs `redgrid context`.
pub(crate) fn run(global: &Global, command: &ContextCommand) -> Result<ExitCode, Failure> {
    let mut contexts = ContextFile::open()?;
    match command {
        ContextCommand::List { output } => list(global, output, &contexts),
        ContextCommand::Use { name } => {
            contexts.make_current(name)?;
            contexts.save()?;
            say(global, name, "used")
        }
        ContextCommand::Set(options) => {
            let context = context_of(global, options)?;
            // A context that cannot be used is not stored.
            checked(&options.name, &context)?;
            contexts.set(&options.name, context)?;
            contexts.save()?;
            say(global, &options.name, "stored")
        }
        ContextCommand::Remove { name } => {
            contexts.remove(name)?;
            contexts.save()?;
            say(global, name, "removed")
        }
    }
}

fn say(global: &Global, name: &str, change: &'static str) -> Result<ExitCode, Failure> {
    match (global.json, global.quiet) {
        (true, _) => print_json(&Changed { name, change }),
        (false, true) => Ok(ExitCode::SUCCESS),
        (false, false) => print_line(&format!("the context `{name}` is {change}")),
    }
}

fn list(global: &Global, output: &OutputOptions, contexts: &ContextFile) -> Result<ExitCode, Failure> {
    let mut listing = Listing::new(global, output)?;
    let current = contexts.current().map(|(name, _)| name);
    for (name, context) in contexts.all() {
        let config = checked(name, context);
        listing.push(&Listed {
            name: name.clone(),
            current: current == Some(name),
            topology: config.as_ref().ok().map(Config::topology),
            servers: config.as_ref().ok().map(address),
            namespace: context.namespace.clone(),
            production: context.is_production,
            error: config.err().map(|failure| failure.to_string()),
        })?;
    }
    if listing.finish()? == 0 {
        notice(global, "there are no contexts; make one with `redgrid context set`");
    }
    Ok(ExitCode::SUCCESS)
}

/// Returns the context that the options describe.
fn context_of(global: &Global, options: &SetOptions) -> Result<Context, Failure> {
    let servers = match (&global.url, &global.url_file, &global.config) {
        (Some(url), None, None) => ContextServers::Url(url.clone()),
        (None, Some(file), None) if file == Path::new("-") => ContextServers::Url(read_url(file)?),
        (None, Some(file), None) => ContextServers::UrlFile(absolute(file)?),
        (None, None, Some(file)) => ContextServers::Config(absolute(file)?),
        _ => {
            return Err(Failure::usage("name the servers of the context by one of --url-file, --url and --config"));
        }
    };
    Ok(Context { servers, namespace: options.namespace.clone(), is_production: options.production })
}

/// Returns the configuration of a context, or why it cannot be used.
fn checked(name: &str, context: &Context) -> Result<Config, Failure> {
    let named = Named::of_context(name, context)?;
    let config = named.config().map_err(|error| named.unusable(&error))?;
    match named.namespace() {
        Some(namespace) => config.namespace(namespace).map_err(|error| {
            Failure::usage(format!("cannot use the namespace of the context `{name}`: {}", one_line(&error)))
        }),
        None => Ok(config),
    }
}

fn absolute(file: &Path) -> Result<PathBuf, Failure> {
    std::path::absolute(file).map_err(|error| Failure::usage(format!("cannot use {}: {error}", file.display())))
}
