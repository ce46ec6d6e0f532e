//! The kernels between two kernels: one switch after the other, each alone, each left out.

use std::collections::BTreeMap;

use pageblock::preset::Preset;
use pageblock_kernel::{Kernel, Named, Switch};
use pageblock_measure::compare::bisect::Step;
use serde::{Deserialize, Serialize};

use crate::error::{Place, Result, bail};
use crate::policy::NamedPolicy;

/// The most switches of a bisection.
const MAX_SWITCHES: usize = 100;

/// The kernels of a bisection.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Kernels {
    /// Their texts, `NAME,switch=value,...`; the first is the first kernel.
    pub texts: Vec<String>,
    /// The steps in the order of versions; the last leads to the second kernel.
    pub steps: Vec<Step>,
}

/// A switch in which the two differ.
#[derive(Clone, Copy)]
struct Change {
    switch: Switch,
    /// The place of the kernel that brought it among those from the oldest on; last where it was set by hand.
    at: usize,
    since: Option<&'static str>,
}

impl Kernels {
    /// Returns the kernels between two. `resolve` returns a kernel as it runs: a workload may set switches itself, and what it sets
    /// is no difference.
    ///
    /// # Errors
    /// If the two do not differ in what runs, in too much, or one cannot run.
    pub fn between(
        from: &Named,
        to: &Named,
        resolve: impl Fn(&Named) -> Result<Kernel>,
    ) -> Result<Self> {
        let (a, b) = (resolve(from)?, resolve(to)?);
        let mut changes: Vec<Change> = from
            .kernel
            .diff(&to.kernel)
            .map(|(switch, ..)| switch)
            .filter(|switch| switch.get(&a) != switch.get(&b))
            .map(|switch| Change::of(switch, to))
            .collect();
        if changes.is_empty() {
            bail!("{} and {} do not differ in any switch that matters here", from.label, to.label);
        }
        if changes.len() > MAX_SWITCHES {
            bail!(
                "{} and {} differ in {} switches; at most {MAX_SWITCHES} are allowed",
                from.label,
                to.label,
                changes.len()
            );
        }
        changes.sort_by_key(|change| change.at);
        let mut made = Made { from, to, texts: Vec::new() };
        let first = made.kernel(&[]).at(|| &from.label)?;
        debug_assert_eq!(first, 0);
        let mut steps = Vec::new();
        let mut done: Vec<Switch> = Vec::new();
        let mut together: Vec<Change> = Vec::new();
        for (place, change) in changes.iter().enumerate() {
            together.push(*change);
            let so_far: Vec<Switch> =
                done.iter().copied().chain(together.iter().map(|c| c.switch)).collect();
            // Some switches go only with others: these are one step. The last one is the second kernel, which can run.
            let path = match made.kernel(&so_far) {
                Ok(path) => path,
                Err(_) if place + 1 < changes.len() => continue,
                Err(error) => return Err(error),
            };
            let own: Vec<Switch> = together.iter().map(|change| change.switch).collect();
            let others: Vec<Switch> = changes
                .iter()
                .map(|change| change.switch)
                .filter(|switch| !own.contains(switch))
                .collect();
            steps.push(Step {
                change: own
                    .iter()
                    .map(|&switch| made.assignment(switch))
                    .collect::<Vec<_>>()
                    .join(","),
                since: together
                    .iter()
                    .map(|change| change.since)
                    .next_back()
                    .flatten()
                    .map(str::to_owned),
                kernel: path,
                kernel_alone: made.kernel(&own).ok(),
                kernel_without: made.kernel(&others).ok(),
            });
            done = so_far;
            together.clear();
        }
        Ok(Self { texts: made.texts, steps })
    }
}

