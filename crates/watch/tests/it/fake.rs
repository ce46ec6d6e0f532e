//! A source whose moments the tests choose.

use std::path::{Path, PathBuf};

use pageblock_measure::value::history::{Cell, Content};
use pageblock_picture::Theme;
use pageblock_watch::{
    About, App, Colors, Curve, Error, Level, Look, Moment, Note, Source, ZoneAbout, ZoneNow, draw,
};
use ratatui::Terminal;
use ratatui::backend::TestBackend;
use ratatui::buffer::Buffer;

pub(crate) struct Fake {
    pub(crate) about: About,
    pub(crate) moment: Moment,
    pub(crate) curves: Vec<Curve>,
    pub(crate) at: usize,
    pub(crate) saved: usize,
}

pub(crate) fn cell(content: Content, stuck: u16) -> Cell {
    Cell { content, stuck, ..Cell::default() }
}

impl Fake {
    /// Two zones: 512 pageblocks from 0 on, 1024 from 4 GiB on, with a hole in between.
    pub(crate) fn new(live: bool) -> Self {
        let zone =
            |label: &str, first, blocks| ZoneAbout { label: label.to_owned(), first, blocks };
        let about = About {
            title: "6.18 3.0 GiB".to_owned(),
            page_kb: 4,
            pageblock_order: 9,
            zones: vec![zone("node 0 DMA32", 0, 512), zone("node 0 Normal", 2048, 1024)],
            no_map: None,
            live,
        };
        let now = |free: u64, marks| ZoneNow {
            managed: 262_144,
            free,
            marks,
            boost: 0,
            orders: vec![10, 5, 0, 0, 0, 0, 0, 0, 0, 2, free >> 10],
            by_type: None,
        };
        let mut cells = vec![Some(cell(Content::Free, 0)); 512];
        let classes = [
            (Content::Movable, 0),
            (Content::Mixed, 70),
            (Content::Unmovable, 512),
            (Content::Free, 0),
        ];
        cells.extend((0..1024).map(|at| {
            let (content, stuck) = classes[at / 256];
            Some(cell(content, stuck))
        }));
        let note =
            |level, text: &str| Note { level, when: "12:00:01".to_owned(), text: text.to_owned() };
        let moment = Moment {
            when: "12:00:05 UTC".to_owned(),
            zones: vec![now(200_000, [100, 200, 300]), now(150, [100, 200, 300])],
            cells,
            verdict: "fragmented: yes  hurts: no".to_owned(),
            notes: vec![
                note(Level::Critical, "kcompactd burns a CPU"),
                note(Level::Notice, "swap is off"),
            ],
            ..Moment::default()
        };
        let curve = |name: &str, values: &[f64]| Curve {
            name: name.to_owned(),
            unit: "/s",
            values: values.iter().copied().map(Some).collect(),
        };
        let rising: Vec<f64> = (0..20).map(f64::from).collect();
        let curves =
            vec![curve("fallbacks: unmovable", &rising), curve("stalls: compaction", &[0.0; 20])];
        Self { about, moment, curves, at: 19, saved: 0 }
    }
}

impl Source for Fake {
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
        (self.at, 20)
    }

    fn seek(&mut self, at: usize) {
        self.at = at.min(19);
    }

    fn tick(&mut self) -> Result<(), Error> {
        Ok(())
    }

    fn block(&mut self, zone: usize, block: u64) -> Vec<(String, String)> {
        vec![("asked for".to_owned(), format!("zone {zone} block {block}"))]
    }

    fn save(&mut self, folder: &Path, _: &dyn Fn() -> bool) -> Result<PathBuf, Error> {
        self.saved += 1;
        Ok(folder.join("saved"))
    }
}

pub(crate) fn look(colors: Colors) -> Look {
    Look { colors, theme: Theme::Dark, ascii: false }
}

/// Draws a screen.
pub(crate) fn screen(app: &mut App, source: &dyn Source, (width, height): (u16, u16)) -> Buffer {
    let mut terminal = Terminal::new(TestBackend::new(width, height)).unwrap();
    terminal.draw(|frame| draw(frame, app, source)).unwrap();
    terminal.backend().buffer().clone()
}

/// Returns the lines of a screen.
pub(crate) fn lines(buffer: &Buffer) -> Vec<String> {
    let area = buffer.area;
    let line = |y| (0..area.width).map(|x| buffer[(x, y)].symbol()).collect::<String>();
    (0..area.height).map(line).collect()
}

pub(crate) fn text(buffer: &Buffer) -> String {
    lines(buffer).join("\n")
}
