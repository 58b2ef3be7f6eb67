//! `redgrid completions` and `redgrid man`, and the help of commands.

use std::fs;
use std::process::Command;

use crate::support::run;

#[test]
fn completions_are_scripts_of_their_shells_that_know_the_commands() {
    for (shell, marks) in [
        ("bash", ["complete -F _redgrid", "redrive"]),
        ("zsh", ["#compdef redgrid", "redrive"]),
        ("fish", ["complete -c redgrid", "redrive"]),
        ("powershell", ["Register-ArgumentCompleter", "redrive"]),
    ] {
        let ended = run(&["completions", shell]);
        assert_eq!((ended.code(), ended.stderr().as_str()), (0, ""), "{shell}");
        let script = ended.stdout();
        assert!(marks.iter().all(|mark| script.contains(mark)), "{shell}: {script}");
        assert!(!script.contains("sale-worker") && script.contains("flash-sale"), "{shell}");
        assert!(["url-file", "color", "context"].iter().all(|word| script.contains(word)), "{shell}");
    }
}

/// Lets bash complete a line, and returns the words that it offers.
fn completed(words: &[&str]) -> Vec<String> {
    let script = "source <(\"$0\" completions bash); COMP_WORDS=(\"$@\"); COMP_CWORD=$(($# - 1)); \
                  _redgrid redgrid \"${COMP_WORDS[COMP_CWORD]}\" \"${COMP_WORDS[COMP_CWORD-1]}\"; \
                  printf '%s\\n' \"${COMPREPLY[@]}\"";
    let mut command = Command::new("bash");
    command.args(["-c", script, env!("CARGO_BIN_EXE_redgrid")]).args(words);
    let output = command.output().expect("bash runs");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).expect("text").lines().map(str::to_owned).collect()
}

#[test]
fn bash_completes_commands_options_and_values() {
    let offered = completed(&["redgrid", "queue", "re"]);
    assert_eq!(offered, ["redrive"]);
    assert!(completed(&["redgrid", "ls", "--col"]).contains(&"--columns".to_owned()));
    assert_eq!(completed(&["redgrid", "ls", "--output", "js"]), ["json", "jsonl"]);
}

#[test]
fn each_command_has_a_page_with_its_options_and_the_exit_codes() {
    let folder = tempfile::tempdir().expect("a folder");
    let below = folder.path().join("share/man1");
    let path = below.to_str().expect("text");
    let ended = run(&["man", path]);
    assert_eq!(ended.code(), 0, "{}", ended.stderr());
    let mut pages: Vec<String> = fs::read_dir(&below)
        .expect("a folder")
        .map(|entry| entry.expect("an entry").file_name().into_string().expect("text"))
        .collect();
    pages.sort();
    for page in ["redgrid.1", "redgrid-ls.1", "redgrid-queue-peek.1", "redgrid-context-set.1", "redgrid-wait.1"] {
        assert!(pages.iter().any(|one| one == page), "{page} in {pages:?}");
    }
    assert!(!pages.iter().any(|page| page.contains("sale-worker")), "{pages:?}");
    let text = fs::read_to_string(below.join("redgrid-wait.1")).expect("a page");
    assert!(text.contains("\\-\\-timeout") && text.contains("lacks a permission"), "{text}");
    let unwritable = run(&["man", "/proc/no/such"]);
    assert!(unwritable.code() == 2 && unwritable.stderr().contains("/proc/no/such"), "{}", unwritable.stderr());
}

#[test]
fn the_help_of_each_command_has_the_options_of_all_and_the_exit_codes() {
    for line in ["ls", "clients", "queue redrive", "lock", "context list", "demo flash-sale", "unlock", "bench", "man"]
    {
        let arguments: Vec<_> = line.split(' ').chain(["--help"]).collect();
        let help = run(&arguments).stdout();
        for words in
            ["--timeout <DURATION>", "--quiet", "--color <WHEN>", "--context <NAME>", "Options of all commands:"]
        {
            assert!(help.contains(words), "{line}: {help}");
        }
        assert_eq!(help.matches("Exit codes:").count(), 1, "{line}: {help}");
        assert!(help.contains("\n  77        the user of the servers lacks a permission\n"), "{line}: {help}");
    }
}
