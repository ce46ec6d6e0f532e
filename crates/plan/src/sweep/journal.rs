//! The folder of a sweep: its grid, a journal with a line for each finished run, and the table at the end.

use std::collections::btree_map::Entry;
use std::collections::{BTreeMap, BTreeSet};
use std::fs::{self, File};
use std::io::{BufRead, BufReader, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};

use pageblock_files::Access;
use pageblock_kernel::Named;
use serde::{Deserialize, Serialize};
use xxhash_rust::xxh3::Xxh3;

use super::{Cell, Grid, Row, table, to_json};
use crate::error::{Place, Result, bail};
use crate::machines;
use crate::own::{Loads, digest};
use crate::program::build;

/// The name of the table in the folder.
pub const RESULT: &str = "runs.parquet";
pub(super) const JOURNAL: &str = "runs.jsonl";

/// The first line of a journal: lines of another program are not gone on with.
#[derive(PartialEq, Eq, Debug, Serialize, Deserialize)]
struct Head {
    program: String,
    /// A hash of the runs of the sweep that began it, and of what they are made of.
    grid: String,
}

/// A line of a journal: what the run is made of beside its names ([`Made`]), and the run.
type Line = (String, Row);

/// The runs of a sweep, and where in the journal those that are done are: a row itself is in memory only while it is used.
#[derive(Debug)]
pub struct Journal {
    folder: PathBuf,
    /// The grid as JSON.
    grid: String,
    cells: Vec<Cell>,
    loads: Loads,
    made: Made,
    done: Done,
    file: File,
}

/// Hashes of what describes the machine and the workload of a run, by their names: a name is not bound to the content of a file.
#[derive(Debug, Default)]
struct Made(BTreeMap<(String, String), String>);

impl Made {
    fn of(cells: &[Cell], loads: &Loads) -> Result<Self> {
        let mut all = Self::default();
        for Cell { workload, machine, .. } in cells {
            let names = (machine.clone(), workload.clone());
            if let Entry::Vacant(new) = all.0.entry(names) {
                let mut hash = Xxh3::new();
                hash.update(machines::text(machine)?.as_bytes());
                hash.update(loads.text(workload).as_bytes());
                new.insert(format!("{:016x}", hash.digest()));
            }
        }
        Ok(all)
    }

    fn get(&self, cell: &Cell) -> &str {
        self.0.get(&(cell.machine.clone(), cell.workload.clone())).map_or("", String::as_str)
    }
}

/// What is done.
#[derive(Debug, Default)]
struct Done {
    /// The first byte of the line of each run.
    lines: BTreeMap<usize, u64>,
    /// The names of all counters.
    counters: BTreeSet<String>,
    /// The bytes of the whole lines.
    bytes: u64,
    /// The hash of the requests that came from outside, and the kernel that had them first, by workload, seed, machine and scale.
    requests: BTreeMap<(String, u64, String, String), (u64, String)>,
}

impl Done {
    /// Checks that the requests of a run are those of the other kernels. What ended early has not asked for all.
    fn check(&mut self, row: &Row) -> Result<()> {
        let Some(hash) = row.requests.filter(|_| row.ended.is_none()) else { return Ok(()) };
        let Cell { workload, kernel, machine, scale, seed } = &row.cell;
        let of = (workload.clone(), *seed, machine.clone(), scale.clone());
        let first = self.requests.entry(of);
        let (expected, other) = first.or_insert_with(|| (hash, kernel.clone()));
        if *expected != hash {
            let (kernel, other) = (Named::brief(kernel), Named::brief(other));
            bail!(
                "{workload}, seed {seed}: the generator gave other requests for {kernel} than for {other}; \
                 draw every random number from a generator that is made of seed and task"
            );
        }
        Ok(())
    }

    /// Checks that workloads from outside give a seed the requests that they gave it in a run that is done: their name says nothing of
    /// what they do.
    fn check_generators(&self, loads: &Loads) -> Result<()> {
        for own in loads.outside() {
            let known = self.requests.iter().find(|((workload, ..), _)| *workload == own.name);
            let Some(((_, seed, ..), (before, _))) = known else { continue };
            if digest(own, *seed)? != *before {
                bail!(
                    "{}, seed {seed}: the generator gives other requests than in the runs that are done; name another folder",
                    own.name
                );
            }
        }
        Ok(())
    }

