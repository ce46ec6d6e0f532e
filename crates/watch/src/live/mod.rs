//! This machine, moment by moment.

mod curves;
mod scan;

use std::collections::{BTreeMap, VecDeque};
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use pageblock_doctor::checkup::{Rates, Sample, Signs, checkup};
use pageblock_doctor::flight::{self, FileText, Sampler};
use pageblock_doctor::forecast::{self, FrameTable, KINDS, Kind};
use pageblock_doctor::proc::page_size::uninitialised_frames;
use pageblock_doctor::proc::tree::Tree;
use pageblock_recorder::{FallbackEvents, Plan, Session};

use self::curves::{Curves, Now};
use self::scan::{Scan, Span};
use crate::error::Error;
use crate::source::{About, Curve, Moment, Note, Source, ZoneAbout};
use crate::tape;

/// The share of the time in which the map is read: of the first lap, and of those after it.
const FIRST_LAP: f64 = 0.25;
const LATER_LAPS: f64 = 0.01;
/// How often the lists by type are read, which takes the locks of zones, and the kernel's log.
const TYPES_MS: u64 = 5_000;
const LOG_MS: u64 = 60_000;
/// The time over which the doctor judges.
const JUDGED_S: f64 = 10.0;
/// How long a pageblock is marked that a fallback took.
const MARKED_MS: u64 = 5_000;
/// The most pageblocks that are marked, and read again at once.
const MARKED: usize = 256;
const TYPES: &str = "/proc/pagetypeinfo";

/// What is watched.
#[derive(Clone, PartialEq, Debug)]
pub struct LivePlan {
    /// The folder that has proc and sys of the machine.
    pub root: PathBuf,
    /// The time between two moments.
    pub interval: Duration,
    /// Whether a tracepoint says who falls back.
    pub events: bool,
}

/// This machine.
pub struct Live {
    about: About,
    plan: LivePlan,
    tree: Tree,
    sampler: Sampler,
    /// The files as they were last read.
    texts: BTreeMap<String, FileText>,
    began: Instant,
    types_ms: Option<u64>,
    log_ms: Option<u64>,
    log: Option<Signs>,
    samples: VecDeque<Sample>,
    /// The map, or why there is none.
    scan: Result<Scan, String>,
    fallbacks: Result<FallbackEvents, String>,
    numbering: pageblock::mobility::Numbering,
    /// The pageblocks that fallbacks took, and when.
    taken: VecDeque<(u64, u64)>,
    curves: Curves,
    /// The findings that were there before, and since when.
    since: BTreeMap<&'static str, String>,
    moment: Moment,
}

impl Live {
    /// Opens this machine, and reads its first moment.
    ///
    /// # Errors
    /// If there is no readable `zoneinfo`.
    pub fn open(plan: LivePlan) -> Result<Self, Error> {
        let source = forecast::Source::open(&plan.root)?;
        let order = source.sizes.pageblock;
        let spans: Vec<Span> = source
            .zones
            .iter()
            .map(|zone| {
                let (first, end) = (zone.start() >> order, zone.end().div_ceil(1 << order));
                Span { frames: (zone.start(), zone.end()), first, blocks: end - first }
            })
            .collect();
        let zone = |(zone, span): (&pageblock_doctor::proc::zoneinfo::Zone, &Span)| ZoneAbout {
            label: zone.label(),
            first: span.first,
            blocks: span.blocks,
        };
        let zones = source.zones.iter().zip(&spans).map(zone).collect();
        let iomem = source.tree.read("/proc/iomem").unwrap_or_default();
        let memory = pageblock_doctor::proc::iomem::memory(&iomem, source.page_kb);
        let scan = FrameTable::open(&source.tree)
            .map(|table| Scan::new(table, spans, order, source.rules, memory))
            .map_err(|error| match error {
                pageblock_doctor::Error::NotRoot { .. } => "root is needed".to_owned(),
                error => error.to_string(),
            });
        let managed: u64 = source.zones.iter().map(|zone| zone.managed).sum();
        let mut about = About {
            title: String::new(),
            page_kb: source.page_kb,
            pageblock_order: order,
            zones,
            no_map: scan.as_ref().err().map(|why| format!("no map: /proc/kpageflags: {why}")),
            live: true,
        };
        let version = source.version.as_ref().map(ToString::to_string).unwrap_or_default();
        about.title = format!("{version} {:.1} GiB", about.mib(managed) / 1024.0).trim().to_owned();
        let numbering = source.version.as_ref().map_or(
            pageblock::mobility::Numbering::Modern,
            pageblock_recording::KernelVersion::numbering,
        );
        let tree = Tree::new(&plan.root);
        let mut live = Self {
            sampler: Sampler::new(&plan.root),
            fallbacks: Err("not asked for".to_owned()),
            numbering,
            curves: Curves::new(order),
            plan,
            tree,
            about,
            texts: BTreeMap::new(),
            began: Instant::now(),
            types_ms: None,
            log_ms: None,
            log: None,
            samples: VecDeque::new(),
            scan,
            taken: VecDeque::new(),
            since: BTreeMap::new(),
            moment: Moment::default(),
        };
        live.start_events();
        live.tick()?;
        Ok(live)
    }

