//! Invalid usage, and missing servers and files.

use std::fs;
use std::path::{Path, PathBuf};

use crate::support::{redgrid, run};

#[test]
fn an_unknown_server_gives_exit_code_69_and_one_sentence() {
    // Port 1 of the loopback address: the kernel rejects the connection at once.
    let ended = run(&["demo", "flash-sale", "--url", "redis://127.0.0.1:1"]);
    assert_eq!(ended.code(), 69, "{}", ended.stderr());
    let told = ended.stderr();
    assert_eq!(told.lines().count(), 1, "{told}");
    assert!(
        told.starts_with("redgrid: cannot work with the server at 127.0.0.1:1; start it, or check --url: "),
        "{told}"
    );
    assert_eq!(ended.stdout(), "");
}

#[test]
fn every_command_gives_exit_code_69_without_a_server() {
    for line in [
        "lock job -- echo ran",
        "lock job --wait 0s -- echo ran",
        "inspect job",
        "ls",
        "clients",
        "unlock --reason test --force job",
        "top --once",
        "wait job --free",
        "wait job --free --timeout 1ms",
        "queue ls",
        "queue counts mail",
        "queue peek mail",
        "queue redrive mail --all",
    ] {
        // The timeout of `wait` is that of the lock.
        let timeout: &[&str] = if line.starts_with("wait") { &[] } else { &["--timeout", "300ms"] };
        let words: Vec<_> = line.split(' ').collect();
        let ended = run(&[&["--url", "redis://127.0.0.1:1"], timeout, &words[..]].concat());
        assert_eq!((ended.code(), ended.stdout().as_str()), (69, ""), "{line}: {}", ended.stderr());
        assert!(ended.stderr().starts_with("redgrid: cannot work with the server at 127.0.0.1:1"), "{line}");
    }
}

#[test]
fn the_server_may_be_named_by_the_environment() {
    let output = redgrid(&["demo", "flash-sale"]).env("REDGRID_URL", "redis://127.0.0.1:1").output().expect("it runs");
    assert_eq!(output.status.code(), Some(69));
}

#[test]
fn bad_usage_gives_exit_code_2_and_says_what_is_wrong() {
    for (line, word) in [
        ("demo flash-sale --stock 0", "--stock"),
        ("demo flash-sale --processes 33", "--processes"),
        ("demo flash-sale --lock wooden", "wooden"),
        ("demo flash-sale --requests /no/such/file", "/no/such/file"),
        ("demo flash-sale --requests /no/such/file --seed 3", "--seed"),
        ("demo flash-sale --url http://127.0.0.1", "redis"),
        ("demo sale-worker", "flash-sale"),
        ("demo nothing", "nothing"),
        ("demo flash-sale --kill-one --processes 1", "--processes"),
        ("demo flash-sale --kill-one --lock none", "--kill-one"),
        ("lock job -- true", "REDGRID_URL"),
        ("inspect job", "REDGRID_URL"),
        ("ls", "REDGRID_URL"),
        ("clients", "REDGRID_URL"),
        ("ls --kind locks --url redis://127.0.0.1:1", "rw"),
        ("clients --timeout 1 --url redis://127.0.0.1:1", "--timeout"),
        ("clients --answer-timeout 1 --url redis://127.0.0.1:1", "--answer-timeout"),
        ("ls --color red", "--color"),
        ("wait job", "--free"),
        ("wait job --free", "REDGRID_URL"),
        ("top --once --for 1s", "--for"),
        ("top --rows 0", "--rows"),
        ("watch job --poll --subscribe", "--subscribe"),
        ("doctor --fail-on ok", "--fail-on"),
        ("queue", "Usage"),
        ("queue counts", "NAME"),
        ("queue counts a{b --url redis://127.0.0.1:1", "hash tag"),
        ("queue peek mail --max 1001", "--max"),
        ("queue peek mail --id 7", "16 digits"),
        ("queue redrive mail", "--id"),
        ("queue redrive mail --all --id 0000000000000001", "--all"),
        ("completions tcsh", "tcsh"),
        ("man", "FOLDER"),
        ("context", "Usage"),
        ("unlock --reason test --force job", "REDGRID_URL"),
        ("unlock --reason test job", "--force"),
        ("unlock --force job", "--reason"),
        ("lock job", "COMMAND"),
        ("lock job true", "true"),
        ("lock job --wait 5 -- true", "--wait"),
        ("lock job --url http://127.0.0.1 -- true", "redis"),
        ("inspect a{b --url redis://127.0.0.1:1", "hash tag"),
        ("inspect job --namespace {x} --url redis://127.0.0.1:1", "namespace"),
        ("", "Usage"),
    ] {
        let ended = run(&line.split(' ').filter(|word| !word.is_empty()).collect::<Vec<_>>());
        assert_eq!(ended.code(), 2, "{line}: {}", ended.stderr());
        assert!(ended.stderr().contains(word), "{line}: {}", ended.stderr());
        assert_eq!(ended.stdout(), "", "{line}");
    }
}

