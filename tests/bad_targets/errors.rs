//! No error type of the workspace shows a value in its debug form, and each message contains its
//! cause.

use std::fs;
use std::path::{Path, PathBuf};

/// Types with a debug form that is readable for users: `1.5s`, and a text in quotes.
const READABLE: [&str; 2] = ["Duration", "String"];

/// Returns the source files of all crates.
fn sources() -> Vec<PathBuf> {
    let mut waiting = vec![Path::new(env!("CARGO_MANIFEST_DIR")).join("../crates")];
    let mut found = Vec::new();
    while let Some(path) = waiting.pop() {
        if path.is_dir() {
            waiting.extend(fs::read_dir(&path).expect("a folder").map(|entry| entry.expect("an entry").path()));
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            found.push(path);
        }
    }
    found
}

/// Returns each error message, from its attribute `#[error(…)]`, and the code between it and the
/// next one.
fn messages(source: &str) -> impl Iterator<Item = (&str, &str)> {
    source.split("#[error(").skip(1).filter_map(|rest| rest.split_once(")]"))
}

/// Returns the fields that a message shows in their debug form.
fn debug_fields(message: &str) -> impl Iterator<Item = &str> {
    message.split('{').skip(1).filter_map(|rest| {
        let (field, form) = rest.split('}').next()?.split_once(':')?;
        form.contains('?').then_some(field)
    })
}

/// Returns the type of a field in the code behind its message. A number is a position in a tuple.
fn type_of<'a>(field: &str, code: &'a str) -> Option<&'a str> {
    let is_end = |c: char| matches!(c, ',' | ')' | '}' | '\n');
    if let Ok(at) = field.parse::<usize>() {
        let fields = code.split_once('(')?.1.split(')').next()?;
        return fields.split(',').nth(at).map(|field| field.trim().trim_start_matches("pub "));
    }
    let named = format!("{field}: ");
    let at =
        code.match_indices(&named).find(|(at, _)| !code[..*at].ends_with(|c: char| c.is_alphanumeric() || c == '_'));
    code[at?.0 + named.len()..].split(is_end).next().map(str::trim)
}

#[test]
fn no_error_shows_a_value_in_its_debug_form() {
    let (mut seen, mut faults) = (0, Vec::new());
    for path in sources() {
        let source = fs::read_to_string(&path).expect("a source file");
        for (message, code) in messages(&source) {
            seen += 1;
            for field in debug_fields(message) {
                let found = type_of(field, code).unwrap_or("a type that was not found");
                if !READABLE.contains(&found) {
                    faults.push(format!("{}: {message}: `{field}` is {found}", path.display()));
                }
            }
        }
    }
    assert!(seen > 150, "{seen} messages: the search itself is wrong");
    assert!(faults.is_empty(), "{}", faults.join("\n"));
}

/// Returns whether an error has a cause that its message does not contain.
fn hides_its_cause(message: &str, code: &str) -> bool {
    // The next variant begins with its doc comment; the comments of fields are indented further.
    let end = [code.find("\n    ///"), code.find("\n}\n")].into_iter().flatten().min().unwrap_or(code.len());
    let has_cause = ["#[source]", "#[from]", " source: "].iter().any(|mark| code[..end].contains(mark));
    let shows_cause = ["transparent", "{source}", "{0}", "{why}"].iter().any(|mark| message.contains(mark));
    has_cause && !shows_cause
}

/// Each message contains its cause, so that code that prints only the outermost error shows
/// everything that is known.
#[test]
fn each_message_contains_its_cause() {
    let mut faults = Vec::new();
    for path in sources() {
        let source = fs::read_to_string(&path).expect("a source file");
        let hiding = messages(&source).filter(|(message, code)| hides_its_cause(message, code));
        faults.extend(hiding.map(|(message, _)| format!("{}: {message}", path.display())));
    }
    assert!(faults.is_empty(), "{}", faults.join("\n"));
}

#[test]
fn a_hidden_cause_is_found() {
    let source = r#"#[error("cannot go")] Late(#[from] Cause), #[error("cannot go: {0}")] Early(#[from] Cause),"#;
    let hidden: Vec<_> = messages(source).map(|(message, code)| hides_its_cause(message, code)).collect();
    assert_eq!(hidden, [true, false]);
}

#[test]
fn a_value_in_its_debug_form_is_found() {
    let source = r#"#[error("waited {waited:?} for {0} and {what:?}")] Late { waited: Duration, what: Vec<u8> },
                    #[error("gap: {0:?}")] pub struct Gap(pub Kind);"#;
    let found: Vec<_> = messages(source)
        .flat_map(|(message, code)| debug_fields(message).map(move |field| (field, type_of(field, code))))
        .collect();
    assert_eq!(found, [("waited", Some("Duration")), ("what", Some("Vec<u8>")), ("0", Some("Kind"))]);
}
