//! What is simulated to predict a series: each of its columns as a policy.

use pageblock_kernel::{Kernel, Named, setting};
use pageblock_measure::compare::prediction::Column;
use pageblock_recording::KernelVersion;

use crate::job::Setting;
use crate::settings::Settings;

/// Returns the policy under which a kernel with settings is simulated; `None` if the simulation does not know a setting or
/// its value. A setting that is the kernel's default is left out.
#[must_use]
pub fn policy(version: &KernelVersion, settings: &Settings) -> Option<String> {
    let preset = pageblock_replay::machine::preset_of(version);
    let default = Kernel::from(preset);
    let mut policy = preset.name.to_owned();
    for Setting { file, value, .. } in &settings.list {
        let (switch, value) = setting::of_file(file, value)?;
        let mut kernel = default;
        if !switch.set(&mut kernel, value) {
            return None;
        }
        if switch.get(&kernel) != switch.get(&default) {
            policy += &format!(",{}={value}", switch.name());
        }
    }
    Named::parse(&policy).is_ok().then_some(policy)
}

/// Returns the columns of a series in the order in which it runs them, with names of their policies. A setting is compared
/// with the first setting of its kernel, and the first setting of a kernel with that of the kernel before it. A kernel is
/// `None` if it has a patch: no simulation knows what that does.
#[must_use]
pub fn columns(
    kernels: &[Option<KernelVersion>],
    settings: &[Settings],
    real: &dyn Fn(usize, usize) -> String,
) -> Vec<Column> {
    let mut columns = Vec::new();
    for (at, version) in kernels.iter().enumerate() {
        for (setting, settings_of) in settings.iter().enumerate() {
            columns.push(Column {
                real: real(at, setting),
                simulated: version.as_ref().and_then(|version| policy(version, settings_of)),
                against: match (at, setting) {
                    (0, 0) => None,
                    (_, 0) => Some((at - 1) * settings.len()),
                    _ => Some(at * settings.len()),
                },
            });
        }
    }
    columns
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn settings_are_switches() {
        let of = |kernel: &str, settings: &str| {
            policy(&KernelVersion::parse(kernel).unwrap(), &Settings::parse(settings).unwrap())
        };
        assert_eq!(of("6.9.1", "default").as_deref(), Some("linux-6.9"));
        assert_eq!(
            of(
                "6.9.1",
                "vm.watermark_boost_factor=0,/sys/kernel/mm/transparent_hugepage/defrag=always"
            )
            .as_deref(),
            Some("linux-6.9,watermark_boost_factor=0,thp_defrag=always")
        );
        assert_eq!(
            of("7.2.13", "/sys/kernel/mm/lru_gen/enabled=7,/sys/kernel/mm/lru_gen/min_ttl_ms=1000")
                .as_deref(),
            Some("linux-7.2,lru=mglru,min_ttl_ms=1000")
        );
        assert_eq!(of("7.2.13", "/sys/kernel/mm/lru_gen/enabled=3"), None);
        assert_eq!(
            of("7.2.13", "vm.defrag_mode=1").as_deref(),
            Some("linux-7.2,nofragment=defrag_mode")
        );
        assert_eq!(of("7.2.13", "vm.defrag_mode=0").as_deref(), Some("linux-7.2"));
        assert_eq!(of("7.2.13", "vm.swappiness=60").as_deref(), Some("linux-7.2"), "the default");
        assert_eq!(of("6.9.1", "kernel.sysrq=1"), None);
        assert_eq!(of("6.9.1", "vm.swappiness=many"), None);
    }

    #[test]
    fn each_column_has_one_that_it_is_compared_with() {
        let kernels = [KernelVersion::parse("6.1"), None];
        let settings =
            ["default", "vm.watermark_boost_factor=0"].map(|text| Settings::parse(text).unwrap());
        let columns = columns(&kernels, &settings, &|kernel, setting| format!("{kernel}{setting}"));
        let against: Vec<_> =
            columns.iter().map(|column| (column.real.as_str(), column.against)).collect();
        assert_eq!(against, [("00", None), ("01", Some(0)), ("10", Some(0)), ("11", Some(2))]);
        let simulated: Vec<_> = columns.iter().map(|column| column.simulated.is_some()).collect();
        assert_eq!(simulated, [true, true, false, false], "a patched kernel is not predicted");
    }
}
