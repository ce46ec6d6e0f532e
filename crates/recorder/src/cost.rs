//! What the recorder itself takes.

use std::time::Duration;

/// The ticks a second in which the kernel counts a process's CPU time (`USER_HZ`), the same on every machine.
const TICKS: u64 = 100;

/// The CPU time and the memory of the recorder.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Cost {
    /// The CPU time of all its threads, the two states included.
    pub cpu: Duration,
    /// The most memory that it had at a time, without the buffers of the kernel, in KiB.
    pub peak_kib: u64,
}

impl Cost {
    /// Returns the cost of this process so far; nothing of what `/proc` does not say.
    pub(crate) fn now() -> Self {
        let read = |name| std::fs::read_to_string(name).unwrap_or_default();
        Self::parse(&read("/proc/self/stat"), &read("/proc/self/status"))
    }

    fn parse(stat: &str, status: &str) -> Self {
        // The name, in brackets, may have blanks.
        let after = stat.rsplit_once(')').map_or("", |(_, after)| after);
        let ticks: u64 = [11, 12].iter().filter_map(|&at| number(after, at)).sum();
        let peak = status.lines().find_map(|line| line.strip_prefix("VmHWM:"));
        Self {
            cpu: Duration::from_millis(ticks * 1000 / TICKS),
            peak_kib: peak.and_then(|text| number(text, 0)).unwrap_or(0),
        }
    }
}

fn number(text: &str, at: usize) -> Option<u64> {
    text.split_ascii_whitespace().nth(at)?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cpu_time_and_memory_are_those_of_the_process() {
        let stat = "7 (a b) c) S 1 7 7 0 -1 4194560 9 0 0 0 125 75 0 0 20 0 3 0 100 9 9";
        let cost = Cost::parse(stat, "Name:\ta\nVmHWM:\t   12345 kB\n");
        assert_eq!(cost, Cost { cpu: Duration::from_secs(2), peak_kib: 12_345 });
        assert!(Cost::now().peak_kib > 0);
    }
}