    /// Reads the whole map at once.
    ///
    /// # Errors
    /// If it cannot be read any more.
    pub fn read_all(&mut self) -> Result<(), Error> {
        let now_ms = self.now_ms();
        match &mut self.scan {
            Ok(scan) => scan.go_on(Duration::from_secs(3600), now_ms),
            Err(_) => Ok(()),
        }
    }

    /// Returns the milliseconds since it was opened.
    fn now_ms(&self) -> u64 {
        u64::try_from(self.began.elapsed().as_millis()).unwrap_or(u64::MAX)
    }

    fn start_events(&mut self) {
        if !self.plan.events {
            return;
        }
        self.fallbacks = match self.tree.is_live() {
            true => FallbackEvents::start(self.numbering).map_err(|error| brief(&error)),
            false => Err("not this machine".to_owned()),
        };
    }

    /// Reads the files that are due, and returns what they say.
    fn sample(&mut self, now_ms: u64) -> Sample {
        self.texts.extend(self.sampler.read(now_ms));
        let due = |at: Option<u64>, every: u64| at.is_none_or(|at| now_ms >= at + every);
        if due(self.types_ms, TYPES_MS) {
            self.types_ms = Some(now_ms);
            let text = self.tree.read(TYPES).map_err(|missing| missing.why);
            self.texts.insert(TYPES.to_owned(), text);
        }
        if due(self.log_ms, LOG_MS) {
            self.log_ms = Some(now_ms);
            self.log = Signs::of_machine(&self.tree).ok().map(|(log, _)| log);
        }
        let tree = Tree::of_texts(&self.plan.root, self.texts.clone());
        let mut sample = Sample::read(&tree, false);
        sample.log = self.log.clone();
        sample
    }

    /// Reads the fallbacks since the last moment, and the pageblocks that they took.
    fn read_fallbacks(&mut self, now_ms: u64) -> Option<[u64; 3]> {
        let seen = match self.fallbacks.as_mut().ok()?.read() {
            Ok(seen) => seen,
            Err(error) => {
                self.fallbacks = Err(error.to_string());
                return None;
            }
        };
        let mut counts = [0; 3];
        for fallback in &seen.fallbacks {
            if let Some(count) = counts.get_mut(fallback.requested as usize) {
                *count += 1;
            }
            let number = fallback.pfn.0 >> self.about.pageblock_order;
            self.taken.retain(|&(other, _)| other != number);
            self.taken.push_back((number, now_ms));
        }
        // Nobody knows whose the others were: shared as those that were read.
        let read = seen.fallbacks.len() as u64;
        if read > 0 {
            counts = counts.map(|count| count + seen.lost * count / read);
        }
        let old = |&(_, at): &(u64, u64)| at + MARKED_MS < now_ms;
        while self.taken.len() > MARKED || self.taken.front().is_some_and(old) {
            self.taken.pop_front();
        }
        Some(counts)
    }

    /// Reads a part of the map.
    fn read_map(&mut self, now_ms: u64) -> Result<(), Error> {
        let Ok(scan) = &mut self.scan else { return Ok(()) };
        let fresh = self.taken.iter().filter(|&&(_, at)| at == now_ms);
        for &(number, _) in fresh {
            scan.read_number(number)?;
        }
        let share = if scan.laps == 0 { FIRST_LAP } else { LATER_LAPS };
        scan.go_on(self.plan.interval.max(Duration::from_millis(500)).mul_f64(share), now_ms)
    }

    fn notes(&mut self, sample: &Sample, when: &str) -> (String, Vec<Note>) {
        let now = sample.uptime.unwrap_or(0.0);
        let old = |before: &Sample| now - before.uptime.unwrap_or(0.0) > JUDGED_S;
        while self.samples.len() > 1 && old(&self.samples[1]) {
            self.samples.pop_front();
        }
        let first = self.samples.front();
        let made = checkup(first.unwrap_or(sample), first.map(|_| sample));
        let names: Vec<&'static str> = made.findings.iter().map(|finding| finding.name).collect();
        self.since.retain(|name, _| names.contains(name));
        let notes = made.findings.iter().map(|finding| Note {
            level: tape::level(finding.severity),
            when: self.since.entry(finding.name).or_insert_with(|| when.to_owned()).clone(),
            text: tape::finding(finding),
        });
        let notes = notes.collect();
        (tape::verdict(&made), notes)
    }

    fn missing(&self, sample: &Sample) -> Vec<String> {
        let mut missing = Vec::new();
        if let Err(why) = &self.scan {
            missing.push(format!("map ({why})"));
        }
        if sample.types.is_none() {
            let why = self.texts.get(TYPES).and_then(|text| text.as_ref().err());
            let why = why.map_or("not there", String::as_str);
            missing.push(format!("orders by type ({TYPES}: {why})"));
        }
        if let Err(why) = &self.fallbacks {
            missing.push(format!("fallback events ({why})"));
        }
        if sample.pressure.is_none() {
            missing.push("memory pressure (no PSI)".to_owned());
        }
        if self.log.is_none() {
            missing.push("the kernel's log".to_owned());
        }
        if let Some(found) = sample.uninitialised() {
            missing.push(format!("{} MiB of memory (not initialised yet)", found.kbytes() / 1024));
        }
        missing
    }
}

