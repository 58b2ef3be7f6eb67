//! Texts made from the table of settings: the values of a configuration, and the reference of all
//! settings.

use std::fmt::Write as _;

use super::draft::Draft;
use super::table::TABLE;
use super::{Config, Origin, check};

/// One setting of a configuration, with its value and the value's origin.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Explained {
    /// The name of the setting.
    pub name: &'static str,
    /// The value as text; secrets are shown as `***`. `None` if the setting has no value.
    pub value: Option<String>,
    /// The default value.
    pub default: Option<String>,
    /// The origin of the value.
    pub origin: Origin,
}

impl Config {
    /// Returns all settings with their values and origins, in the order of the reference.
    ///
    /// ```
    /// # fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// use redgrid_client::Config;
    ///
    /// let config = Config::from_url("redis://:secret@127.0.0.1?response_timeout=1s")?;
    /// let all = config.explain().into_iter();
    /// let changed: Vec<_> = all.filter(|one| one.value != one.default).collect();
    /// let names: Vec<_> = changed.iter().map(|one| one.name).collect();
    /// assert_eq!(names, ["single", "password", "response_timeout"]);
    /// assert_eq!(changed[1].value.as_deref(), Some("***"));
    /// assert_eq!(changed[2].origin.to_string(), "`response_timeout` in the URL");
    /// # Ok(()) }
    /// ```
    pub fn explain(&self) -> Vec<Explained> {
        let mut draft = Draft::from(self);
        let mut defaults = Draft::of_defaults();
        let explain = TABLE.iter().map(|setting| Explained {
            name: setting.name,
            value: setting.form.show(&mut draft),
            default: setting.form.show(&mut defaults),
            origin: check::origin(setting.name, &self.notes.origins),
        });
        explain.collect()
    }

    /// Returns the topology of the servers: `single`, `unix`, `master-slave`, `replicated`,
    /// `sentinel` or `cluster`.
    pub fn topology(&self) -> &'static str {
        match self.servers {
            super::Servers::Single(_) => "single",
            super::Servers::Unix(_) => "unix",
            super::Servers::MasterSlave(_) => "master-slave",
            super::Servers::Replicated(_) => "replicated",
            super::Servers::Sentinel(_) => "sentinel",
            super::Servers::Cluster(_) => "cluster",
        }
    }
}

/// Returns the reference of all settings in Markdown: the content of
/// docs/operating/configuration.md.
pub fn reference() -> String {
    let mut defaults = Draft::of_defaults();
    let mut text = include_str!("reference.md").to_owned();
    for group in TABLE.chunk_by(|one, next| one.group == next.group) {
        // Writing to a `String` cannot fail.
        let _ = write!(
            text,
            "\n### {}\n\n| setting | default | expected | description |\n|---|---|---|---|\n",
            group[0].group
        );
        for setting in group {
            let default = setting.form.show(&mut defaults).map_or_else(|| "none".into(), |text| format!("`{text}`"));
            let _ =
                writeln!(text, "| `{}` | {default} | {} | {} |", setting.name, setting.form.expected(), setting.about);
        }
    }
    text
}