impl Change {
    /// Returns a switch with the kernel from which on it has the value that the second kernel has.
    fn of(switch: Switch, to: &Named) -> Self {
        let value = switch.get(&to.kernel);
        let mut chain: Vec<&'static Preset> =
            std::iter::successors(Some(to.base), |preset| preset.base).collect();
        chain.reverse();
        let has = |preset: &&Preset| switch.get(&Kernel::from(*preset)) == value;
        let at = chain.iter().rposition(|preset| !has(preset)).map_or(0, |before| before + 1);
        Self { switch, at, since: chain.get(at).map(|preset| preset.name) }
    }
}

/// The kernels that were made.
struct Made<'k> {
    from: &'k Named,
    to: &'k Named,
    texts: Vec<String>,
}

impl Made<'_> {
    fn assignment(&self, switch: Switch) -> String {
        format!("{}={}", switch.name(), switch.get(&self.to.kernel))
    }

    /// Returns the place of the first kernel with these switches as the second one has them.
    fn kernel(&mut self, switches: &[Switch]) -> Result<usize> {
        let mut set: BTreeMap<&str, String> = BTreeMap::new();
        for (switch, value) in &self.from.set {
            set.insert(switch.name(), value.to_string());
        }
        for switch in switches {
            set.insert(switch.name(), switch.get(&self.to.kernel).to_string());
        }
        let mut text = self.from.base.name.to_owned();
        for (switch, value) in set {
            text += &format!(",{switch}={value}");
        }
        // It says whether they go together.
        let _ = NamedPolicy::parse(&text)?;
        let known = self.texts.iter().position(|known| *known == text);
        Ok(known.unwrap_or_else(|| {
            self.texts.push(text);
            self.texts.len() - 1
        }))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn between(from: &str, to: &str) -> Result<Kernels> {
        let [from, to] = [from, to].map(|text| Named::parse(text).unwrap());
        Kernels::between(&from, &to, |named| Ok(named.kernel))
    }

    #[test]
    fn the_path_leads_from_one_kernel_to_the_other() {
        let kernels = between("linux-6.8", "linux-6.12").unwrap();
        let parse = |text: &str| Named::parse(text).unwrap().kernel;
        assert_eq!(parse(&kernels.texts[0]), parse("linux-6.8"));
        let last = kernels.steps.last().unwrap();
        assert_eq!(parse(&kernels.texts[last.kernel]), parse("linux-6.12"));
        let versions: Vec<&str> =
            kernels.steps.iter().filter_map(|step| step.since.as_deref()).collect();
        assert_eq!(versions.len(), kernels.steps.len());
        let order: Vec<usize> = versions
            .iter()
            .map(|name| pageblock::preset::PRESETS.iter().position(|p| p.name == *name).unwrap())
            .collect();
        assert!(order.is_sorted(), "{versions:?}");
        for step in &kernels.steps {
            let alone = parse(&kernels.texts[step.kernel_alone.unwrap()]);
            assert_eq!(alone.diff(&parse("linux-6.8")).count(), 1, "{step:?}");
            let without = parse(&kernels.texts[step.kernel_without.unwrap()]);
            assert_eq!(without.diff(&parse("linux-6.12")).count(), 1, "{step:?}");
        }
    }

    #[test]
    fn what_was_set_by_hand_stays_and_what_goes_together_is_one_step() {
        let kernels =
            between("linux-6.12,boost=off", "linux-6.12,boost=off,nofragment=off").unwrap();
        assert_eq!(kernels.texts, ["linux-6.12,boost=off", "linux-6.12,boost=off,nofragment=off"]);
        assert_eq!(kernels.steps[0].change, "nofragment=off");
        // Packed placement needs the rules of 6.10.
        let kernels = between("linux-6.9", "linux-6.12,placement=packed").unwrap();
        let packed = kernels.steps.iter().find(|step| step.change.contains("placement")).unwrap();
        assert!(packed.kernel_alone.is_none() && packed.kernel_without.is_some(), "{packed:?}");
    }

    #[test]
    fn equal_kernels_are_refused() {
        let error = between("linux-6.12", "linux-6.12,nofragment=on").unwrap_err().to_string();
        assert!(error.contains("do not differ"), "{error}");
    }
}
