//! The text formats of values. URLs, files and the environment use the same formats.

use std::path::PathBuf;
use std::time::Duration;

use super::access::Secret;
use super::draft::Draft;
use super::servers::Address;

/// A value as text.
#[derive(Clone)]
pub(super) enum Value {
    One(String),
    Many(Vec<String>),
}

/// How a setting is parsed, and which field of the draft it sets.
pub(super) enum Form {
    Time(fn(&mut Draft) -> &mut Duration, Duration, Duration),
    /// A time, or `auto`.
    AutoTime(fn(&mut Draft) -> &mut Option<Duration>, Duration, Duration),
    Count(fn(&mut Draft) -> &mut u32, u32, u32),
    Switch(fn(&mut Draft) -> &mut bool),
    /// One of the words in the first field; the draft stores the index of the word.
    Choice(&'static [&'static str], fn(&mut Draft) -> &mut usize),
    /// Any text for which the second function returns `Ok`.
    Text(fn(&mut Draft) -> &mut Option<String>, fn(&str) -> Result<(), &'static str>),
    Secret(fn(&mut Draft) -> &mut Option<Secret>),
    /// Certificates or a key as PEM text, masked like secrets.
    Pem(fn(&mut Draft) -> &mut Option<Secret>),
    File(fn(&mut Draft) -> &mut Option<PathBuf>),
    /// An address, and its default port.
    Address(fn(&mut Draft) -> &mut Option<Address>, u16),
    Addresses(fn(&mut Draft) -> &mut Vec<Address>, u16),
    /// Pairs of addresses, each as `from=to`, and their default port.
    AddressMap(fn(&mut Draft) -> &mut Vec<(Address, Address)>, u16),
}

impl Form {
    /// Returns whether the value is free text, which must be kept exactly as it is written.
    #[cfg(feature = "config-files")]
    pub(super) fn is_text(&self) -> bool {
        self.is_masked() || matches!(self, Form::Text(..) | Form::File(_) | Form::Address(..) | Form::Addresses(..))
    }

    /// Returns whether [`Form::show`] masks the value.
    pub(super) fn is_masked(&self) -> bool {
        matches!(self, Form::Secret(_) | Form::Pem(_))
    }

    /// Parses a value into the draft.
    ///
    /// # Errors
    ///
    /// A description of the expected form. The invalid value is included only if it cannot be a
    /// secret or a URL with a secret.
    pub(super) fn read(&self, value: &Value, draft: &mut Draft) -> Result<(), String> {
        let is_list = matches!(self, Form::Addresses(..) | Form::AddressMap(..));
        let (text, parts): (&str, Vec<&str>) = match value {
            Value::One(text) => (text, text.split(',').collect()),
            Value::Many(texts) if is_list => ("", texts.iter().map(String::as_str).collect()),
            Value::Many(_) => return Err(format!("{}, not a list", self.expected())),
        };
        let other = || format!("{}, found `{}`", self.expected(), text.chars().take(32).collect::<String>());
        match self {
            Form::Time(at, least, most) => *at(draft) = within(time(text), least, most).ok_or_else(other)?,
            Form::AutoTime(at, _, _) if text == "auto" => *at(draft) = None,
            Form::AutoTime(at, least, most) => *at(draft) = Some(within(time(text), least, most).ok_or_else(other)?),
            Form::Count(at, least, most) => *at(draft) = within(text.parse().ok(), least, most).ok_or_else(other)?,
            Form::Switch(at) => *at(draft) = text.parse().map_err(|_| other())?,
            Form::Choice(words, at) => *at(draft) = words.iter().position(|word| *word == text).ok_or_else(other)?,
            Form::Text(at, check) => *at(draft) = check(text).map(|()| Some(text.to_owned()))?,
            Form::Secret(at) => *at(draft) = Some(Secret::new(text)),
            Form::Pem(at) if text.contains(PEM) => *at(draft) = Some(Secret::new(text)),
            Form::Pem(_) => return Err(self.expected()),
            Form::File(_) if text.contains(PEM) => {
                return Err("the path of a file; PEM text goes into the setting that ends in `_pem`".into());
            }
            Form::File(at) if !text.is_empty() => *at(draft) = Some(text.into()),
            Form::File(_) => return Err(self.expected()),
            Form::Address(at, port) => *at(draft) = Some(Address::read(text, *port)?),
            Form::Addresses(at, port) => *at(draft) = Address::read_all(&parts, *port)?,
            Form::AddressMap(at, port) => *at(draft) = pairs(&parts, *port)?,
        }
        Ok(())
    }

