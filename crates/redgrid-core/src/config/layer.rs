//! Layers of values, one over the other: file, URL, environment.

use super::draft::Draft;
use super::error::{ConfigError, Origin, Warning};
use super::form::{Form, Value};
use super::hints;
use super::table::{Group, Setting, names, setting};
use super::{Config, Notes};

/// What one source says.
#[derive(Default)]
pub(super) struct Layer {
    entries: Vec<Entry>,
    pub(super) warnings: Vec<Warning>,
    pub(super) codec: Option<String>,
    /// Names the servers as a whole: what lower layers say of them is forgotten.
    pub(super) names_servers: bool,
}

struct Entry {
    setting: &'static Setting,
    value: Value,
    origin: Origin,
}

impl Layer {
    /// An empty layer that names the servers as a whole.
    pub(super) fn of_servers() -> Self {
        Layer { names_servers: true, ..Layer::default() }
    }

    /// Adds a value.
    ///
    /// # Errors
    ///
    /// [`ConfigError::Unknown`] where there is no such setting, [`ConfigError::Relation`] where it has a value in this layer.
    pub(super) fn set(&mut self, name: &str, value: Value, origin: Origin) -> Result<(), ConfigError> {
        let Some(setting) = setting(name) else {
            return Err(hints::unknown(name, origin, names().chain(["url"])));
        };
        if let Some(first) = self.entries.iter().find(|entry| entry.setting.name == name) {
            let (left, right) = (first.origin.to_string(), origin.to_string());
            return Err(ConfigError::Relation { left, right, rule: "they set the same" });
        }
        self.entries.push(Entry { setting, value, origin });
        Ok(())
    }

    /// The same for a value that is one text.
    pub(super) fn set_one(&mut self, name: &str, text: impl Into<String>, origin: Origin) -> Result<(), ConfigError> {
        self.set(name, Value::One(text.into()), origin)
    }

    pub(super) fn warn(&mut self, origin: Origin, clause: impl Into<String>) {
        self.warnings.push(Warning { origin, clause: clause.into() });
    }

    /// Takes over what another source of the same rank says.
    #[cfg(feature = "config-files")]
    pub(super) fn join(&mut self, other: Layer) -> Result<(), ConfigError> {
        for Entry { setting, value, origin } in other.entries {
            self.set(setting.name, value, origin)?;
        }
        self.warnings.extend(other.warnings);
        self.names_servers |= other.names_servers;
        Ok(())
    }
}

/// The configuration that the layers mean together, later ones over earlier ones.
///
/// # Errors
///
/// [`ConfigError`] names the value and its place.
pub(super) fn assemble(layers: impl IntoIterator<Item = Layer>) -> Result<Config, ConfigError> {
    let mut entries: Vec<Entry> = Vec::new();
    let mut notes = Notes::default();
    for layer in layers {
        if layer.names_servers {
            entries.retain(|entry| entry.setting.group != Group::Servers);
        }
        for entry in layer.entries {
            entries.retain(|lower| lower.setting.name != entry.setting.name);
            entries.push(entry);
        }
        notes.warnings.extend(layer.warnings);
        notes.codec = layer.codec.or(notes.codec);
    }
    let mut draft = Draft::default();
    for Entry { setting, value, origin } in entries {
        setting.form.read(&value, &mut draft).map_err(|expected| ConfigError::value(&origin, expected))?;
        // `tls: false` and the like are no values of their own.
        let unset = matches!(&setting.form, Form::Switch(at) if !*at(&mut draft));
        if !unset {
            notes.origins.insert(setting.name, origin);
        }
    }
    draft.finish(notes)
}