    /// Adds a run whose line begins at a byte.
    fn add(&mut self, at: usize, row: &Row, begins: u64) {
        for name in row.counters.keys() {
            if !self.counters.contains(name) {
                self.counters.insert(name.clone());
            }
        }
        self.lines.insert(at, begins);
    }
}

impl Journal {
    /// Opens the journal of a sweep in a folder, which is made where it does not exist. The cells are those of the grid with
    /// these workloads. Runs that the folder has are not run again, those of a smaller grid too.
    ///
    /// # Errors
    /// If the folder has a run that is not of this grid, or a file cannot be read or written.
    pub fn open(folder: &Path, grid: &Grid, cells: Vec<Cell>, loads: Loads) -> Result<Self> {
        fs::create_dir_all(folder).at(|| folder.display())?;
        let path = folder.join(JOURNAL);
        let made = Made::of(&cells, &loads)?;
        let head = Head { program: build(), grid: hash(&cells, &made) };
        let opened = pageblock_files::in_place(&path, Access::Shared);
        let (mut file, _) = opened.at(|| path.display())?;
        // Another sweep that has no run yet may be at its first one.
        let is_alone = file.try_lock().is_ok();
        let done = read((&head, is_alone), (&cells, &made), &path)?;
        done.check_generators(&loads).at(|| path.display())?;
        // What was half written goes.
        file.set_len(done.bytes).at(|| path.display())?;
        file.seek(SeekFrom::End(0)).at(|| path.display())?;
        let is_new = done.bytes == 0;
        let mut journal = Self {
            folder: folder.to_owned(),
            grid: grid.to_json()?,
            cells,
            loads,
            made,
            done,
            file,
        };
        if is_new {
            journal.write(&format!("{}\n", to_json(&head)?))?;
        }
        Ok(journal)
    }

    /// Says that nothing more will be written, while the value lives on.
    ///
    /// # Errors
    /// If the file system fails.
    pub fn release(&self) -> Result<()> {
        self.file.unlock().at(|| self.folder.join(JOURNAL).display().to_string())
    }

    /// Returns the grid as JSON.
    pub(super) fn grid(&self) -> &str {
        &self.grid
    }

    /// Returns the runs, in the order of the grid.
    pub(super) fn cells(&self) -> &[Cell] {
        &self.cells
    }

    /// Returns what the names of workloads mean.
    pub(super) const fn loads(&self) -> &Loads {
        &self.loads
    }

    /// Returns the number of runs.
    #[must_use]
    pub fn len(&self) -> usize {
        self.cells.len()
    }

    /// Reports whether there are no runs.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.cells.is_empty()
    }

    /// Returns the number of runs that are done.
    #[must_use]
    pub fn done(&self) -> usize {
        self.done.lines.len()
    }

    /// Returns the runs that are not done, with their places: seed by seed, so that what is interrupted has whole seeds.
    #[must_use]
    pub fn to_do(&self) -> Vec<(usize, Cell)> {
        let left =
            self.cells.iter().enumerate().filter(|(at, _)| !self.done.lines.contains_key(at));
        let mut left: Vec<_> = left.map(|(at, cell)| (at, cell.clone())).collect();
        left.sort_by_key(|(_, cell)| cell.seed);
        left
    }

    /// Takes a finished run as [`Cell::run`] has it: it is not lost from now on.
    ///
    /// # Errors
    /// If it is not the run of that place, or cannot be written.
    pub fn take(&mut self, at: usize, row: &str) -> Result<()> {
        // A number is read from its text once, whether now or by a sweep that goes on: the table has the same bytes.
        let read: Row = match serde_json::from_str(row) {
            Ok(read) => read,
            Err(error) => bail!("run {at} of the sweep: a worker answered what is no run: {error}"),
        };
        if self.cells.get(at) != Some(&read.cell) {
            bail!("run {at} of the sweep is another one: a worker answered what it was not asked");
        }
        self.done.check(&read)?;
        let begins = self.done.bytes;
        let made = self.made.get(&read.cell);
        self.write(&format!("[\"{made}\",{row}]\n"))?;
        self.done.add(at, &read, begins);
        Ok(())
    }

    fn write(&mut self, line: &str) -> Result<()> {
        self.file
            .write_all(line.as_bytes())
            .at(|| self.folder.join(JOURNAL).display().to_string())?;
        self.done.bytes += line.len() as u64;
        Ok(())
    }

    /// Returns the names of the counters that the runs have.
    pub(super) fn counters(&self) -> &BTreeSet<String> {
        &self.done.counters
    }

    /// Reads the rows that are done, in the order of the grid.
    ///
    /// # Errors
    /// If the journal cannot be read.
    pub fn rows(&self) -> Result<impl Iterator<Item = Result<Row>>> {
        let path = self.folder.join(JOURNAL);
        let mut file = BufReader::new(File::open(&path).at(|| path.display())?);
        let mut text = String::new();
        Ok(self.done.lines.values().map(move |begins| {
            text.clear();
            file.seek(SeekFrom::Start(*begins)).at(|| path.display())?;
            file.read_line(&mut text).at(|| path.display())?;
            match serde_json::from_str::<Line>(&text) {
                Ok((_, row)) => Ok(row),
                Err(_) => bail!("{}: it was changed while the sweep ran", path.display()),
            }
        }))
    }

    /// Writes the table, whole or not at all, and returns its path. It depends on the grid alone, not on who ran what when.
    ///
    /// # Errors
    /// If it cannot be written.
    pub fn finish(&self) -> Result<PathBuf> {
        let path = self.folder.join(RESULT);
        table::save(&path, self)?;
        Ok(path)
    }
}