#[test]
fn a_file_without_a_usable_row_is_refused() {
    let file = tempfile::NamedTempFile::new().expect("a temporary file");
    let path = file.path().to_str().expect("a path of ASCII");
    let empty = run(&["demo", "flash-sale", "--requests", path]);
    assert_eq!((empty.code(), empty.stderr().contains("it is empty")), (2, true), "{}", empty.stderr());
    std::fs::write(path, "what,is\nthis\n").expect("it can be written");
    let useless = run(&["demo", "flash-sale", "--requests", path]);
    let told = useless.stderr();
    assert_eq!((useless.code(), told.contains("none of its 2 rows can be used; line 1: ")), (2, true), "{told}");
}

#[test]
fn help_shows_what_works_and_hides_the_worker() {
    let help = run(&["demo", "--help"]);
    assert_eq!(help.code(), 0);
    let text = help.stdout();
    assert!(text.contains("flash-sale") && text.contains("requests") && !text.contains("sale-worker"), "{text}");
    let sale = run(&["demo", "flash-sale", "--help"]).stdout();
    assert!(sale.contains("Exit codes:") && sale.contains("REDGRID_URL"), "{sale}");
}

#[test]
fn a_short_timeout_ends_the_attempt_to_reach_a_server() {
    // An address of a network that no machine has: packets to it are dropped or refused.
    let began = std::time::Instant::now();
    let ended = run(&["ls", "--timeout", "300ms", "--url", "redis://192.0.2.1"]);
    assert_eq!((ended.code(), ended.stdout().as_str()), (69, ""), "{}", ended.stderr());
    assert!(began.elapsed() < std::time::Duration::from_secs(4), "{:?}", began.elapsed());
}

/// Collects the Markdown pages below a folder.
fn pages(of: &Path, found: &mut Vec<PathBuf>) {
    for entry in fs::read_dir(of).expect("a folder").map(|entry| entry.expect("an entry").path()) {
        if entry.is_dir() {
            pages(&entry, found);
        } else if entry.extension().is_some_and(|end| end == "md") {
            found.push(entry);
        }
    }
}

/// Parses the `redgrid` commands of all pages. A test of the package `xtask` parses the other
/// commands.
#[test]
fn each_command_of_the_pages_is_understood() {
    let workspace = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let mut all = vec![workspace.join("README.md"), workspace.join("crates/redgrid-cli/README.md")];
    pages(&workspace.join("docs"), &mut all);
    let mut commands = 0;
    for page in all {
        let text = fs::read_to_string(&page).expect("a page");
        for block in text.split("\n```sh\n").skip(1).filter_map(|rest| rest.split("\n```").next()) {
            for line in block.lines().filter_map(|line| line.strip_prefix("redgrid ")) {
                commands += 1;
                // `--help` takes effect only if all options before it are valid.
                let options = line.split(" -- ").next().unwrap_or_default();
                let mut words: Vec<_> = options.split_whitespace().collect();
                words.push("--help");
                let ended = run(&words);
                assert_eq!(ended.code(), 0, "{}: {line}: {}", page.display(), ended.stderr());
            }
        }
    }
    assert!(commands >= 3, "{commands} commands");
}
