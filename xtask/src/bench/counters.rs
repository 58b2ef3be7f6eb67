//! The server's counters: commands, bytes, and processor time.

use redgrid_testkit::Observer;

use super::BoxError;

/// The counters of a server at one moment, or their difference.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub(super) struct ServerCounters {
    /// Commands, including those in scripts.
    pub(super) commands: f64,
    /// Bytes read and written, except those of the counters' own requests.
    pub(super) bytes: f64,
    /// Seconds of processor time.
    pub(super) cpu: f64,
    /// Microseconds in which scripts were executed.
    pub(super) scripts: f64,
}

impl ServerCounters {
    /// Reads the server's current counters.
    pub(super) async fn at(server: &Observer) -> Result<Self, BoxError> {
        let info: String = server.query(&["INFO", "everything"]).await?;
        let mut counters = Self::read(&info);
        // The server counts this reply after writing it, so the next reading would include it.
        counters.bytes += info.len() as f64;
        Ok(counters)
    }

    fn read(info: &str) -> Self {
        let mut counters = ServerCounters::default();
        for (name, value) in info.lines().filter_map(|line| line.split_once(':')) {
            let number = || value.trim().parse::<f64>().unwrap_or_default();
            match name {
                "total_net_input_bytes" | "total_net_output_bytes" => counters.bytes += number(),
                "used_cpu_user" | "used_cpu_sys" => counters.cpu += number(),
                // This request itself is not counted.
                "cmdstat_info" => {}
                _ if name.starts_with("cmdstat_") => {
                    let figure = |prefix| {
                        let text = value.split(',').find_map(|part| part.strip_prefix(prefix));
                        text.and_then(|text| text.parse::<f64>().ok()).unwrap_or_default()
                    };
                    counters.commands += figure("calls=");
                    if matches!(name, "cmdstat_eval" | "cmdstat_evalsha") {
                        counters.scripts += figure("usec=");
                    }
                }
                _ => {}
            }
        }
        counters
    }

    /// Returns the difference to earlier counters.
    pub(super) fn since(self, before: Self) -> Self {
        ServerCounters {
            commands: self.commands - before.commands,
            bytes: self.bytes - before.bytes,
            cpu: self.cpu - before.cpu,
            scripts: self.scripts - before.scripts,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counters_are_parsed_from_the_servers_info() {
        let info = "# Stats\r\ntotal_net_input_bytes:100\r\ntotal_net_output_bytes:50\r\n# CPU\r\nused_cpu_sys:0.25\r\nused_cpu_user:0.5\r\n\
                    # Commandstats\r\ncmdstat_evalsha:calls=3,usec=1\r\ncmdstat_client|list:calls=2,usec=1\r\ncmdstat_info:calls=9,usec=1\r\n";
        let counters = ServerCounters::read(info);
        assert_eq!(counters, ServerCounters { commands: 5.0, bytes: 150.0, cpu: 0.75, scripts: 1.0 });
        assert_eq!(counters.since(counters), ServerCounters::default());
    }
}