/// Reads what is done.
fn read(
    (head, is_alone): (&Head, bool),
    (cells, made): (&[Cell], &Made),
    path: &Path,
) -> Result<Done> {
    let mut file = BufReader::new(File::open(path).at(|| path.display())?);
    let (mut done, mut line) = (Done::default(), String::new());
    let mut places: BTreeMap<&Cell, usize> = BTreeMap::new();
    for number in 1.. {
        let wrong = |what: &str| format!("{}: line {number}: {what}", path.display());
        line.clear();
        file.read_line(&mut line).at(|| path.display())?;
        if !line.ends_with('\n') {
            break;
        }
        if number == 1 {
            match serde_json::from_str::<Head>(&line) {
                Ok(found) if found == *head => {}
                // A grid that has grown: each run is looked for among its runs.
                Ok(found)
                    if is_alone && found.program == head.program && has_more(&mut file, path)? => {}
                // Nothing of the other one is lost: it has no run.
                Ok(_) if is_alone && !has_more(&mut file, path)? => break,
                Ok(_) => bail!(
                    "{}",
                    wrong(
                        "the folder has another sweep, or that of another version; name another folder"
                    )
                ),
                Err(_) => bail!("{}", wrong("it is no journal of a sweep; name another folder")),
            }
        } else {
            let Ok((of, row)) = serde_json::from_str::<Line>(&line) else {
                bail!("{}", wrong("it is no run of a sweep"));
            };
            if places.is_empty() {
                places = cells.iter().zip(0..).collect();
            }
            let Some(&at) = places.get(&row.cell).filter(|_| of == made.get(&row.cell)) else {
                bail!(
                    "{}",
                    wrong(&format!(
                        "the folder has another sweep: {} is not one of this grid, or of another file; a grid may only grow; name another folder",
                        row.cell.named()
                    ))
                );
            };
            done.check(&row)?;
            done.add(at, &row, done.bytes);
        }
        done.bytes += line.len() as u64;
    }
    Ok(done)
}

/// Reports whether a file has more to read.
fn has_more(file: &mut BufReader<File>, path: &Path) -> Result<bool> {
    Ok(!file.fill_buf().at(|| path.display())?.is_empty())
}

/// Returns a hash of the runs, and of what they are made of.
fn hash(cells: &[Cell], made: &Made) -> String {
    let mut hash = Xxh3::new();
    for cell in cells {
        let Cell { workload, kernel, machine, scale, seed } = cell;
        let made = made.get(cell);
        let text = format!("{workload}\t{kernel}\t{machine}\t{scale}\t{seed}\t{made}\n");
        hash.update(text.as_bytes());
    }
    format!("{:016x}", hash.digest())
}
