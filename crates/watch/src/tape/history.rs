//! A run or a recording that has its history.

use std::path::{Path, PathBuf};

use pageblock_measure::value::history::Taker;
use pageblock_picture::{Opened, Series, Subject, character, timeline};

use crate::error::Error;
use crate::source::{About, Curve, Level, Moment, Note, Source, ZoneAbout, ZoneNow};

/// The takers of pageblocks that are named.
const TAKERS: usize = 6;

/// A run, or a recording that was replayed.
pub struct HistoryTape {
    opened: Opened,
    about: About,
    curves: Vec<Curve>,
    notes: Vec<Note>,
    at: usize,
    moment: Moment,
}

impl HistoryTape {
    /// Opens a run; `None` if it has no history.
    ///
    /// # Errors
    /// If its history is damaged.
    pub fn open(subject: &Subject) -> Result<Option<Self>, Error> {
        let Some(opened) = Opened::of(subject)? else { return Ok(None) };
        let history = &opened.history;
        let order = history.pageblock_order;
        let zone = |zone: &pageblock_measure::value::history::ZoneHistory| ZoneAbout {
            label: format!("node {} {}", zone.node, zone.zone),
            first: zone.start >> order,
            blocks: zone.blocks,
        };
        let about = About {
            title: format!("{} on {}", subject.name, subject.workload),
            page_kb: 4,
            pageblock_order: order,
            zones: history.zones.iter().map(zone).collect(),
            no_map: None,
            live: false,
        };
        let curves = curves(&opened);
        let notes = notes(subject, &history.takers);
        let mut tape = Self { opened, about, curves, notes, at: 0, moment: Moment::default() };
        tape.seek(0);
        Ok(Some(tape))
    }
}

fn curves(opened: &Opened) -> Vec<Curve> {
    let history = &opened.history;
    let times = &history.times_us;
    let fallbacks = (0..times.len()).map(|at| {
        let before = at.checked_sub(1)?;
        let seconds = times[at].saturating_sub(times[before]) as f64 / 1e6;
        let events = history.fallbacks_until[at].saturating_sub(history.fallbacks_until[before]);
        (seconds > 0.0).then(|| events as f64 / seconds)
    });
    let first = Curve { name: "fallbacks".to_owned(), unit: "/s", values: fallbacks.collect() };
    let of = |Series { title, values }: Series| {
        let (name, unit) = match title.split_once(" [") {
            Some((name, "MiB]")) => (name, "MiB"),
            Some((name, "%]")) => (name, "%"),
            Some((name, "pages/s]")) => (name, "pages/s"),
            Some((name, "1/s]")) => (name, "/s"),
            _ => (title, ""),
        };
        let name =
            name.replace("free memory in blocks below a pageblock", "free below a pageblock");
        let name = name.replace("pageblocks held by pages that cannot be moved", "blocks held");
        let name = name.replace("stalls: direct reclaim and compaction", "stalls");
        let name = name.replace("faults that got small pages instead", "faults: not huge");
        let name = name.replace("huge pages on fault", "faults: huge pages");
        Curve { name, unit, values: values.into_iter().map(Some).collect() }
    };
    let mut curves: Vec<Curve> = timeline(opened).into_iter().map(of).collect();
    // Free memory, what of it is unusable and held blocks come last, as for this machine.
    let states = curves.len().min(3);
    curves.rotate_left(states);
    curves.insert(0, first);
    curves
}

/// Returns what the file says of itself, and who took pageblocks, those with the most lost blocks first.
fn notes(subject: &Subject, takers: &[Taker]) -> Vec<Note> {
    let line = |text: String| Note { level: Level::Notice, when: String::new(), text };
    let taker = |taker: &Taker| {
        let fallbacks = taker.claims + taker.pollutions + taker.steals;
        line(format!(
            "{}: {} pageblocks lost, {fallbacks} fallbacks{}",
            taker.command,
            taker.lost,
            taker.site.as_ref().map_or(String::new(), |site| format!(", in {site}"))
        ))
    };
    let takers = takers.iter().take(TAKERS).map(taker);
    let texts = subject.certificate.iter().chain(&subject.notes);
    takers.chain(texts.map(|text| line(text.trim().replace('\n', " ")))).collect()
}

impl Source for HistoryTape {
    fn about(&self) -> &About {
        &self.about
    }

    fn now(&self) -> &Moment {
        &self.moment
    }

    fn curves(&self) -> &[Curve] {
        &self.curves
    }

    fn position(&self) -> (usize, usize) {
        (self.at, self.opened.cells.len())
    }

    fn seek(&mut self, at: usize) {
        self.at = at.min(self.opened.cells.len() - 1);
        let history = &self.opened.history;
        let seconds = |at: usize| history.times_us[at] as f64 / 1e6;
        let last = history.times_us.len() - 1;
        let zones = history.zones.iter().map(|zone| {
            let orders: Vec<u64> = zone.free.iter().map(|free| free[self.at]).collect();
            let free = orders.iter().zip(0..).map(|(blocks, order)| blocks << order).sum();
            let boost = zone.boost[self.at];
            let marks = zone.watermarks.map(|mark| mark + boost);
            ZoneNow { managed: zone.managed, free, marks, boost, orders, by_type: None }
        });
        let held = self.opened.held(self.at);
        let fallbacks = history.fallbacks_until[self.at];
        self.moment = Moment {
            when: format!("{:.1} of {:.1} s", seconds(self.at), seconds(last)),
            zones: zones.collect(),
            cells: self.opened.cells[self.at].iter().copied().map(Some).collect(),
            map_age: String::new(),
            unsure: Vec::new(),
            taken: Vec::new(),
            verdict: format!(
                "{held} blocks hold pages that cannot be moved; {fallbacks} fallbacks so far"
            ),
            notes: self.notes.clone(),
            missing: Vec::new(),
        };
    }

    fn tick(&mut self) -> Result<(), Error> {
        Ok(())
    }

    fn block(&mut self, zone: usize, block: u64) -> Vec<(String, String)> {
        let order = self.about.pageblock_order;
        let zones = &self.about.zones;
        let before: u64 = zones[..zone].iter().map(|zone| zone.blocks).sum();
        let at = (before + block) as usize;
        let cell = self.opened.cells[self.at][at];
        let first = (zones[zone].first + block) << order;
        let types = &self.opened.history.types;
        let name = types.get(usize::from(cell.migratetype)).cloned().unwrap_or_default();
        let mut facts = vec![
            ("frames".to_owned(), format!("{first:#x} to {:#x}", first + (1 << order) - 1)),
            ("type".to_owned(), name),
            ("content".to_owned(), cell.content.name().to_owned()),
            ("free".to_owned(), format!("{} eighths", cell.free_eighths)),
            ("cannot be moved".to_owned(), format!("{} pages", cell.stuck)),
        ];
        if cell.foreign {
            facts.push(("most pages".to_owned(), "of another type than the block".to_owned()));
        }
        let letters = self.opened.cells.iter().map(|cells| character(&cells[at]));
        let letters: Vec<char> = letters.collect();
        facts.push(("over time".to_owned(), shortened(&letters, 40)));
        facts
    }

    fn save(&mut self, _: &Path, _: &dyn Fn() -> bool) -> Result<PathBuf, Error> {
        Err(Error::NotLive(PathBuf::from(&self.about.title)))
    }
}

/// Returns so many of the letters, evenly.
fn shortened(letters: &[char], most: usize) -> String {
    let all = letters.len();
    let shown = all.min(most);
    (0..shown).map(|at| letters[at * (all - 1) / (shown - 1).max(1)]).collect()
}
