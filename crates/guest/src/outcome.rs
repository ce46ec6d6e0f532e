//! A saved run of what a guest reported, of the form that simulations give. What a real kernel does not count is absent.

use std::io::Cursor;
use std::path::Path;

use pageblock::mobility::{Migratetype, Numbering};
use pageblock_kernel::Named;
use pageblock_measure::certificate::note::Note;
use pageblock_measure::value::blocks::TypeCounts;
use pageblock_measure::value::clock::Clock;
use pageblock_measure::value::ended::{EndReason, Ended};
use pageblock_measure::{Counters, EventUnit, ExtfragKey, ExtfragMatrix, Origin, Run};
use pageblock_recording::{
    BuddyInfo, Input, KernelVersion, MemInfo, PageTypeInfo, ProcFiles, VmStat,
};
use pageblock_simulate::sim::machine_file::MachineSpec;

use crate::error::Error;
use crate::message::{Files, Measured, Message};
use crate::qemu::Accelerator;
use crate::workload::GuestWorkload;

/// Samples that are times and stand in a table of iterations.
const TIMES: [&str; 1] = ["hugealloc-time"];

/// What a run is of.
#[derive(Clone, Copy, Debug)]
pub struct Subject<'s> {
    /// Which run, for errors.
    pub label: &'s str,
    /// The column's name: the kernel and what was set.
    pub policy: &'s str,
    /// The workload.
    pub workload: GuestWorkload,
    /// The simulated machine that the guest stands for.
    pub machine: &'s MachineSpec,
    /// The kernel's release.
    pub release: &'s str,
    /// Its version.
    pub version: &'s KernelVersion,
    /// The seed.
    pub seed: u64,
    /// Who ran the guest's instructions.
    pub accelerator: Accelerator,
    /// QEMU's version.
    pub qemu: &'s str,
}

