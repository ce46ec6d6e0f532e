//! Grids: every combination of kernels, switches, machines, workloads, scales and seeds.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::sync::Arc;

use pageblock_kernel::preset::PRESETS;
use pageblock_simulate::workload::requests::Requests;
use serde::de::IntoDeserializer;
use serde::{Deserialize, Serialize};

use super::random::RandomKernels;
use super::{Cell, to_json};
use crate::error::{Place, Result, bail};
use crate::own::{self, Loads};
use crate::policy::NamedPolicy;

/// The most runs of a sweep.
pub const MAX_RUNS: u128 = 1_000_000;
/// The scale where none is given.
const WHOLE: &str = "1";

/// A grid, as TOML or JSON has it.
#[derive(Clone, Debug, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct Grid {
    /// The workloads.
    #[serde(default)]
    workloads: Vec<String>,
    /// The kernels.
    #[serde(default)]
    kernels: Vec<String>,
    /// The machines; by default the one that each workload was published for.
    #[serde(default)]
    machines: Vec<String>,
    /// The scales.
    #[serde(default)]
    scales: Vec<Word>,
    /// The seeds: how many, or which.
    #[serde(default)]
    seeds: Option<Seeds>,
    /// Switches and sysctls, each with its values; every combination is set on every kernel.
    #[serde(default)]
    switches: BTreeMap<String, Vec<Word>>,
    /// Random kernels beside those that are named. What a machine is too small for is left out.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    random: Option<RandomKernels>,
    /// Single runs beside the grid.
    #[serde(default)]
    runs: Vec<Single>,
}

/// A single run.
#[derive(Clone, Debug, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
struct Single {
    workload: String,
    kernel: String,
    machine: Option<String>,
    scale: Option<Word>,
    seed: Option<u64>,
}

/// A value: text, a number, or on and off.
#[derive(Clone, Debug, Deserialize, Serialize)]
#[serde(untagged)]
enum Word {
    Flag(bool),
    Number(u64),
    Text(String),
}

/// How many seeds, or which.
#[derive(Clone, Debug, Deserialize, Serialize)]
#[serde(untagged)]
enum Seeds {
    Count(u64),
    These(Vec<u64>),
}

impl Word {
    fn text(&self) -> String {
        match self {
            Self::Flag(flag) => if *flag { "on" } else { "off" }.to_owned(),
            Self::Number(number) => number.to_string(),
            Self::Text(text) => text.clone(),
        }
    }
}

impl Grid {
    /// Reads a grid from TOML; `name` is that of the file.
    ///
    /// # Errors
    /// With the line.
    pub fn from_toml(text: &str, name: &str) -> Result<Self> {
        let read: std::result::Result<Self, _> = toml::from_str(text);
        match read {
            Ok(grid) => Ok(grid),
            Err(error) => {
                let before = &text[..error.span().map_or(0, |span| span.start)];
                let line = 1 + before.matches('\n').count();
                bail!("{name}: line {line}: {}", error.message().replace('\n', ", "))
            }
        }
    }

    /// Reads a grid from JSON, as other programs have it.
    ///
    /// # Errors
    /// In words.
    pub fn from_json(text: &str) -> Result<Self> {
        let value: serde_json::Value = match serde_json::from_str(text) {
            Ok(value) => value,
            Err(error) => bail!("grid: {error}"),
        };
        match Self::deserialize(value.into_deserializer()) {
            Ok(grid) => Ok(grid),
            Err(error) => bail!("grid: {error}"),
        }
    }

    /// Returns it as JSON. Grids that say the same in other words have the same.
    ///
    /// # Errors
    /// None that a grid could cause.
    pub fn to_json(&self) -> Result<String> {
        let words = |words: &[Word]| words.iter().map(|word| Word::Text(word.text())).collect();
        let mut plain = self.clone();
        plain.scales = words(&self.scales);
        plain.switches.values_mut().for_each(|values| *values = words(values));
        for run in &mut plain.runs {
            run.scale = run.scale.as_ref().map(|scale| Word::Text(scale.text()));
        }
        if let Some(Seeds::These(seeds)) = &self.seeds
            && !seeds.is_empty()
            && seeds.iter().copied().eq(1..=seeds.len() as u64)
        {
            plain.seeds = Some(Seeds::Count(seeds.len() as u64));
        }
        to_json(&plain)
    }

    /// Reads the workload files that it names, puts their workloads' names in their places, and returns what these mean.
    ///
    /// # Errors
    /// If a file cannot be read or describes no workload, or two have the same name.
    pub fn read_files(&mut self) -> Result<Loads> {
        let mut files: BTreeMap<String, Arc<Requests>> = BTreeMap::new();
        let named = self.runs.iter_mut().map(|run| &mut run.workload);
        for name in self.workloads.iter_mut().chain(named).filter(|name| own::is_file(name)) {
            if !files.contains_key(name.as_str()) {
                let read = own::of_text(&own::file_text(Path::new(&*name))?, name)?;
                files.insert(name.clone(), Arc::new(read));
            }
            files[name.as_str()].name.clone_into(name);
        }
        Loads::with(files.into_values().collect())
    }

