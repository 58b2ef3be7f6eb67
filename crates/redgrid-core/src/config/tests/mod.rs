mod bad;
mod files;
mod table;
mod urls;

use super::Config;

/// A setting's value as it would be written.
fn value(config: &Config, name: &str) -> Option<String> {
    config.explain().into_iter().find(|one| one.name == name).and_then(|one| one.value)
}
