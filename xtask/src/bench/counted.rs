//! What the server counted: commands, bytes, and its time of a processor.

use redgrid_testkit::Observer;

use super::Trouble;

/// The counters of a server at a moment, or their difference between two.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub(super) struct Counted {
    /// Commands, those inside scripts included.
    pub(super) commands: f64,
    /// Bytes read and written, without these looks.
    pub(super) bytes: f64,
    /// Seconds of a processor.
    pub(super) cpu: f64,
}

impl Counted {
    /// The server's counters now.
    pub(super) async fn at(server: &Observer) -> Result<Self, Trouble> {
        let info: String = server.query(&["INFO", "everything"]).await?;
        let mut counted = Self::read(&info);
        // It is counted when it has been written: by the next look, which this one is taken from.
        counted.bytes += info.len() as f64;
        Ok(counted)
    }

    fn read(info: &str) -> Self {
        let mut counted = Counted::default();
        for (name, value) in info.lines().filter_map(|line| line.split_once(':')) {
            let number = || value.trim().parse::<f64>().unwrap_or_default();
            match name {
                "total_net_input_bytes" | "total_net_output_bytes" => counted.bytes += number(),
                "used_cpu_user" | "used_cpu_sys" => counted.cpu += number(),
                // The question itself is not counted.
                "cmdstat_info" => {}
                _ if name.starts_with("cmdstat_") => {
                    let calls = value.split(',').find_map(|part| part.strip_prefix("calls="));
                    counted.commands += calls.and_then(|calls| calls.parse::<f64>().ok()).unwrap_or_default();
                }
                _ => {}
            }
        }
        counted
    }

    /// What came since.
    pub(super) fn since(self, before: Self) -> Self {
        Counted {
            commands: self.commands - before.commands,
            bytes: self.bytes - before.bytes,
            cpu: self.cpu - before.cpu,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counters_are_read_from_what_the_server_tells() {
        let info = "# Stats\r\ntotal_net_input_bytes:100\r\ntotal_net_output_bytes:50\r\n# CPU\r\nused_cpu_sys:0.25\r\nused_cpu_user:0.5\r\n\
                    # Commandstats\r\ncmdstat_evalsha:calls=3,usec=1\r\ncmdstat_client|list:calls=2,usec=1\r\ncmdstat_info:calls=9,usec=1\r\n";
        let counted = Counted::read(info);
        assert_eq!(counted, Counted { commands: 5.0, bytes: 150.0, cpu: 0.75 });
        assert_eq!(counted.since(counted), Counted::default());
    }
}
