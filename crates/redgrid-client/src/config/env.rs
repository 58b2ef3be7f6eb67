//! The environment: `REDGRID_CONFIG` is the path of a file, `REDGRID_URL` is a URL, and
//! `REDGRID_<SETTING>` is the value of one setting.

use std::collections::BTreeMap;
use std::ffi::{OsStr, OsString};

use super::error::{ConfigError, Origin};
use super::hints;
use super::layer::Layer;
use super::table::{names, setting};
use super::url;

const PREFIX: &str = "REDGRID_";

/// Names of redgrid's variables that are not settings; the prefix is left out. `redgrid lock` sets
/// `FENCING_TOKEN` for the program that it runs. Tests use the others.
const NOT_SETTINGS: [&str; 3] = ["FENCING_TOKEN", "REDIS_SERVER", "NEWEST_SERVER"];

/// Returns the value of a variable of this process; `None` if it is not set.
#[cfg(feature = "config-files")]
pub(super) fn variable(name: &str) -> Result<Option<String>, ConfigError> {
    std::env::var_os(name).map(|value| text(name, &value).map(str::to_owned)).transpose()
}

/// Returns the text of a variable. Text that is not UTF-8 is an error: a password with replacement
/// characters would be another password.
fn text<'a>(name: &str, value: &'a OsStr) -> Result<&'a str, ConfigError> {
    let not_utf8 = || ConfigError::Value {
        origin: Origin::Variable { name: name.to_owned() },
        expected: "text in UTF-8".to_owned(),
    };
    value.to_str().ok_or_else(not_utf8)
}

/// Returns the layers from these variables: first the layers of the file, then the layer of the
/// URL. The last layer has the variables of single settings.
pub(super) fn read(variables: &BTreeMap<String, OsString>) -> Result<Vec<Layer>, ConfigError> {
    let mut layers = Vec::new();
    // An empty variable is treated as unset, as in shells and compose files.
    let set = |name: &str| variables.get(name).filter(|value| !value.is_empty());
    if let Some(path) = set("REDGRID_CONFIG") {
        layers.extend(file(path, variables)?);
    }
    if let Some(value) = set("REDGRID_URL") {
        layers.push(url::read(text("REDGRID_URL", value)?, "REDGRID_URL")?);
    }
    let mut layer = Layer::default();
    for (variable, value) in variables {
        let Some(rest) = variable.strip_prefix(PREFIX) else { continue };
        if matches!(rest, "CONFIG" | "URL") || NOT_SETTINGS.contains(&rest) || value.is_empty() {
            continue;
        }
        let origin = Origin::Variable { name: variable.clone() };
        let name = rest.to_ascii_lowercase();
        match setting(&name) {
            Some(setting) => layer.set_one(setting.name, text(variable, value)?, origin)?,
            None => match hints::unknown(&name, origin, names().chain(["url", "config"])) {
                ConfigError::Unknown { origin, nearest: None } => layer.warn(origin, "is no setting"),
                mistyped => return Err(mistyped),
            },
        }
    }
    layers.push(layer);
    Ok(layers)
}

#[cfg(feature = "config-files")]
fn file(path: &OsStr, variables: &BTreeMap<String, OsString>) -> Result<Vec<Layer>, ConfigError> {
    let variable = |name: &str| variables.get(name).map(|value| text(name, value).map(str::to_owned)).transpose();
    super::file::read(path.as_ref(), &variable)
}

#[cfg(not(feature = "config-files"))]
fn file(_: &OsStr, _: &BTreeMap<String, OsString>) -> Result<Vec<Layer>, ConfigError> {
    let origin = Origin::Variable { name: "REDGRID_CONFIG".into() };
    let clause = "names a file, and this program is built without the feature `config-files`".into();
    Err(ConfigError::Unsupported { origin, clause })
}
