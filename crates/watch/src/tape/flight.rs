//! A flight file.

use std::path::{Path, PathBuf};

use pageblock_doctor::checkup::{Checkup, Rates, Sample, Signs, checkup};
use pageblock_doctor::flight::{self, EventKind, Flight};
use pageblock_measure::value::index::unusable_free_index;

use crate::error::Error;
use crate::source::{About, Curve, Level, Moment, Note, Source, ZoneAbout};
use crate::tape;

/// The moments that are shown of a longer file.
const MOMENTS: u64 = 1500;
/// The failures and stalls before a moment that are shown with it.
const EVENTS: usize = 5;

/// A flight file.
pub struct FlightTape {
    about: About,
    moments: Vec<Moment>,
    curves: Vec<Curve>,
    at: usize,
}

/// What is known while a file is read.
#[derive(Default)]
struct Reading {
    about: About,
    before: Option<Sample>,
    log: String,
    signs: Option<Signs>,
    signs_of: usize,
    events: Vec<Note>,
    moments: Vec<Moment>,
    figures: Vec<[Option<f64>; 9]>,
}

/// The names and units of the figures.
const FIGURES: [(&str, &str); 9] = [
    ("stalls: direct reclaim", "/s"),
    ("stalls: compaction", "/s"),
    ("waited for memory", "%"),
    ("faults: not huge", "/s"),
    ("faults: huge pages", "/s"),
    ("kswapd freed", "pages/s"),
    ("swapped out", "pages/s"),
    ("free memory", "MiB"),
    ("free below a pageblock", "%"),
];

impl FlightTape {
    /// Reads a flight file. `stop` is asked whether to end.
    ///
    /// # Errors
    /// If it cannot be read or has no sample.
    pub fn open(path: &Path, stop: &dyn Fn() -> bool) -> Result<Self, Error> {
        let flight = Flight::open(path)?;
        let (first, last) = (flight::first_ms(&flight)?, flight::last_ms(&flight)?);
        let step = last.saturating_sub(first) / MOMENTS;
        let mut reading = Reading::default();
        let mut due = first;
        let mut stopped = false;
        let extent = flight.each(&mut |moment| {
            let now = moment.wall_ms();
            reading.log += moment.log;
            for event in moment.events {
                let level = match event.kind {
                    EventKind::Stall => Level::Warning,
                    EventKind::Failure | EventKind::Oom => Level::Critical,
                };
                let text = format!("{}: {}", event.kind.name(), event.text);
                reading.events.push(Note { level, when: clock(now), text });
            }
            // A moment with an event is shown whatever its time.
            if now >= due || !moment.events.is_empty() {
                let sample = Sample::read(&flight.tree(moment.files(), None), false);
                reading.take(sample, now);
                due = now + step;
            }
            stopped = stop();
            !stopped
        })?;
        if stopped {
            return Err(pageblock_doctor::Error::Stopped.into());
        }
        let Reading { mut about, mut moments, figures, .. } = reading;
        about.title = format!("flight file {}", path.display());
        about.no_map = Some("a flight file has no map of pageblocks".to_owned());
        for moment in &mut moments {
            moment.missing.extend(extent.damage.iter().map(|what| format!("damaged: {what}")));
        }
        if moments.is_empty() {
            let why = "no whole sample in it".to_owned();
            return Err(pageblock_doctor::Error::Unusable { path: path.to_owned(), why }.into());
        }
        let curve = |(at, (name, unit)): (usize, (&str, &'static str))| Curve {
            name: name.to_owned(),
            unit,
            values: figures.iter().map(|values| values[at]).collect(),
        };
        let curves = FIGURES.into_iter().enumerate().map(curve).collect();
        Ok(Self { about, moments, curves, at: 0 })
    }
}

fn clock(wall_ms: u64) -> String {
    flight::time(wall_ms)[11..19].to_owned()
}

impl Reading {
    fn take(&mut self, mut sample: Sample, now: u64) {
        if self.about.zones.is_empty() {
            let zone = |zone: &pageblock_doctor::proc::zoneinfo::Zone| ZoneAbout {
                label: zone.label(),
                ..ZoneAbout::default()
            };
            self.about.zones = sample.zones.iter().map(zone).collect();
            self.about.page_kb = sample.page_kb;
        }
        if self.signs_of != self.log.len() {
            self.signs = Some(Signs::find(&self.log));
            self.signs_of = self.log.len();
        }
        sample.log = self.signs.clone();
        let made =
            checkup(self.before.as_ref().unwrap_or(&sample), self.before.as_ref().map(|_| &sample));
        self.about.pageblock_order = made.pageblock_order;
        self.figures.push(figures(&made, &sample));
        let events = self.events.iter().rev().take(EVENTS).cloned();
        let findings = made.findings.iter().map(|finding| Note {
            level: tape::level(finding.severity),
            when: String::new(),
            text: tape::finding(finding),
        });
        self.moments.push(Moment {
            when: flight::time(now),
            zones: tape::zones_of(&sample, &self.about),
            verdict: tape::verdict(&made),
            notes: events.chain(findings).collect(),
            ..Moment::default()
        });
        self.before = Some(sample);
    }
}

fn figures(made: &Checkup, sample: &Sample) -> [Option<f64>; 9] {
    let rate = |of: fn(&Rates) -> f64| made.rates.as_ref().map(of);
    let zones = &made.zones;
    let orders = zones.iter().map(|zone| zone.free_blocks.len()).max().unwrap_or(0);
    let of = |order: usize| zones.iter().filter_map(|zone| zone.free_blocks.get(order)).sum();
    let free: Vec<u64> = (0..orders).map(of).collect();
    let any = free.iter().any(|&blocks: &u64| blocks > 0);
    [
        rate(|rates| rates.direct_reclaim),
        rate(|rates| rates.compact_stall),
        made.rates.as_ref().and_then(|rates| rates.pressure_some),
        rate(|rates| rates.thp_fallback),
        rate(|rates| rates.thp_alloc),
        rate(|rates| rates.kswapd_freed),
        rate(|rates| rates.swapped_out),
        made.free.map(|free| free as f64 * sample.page_kb as f64 / 1024.0),
        any.then(|| unusable_free_index(&free, made.pageblock_order) as f64 / 10.0),
    ]
}

impl Source for FlightTape {
    fn about(&self) -> &About {
        &self.about
    }

    fn now(&self) -> &Moment {
        &self.moments[self.at]
    }

    fn curves(&self) -> &[Curve] {
        &self.curves
    }

    fn position(&self) -> (usize, usize) {
        (self.at, self.moments.len())
    }

    fn seek(&mut self, at: usize) {
        self.at = at.min(self.moments.len() - 1);
    }

    fn tick(&mut self) -> Result<(), Error> {
        Ok(())
    }

    fn block(&mut self, _: usize, _: u64) -> Vec<(String, String)> {
        Vec::new()
    }

    fn save(&mut self, _: &Path, _: &dyn Fn() -> bool) -> Result<PathBuf, Error> {
        Err(Error::NotLive(PathBuf::from(&self.about.title)))
    }
}
