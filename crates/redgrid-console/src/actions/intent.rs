//! An action that an operator has chosen, from the parameters of a link or a form.

use std::time::Duration;

use redgrid_inspect::{ActionError, ActionReport, Actions, DeadSelection, MAX_MARKED, MessageId, PermitId, Reason};

use crate::query::Query;
use crate::text::{bytes_of_field, encoded, encoded_bytes};

/// Longest name of an object, and longest field of a holder, in bytes.
const LONGEST: usize = 1_024;

/// An action with its object. Fields of the form may still be missing.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Intent {
    object: Vec<u8>,
    pub(super) kind: Kind,
}

/// The kinds of actions.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Kind {
    /// Take a lock away from the holder with this field.
    Force { holder: String },
    /// Delete the object.
    Delete,
    /// Set the lifetime to the operator's input.
    Lifetime { text: String },
    /// Give back the permit with this id, the operator's input.
    Permit { id: String },
    /// Redrive dead letters.
    Redrive(DeadSelection),
    /// Remove dead letters.
    Remove(DeadSelection),
    /// Pause a reliable queue.
    Pause,
    /// Resume a reliable queue.
    Resume,
}

/// A complete action.
pub(super) enum Complete<'a> {
    Force(&'a str, &'a str),
    Delete(&'a [u8]),
    Lifetime(&'a [u8], Option<Duration>),
    Permit(&'a str, PermitId),
    Redrive(&'a str, DeadSelection),
    Remove(&'a str, DeadSelection),
    Pause(&'a str),
    Resume(&'a str),
}

/// Parameters that do not name an action.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub(super) enum InvalidIntent {
    #[error("the body is not the text of a form")]
    NotAForm,
    #[error(
        "the parameter `do` names no action: expected force, delete, lifetime, permit, redrive, remove, pause or resume"
    )]
    UnknownAction,
    #[error("the parameter `object` names no object: expected a name of 1 to {LONGEST} bytes")]
    InvalidObject,
    #[error("the parameter `object` is not UTF-8, which the names of locks, semaphores and queues are")]
    NotText,
    #[error("the parameter `holder` names no holder of the lock")]
    InvalidHolder,
    #[error("the parameter `id` names no message: expected up to {MAX_MARKED} ids of 16 digits, or `all`")]
    InvalidMessages,
}

impl Intent {
    /// Reads the parameters.
    pub(super) fn of(query: &Query) -> Result<Intent, InvalidIntent> {
        let object = bytes_of_field(query.get("object"));
        if object.is_empty() || object.len() > LONGEST {
            return Err(InvalidIntent::InvalidObject);
        }
        let kind = match query.get("do") {
            "force" => match query.get("holder") {
                "" => return Err(InvalidIntent::InvalidHolder),
                holder if holder.len() > LONGEST => return Err(InvalidIntent::InvalidHolder),
                holder => Kind::Force { holder: holder.to_owned() },
            },
            "delete" => Kind::Delete,
            "lifetime" => Kind::Lifetime { text: query.get("lifetime").trim().to_owned() },
            "permit" => Kind::Permit { id: query.get("id").trim().to_owned() },
            "redrive" => Kind::Redrive(selection(query)?),
            "remove" => Kind::Remove(selection(query)?),
            "pause" => Kind::Pause,
            "resume" => Kind::Resume,
            _ => return Err(InvalidIntent::UnknownAction),
        };
        let is_bytes = matches!(kind, Kind::Delete | Kind::Lifetime { .. });
        if !is_bytes && std::str::from_utf8(&object).is_err() {
            return Err(InvalidIntent::NotText);
        }
        Ok(Intent { object, kind })
    }

    /// Returns the name of the object.
    pub(super) fn object(&self) -> &[u8] {
        &self.object
    }

    /// Returns the name as text. That of an action that needs text is UTF-8.
    pub(super) fn text(&self) -> &str {
        std::str::from_utf8(&self.object).unwrap_or_default()
    }

    /// Returns the word of the parameter `do`.
    pub(super) fn word(&self) -> &'static str {
        match self.kind {
            Kind::Force { .. } => "force",
            Kind::Delete => "delete",
            Kind::Lifetime { .. } => "lifetime",
            Kind::Permit { .. } => "permit",
            Kind::Redrive(_) => "redrive",
            Kind::Remove(_) => "remove",
            Kind::Pause => "pause",
            Kind::Resume => "resume",
        }
    }

    /// Returns the title of its page.
    pub(super) fn title(&self) -> &'static str {
        match &self.kind {
            Kind::Force { .. } => "Take a lock away",
            Kind::Delete => "Delete an object",
            Kind::Lifetime { .. } => "Set the lifetime of an object",
            Kind::Permit { .. } => "Give a permit back",
            Kind::Redrive(_) => "Redrive dead letters",
            Kind::Remove(_) => "Remove dead letters",
            Kind::Pause => "Pause a queue",
            Kind::Resume => "Resume a queue",
        }
    }

    /// Returns the action; `None` if a field is missing or cannot be read.
    pub(super) fn complete(&self) -> Option<Complete<'_>> {
        let text = self.text();
        Some(match &self.kind {
            Kind::Force { holder } => Complete::Force(text, holder),
            Kind::Delete => Complete::Delete(&self.object),
            Kind::Lifetime { text } if text == "none" => Complete::Lifetime(&self.object, None),
            Kind::Lifetime { text } => {
                let lifetime = humantime::parse_duration(text).ok().filter(|lifetime| !lifetime.is_zero())?;
                Complete::Lifetime(&self.object, Some(lifetime))
            }
            Kind::Permit { id } => Complete::Permit(text, id.parse().ok()?),
            Kind::Redrive(selection) => Complete::Redrive(text, selection.clone()),
            Kind::Remove(selection) => Complete::Remove(text, selection.clone()),
            Kind::Pause => Complete::Pause(text),
            Kind::Resume => Complete::Resume(text),
        })
    }
}

