//! Runs programs that measure, reads their lines of JSON, and formats tables of them.

use std::{
    path::Path,
    process::{Command, Stdio},
    thread,
    time::{Duration, Instant},
};

use serde_json::Value;

use crate::steps::{Failure, not_run};

/// Returns the last line that a program printed, and whether it succeeded; `None` if it printed no
/// line in time.
pub(crate) fn line(command: &mut Command, within: Duration) -> Result<Option<(String, bool)>, Failure> {
    let child = command.stdin(Stdio::null()).stdout(Stdio::piped()).spawn();
    let mut child = child.map_err(|source| not_run(command, source))?;
    let began = Instant::now();
    while matches!(child.try_wait(), Ok(None)) {
        if began.elapsed() > within {
            // `cargo run` replaces its process with that of the program, and the program's servers
            // end with it.
            let _ = child.kill();
        }
        thread::sleep(Duration::from_millis(100));
    }
    let output = child.wait_with_output().map_err(|source| not_run(command, source))?;
    let text = String::from_utf8_lossy(&output.stdout);
    Ok(text.lines().last().map(|line| (line.to_owned(), output.status.success())))
}

/// Returns the text of the value at a path in a line of JSON.
pub(crate) fn cell(row: &Value, path: &str) -> String {
    match row.pointer(path) {
        Some(Value::String(text)) => text.clone(),
        Some(value) => value.to_string(),
        None => "-".to_owned(),
    }
}

/// Formats rows of cells, each column as wide as its widest cell.
pub(crate) fn table(rows: &[Vec<String>]) -> String {
    let width = |column: usize| {
        let cells = rows.iter().filter_map(|row| row.get(column));
        cells.map(|cell| cell.chars().count()).max().unwrap_or_default()
    };
    let line = |row: &Vec<String>| {
        let cells = row.iter().enumerate().map(|(column, cell)| format!("{cell:>width$}", width = width(column)));
        cells.collect::<Vec<_>>().join("  ")
    };
    rows.iter().map(line).collect::<Vec<_>>().join("\n")
}

/// Writes a text into a page, between two marker lines.
pub(crate) fn put_between(page: &Path, (begin, end): (&str, &str), text: &str) -> Result<(), Failure> {
    let files = |source| Failure::Files { path: page.to_owned(), source };
    let whole = std::fs::read_to_string(page).map_err(files)?;
    let parts = whole.split_once(begin).and_then(|(head, rest)| Some((head, rest.split_once(end)?.1)));
    let Some((head, tail)) = parts else {
        let lines = std::io::Error::other(format!("it does not have the lines {begin} and {end}"));
        return Err(files(lines));
    };
    std::fs::write(page, format!("{head}{begin}\n\n{text}\n{end}{tail}")).map_err(files)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_row_has_a_cell_for_each_heading_below_it() {
        let row = serde_json::json!({ "topology": "cluster", "first_grant_ms": { "p99": 12.5 } });
        let cells = ["/topology", "/first_grant_ms/p99", "/missing"].map(|path| cell(&row, path));
        let table = table(&[["deployment", "p99", "max"].map(str::to_owned).to_vec(), cells.to_vec()]);
        assert_eq!(table, "deployment   p99  max\n   cluster  12.5    -");
    }
}