/// Returns the frames of each zone that can be uninitialised; none where all memory is the zones'.
fn later(sample: &Sample) -> Vec<Range<u64>> {
    match sample.uninitialised() {
        Some(_) => sample.zones.iter().map(uninitialised_frames).collect(),
        None => Vec::new(),
    }
}

impl Source for Live {
    fn about(&self) -> &About {
        &self.about
    }

    fn now(&self) -> &Moment {
        &self.moment
    }

    fn curves(&self) -> &[Curve] {
        self.curves.all()
    }

    fn position(&self) -> (usize, usize) {
        let all = self.curves.len();
        (all.saturating_sub(1), all)
    }

    fn seek(&mut self, _: usize) {}

    fn tick(&mut self) -> Result<(), Error> {
        let now_ms = self.now_ms();
        let wall = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        let wall_ms = u64::try_from(wall.as_millis()).unwrap_or(0);
        let when = flight::time(wall_ms)[11..19].to_owned();
        let sample = self.sample(now_ms);
        let fallbacks = self.read_fallbacks(now_ms);
        if let Ok(scan) = &mut self.scan {
            scan.set_later(later(&sample));
        }
        self.read_map(now_ms)?;
        let rates = self.samples.back().and_then(|last| Rates::between(last, &sample).ok());
        let (verdict, notes) = self.notes(&sample, &when);
        let zones = tape::zones_of(&sample, &self.about);
        self.moment = Moment {
            when: format!("{when} UTC"),
            zones,
            cells: self.scan.as_ref().map(|scan| scan.cells.clone()).unwrap_or_default(),
            unsure: self.scan.as_ref().map(|scan| scan.unsure.clone()).unwrap_or_default(),
            map_age: self.scan.as_ref().map(age).unwrap_or_default(),
            taken: self.taken.iter().map(|&(number, _)| number).collect(),
            verdict,
            notes,
            missing: self.missing(&sample),
        };
        let now =
            Now { moment: &self.moment, about: &self.about, rates: rates.as_ref(), fallbacks };
        self.curves.push(&now);
        self.samples.push_back(sample);
        Ok(())
    }

    fn block(&mut self, zone: usize, block: u64) -> Vec<(String, String)> {
        let pages = 1_u64 << self.about.pageblock_order;
        let number = self.about.zones[zone].first + block;
        let first = number << self.about.pageblock_order;
        let mib = self.about.mib(first);
        let mut facts = vec![
            ("frames".to_owned(), format!("{first:#x} to {:#x}", first + pages - 1)),
            ("address".to_owned(), format!("{:.3} GiB", mib / 1024.0)),
        ];
        let Ok(scan) = &mut self.scan else { return facts };
        match scan.count(zone, block, block + 1) {
            Ok(counted) => facts.extend(counted.first().map(kinds).unwrap_or_default()),
            Err(error) => facts.push(("not read".to_owned(), error.to_string())),
        }
        facts
    }

    fn save(&mut self, folder: &Path, stop: &dyn Fn() -> bool) -> Result<PathBuf, Error> {
        let wall = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        let wall_ms = u64::try_from(wall.as_millis()).unwrap_or(0);
        let time = flight::time(wall_ms).replace(['-', ':'], "");
        let out = folder.join(format!("watch-{time}.pbrec"));
        // A process has one instance of tracefs.
        self.fallbacks = Err("a moment is saved".to_owned());
        let plan = Plan {
            out: out.clone(),
            buffer_kib: None,
            all_events: false,
            probes: false,
            stacks: false,
            ring: None,
        };
        let saved =
            Session::start(plan, stop).and_then(|session| session.finish(stop, &mut |_, _| {}));
        self.start_events();
        saved?;
        Ok(out)
    }
}

/// Returns how much of the map is how old.
fn age(scan: &Scan) -> String {
    match scan.laps {
        0 => format!("{} % read", scan.percent()),
        1 => "read once".to_owned(),
        _ => format!("read in {} s", scan.lap_ms.div_ceil(1000)),
    }
}

/// Returns what the frames of a pageblock are, most first.
fn kinds(kinds: &[u32; KINDS]) -> Vec<(String, String)> {
    let mut counted: Vec<(Kind, u32)> =
        Kind::ALL.into_iter().zip(kinds.iter().copied()).filter(|&(_, count)| count > 0).collect();
    counted.sort_by_key(|&(kind, count)| (std::cmp::Reverse(count), kind));
    let line = |(kind, count): (Kind, u32)| (kind.name().to_owned(), format!("{count} pages"));
    counted.into_iter().map(line).collect()
}

/// Returns the beginning of an error, which goes on about what the recorder needs.
fn brief(error: &pageblock_recorder::Error) -> String {
    match error {
        pageblock_recorder::Error::NotRoot { .. } => "root is needed".to_owned(),
        pageblock_recorder::Error::NoTracefs => "no tracefs is mounted".to_owned(),
        error => error.to_string(),
    }
}