impl Subject<'_> {
    fn wrong(&self, what: &'static str, why: impl ToString) -> Error {
        Error::Report { label: self.label.to_owned(), what, why: why.to_string() }
    }

    /// Makes a run of the reports of a guest.
    ///
    /// # Errors
    /// [`Error::Report`] for reports that are not those of a whole run.
    pub fn run(&self, messages: &[Message]) -> Result<Run, Error> {
        let (mut start, mut end, mut measured, mut ended) = (None, None, Measured::default(), None);
        for message in messages {
            match message {
                Message::Start { files, fallbacks } => start = Some((files, fallbacks)),
                Message::End { files, fallbacks } => end = Some((files, fallbacks)),
                Message::Measured(of_load) => measured = of_load.clone(),
                Message::Ended { why } => ended = Some(why),
                _ => {}
            }
        }
        let missing = || self.wrong("report", "it is not of a whole run");
        let (start, fallbacks_before) = start.ok_or_else(missing)?;
        let (end, fallbacks) = end.ok_or_else(missing)?;
        let preset = pageblock_replay::machine::preset_of(self.version);
        let mut run = Run {
            policy: self.policy.to_owned(),
            workload: self.workload.name().to_owned(),
            machine: self.machine.name.clone(),
            origin: Origin::Real,
            seed: self.seed,
            counters: self.counters(start, end)?,
            extfrag_unit: Some(EventUnit::of(&Named::parse(preset.name)?.kernel.allocator)),
            tables: Some(self.workload.tables()?),
            clock: self.accelerator.emulates().then_some(Clock::Emulated),
            samples: measured.samples,
            notes: self.notes(start)?.into_iter().map(Note::Words).collect(),
            ended: ended.map(|why| Ended {
                why: EndReason::OutOfMemory,
                task: why.clone(),
                request: String::new(),
                since_ms: 0,
                at_ms: 0,
            }),
            ..Run::default()
        };
        if run.clock.is_some() {
            // Tables of iterations have counts and times: what is a time gets a name of its own.
            for name in TIMES {
                let times = run.samples.remove(name);
                run.samples.extend(times.map(|times| (format!("emulated-{name}"), times)));
            }
        }
        measured.counters.into_iter().for_each(|(name, count)| run.counters.set(name, count));
        run.notes.extend(measured.notes.into_iter().map(Note::Words));
        self.state(end, &mut run)?;
        run.extfrag =
            since(&self.fallbacks(fallbacks, end)?, &self.fallbacks(fallbacks_before, end)?);
        Ok(run)
    }

    fn text<'f>(&self, files: &'f Files, name: &'static str) -> Result<&'f str, Error> {
        files
            .get(name)
            .map(String::as_str)
            .ok_or_else(|| self.wrong(name, "the kernel has no such file"))
    }

    fn input(&self, files: &Files, name: &'static str) -> Result<Input, Error> {
        let text = self.text(files, name)?.to_owned().into_bytes();
        Input::from_reader(Cursor::new(text), Path::new(name))
            .map_err(|error| self.wrong(name, error))
    }

    /// Returns what the kernel counted between start and end.
    fn counters(&self, start: &Files, end: &Files) -> Result<Counters, Error> {
        let read = |files| -> Result<Counters, Error> {
            let stat = VmStat::read(self.input(files, "vmstat")?);
            Ok(stat.map_err(|error| self.wrong("vmstat", error))?.0.into_iter().collect())
        };
        Ok(read(end)?.since(&read(start)?).without_levels())
    }

    /// Sets the state of memory at the end.
    fn state(&self, end: &Files, run: &mut Run) -> Result<(), Error> {
        let buddy = BuddyInfo::read(self.input(end, "buddyinfo")?)
            .map_err(|e| self.wrong("buddyinfo", e))?;
        let many = buddy.free.keys().any(|(node, _)| *node > 0);
        for ((node, zone), free) in buddy.free {
            run.set_free_blocks(&if many { format!("{node}-{zone}") } else { zone }, free);
        }
        let types = self.types(end)?;
        run.pageblock_order = types.pageblock_order;
        let mut blocks = TypeCounts::default();
        types.blocks.iter().for_each(|((_, mt), count)| blocks[*mt] += count);
        run.blocks_by_type = Some(blocks);
        Ok(())
    }

    fn types(&self, files: &Files) -> Result<PageTypeInfo, Error> {
        PageTypeInfo::read(self.input(files, "pagetypeinfo")?)
            .map_err(|e| self.wrong("pagetypeinfo", e))
    }

    /// Reads the histograms of fallbacks, each of one requested order.
    fn fallbacks(&self, text: &str, end: &Files) -> Result<ExtfragMatrix, Error> {
        let cma = self.types(end)?.has_cma();
        fallbacks(text, self.version.numbering(), cma)
            .map_err(|why| self.wrong("histogram of fallbacks", why))
    }

    fn notes(&self, start: &Files) -> Result<Vec<String>, Error> {
        let zones = ProcFiles::read_zoneinfo(self.input(start, "zoneinfo")?)
            .map_err(|e| self.wrong("zoneinfo", e))?;
        let managed: u64 = zones.zones.iter().map(|zone| zone.managed).sum();
        let free = MemInfo::parse(self.text(start, "meminfo")?)
            .get("MemFree")
            .ok_or_else(|| self.wrong("meminfo", "no MemFree"))?;
        let mut notes = vec![format!(
            "{}: Linux {} in QEMU {}{}; {} of {} MiB were free before the workload, {} MiB are simulated.",
            self.policy,
            self.release,
            self.qemu,
            match self.accelerator {
                Accelerator::Kvm => " with KVM",
                Accelerator::Tcg => " without KVM",
                Accelerator::Icount => " without KVM, a nanosecond an instruction",
            },
            free / 1024,
            managed / 256,
            self.machine.pages() / 256
        )];
        if self.accelerator.emulates() {
            notes.push(
                "Times of guests without KVM are the emulator's: they are saved, and not compared."
                    .to_owned(),
            );
        }
        Ok(notes)
    }
}

