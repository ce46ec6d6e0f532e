//! The contents of a recording.

use std::collections::BTreeMap;

use pageblock::mobility::Migratetype;
use pageblock_measure::ExtfragKey;
use pageblock_measure::certificate::Grade;
use pageblock_measure::certificate::contents::{
    CommandStatistics, Contents, Statistics, ZoneContents,
};
use pageblock_recording::{Columnar, Error, Record, Recording, What};

/// Returns the contents of a recording without reading its events. `grade` is the grade that was kept with it.
///
/// # Errors
/// If the file with the events cannot be examined.
pub fn contents(
    recording: &Recording,
    columnar: &Columnar,
    grade: Option<Grade>,
) -> Result<Contents, Error> {
    let file = &recording.events_file;
    let bytes = file.metadata().map_err(|source| Error::Io { file: file.clone(), source })?.len();
    let start = &recording.start;
    let zones = start.zones.iter().filter(|zone| zone.managed > 0);
    let zones = zones.map(|zone| ZoneContents {
        node: zone.node,
        zone: zone.name.to_string(),
        managed: zone.managed,
        free: zone.nr_free_pages,
    });
    Ok(Contents {
        recording: recording.name.clone(),
        kernel: recording.kernel.text.clone(),
        kernel_assumed: recording.kernel_assumed,
        bytes,
        events: columnar.events,
        seconds: seconds(columnar),
        lost: columnar.losses.total(),
        not_understood: columnar.not_understood,
        start_state: recording.start_known,
        start_exact: recording.start_known && start.exact,
        end_state: recording.end.is_some(),
        pageblock_order: recording.pageblock_order,
        zones: zones.collect(),
        commands: recording.comms.len(),
        settings: recording.settings.len(),
        grade,
    })
}

fn seconds(columnar: &Columnar) -> f64 {
    columnar.last_t_us.saturating_sub(columnar.first_t_us) as f64 / 1e6
}

/// Counts the events of a recording. `progress` is called now and then with the number of events done. Returns
/// `None` if `stop` returns true.
///
/// # Errors
/// If the events cannot be read.
pub fn statistics(
    recording: &Recording,
    columnar: &Columnar,
    progress: &mut dyn FnMut(u64),
    stop: &dyn Fn() -> bool,
) -> Result<Option<Statistics>, Error> {
    let mut counts = Counts::default();
    let mut of = Statistics {
        recording: recording.name.clone(),
        seconds: seconds(columnar),
        pageblock_order: recording.pageblock_order,
        ..Statistics::default()
    };
    let mut chunks = columnar.chunks()?;
    while let Some(chunk) = chunks.next_chunk()? {
        for record in chunk {
            counts.push(record, &mut of);
        }
        of.events += chunk.len() as u64;
        progress(of.events);
        if stop() {
            return Ok(None);
        }
    }
    counts.finish(recording, &mut of);
    of.lost = columnar
        .losses
        .by_cpu
        .iter()
        .map(|(cpu, &lost)| (cpu.map_or("-".to_owned(), |cpu| cpu.to_string()), lost))
        .collect();
    Ok(Some(of))
}

/// Counts, to be turned into names at the end.
#[derive(Default)]
struct Counts {
    events: BTreeMap<Box<str>, u64>,
    cpus: Vec<u64>,
    /// By type and order: the number of requests, and of failed ones.
    requests: BTreeMap<(Migratetype, u8), (u64, u64)>,
    tasks: BTreeMap<u32, CommandStatistics>,
}

impl Counts {
    fn push(&mut self, record: &Record, of: &mut Statistics) {
        let cpu = usize::from(record.cpu);
        if cpu >= self.cpus.len() {
            self.cpus.resize(cpu + 1, 0);
        }
        self.cpus[cpu] += 1;
        let name = record.what.name();
        match self.events.get_mut(name) {
            Some(events) => *events += 1,
            None => {
                self.events.insert(name.into(), 1);
            }
        }
        match &record.what {
            What::Alloc { pfn, order, mt, .. } => {
                let task = self.tasks.entry(record.pid).or_default();
                task.requests += 1;
                task.pages += 1 << order;
                if !matches!(mt, Migratetype::Movable | Migratetype::Cma) {
                    task.unmovable_pages += 1 << order;
                }
                let (requests, failed) = self.requests.entry((*mt, *order)).or_default();
                *requests += 1;
                *failed += u64::from(pfn.is_none());
            }
            What::Extfrag(extfrag) => {
                of.fallbacks.record(extfrag);
                if ExtfragKey::from(extfrag).fragmenting(of.pageblock_order) {
                    self.tasks.entry(record.pid).or_default().fragmenting += 1;
                }
            }
            _ => {}
        }
    }

    fn finish(self, recording: &Recording, of: &mut Statistics) {
        of.by_event = self.events.into_iter().map(|(name, events)| (name.into(), events)).collect();
        of.cpus = (0..).zip(self.cpus).filter(|&(_, events)| events > 0).collect();
        for ((mt, order), (requests, failed)) in self.requests {
            let name = mt.name().to_owned();
            of.requests.entry(name.clone()).or_default().insert(order, requests);
            if failed > 0 {
                of.failed.entry(name).or_default().insert(order, failed);
            }
        }
        let mut commands: BTreeMap<String, CommandStatistics> = BTreeMap::new();
        for (pid, task) in self.tasks {
            let name = recording.comms.get(&pid).cloned();
            let name = name.unwrap_or_else(|| format!("pid {pid}"));
            let sum = commands.entry(name.clone()).or_default();
            sum.command = name;
            sum.requests += task.requests;
            sum.pages += task.pages;
            sum.unmovable_pages += task.unmovable_pages;
            sum.fragmenting += task.fragmenting;
        }
        of.commands = commands.into_values().collect();
        of.commands.sort_by(|a, b| b.pages.cmp(&a.pages).then_with(|| a.command.cmp(&b.command)));
    }
}