    fn numbers(&self) -> Vec<u64> {
        match &self.seeds {
            None => vec![1],
            Some(Seeds::Count(count)) => (1..=*count).collect(),
            Some(Seeds::These(seeds)) => seeds.clone(),
        }
    }

    /// Counts the runs.
    #[must_use]
    pub fn count(&self) -> u128 {
        let seeds = match &self.seeds {
            None => 1,
            Some(Seeds::Count(count)) => u128::from(*count),
            Some(Seeds::These(seeds)) => seeds.len() as u128,
        };
        let of_one = |list: usize| list.max(1) as u128;
        let switches = self.switches.values().map(|values| values.len() as u128);
        let named = switches.fold(self.kernels.len() as u128, u128::saturating_mul);
        let kernels = named.saturating_add(self.random.map_or(0, |random| random.kernels.into()));
        let machines = of_one(self.machines.len());
        [self.workloads.len() as u128, machines, of_one(self.scales.len()), seeds]
            .into_iter()
            .fold(kernels, u128::saturating_mul)
            .saturating_add(self.runs.len() as u128)
    }

    /// Returns its runs. All of them can be run, and the seeds of a kernel stand together.
    ///
    /// # Errors
    /// If there are none or more than [`MAX_RUNS`], with their number; and for what is wrong with one.
    pub fn cells(&self, loads: &Loads) -> Result<Vec<Cell>> {
        match self.count() {
            0 => bail!("the grid has no runs: it needs workloads, kernels and seeds, or runs"),
            runs if runs > MAX_RUNS => {
                bail!("the grid has {runs} runs; at most {MAX_RUNS} are allowed in a sweep")
            }
            _ => {}
        }
        let (kernels, random) = (self.all_kernels()?, self.random_kernels());
        let scales: Vec<String> = match self.scales.is_empty() {
            true => vec![WHOLE.to_owned()],
            false => self.scales.iter().map(Word::text).collect(),
        };
        let mut cells = Vec::new();
        for name in &self.workloads {
            let own = [loads.find(name)?.get().head().machine.to_owned()];
            let machines = if self.machines.is_empty() { &own[..] } else { &self.machines };
            for machine in machines {
                for scale in &scales {
                    let cell = |kernel: &String, seed| Cell {
                        workload: name.clone(),
                        kernel: kernel.clone(),
                        machine: machine.clone(),
                        scale: scale.clone(),
                        seed,
                    };
                    // A seed cannot be wrong.
                    let check = |kernel: &String| cell(kernel, 1).check(loads);
                    kernels.iter().try_for_each(check)?;
                    if !random.is_empty() {
                        // Without a random value nothing is left out: a machine or scale is right or wrong.
                        check(&PRESETS[0].name.to_owned())?;
                    }
                    let fit = random.iter().filter(|kernel| check(kernel).is_ok());
                    for kernel in kernels.iter().chain(fit) {
                        cells.extend(self.numbers().into_iter().map(|seed| cell(kernel, seed)));
                    }
                }
            }
        }
        for (number, single) in self.runs.iter().enumerate() {
            cells.push(single.cell(loads).at(|| format!("runs[{number}]"))?);
        }
        if cells.is_empty() {
            bail!("the grid has no runs: its machines are too small for each random kernel");
        }
        without_twins(&cells)?;
        Ok(cells)
    }

    /// Returns the random kernels. Two draws of few switches can be alike.
    fn random_kernels(&self) -> Vec<String> {
        let drawn: Vec<String> = self.random.iter().flat_map(|random| random.all()).collect();
        let mut seen: BTreeSet<&str> = self.kernels.iter().map(String::as_str).collect();
        drawn.iter().filter(|kernel| seen.insert(kernel)).cloned().collect()
    }

    /// Returns every named kernel with every combination of switches.
    fn all_kernels(&self) -> Result<Vec<String>> {
        let mut all = self.kernels.clone();
        for (switch, values) in &self.switches {
            let with = |kernel: &String| {
                let kernel = kernel.clone();
                values.iter().map(move |value| format!("{kernel},{switch}={}", value.text()))
            };
            all = all.iter().flat_map(with).collect();
        }
        // A file is the worker's own: its kernel travels by name only.
        if let Some(file) = all.iter().find(|name| name.contains('/') || name.ends_with(".toml")) {
            bail!("kernel {file}: a sweep takes NAME,switch=value,... and switches, no files");
        }
        all.iter().try_for_each(|kernel| NamedPolicy::parse(kernel).map(|_| ()))?;
        Ok(all)
    }
}

