//! Compares what a program printed with its lines in `expected.txt`.

use libtest_mimic::Failed;

/// How the lines of a program are compared.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Order {
    /// The lines are in the order of the table.
    Given,
    /// The lines are in any order, because concurrent tasks print them.
    Any,
}

/// An expected line: `…` stands for any text. `3* text` is for three lines, `* text` for any number
/// of lines, also for none.
struct Expected<'a> {
    pattern: &'a str,
    /// How many lines are still missing; `None` if any number is allowed.
    missing: Option<usize>,
}

impl<'a> Expected<'a> {
    fn read(line: &'a str) -> Self {
        if let Some((count, pattern)) = line.split_once("* ") {
            if count.is_empty() {
                return Expected { pattern, missing: None };
            }
            if let Ok(count) = count.parse() {
                return Expected { pattern, missing: Some(count) };
            }
        }
        Expected { pattern: line, missing: Some(1) }
    }

    fn takes(&mut self, line: &str) -> bool {
        let takes = self.missing != Some(0) && fits(self.pattern, line);
        if takes {
            self.missing = self.missing.map(|missing| missing - 1);
        }
        takes
    }

    fn is_complete(&self) -> bool {
        self.missing.is_none_or(|missing| missing == 0)
    }
}

/// Compares all lines. Space at their beginning and end does not count.
pub(crate) fn compare(expected: &str, order: Order, printed: &str) -> Result<(), String> {
    let mut expected: Vec<_> =
        expected.lines().map(str::trim).filter(|line| !line.is_empty()).map(Expected::read).collect();
    let mut reached = 0;
    for line in printed.lines().map(str::trim).filter(|line| !line.is_empty()) {
        let taken = match order {
            Order::Any => expected.iter_mut().any(|one| one.takes(line)),
            Order::Given => loop {
                let Some(one) = expected.get_mut(reached) else { break false };
                if one.takes(line) {
                    break true;
                }
                if !one.is_complete() {
                    break false;
                }
                reached += 1;
            },
        };
        if !taken {
            return Err(format!("this line is not expected here: {line}"));
        }
    }
    match expected.iter().find(|one| !one.is_complete()) {
        Some(missing) => Err(format!("a line is missing: {}", missing.pattern)),
        None => Ok(()),
    }
}

/// Whether a line is the pattern, in which each `…` stands for any text.
fn fits(pattern: &str, line: &str) -> bool {
    let mut parts = pattern.split('…');
    let Some(mut rest) = line.strip_prefix(parts.next().unwrap_or_default()) else { return false };
    let Some(last) = parts.next_back() else { return rest.is_empty() };
    for part in parts {
        match rest.split_once(part) {
            Some((_, behind)) => rest = behind,
            None => return false,
        }
    }
    rest.ends_with(last)
}

pub(crate) fn other_lines_are_noticed() -> Result<(), Failed> {
    let table = "token …, left … s\n 2* worker …: done\n * step …\n end";
    let good = "token 7, left 3 s\nworker 1: done\nworker 2: done\nstep 1\nstep 2\n  end\n";
    let (given, any) = (|text: &str| compare(table, Order::Given, text), |text: &str| compare(table, Order::Any, text));
    assert_eq!((given(good), any(good)), (Ok(()), Ok(())));
    let turned = "end\nworker 2: done\nworker 1: done\ntoken 7, left 3 s";
    assert_eq!(any(turned), Ok(()));
    let unexpected = |line: &str| Err(format!("this line is not expected here: {line}"));
    assert_eq!(given(turned), unexpected("end"));
    assert_eq!(any("token 7, left 3 s\nthis must not happen"), unexpected("this must not happen"));
    assert_eq!(any(&good.replace("end", "end of it")), unexpected("end of it"));
    assert_eq!(given(&good.replace("3 s", "3 seconds")), unexpected("token 7, left 3 seconds"));
    let missing = |line: &str| Err(format!("a line is missing: {line}"));
    assert_eq!(given("token 7, left 3 s\nworker 1: done"), missing("worker …: done"));
    assert_eq!(any(&good.replace("worker 1: done\n", "")), missing("worker …: done"));
    assert_eq!(given(""), missing("token …, left … s"));
    Ok(())
}
