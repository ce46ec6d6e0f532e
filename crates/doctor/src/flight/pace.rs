//! The rate at which a machine is sampled: as often as the limits of bytes and of CPU time allow.

/// The budget in bytes per second: with the reserve, at most 1,000,000 in any hour.
pub(super) const BYTES: f64 = 250.0;
/// The bytes that may accumulate, for a key frame or a report in the log.
const SAVED_BYTES: f64 = 100_000.0;
/// The budget in CPU seconds per second: a little less than 0.5 %.
pub(super) const CPU: f64 = 0.0045;
/// The CPU seconds that may accumulate.
const SAVED_CPU: f64 = 1.0;

/// The remaining budget.
#[derive(Clone, Copy, Debug)]
pub(super) struct Pace {
    bytes: f64,
    cpu: f64,
}

impl Default for Pace {
    fn default() -> Self {
        Self { bytes: SAVED_BYTES, cpu: SAVED_CPU }
    }
}

impl Pace {
    /// Adds the budget for the time since the last call.
    pub(super) fn pass(&mut self, seconds: f64) {
        self.bytes = (self.bytes + seconds * BYTES).min(SAVED_BYTES);
        self.cpu = (self.cpu + seconds * CPU).min(SAVED_CPU);
    }

    /// Subtracts what a sample used.
    pub(super) fn spend(&mut self, bytes: usize, cpu: f64) {
        self.bytes -= bytes as f64;
        self.cpu -= cpu;
    }

    /// Returns whether there is something to spend.
    pub(super) fn allows(&self) -> bool {
        self.bytes > 0.0 && self.cpu > 0.0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns the samples of a day, and the most bytes and CPU seconds of an hour.
    fn day(bytes: usize, cpu: f64) -> (usize, usize, f64) {
        let mut pace = Pace::default();
        let mut samples = Vec::new();
        for second in 0..86_400_usize {
            pace.pass(1.0);
            if pace.allows() {
                pace.spend(bytes, cpu);
                samples.push(second);
            }
        }
        let hour =
            |from: usize| samples.iter().filter(|&&s| (from..from + 3600).contains(&s)).count();
        let most = (0..23).map(|h| hour(h * 3600)).max().unwrap();
        (samples.len(), most * bytes, most as f64 * cpu)
    }

    #[test]
    fn no_hour_exceeds_the_limits_on_any_machine() {
        assert_eq!(day(200, 0.002).0, 86_400, "an ordinary machine is sampled every second");
        let (samples, bytes, _) = day(5_000, 0.002);
        assert!(bytes <= 1_000_000 && samples > 4_000, "{samples} {bytes}");
        let (samples, _, cpu) = day(100, 0.05);
        assert!(cpu <= 18.0 && samples > 7_000, "{samples} {cpu}");
    }
}
