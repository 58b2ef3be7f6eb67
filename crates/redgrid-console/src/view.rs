//! The parts of an open page that change: parts by the id of their element, and rows of tables by
//! theirs.

use std::collections::BTreeMap;

use maud::{Markup, PreEscaped};
use serde::Serialize;
use sha1_smol::Sha1;

/// The live content of a page at one moment.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct View {
    /// The content of elements, by their ids.
    parts: BTreeMap<&'static str, String>,
    /// The rows of table bodies, by their ids.
    tables: BTreeMap<&'static str, Vec<Row>>,
}

/// A row of a table.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Row {
    id: String,
    html: String,
}

/// The message with what has changed.
#[derive(Debug, Serialize)]
pub(crate) struct Change<'a> {
    /// The time of this machine, in milliseconds since 1970, for countdowns.
    now: u64,
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    parts: BTreeMap<&'a str, &'a str>,
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    tables: BTreeMap<&'a str, TableChange<'a>>,
}

#[derive(Debug, Serialize)]
struct TableChange<'a> {
    /// The ids of all rows, in their order.
    order: Vec<&'a str>,
    /// The rows that are new or have changed.
    rows: BTreeMap<&'a str, &'a str>,
}

/// Returns the id of a row, which identifies what the row shows, not its content.
pub(crate) fn row_id(identity: &str) -> String {
    format!("r{}", &Sha1::from(identity).digest().to_string()[..16])
}

impl View {
    /// Sets the content of an element.
    pub(crate) fn part(&mut self, id: &'static str, content: Markup) {
        self.parts.insert(id, content.into_string());
    }

    /// Starts a table, which may stay empty.
    pub(crate) fn table(&mut self, id: &'static str) {
        self.tables.entry(id).or_default();
    }

    /// Adds a row, which must have this id.
    pub(crate) fn row(&mut self, table: &'static str, id: String, html: Markup) {
        self.tables.entry(table).or_default().push(Row { id, html: html.into_string() });
    }

    /// Returns the content of an element, for the page.
    pub(crate) fn get(&self, id: &str) -> Markup {
        PreEscaped(self.parts.get(id).cloned().unwrap_or_default())
    }

    /// Returns the rows of a table, for the page.
    pub(crate) fn rows(&self, table: &str) -> Markup {
        let rows = self.tables.get(table).map(Vec::as_slice).unwrap_or_default();
        PreEscaped(rows.iter().map(|row| row.html.as_str()).collect())
    }

    /// Returns the change from `old`, which the viewer has seen; `None` if nothing has changed.
    pub(crate) fn change_since<'a>(&'a self, old: &View, now: u64) -> Option<Change<'a>> {
        let changed = |(id, content): &(&&'static str, &String)| old.parts.get(**id) != Some(*content);
        let parts: BTreeMap<_, _> =
            self.parts.iter().filter(changed).map(|(id, content)| (*id, content.as_str())).collect();
        let mut tables = BTreeMap::new();
        for (id, rows) in &self.tables {
            let before = old.tables.get(id);
            if before == Some(rows) {
                continue;
            }
            let known: BTreeMap<&str, &str> =
                before.into_iter().flatten().map(|row| (row.id.as_str(), row.html.as_str())).collect();
            let is_new = |row: &&Row| known.get(row.id.as_str()) != Some(&row.html.as_str());
            let order = rows.iter().map(|row| row.id.as_str()).collect();
            let rows = rows.iter().filter(is_new).map(|row| (row.id.as_str(), row.html.as_str())).collect();
            tables.insert(*id, TableChange { order, rows });
        }
        (!parts.is_empty() || !tables.is_empty()).then_some(Change { now, parts, tables })
    }
}

#[cfg(test)]
mod tests {
    use maud::html;

    use super::*;

    fn view(status: &str, rows: &[(&str, &str)]) -> View {
        let mut view = View::default();
        view.part("status", html! { (status) });
        view.table("locks");
        for (id, text) in rows {
            view.row("locks", (*id).to_owned(), html! { (text) });
        }
        view
    }

    fn change(old: &View, new: &View) -> serde_json::Value {
        serde_json::to_value(new.change_since(old, 7)).unwrap()
    }

    #[test]
    fn only_what_changed_is_sent() {
        let old = view("live", &[("a", "1"), ("b", "2")]);
        assert_eq!(change(&old, &old), serde_json::Value::Null);
        assert_eq!(
            change(&old, &view("stale", &[("a", "1"), ("b", "2")])),
            serde_json::json!({"now": 7, "parts": {"status": "stale"}})
        );
        assert_eq!(
            change(&old, &view("live", &[("c", "0"), ("b", "3")])),
            serde_json::json!({"now": 7, "tables": {"locks": {"order": ["c", "b"], "rows": {"b": "3", "c": "0"}}}})
        );
        assert_eq!(
            change(&old, &view("live", &[])),
            serde_json::json!({"now": 7, "tables": {"locks": {"order": [], "rows": {}}}})
        );
        let all = change(&View::default(), &old);
        assert_eq!(all["tables"]["locks"]["rows"], serde_json::json!({"a": "1", "b": "2"}));
    }

    #[test]
    fn row_ids_are_ids() {
        let id = row_id("<b>\"");
        assert!(id.starts_with('r') && id.len() == 17 && id.bytes().all(|byte| byte.is_ascii_alphanumeric()));
        assert_ne!(id, row_id("<b>"));
    }
}
