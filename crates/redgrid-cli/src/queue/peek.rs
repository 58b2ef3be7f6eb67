//! `redgrid queue peek`: shows messages without receiving them.

use std::pin::pin;
use std::process::ExitCode;
use std::time::SystemTime;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use clap::{Args, ValueEnum};
use futures_util::TryStreamExt;
use redgrid::codecs::Raw;
use redgrid::reliable_queue::{Message, MessageId, MessageState, ObjectError};
use serde::Serialize;

use super::{checked, queue};
use crate::cli::Global;
use crate::failure::{Failure, one_line};
use crate::output::{Cell, Column, Listing, OutputOptions, Row, notice};
use crate::server::{Reach, Server};
use crate::text::{date_text, printable};

/// The end of `redgrid queue peek --help`.
pub(super) const HELP: &str = "\
Columns: id, state, priority, attempts, pushed, reason; with --values also headers and value. These may contain secrets,
so they are shown only with --values.";

/// The most messages of one command.
const MAX_MESSAGES: u64 = 1_000;

/// The most messages that a queue returns of those that are ready.
const MAX_READY: usize = 100;

/// Options of `redgrid queue peek`.
#[derive(Debug, Args)]
pub(crate) struct PeekOptions {
    /// The queue
    name: String,
    /// Which messages
    #[arg(long, value_name = "STATE", value_enum, default_value_t)]
    state: Peeked,
    /// Show only this message, in any state
    #[arg(long, value_name = "ID", conflicts_with_all = ["state", "max"])]
    id: Option<MessageId>,
    /// The most messages to show; at most 100 that are ready, and 1000 dead letters
    #[arg(long, value_name = "N", default_value_t = 20)]
    #[arg(value_parser = clap::value_parser!(u64).range(1..=MAX_MESSAGES))]
    max: u64,
    /// Show the values and headers
    #[arg(long)]
    values: bool,
    #[command(flatten)]
    output: OutputOptions,
    #[command(flatten)]
    reach: Reach,
}

/// The messages to show.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, ValueEnum)]
enum Peeked {
    /// Messages that would be received next
    #[default]
    Ready,
    /// Dead letters, in the order of their pushes
    Dead,
}

/// A message. The fields are those of its JSON, in their order.
#[derive(Debug, Serialize)]
struct Listed {
    id: String,
    state: &'static str,
    /// When a delayed message is ready, the visibility of one in flight ends, or one became a dead
    /// letter.
    state_ms: Option<u64>,
    priority: u8,
    attempts: u32,
    pushed_ms: u64,
    reason: Option<String>,
    #[serde(flatten)]
    content: Option<Content>,
}

/// The content of a message; with `--values` only.
#[derive(Debug, Serialize)]
struct Content {
    headers: Vec<(String, String)>,
    /// The value, if it is text.
    value: Option<String>,
    /// The value in Base64, if it is not text.
    value_base64: Option<String>,
    /// Why the message cannot be read.
    error: Option<String>,
}

/// Runs `redgrid queue peek`.
pub(super) async fn run(global: &Global, options: &PeekOptions) -> Result<ExitCode, Failure> {
    let name = checked(&options.name)?;
    let mut output = options.output.clone();
    if options.values {
        output.widen(global);
    }
    let mut listing = Listing::new(global, &output)?;
    let server = Server::reach(global, &options.reach).await?;
    let shown = show(&server, name.as_str(), options, &mut listing).await;
    server.leave().await;
    shown?;
    if listing.finish()? == 0 {
        notice(global, "there is no such message");
    }
    Ok(ExitCode::SUCCESS)
}

async fn show(
    server: &Server,
    name: &str,
    options: &PeekOptions,
    listing: &mut Listing<Listed>,
) -> Result<(), Failure> {
    let queue = queue(server, name);
    let max = usize::try_from(options.max).unwrap_or(MAX_READY);
    let failed = |error: ObjectError| server.failed(&error);
    let messages = match (options.id, options.state) {
        (Some(id), _) => queue.get(id).await.map_err(failed)?.into_iter().collect(),
        (None, Peeked::Ready) => queue.peek(max.min(MAX_READY)).await.map_err(failed)?,
        (None, Peeked::Dead) => {
            let mut dead = pin!(queue.dead().stream());
            let mut left = max;
            while let Some(message) = dead.try_next().await.map_err(failed)? {
                listing.push(&Listed::of(&message, options.values))?;
                left -= 1;
                if left == 0 || listing.is_closed() {
                    break;
                }
            }
            Vec::new()
        }
    };
    for message in &messages {
        listing.push(&Listed::of(message, options.values))?;
    }
    Ok(())
}

impl Listed {
    fn of(message: &Message<Vec<u8>, Raw>, has_content: bool) -> Self {
        let (state, state_ms, reason) = match message.state() {
            MessageState::Ready => ("ready", None, None),
            MessageState::Delayed { until } => ("delayed", Some(*until), None),
            MessageState::InFlight { until } => ("in flight", Some(*until), None),
            MessageState::Dead { since, reason } => ("dead", Some(*since), Some(reason.clone())),
            _ => ("other", None, None),
        };
        Listed {
            id: message.id().to_string(),
            state,
            state_ms: state_ms.map(millis),
            priority: message.priority(),
            attempts: message.attempts(),
            pushed_ms: millis(message.pushed_at()),
            reason,
            content: has_content.then(|| Content::of(message)),
        }
    }
}

impl Content {
    fn of(message: &Message<Vec<u8>, Raw>) -> Self {
        let read = message.headers().and_then(|headers| Ok((headers, message.value()?)));
        match read {
            Err(error) => {
                Content { headers: Vec::new(), value: None, value_base64: None, error: Some(one_line(&error)) }
            }
            Ok((headers, bytes)) => match String::from_utf8(bytes) {
                Ok(text) => Content { headers, value: Some(text), value_base64: None, error: None },
                Err(bytes) => {
                    let encoded = STANDARD.encode(bytes.as_bytes());
                    Content { headers, value: None, value_base64: Some(encoded), error: None }
                }
            },
        }
    }

    /// Formats the value for a table.
    fn text(&self) -> String {
        match (&self.value, &self.value_base64, &self.error) {
            (Some(text), _, _) => printable(text).into_owned(),
            (_, Some(encoded), _) => format!("base64:{encoded}"),
            (_, _, Some(error)) => printable(error).into_owned(),
            (None, None, None) => String::new(),
        }
    }
}

fn millis(at: SystemTime) -> u64 {
    let since = at.duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
    u64::try_from(since.as_millis()).unwrap_or(u64::MAX)
}

impl Row for Listed {
    const COLUMNS: &'static [Column<Self>] = &[
        Column::new("id", |row| row.id.as_str().into()),
        Column::new("state", |row| row.state.into()),
        Column::new("priority", |row| Cell::number(u64::from(row.priority))),
        Column::new("attempts", |row| Cell::number(u64::from(row.attempts))),
        Column::new("pushed", |row| date_text(row.pushed_ms).into()),
        Column::new("reason", |row| row.reason.as_deref().map(printable).into()),
        Column::wide("headers", |row| {
            let headers = row.content.iter().flat_map(|content| &content.headers);
            let headers: Vec<_> = headers.map(|(name, text)| format!("{name}={text}")).collect();
            printable(&headers.join(" ")).into()
        }),
        Column::wide("value", |row| row.content.as_ref().map(Content::text).into()),
    ];

    fn name(&self) -> String {
        self.id.clone()
    }
}
