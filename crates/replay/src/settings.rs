//! What the settings of a recorded machine change of a kernel: its sysctls, and its LRU lists.

use pageblock::policy::Value;
use pageblock::preset::Preset;
use pageblock_kernel::{Kernel, Switch, setting};
use pageblock_recording::{Recording, Snapshot};

use crate::machine::recorded_preset;

/// Where settings stand that a replay follows; those of huge pages are in the recorded requests.
const FOLLOWED: [&str; 2] = ["proc/sys/vm/", "sys/kernel/mm/lru_gen/"];
/// The file that says which LRU lists a kernel uses.
const LRU: &str = "sys/kernel/mm/lru_gen/enabled";
/// Has its effect in the watermarks of the state at the start.
const IN_THE_STATE: &str = "min_free_kbytes";
/// The version that brought the multi-generational LRU (ac35a4902374).
const SINCE_GENERATIONS: (u32, u32) = (6, 1);
/// Fewer refilled pages tell nothing.
const FEW: u64 = 20;
/// The version from which on Debian's kernels use it unless told otherwise (`CONFIG_LRU_GEN_ENABLED`).
const DEBIAN_USES_GENERATIONS: (u32, u32) = (6, 12);

/// The settings of a recorded machine that are no defaults of its kernel.
pub struct Settings {
    kernel: &'static Preset,
    changed: Vec<(Switch, Value)>,
    /// Settings that are not simulated, as `file=content`.
    pub unknown: Vec<String>,
}

impl Settings {
    /// Finds the settings of a recording. Where none says which LRU lists were used, its counters do, or else its distribution.
    #[must_use]
    pub fn of(recording: &Recording) -> Self {
        let preset = recorded_preset(recording);
        let default = Kernel::from(preset);
        let mut settings = Self { kernel: preset, changed: Vec::new(), unknown: Vec::new() };
        let followed = |path: &str| FOLLOWED.iter().any(|folder| path.starts_with(folder));
        for (path, content) in recording.settings.iter().filter(|(path, _)| followed(path)) {
            let Some((switch, value)) = setting::of_file(&format!("/{path}"), content) else {
                continue;
            };
            settings.set(&default, switch, value, path);
        }
        let by_default =
            preset.name.starts_with("debian-") && version(preset) >= DEBIAN_USES_GENERATIONS;
        let uses = counted_generations(recording).unwrap_or(by_default);
        if uses && version(preset) >= SINCE_GENERATIONS && !recording.settings.contains_key(LRU) {
            let (switch, value) =
                setting::of_file(&format!("/{LRU}"), "7").expect("a switch is the LRU");
            settings.set(&default, switch, value, LRU);
        }
        settings
    }

    fn set(&mut self, default: &Kernel, switch: Switch, value: &str, path: &str) {
        let mut kernel = *default;
        if switch.name() == IN_THE_STATE {
            return;
        }
        if !switch.set(&mut kernel, value) {
            self.unknown.push(format!("/{path}={value}"));
        } else if switch.get(&kernel) != switch.get(default) {
            self.changed.push((switch, switch.get(&kernel)));
        }
    }

    /// Returns what they set, as `switch=value`.
    #[must_use]
    pub fn words(&self) -> Vec<String> {
        self.changed.iter().map(|(switch, value)| format!("{}={value}", switch.name())).collect()
    }

    /// Sets up a kernel of a preset as the machine is. A setting that the preset has not, or has with another default, is left
    /// as it is there.
    pub fn apply(&self, preset: &Preset, kernel: &mut Kernel) {
        let (recorded, own) = (Kernel::from(self.kernel), Kernel::from(preset));
        for (switch, value) in &self.changed {
            let has = match switch.name() {
                "lru" | "min_ttl_ms" => version(preset) >= SINCE_GENERATIONS,
                _ => switch.get(&recorded) == switch.get(&own),
            };
            if has {
                let is_value = switch.set(kernel, &value.to_string());
                debug_assert!(is_value, "{}={value}", switch.name());
            }
        }
    }
}

/// Tells by counters whether generations were evicted. `pgrefill` then counts the pages that eviction sorts (`scan_folios`), and
/// `pgdeactivate` stays; else both count the pages that `shrink_active_list` takes (mm/vmscan.c). `None` where too few are
/// counted.
fn counted_generations(recording: &Recording) -> Option<bool> {
    let of = |snapshot: &Snapshot, name| snapshot.vmstat.as_ref()?.0.get(name).copied();
    let grown = |name| {
        let end = of(recording.end.as_ref()?, name)?;
        end.checked_sub(of(&recording.start, name)?)
    };
    let (refilled, deactivated) = (grown("pgrefill")?, grown("pgdeactivate")?);
    (refilled >= FEW).then_some(2 * deactivated < refilled)
}

/// Returns the mainline version that a preset is based on.
fn version(preset: &Preset) -> (u32, u32) {
    let mut rows = std::iter::successors(Some(preset), |preset| preset.base);
    rows.find_map(Preset::version).unwrap_or_default()
}
