//! Layers of values: file, URL, environment. Each layer overrides the layers before it.

use super::draft::Draft;
use super::error::{ConfigError, Origin, Warning};
use super::form::{Form, Value};
use super::hints;
use super::table::{SERVERS, Setting, names, setting};
use super::{Config, Notes};

/// The values of one source.
#[derive(Default)]
pub(super) struct Layer {
    assignments: Vec<Assignment>,
    pub(super) warnings: Vec<Warning>,
    pub(super) codec: Option<String>,
    /// Whether this layer says which servers to use. If so, all server settings of earlier layers
    /// are dropped, even those that this layer does not set.
    pub(super) names_servers: bool,
}

struct Assignment {
    setting: &'static Setting,
    value: Value,
    origin: Origin,
}

impl Layer {
    /// Creates an empty layer, to which the caller adds the servers to use.
    pub(super) fn of_servers() -> Self {
        Layer { names_servers: true, ..Layer::default() }
    }

    /// Adds a value.
    ///
    /// # Errors
    ///
    /// [`ConfigError::Unknown`] if there is no such setting, [`ConfigError::Relation`] if this
    /// layer already has a value for the setting.
    pub(super) fn set(&mut self, name: &str, value: Value, origin: Origin) -> Result<(), ConfigError> {
        let Some(setting) = setting(name) else {
            return Err(hints::unknown(name, origin, names().chain(["url"])));
        };
        if let Some(first) = self.assignments.iter().find(|assignment| assignment.setting.name == name) {
            let left = first.origin.to_string();
            let right = origin.to_string();
            return Err(ConfigError::Relation { left, right, rule: "they set the same value" });
        }
        self.assignments.push(Assignment { setting, value, origin });
        Ok(())
    }

    /// Adds a value that is one text.
    pub(super) fn set_one(&mut self, name: &str, text: impl Into<String>, origin: Origin) -> Result<(), ConfigError> {
        self.set(name, Value::One(text.into()), origin)
    }

    pub(super) fn warn(&mut self, origin: Origin, clause: impl Into<String>) {
        self.warnings.push(Warning { origin, clause: clause.into() });
    }

    /// Adds the values of another source. Neither source overrides the other: it is an error if
    /// both set the same setting.
    #[cfg(feature = "config-files")]
    pub(super) fn join(&mut self, other: Layer) -> Result<(), ConfigError> {
        for Assignment { setting, value, origin } in other.assignments {
            self.set(setting.name, value, origin)?;
        }
        self.warnings.extend(other.warnings);
        self.names_servers |= other.names_servers;
        Ok(())
    }
}

/// Merges the layers into a configuration. Later layers override earlier ones.
///
/// # Errors
///
/// [`ConfigError`] if a value is invalid, or values contradict each other. The error names the
/// origins.
pub(super) fn assemble(layers: impl IntoIterator<Item = Layer>) -> Result<Config, ConfigError> {
    let mut assignments: Vec<Assignment> = Vec::new();
    let mut notes = Notes::default();
    for layer in layers {
        if layer.names_servers {
            assignments.retain(|assignment| assignment.setting.group != SERVERS);
        }
        for assignment in layer.assignments {
            assignments.retain(|lower| lower.setting.name != assignment.setting.name);
            assignments.push(assignment);
        }
        notes.warnings.extend(layer.warnings);
        notes.codec = layer.codec.or(notes.codec);
    }
    let mut draft = Draft::of_defaults();
    for Assignment { setting, value, origin } in assignments {
        setting.form.read(&value, &mut draft).map_err(|expected| ConfigError::value(&origin, expected))?;
        // A switch that is off, such as `tls: false`, is treated as unset.
        let unset = matches!(&setting.form, Form::Switch(at) if !*at(&mut draft));
        if !unset {
            notes.origins.insert(setting.name, origin);
        }
    }
    draft.finish(notes)
}