/// Returns what was counted between two readings.
fn since(end: &ExtfragMatrix, start: &ExtfragMatrix) -> ExtfragMatrix {
    let mut matrix = ExtfragMatrix::new();
    for (key, count) in end.iter() {
        let count = count.saturating_sub(start.sum(|other| other == key));
        if count > 0 {
            matrix.add(*key, count);
        }
    }
    matrix
}

/// Reads what the kernel prints of histograms with the keys requested type, found type and found order, and the sum of
/// `change_ownership`; the filter of each says the requested order.
fn fallbacks(text: &str, numbering: Numbering, cma: bool) -> Result<ExtfragMatrix, String> {
    let mut matrix = ExtfragMatrix::new();
    let mut order = None;
    for line in text.lines() {
        if line.starts_with("# trigger info:") {
            let filter = line.split_once("if alloc_order == ").map(|(_, rest)| rest);
            let number = filter.and_then(|rest| rest.split_whitespace().next()?.parse().ok());
            order = Some(number.ok_or_else(|| format!("no order in '{line}'"))?);
        } else if let Some(dropped) = line.trim().strip_prefix("Dropped:")
            && dropped.trim() != "0"
        {
            return Err(format!("the kernel dropped {} events", dropped.trim()));
        } else if line.starts_with('{') {
            let alloc_order = order.ok_or("a histogram without its trigger")?;
            let fields: Vec<u64> = line
                .split(|c: char| !c.is_ascii_digit())
                .filter_map(|digits| digits.parse().ok())
                .collect();
            let &[alloc, fallback, fallback_order, hits, owned] = fields.as_slice() else {
                return Err(format!("five numbers were expected in '{line}'"));
            };
            let mt = |number: u64| -> Result<Migratetype, String> {
                let mt =
                    u8::try_from(number).ok().and_then(|number| numbering.migratetype(number, cma));
                mt.ok_or_else(|| format!("migratetype {number} in '{line}'"))
            };
            let fallback_order =
                u8::try_from(fallback_order).map_err(|_| format!("an order in '{line}'"))?;
            let (alloc_mt, fallback_mt) = (mt(alloc)?, mt(fallback)?);
            for (owned, count) in [(true, owned), (false, hits.saturating_sub(owned))] {
                if count > 0 {
                    matrix.add(
                        ExtfragKey { alloc_mt, fallback_mt, alloc_order, fallback_order, owned },
                        count,
                    );
                }
            }
        }
    }
    Ok(matrix)
}

#[cfg(test)]
mod tests {
    use super::*;

    const HISTOGRAM: &str = "# event histogram\n#\n\
        # trigger info: hist:keys=alloc_migratetype,fallback_migratetype,fallback_order:vals=hitcount,change_ownership:sort=hitcount:size=512 if alloc_order == 3 [active]\n#\n\n\
        { alloc_migratetype:          0, fallback_migratetype:          1, fallback_order:          9 } hitcount:          5  change_ownership:          2\n\n\
        Totals:\n    Hits: 5\n    Entries: 1\n    Dropped: 0\n";

    #[test]
    fn a_histogram_is_a_matrix() {
        let matrix = fallbacks(HISTOGRAM, Numbering::Modern, false).unwrap();
        let key = |owned| ExtfragKey {
            alloc_mt: Migratetype::Unmovable,
            fallback_mt: Migratetype::Movable,
            alloc_order: 3,
            fallback_order: 9,
            owned,
        };
        let found: Vec<_> = matrix.iter().map(|(key, count)| (*key, count)).collect();
        assert_eq!(found, [(key(false), 3), (key(true), 2)]);
    }

    #[test]
    fn a_histogram_with_losses_is_refused() {
        let lost = HISTOGRAM.replace("Dropped: 0", "Dropped: 7");
        let error = fallbacks(&lost, Numbering::Modern, false).unwrap_err();
        assert_eq!(error, "the kernel dropped 7 events");
    }
}
