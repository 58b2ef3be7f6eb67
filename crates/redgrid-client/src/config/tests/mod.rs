mod bad;
mod files;
mod table;
mod urls;

use super::Config;

/// Returns a setting's value as text.
fn value(config: &Config, name: &str) -> Option<String> {
    config.explain().into_iter().find(|one| one.name == name).and_then(|one| one.value)
}
