//! Reads a file of requests. Invalid rows are recorded, and do not stop the sale.

use std::fs::File;
use std::io::{self, BufRead, BufReader};
use std::path::Path;

use csv::ByteRecord;
use serde::Serialize;

use super::requests::{COLUMNS, Request};
use crate::failure::Failure;

/// The content of a file.
#[derive(Debug, Default)]
pub(crate) struct Rows {
    /// The requests in the order of the file.
    pub(crate) requests: Vec<Request>,
    /// The invalid rows.
    pub(crate) bad: Vec<BadRow>,
}

/// An invalid row.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub(crate) struct BadRow {
    /// The line number in the file, from 1.
    pub(crate) line: u64,
    /// Why the row is invalid.
    pub(crate) why: String,
}

/// The longest user or product id in bytes. An id becomes part of a key, and a key has at most
/// 1,024 bytes.
const LONGEST_ID: usize = 256;

/// The largest quantity of one request. It exceeds every stock of this program, and sums do not
/// overflow.
const MOST_UNITS: u64 = 1_000_000_000;

/// Reads the file at `path`.
///
/// # Errors
///
/// A [`Failure`] if the file cannot be read, or contains no request.
pub(crate) fn read(path: &Path) -> Result<Rows, Failure> {
    let refuse = |why: String| Failure::usage(format!("cannot read requests from {}: {why}", path.display()));
    let file = File::open(path).map_err(|error| refuse(error.to_string()))?;
    let rows = read_from(BufReader::new(file)).map_err(|error| refuse(error.to_string()))?;
    match (rows.requests.is_empty(), rows.bad.first()) {
        (false, _) => Ok(rows),
        (true, None) => Err(refuse(format!("it is empty; expected rows of {}", COLUMNS.join(",")))),
        (true, Some(bad)) => {
            let count = rows.bad.len();
            let line = bad.line;
            let why = &bad.why;
            Err(refuse(format!("none of its {count} rows can be used; line {line}: {why}")))
        }
    }
}

/// Reads line by line, because no value may contain a line break. An unclosed quote therefore
/// affects only one row, and line numbers are exact.
fn read_from(mut file: impl BufRead) -> io::Result<Rows> {
    let mut rows = Rows::default();
    let mut first = true;
    let mut bytes = Vec::new();
    let mut line = 0;
    while file.read_until(b'\n', &mut bytes)? > 0 {
        line += 1;
        match record(&bytes) {
            Ok(None) => {}
            // The line of column names, if there is one.
            Ok(Some(record)) if std::mem::take(&mut first) && record.iter().eq(COLUMNS.map(str::as_bytes)) => {}
            Ok(Some(record)) => match request(&record) {
                Ok(request) => rows.requests.push(request),
                Err(why) => rows.bad.push(BadRow { line, why }),
            },
            Err(error) => rows.bad.push(BadRow { line, why: error.to_string() }),
        }
        bytes.clear();
    }
    Ok(rows)
}

/// Returns the cells of a line; `None` if it is blank.
fn record(line: &[u8]) -> Result<Option<ByteRecord>, csv::Error> {
    // Any number of cells is accepted here; the number is checked afterwards.
    let mut reader = csv::ReaderBuilder::new();
    reader.has_headers(false).flexible(true).trim(csv::Trim::All).buffer_capacity(line.len());
    reader.from_reader(line).into_byte_records().next().transpose()
}

fn request(record: &ByteRecord) -> Result<Request, String> {
    let cells: Vec<&[u8]> = record.iter().collect();
    let [user, product, quantity] = cells[..] else {
        return Err(format!("expected 3 columns ({}), got {}", COLUMNS.join(","), cells.len()));
    };
    let user = id("user_id", user)?;
    let product = id("product_id", product)?;
    if product.contains(['{', '}']) {
        return Err("product_id must not contain braces, which have a meaning in keys".into());
    }
    let shown = String::from_utf8_lossy(quantity);
    let quantity = shown.parse::<u64>().ok().filter(|units| (1..=MOST_UNITS).contains(units));
    let quantity = quantity.ok_or_else(|| {
        let shown: String = shown.chars().take(40).collect();
        format!("quantity must be a whole number from 1 to {MOST_UNITS}, got {shown:?}")
    })?;
    Ok(Request { user: user.into(), product: product.into(), quantity })
}

fn id<'a>(column: &str, cell: &'a [u8]) -> Result<&'a str, String> {
    let text = std::str::from_utf8(cell).map_err(|_| format!("{column} is not UTF-8"))?;
    if text.is_empty() {
        return Err(format!("{column} is empty"));
    }
    if text.len() > LONGEST_ID {
        return Err(format!("{column} has {} bytes, more than {LONGEST_ID}", text.len()));
    }
    if text.contains(char::is_control) {
        return Err(format!("{column} contains a control character"));
    }
    Ok(text)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn column_names_are_optional_and_spaces_and_quotes_are_understood() {
        let with = read_from(&b"user_id, product_id ,quantity\r\nann,lamp,2\r\n"[..]).unwrap();
        let without = read_from(&b"ann,\"lamp\",2\n\n"[..]).unwrap();
        let ann = Request { user: "ann".into(), product: "lamp".into(), quantity: 2 };
        assert_eq!(with.requests, without.requests);
        assert!(with.bad.is_empty());
        assert_eq!(without.requests, [ann]);
    }

    #[test]
    fn every_bad_row_is_noted_with_its_line_and_its_fault() {
        let file =
            b"ann,lamp,2\nann,lamp\na,b,c,d\n\nann,lamp,0\nann,lamp,-1\nann,lamp,many\nann,,1\n,lamp,1\n\xff,lamp,1\n\
                     ann,la{mp,1\nann,lamp,99999999999999999999\nann,\"two\nlines\",1\r\nb\tb,lamp,1\nbob,lamp,1";
        let rows = read_from(&file[..]).unwrap();
        assert_eq!(rows.requests.len(), 2);
        let told: Vec<_> = rows.bad.iter().map(|bad| (bad.line, bad.why.as_str())).collect();
        let units = "quantity must be a whole number from 1 to 1000000000, got";
        let want = [
            (2, "expected 3 columns (user_id,product_id,quantity), got 2"),
            (3, "expected 3 columns (user_id,product_id,quantity), got 4"),
            (5, &format!("{units} \"0\"")),
            (6, &format!("{units} \"-1\"")),
            (7, &format!("{units} \"many\"")),
            (8, "product_id is empty"),
            (9, "user_id is empty"),
            (10, "user_id is not UTF-8"),
            (11, "product_id must not contain braces, which have a meaning in keys"),
            (12, &format!("{units} \"99999999999999999999\"")),
            (13, "expected 3 columns (user_id,product_id,quantity), got 2"),
            (14, "expected 3 columns (user_id,product_id,quantity), got 2"),
            (15, "user_id contains a control character"),
        ];
        assert_eq!(told, want);
    }
}