impl Single {
    fn cell(&self, loads: &Loads) -> Result<Cell> {
        let load = loads.find(&self.workload)?;
        let cell = Cell {
            workload: self.workload.clone(),
            kernel: self.kernel.clone(),
            machine: self.machine.clone().unwrap_or_else(|| load.get().head().machine.to_owned()),
            scale: self.scale.as_ref().map_or(WHOLE.to_owned(), Word::text),
            seed: self.seed.unwrap_or(1),
        };
        cell.check(loads)?;
        Ok(cell)
    }
}

fn without_twins(cells: &[Cell]) -> Result<()> {
    let mut seen = BTreeSet::new();
    for cell in cells {
        if !seen.insert(cell) {
            bail!("{} is given twice", cell.named());
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn grid(text: &str) -> Result<Vec<Cell>> {
        Grid::from_toml(text, "grid.toml")?.cells(&Loads::default())
    }

    #[track_caller]
    fn refused(text: &str, words: &str) {
        let error = grid(text).unwrap_err();
        let line = crate::error::line(&error);
        assert!(line.starts_with(words), "{line}");
    }

    #[test]
    fn every_combination_is_a_run() {
        let text = "workloads = [\"hugealloc-short\", \"netperf-udp\"]\nkernels = [\"linux-6.12\", \"linux-7.3\"]\n\
                    scales = [\"1/64\"]\nseeds = 3\n[switches]\nplacement = [\"linux\", \"packed\"]\n";
        let cells = grid(text).unwrap();
        assert_eq!(cells.len(), 24);
        assert_eq!(cells[3].kernel, "linux-6.12,placement=packed");
        assert_eq!((cells[3].machine.as_str(), cells[3].seed), ("weiner-1g8", 1));
        assert_eq!(cells[12].machine, "small-4g");
    }

    #[test]
    fn grids_that_say_the_same_have_the_same_json() {
        let json = |seeds: &str, boost: &str| {
            let text = format!(
                "workloads = [\"mixed\"]\nkernels = [\"linux-6.9\"]\nseeds = {seeds}\n[switches]\nboost = [{boost}]\n"
            );
            Grid::from_toml(&text, "grid.toml").unwrap().to_json().unwrap()
        };
        assert_eq!(json("3", "0, true"), json("[1, 2, 3]", "\"0\", \"on\""));
        assert_ne!(json("3", "0"), json("[1, 3]", "0"));
    }

    #[test]
    fn single_runs_stand_beside_the_grid() {
        let text = "[[runs]]\nworkload = \"netperf-udp\"\nkernel = \"linux-6.9\"\nscale = \"1/8\"\nseed = 7\n";
        let cells = grid(text).unwrap();
        assert_eq!((cells.len(), cells[0].seed, cells[0].scale.as_str()), (1, 7, "1/8"));
        refused(
            &text.repeat(2),
            "netperf-udp under linux-6.9 on small-4g at 1/8 with seed 7 is given twice",
        );
    }

    #[test]
    fn random_kernels_are_the_same_for_a_seed_and_those_that_fit() {
        const ALL: &str = "workloads = [\"netperf-udp\"]\nscales = [\"1/64\"]\n[random]\nkernels = 60\nseed = 3\n";
        let cells = grid(ALL).unwrap();
        assert_eq!(cells, grid(ALL).unwrap());
        assert!((1..60).contains(&cells.len()), "{} of 60 fit", cells.len());
        refused(&ALL.replace("1/64", "1/3000000"), "scale");
        refused(&ALL.replace("60", "0"), "the grid has no runs");
    }

    #[test]
    fn a_grid_that_is_too_large_is_refused_with_its_number() {
        let text = "workloads = [\"netperf-udp\"]\nkernels = [\"linux-6.9\"]\nseeds = 1000000000\n";
        refused(text, "the grid has 1000000000 runs; at most 1000000 are allowed");
        refused("seeds = 3\n", "the grid has no runs");
    }

    #[test]
    fn mistakes_are_named_before_anything_runs() {
        refused(
            "workloads = [\"x\"]\nkernels = [\"linux-6.9\"]\n",
            "there is no workload 'x'; there are ",
        );
        let start = "workloads = [\"netperf-udp\"]\n";
        refused(&format!("{start}kernels = [\"linux-6.11\"]\n"), "unknown policy 'linux-6.11'; ");
        refused(
            &format!("{start}kernel = 1\n"),
            "grid.toml: line 2: unknown field `kernel`, expected one of",
        );
        let switches = "kernels = [\"linux-6.9\"]\n[switches]\nplacement = [\"best\"]\n";
        refused(
            &format!("{start}{switches}"),
            "switch 'placement' has no value 'best'; one of linux, packed",
        );
    }
}