impl Complete<'_> {
    /// Does the action.
    pub(super) async fn run(self, actions: &Actions, reason: &Reason) -> Result<ActionReport, ActionError> {
        match self {
            Complete::Force(lock, holder) => actions.force_release(lock, holder, reason).await,
            Complete::Delete(object) => actions.delete(object, reason).await,
            Complete::Lifetime(object, lifetime) => actions.set_lifetime(object, lifetime, reason).await,
            Complete::Permit(semaphore, id) => actions.return_permit(semaphore, id, reason).await,
            Complete::Redrive(queue, selection) => actions.redrive(queue, selection, reason).await,
            Complete::Remove(queue, selection) => actions.remove_dead(queue, selection, reason).await,
            Complete::Pause(queue) => actions.pause(queue, reason).await,
            Complete::Resume(queue) => actions.resume(queue, reason).await,
        }
    }
}

/// Returns the messages of `id=…&id=…`, or all of them for `id=all`.
fn selection(query: &Query) -> Result<DeadSelection, InvalidIntent> {
    if query.get("id") == "all" {
        return Ok(DeadSelection::All);
    }
    let ids: Result<Vec<MessageId>, _> = query.all("id").map(str::parse).collect();
    let ids = ids.map_err(|_| InvalidIntent::InvalidMessages)?;
    let is_valid = (1..=MAX_MARKED).contains(&ids.len());
    is_valid.then_some(DeadSelection::Marked(ids)).ok_or(InvalidIntent::InvalidMessages)
}

/// Returns the link to the page that asks for confirmation.
pub(crate) fn link(word: &str, object: &[u8], more: &[(&str, &str)]) -> String {
    let mut link = format!("action?do={word}&object={}", encoded_bytes(object));
    for (name, value) in more {
        link.push_str(&format!("&{name}={}", encoded(value)));
    }
    link
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(link: &str) -> Result<Intent, InvalidIntent> {
        Intent::of(&Query::read(link.split_once('?').map(|(_, query)| query)))
    }

    #[test]
    fn a_link_keeps_every_byte_of_the_name() {
        let name: Vec<u8> = (0..=255).collect();
        let intent = read(&link("delete", &name, &[])).unwrap();
        assert_eq!((intent.object(), &intent.kind), (&name[..], &Kind::Delete));
        let intent = read(&link("force", "a&b\r\n".as_bytes(), &[("holder", "x:1&y")])).unwrap();
        assert_eq!((intent.text(), intent.kind.clone()), ("a&b\r\n", Kind::Force { holder: "x:1&y".into() }));
        assert!(matches!(intent.complete(), Some(Complete::Force("a&b\r\n", "x:1&y"))));
    }

    #[test]
    fn parameters_that_are_no_action_are_refused() {
        for (query, invalid) in [
            ("?do=force&object=a", InvalidIntent::InvalidHolder),
            ("?do=flush&object=a", InvalidIntent::UnknownAction),
            ("?do=delete", InvalidIntent::InvalidObject),
            ("?do=permit&object=%25ff", InvalidIntent::NotText),
            ("?do=redrive&object=a", InvalidIntent::InvalidMessages),
            ("?do=redrive&object=a&id=1", InvalidIntent::InvalidMessages),
        ] {
            assert_eq!(read(query), Err(invalid), "{query}");
        }
        let long = format!("?do=delete&object={}", "a".repeat(LONGEST + 1));
        assert_eq!(read(&long), Err(InvalidIntent::InvalidObject));
        let many = format!("?do=remove&object=a{}", "&id=0000000000000001".repeat(MAX_MARKED + 1));
        assert_eq!(read(&many), Err(InvalidIntent::InvalidMessages));
    }

    #[test]
    fn fields_of_the_form_are_read() {
        let lifetime = |text: &str| {
            let intent = read(&link("lifetime", b"a", &[("lifetime", text)])).unwrap();
            match intent.complete() {
                Some(Complete::Lifetime(_, lifetime)) => Some(lifetime),
                _ => None,
            }
        };
        assert_eq!(lifetime("5min"), Some(Some(Duration::from_secs(300))));
        assert_eq!(
            (lifetime(" none "), lifetime(""), lifetime("soon"), lifetime("0s")),
            (Some(None), None, None, None)
        );
        let marked = read("?do=redrive&object=a&id=0000000000000001&id=0000000000000002").unwrap();
        assert!(matches!(marked.kind, Kind::Redrive(DeadSelection::Marked(ids)) if ids.len() == 2));
        assert_eq!(read("?do=remove&object=a&id=all").unwrap().kind, Kind::Remove(DeadSelection::All));
    }
}