    /// Formats the draft's value in the form that [`Form::read`] parses. Secrets are masked.
    /// Returns `None` if the setting is unset.
    pub(super) fn show(&self, draft: &mut Draft) -> Option<String> {
        match self {
            Form::Time(at, ..) => Some(shown(*at(draft))),
            Form::AutoTime(at, ..) => Some(at(draft).map_or_else(|| "auto".into(), shown)),
            Form::Count(at, ..) => Some(at(draft).to_string()),
            Form::Switch(at) => Some(at(draft).to_string()),
            Form::Choice(words, at) => words.get(*at(draft)).map(|word| (*word).to_owned()),
            Form::Text(at, _) => at(draft).clone(),
            Form::Secret(at) | Form::Pem(at) => at(draft).as_ref().map(|_| "***".into()),
            Form::File(at) => at(draft).as_ref().map(|path| path.display().to_string()),
            Form::Address(at, _) => at(draft).as_ref().map(Address::to_string),
            Form::Addresses(at, _) => joined(at(draft).iter().map(Address::to_string)),
            Form::AddressMap(at, _) => joined(at(draft).iter().map(|(from, to)| format!("{from}={to}"))),
        }
    }

    /// Describes the valid values. In an error, this text follows the word "expected".
    pub(super) fn expected(&self) -> String {
        match self {
            Form::Time(_, least, most) => {
                format!("a time with its unit, like `1s` or `250ms`, from {} to {}", shown(*least), shown(*most))
            }
            Form::AutoTime(_, least, most) => {
                format!("`auto`, or a time with its unit from {} to {}", shown(*least), shown(*most))
            }
            Form::Count(_, least, most) => format!("a whole number from {least} to {most}"),
            Form::Switch(_) => "`true` or `false`".into(),
            Form::Choice(words, _) => {
                let words: Vec<_> = words.iter().map(|word| format!("`{word}`")).collect();
                format!("one of {}", words.join(", "))
            }
            Form::Text(..) => "text".into(),
            Form::Secret(_) => "text that stays secret".into(),
            Form::Pem(_) => "PEM text, with `-----BEGIN …-----`".into(),
            Form::File(_) => "the path of a file".into(),
            Form::Address(_, port) => format!("`host:port`; default port {port}"),
            Form::Addresses(_, port) => {
                format!("`host:port`, or several separated by commas or as a list; default port {port}")
            }
            Form::AddressMap(_, port) => {
                format!("`host:port=host:port`, or several separated by commas or as a list; default port {port}")
            }
        }
    }
}

/// A text that occurs in every PEM text, but in no path.
const PEM: &str = "-----BEGIN ";

/// Returns the value if it is within its bounds.
fn within<T: PartialOrd>(value: Option<T>, least: &T, most: &T) -> Option<T> {
    value.filter(|value| (least..=most).contains(&value))
}

/// Joins the elements of a list; `None` if there are none.
fn joined(all: impl Iterator<Item = String>) -> Option<String> {
    let all: Vec<_> = all.collect();
    (!all.is_empty()).then(|| all.join(","))
}

/// Parses pairs of addresses, each as `from=to`.
fn pairs(texts: &[&str], port: u16) -> Result<Vec<(Address, Address)>, String> {
    let pair = |text: &&str| {
        let (from, to) = text.trim().split_once('=').ok_or("two addresses with `=` between them")?;
        Ok((Address::read(from.trim(), port)?, Address::read(to.trim(), port)?))
    };
    texts.iter().map(pair).collect()
}

/// Parses a time with its unit. A number without a unit is invalid, even the 0 that `humantime`
/// accepts.
pub(super) fn time(text: &str) -> Option<Duration> {
    text.ends_with(|end: char| end.is_ascii_alphabetic()).then(|| humantime::parse_duration(text).ok()).flatten()
}

/// Formats a time as [`time`] parses it.
pub(super) fn shown(time: Duration) -> String {
    humantime::format_duration(time).to_string()
}
