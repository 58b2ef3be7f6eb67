//! Reads `expected.txt`: each program with its servers and the lines that it prints.

use crate::deployment::Servers;
use crate::expected::Order;

/// A program and its outcome.
pub(crate) struct Example {
    pub(crate) name: &'static str,
    pub(crate) servers: Servers,
    pub(crate) order: Order,
    /// The lines, in the notation of `expected.txt`.
    pub(crate) prints: String,
}

impl Example {
    /// Reads the line that begins a program: `== name [what it needs]`.
    fn begin(header: &'static str) -> Example {
        let (name, needs) = header.strip_suffix(']').and_then(|rest| rest.split_once(" [")).unwrap_or((header, ""));
        let mut example = Example { name, servers: Servers::Single, order: Order::Given, prints: String::new() };
        for need in needs.split(", ").filter(|need| !need.is_empty()) {
            match need {
                "newest" => example.servers = Servers::Newest,
                "quorum" => example.servers = Servers::Quorum,
                "sentinels" => example.servers = Servers::Sentinels,
                "cluster" => example.servers = Servers::Cluster,
                "any order" => example.order = Order::Any,
                other => panic!("expected.txt: `{name}` needs `{other}`, which is not known"),
            }
        }
        example
    }
}

/// Returns all programs, in the order of the file.
pub(crate) fn examples() -> Vec<Example> {
    let mut examples: Vec<Example> = Vec::new();
    for line in include_str!("expected.txt").lines().filter(|line| !line.is_empty() && !line.starts_with('#')) {
        match (line.strip_prefix("== "), examples.last_mut()) {
            (Some(header), _) => examples.push(Example::begin(header)),
            (None, Some(example)) => example.prints.extend([line, "\n"]),
            (None, None) => panic!("expected.txt: `{line}` belongs to no program"),
        }
    }
    examples
}
