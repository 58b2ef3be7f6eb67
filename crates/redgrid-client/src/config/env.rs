//! The environment: `REDGRID_CONFIG` is the path of a file, `REDGRID_URL` is a URL, and
//! `REDGRID_<SETTING>` is the value of one setting.

use std::collections::BTreeMap;

use super::error::{ConfigError, Origin};
use super::hints;
use super::layer::Layer;
use super::table::{names, setting};
use super::url;

const PREFIX: &str = "REDGRID_";

/// Names of redgrid's variables that are not settings; the prefix is left out. `redgrid lock` sets
/// `FENCING_TOKEN` for the program that it runs. Tests use the others.
const NOT_SETTINGS: [&str; 3] = ["FENCING_TOKEN", "REDIS_SERVER", "NEWEST_SERVER"];

/// Returns the value of a variable of this process.
#[cfg(feature = "config-files")]
pub(super) fn variable(name: &str) -> Option<String> {
    std::env::var(name).ok()
}

/// Returns the layers from these variables: first the layers of the file, then the layer of the
/// URL. The last layer has the variables of single settings.
pub(super) fn read(variables: &BTreeMap<String, String>) -> Result<Vec<Layer>, ConfigError> {
    let mut layers = Vec::new();
    // An empty variable is treated as unset, as in shells and compose files.
    let set = |name: &str| variables.get(name).filter(|value| !value.is_empty());
    if let Some(path) = set("REDGRID_CONFIG") {
        layers.extend(file(path, variables)?);
    }
    if let Some(text) = set("REDGRID_URL") {
        layers.push(url::read(text, "REDGRID_URL")?);
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
            Some(setting) => layer.set_one(setting.name, value, origin)?,
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
fn file(path: &str, variables: &BTreeMap<String, String>) -> Result<Vec<Layer>, ConfigError> {
    super::file::read(path.as_ref(), &|name| variables.get(name).cloned())
}

#[cfg(not(feature = "config-files"))]
fn file(_: &str, _: &BTreeMap<String, String>) -> Result<Vec<Layer>, ConfigError> {
    let origin = Origin::Variable { name: "REDGRID_CONFIG".into() };
    let clause = "names a file, and this program is built without the feature `config-files`".into();
    Err(ConfigError::Unsupported { origin, clause })
}
