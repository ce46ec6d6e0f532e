//! What the user looks at, and what keys change.

use std::time::Duration;

use pageblock_picture::Theme;

use crate::look::Look;
use crate::screen::MapLayout;
use crate::source::Source;

/// A key.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Key {
    /// A character.
    Char(char),
    /// An arrow.
    Left,
    /// See `Left`.
    Right,
    /// See `Left`.
    Up,
    /// See `Left`.
    Down,
    /// To the beginning.
    Home,
    /// To the end.
    End,
    /// A tenth back.
    PageUp,
    /// A tenth on.
    PageDown,
    /// The details of a block.
    Enter,
    /// Closes what is open.
    Esc,
    /// The next run of a file.
    Tab,
    /// Ctrl-C.
    Interrupt,
}

/// What is to be done.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Action {
    /// The screen is to be drawn again.
    Draw,
    /// Nothing.
    Nothing,
    /// The moment is to be saved.
    Save,
    /// The next run of the file is to be shown.
    Next,
    /// The user leaves.
    Quit,
    /// Ctrl-C.
    Interrupt,
}

/// What stands where the map is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum View {
    /// The map of pageblocks.
    Map,
    /// Figures over time.
    Time,
}

/// What lies above the rest.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) enum Popup {
    None,
    Help,
    /// A pageblock: what it is called, and what is known of it.
    Block(String, Vec<(String, String)>),
}

/// The slowest and the fastest playback: milliseconds for a moment.
const SLOWEST_MS: u64 = 4000;
const FASTEST_MS: u64 = 30;

/// What the user looks at.
#[derive(Clone, Debug)]
pub struct App {
    pub(crate) look: Look,
    pub(crate) view: View,
    pub(crate) popup: Popup,
    /// The zone that is shown; `None` for all.
    pub(crate) zone: Option<usize>,
    pub(crate) order: u8,
    /// Whether nothing goes on: this machine is not read, or the file does not play.
    pub(crate) paused: bool,
    pub(crate) letters: bool,
    /// Whether a cell of several pageblocks shows the worst; else what most of them are.
    pub(crate) worst: bool,
    /// By how many powers of two nearer than what shows everything.
    pub(crate) zoom: u8,
    /// The number of a pageblock in physical memory.
    pub(crate) cursor: Option<u64>,
    /// Milliseconds for a moment of a file.
    pub(crate) pace_ms: u64,
    /// The last message.
    pub(crate) message: String,
    /// Which run of how many.
    pub(crate) run: (usize, usize),
    /// How the map was last drawn.
    pub(crate) layout: MapLayout,
}

impl App {
    /// Starts to look at a source.
    #[must_use]
    pub fn new(source: &dyn Source, look: Look, runs: usize) -> Self {
        let about = source.about();
        Self {
            look,
            view: if about.no_map.is_some() { View::Time } else { View::Map },
            popup: Popup::None,
            zone: None,
            order: about.pageblock_order,
            paused: !about.live,
            letters: false,
            worst: false,
            zoom: 0,
            cursor: None,
            pace_ms: 250,
            message: String::new(),
            run: (0, runs),
            layout: MapLayout::default(),
        }
    }

    /// Sets the message in the last line.
    pub fn say(&mut self, message: String) {
        self.message = message;
    }

    /// Turns to the next run of a file; returns its number.
    pub fn next_run(&mut self) -> usize {
        self.run.0 = (self.run.0 + 1) % self.run.1.max(1);
        self.zone = None;
        self.cursor = None;
        self.popup = Popup::None;
        self.run.0
    }

    /// Returns the time to the next moment, one interval on for this machine; `None` if nothing plays.
    #[must_use]
    pub fn pace(&self, source: &dyn Source, interval: Duration) -> Option<Duration> {
        match (self.paused, source.about().live) {
            (true, _) => None,
            (false, true) => Some(interval),
            (false, false) => Some(Duration::from_millis(self.pace_ms)),
        }
    }

    /// Goes on to the next moment of a file, and stops at its end.
    pub fn play(&mut self, source: &mut dyn Source) {
        let (at, all) = source.position();
        if at + 1 < all {
            source.seek(at + 1);
        } else {
            self.paused = true;
        }
        self.refresh(source);
    }

    /// Reads the details of the block that is looked at again.
    pub fn refresh(&mut self, source: &mut dyn Source) {
        if matches!(self.popup, Popup::Block(..)) {
            self.open_block(source);
        }
    }

    /// Does what a key asks for.
    pub fn press(&mut self, key: Key, source: &mut dyn Source) -> Action {
        self.message.clear();
        if key == Key::Interrupt {
            return Action::Interrupt;
        }
        if self.popup != Popup::None && matches!(key, Key::Esc | Key::Enter | Key::Char('q' | '?'))
        {
            self.popup = Popup::None;
            return Action::Draw;
        }
        match key {
            Key::Char('q') => return Action::Quit,
            Key::Char('s') => return Action::Save,
            Key::Tab | Key::Char('n') => return Action::Next,
            Key::Char('?') => self.popup = Popup::Help,
            Key::Char(' ' | 'p') => self.pause(source),
            Key::Char('z') => self.next_zone(source),
            Key::Char('o') => self.change_order(source, 1),
            Key::Char('O') => self.change_order(source, -1),
            Key::Char('t') => {
                self.view = if self.view == View::Map { View::Time } else { View::Map };
            }
            Key::Char('l') => self.letters = !self.letters,
            Key::Char('w') => self.worst = !self.worst,
            Key::Char('b') => {
                self.look.theme = match self.look.theme {
                    Theme::Dark => Theme::Light,
                    Theme::Light => Theme::Dark,
                };
            }
            Key::Char('+' | '=') => self.zoom = (self.zoom + 1).min(self.layout.closest),
            Key::Char('-') => self.zoom = self.zoom.saturating_sub(1),
            Key::Enter | Key::Char('d') => self.details(source),
            Key::Esc => self.cursor = None,
            _ if self.seek(key, source) => {}
            _ => return self.move_cursor(key),
        }
        Action::Draw
    }

    fn pause(&mut self, source: &mut dyn Source) {
        let (at, all) = source.position();
        if self.paused && !source.about().live && at + 1 == all {
            source.seek(0);
        }
        self.paused = !self.paused;
    }

    fn next_zone(&mut self, source: &dyn Source) {
        let zones = source.about().zones.len();
        self.zone = match self.zone {
            None => Some(0).filter(|_| zones > 0),
            Some(at) => Some(at + 1).filter(|&at| at < zones),
        };
        self.cursor = None;
    }

    fn change_order(&mut self, source: &dyn Source, by: i8) {
        let orders = source.now().zones.iter().map(|zone| zone.orders.len()).max().unwrap_or(1);
        let orders = orders.max(1) as i16;
        self.order = (i16::from(self.order) + i16::from(by)).rem_euclid(orders) as u8;
    }

    /// Goes to another moment of a file; false if the key does not ask for it.
    fn seek(&mut self, key: Key, source: &mut dyn Source) -> bool {
        let (at, all) = source.position();
        if source.about().live {
            return false;
        }
        let tenth = (all / 10).max(1);
        let arrows = self.view == View::Time;
        let to = match key {
            Key::Char(',') => at.saturating_sub(1),
            Key::Left if arrows => at.saturating_sub(1),
            Key::Char('.') => at + 1,
            Key::Right if arrows => at + 1,
            Key::Char('[') | Key::PageUp => at.saturating_sub(tenth),
            Key::Char(']') | Key::PageDown => at + tenth,
            Key::Home => 0,
            Key::End => all - 1,
            Key::Char(digit @ '0'..='9') => (digit as usize - '0' as usize) * (all - 1) / 10,
            Key::Char('<') => return self.change_pace(2, 1),
            Key::Char('>') => return self.change_pace(1, 2),
            _ => return false,
        };
        source.seek(to.min(all - 1));
        self.refresh(source);
        true
    }

    fn change_pace(&mut self, times: u64, by: u64) -> bool {
        self.pace_ms = (self.pace_ms * times / by).clamp(FASTEST_MS, SLOWEST_MS);
        self.message = format!("a moment takes {} ms", self.pace_ms);
        true
    }

    fn move_cursor(&mut self, key: Key) -> Action {
        let MapLayout { group, columns, rows, .. } = &self.layout;
        let (Some(&first), Some(&last)) = (rows.first(), rows.last()) else {
            return Action::Nothing;
        };
        if self.view != View::Map {
            return Action::Nothing;
        }
        let row_blocks = group * columns;
        let Some(at) = self.cursor else {
            let arrow = matches!(key, Key::Left | Key::Right | Key::Up | Key::Down);
            self.cursor = Some(first * row_blocks).filter(|_| arrow);
            return if arrow { Action::Draw } else { Action::Nothing };
        };
        let row = rows.partition_point(|&row| row < at / row_blocks);
        let column = at % row_blocks;
        let in_row = |row: usize| rows[row.min(rows.len() - 1)] * row_blocks + column;
        let to = match key {
            Key::Left => at.saturating_sub(*group).max(first * row_blocks),
            Key::Right => (at + group).min((last + 1) * row_blocks - group),
            Key::Up => in_row(row.saturating_sub(1)),
            Key::Down => in_row(row + 1),
            _ => return Action::Nothing,
        };
        // A step over a row's end leads to the next row that is shown.
        let shown = |number: u64| rows.binary_search(&(number / row_blocks)).is_ok();
        self.cursor = Some(match (shown(to), key) {
            (true, _) => to,
            (false, Key::Left) => rows[row.saturating_sub(1)] * row_blocks + row_blocks - group,
            (false, _) => rows[(row + 1).min(rows.len() - 1)] * row_blocks,
        });
        Action::Draw
    }

    /// Opens the block at the cursor; where a cell has several, goes nearer first.
    fn details(&mut self, source: &mut dyn Source) {
        if self.view != View::Map || source.about().no_map.is_some() {
            self.message = "a block is chosen on the map".to_owned();
        } else if self.cursor.is_none() {
            self.message = "arrows choose a block".to_owned();
        } else if self.layout.group > 1 {
            self.zoom = self.layout.closest;
            self.message =
                "nearer: a cell is one pageblock now; Enter shows it, - goes back".to_owned();
        } else {
            self.open_block(source);
        }
    }

    fn open_block(&mut self, source: &mut dyn Source) {
        let Some(number) = self.cursor else { return };
        let holds = |&at: &usize| {
            let zone = &source.about().zones[at];
            (zone.first..zone.first + zone.blocks).contains(&number)
                && self.zone.is_none_or(|shown| shown == at)
        };
        let found = (0..source.about().zones.len()).rev().find(holds);
        self.popup = match found {
            Some(at) => {
                let zone = &source.about().zones[at];
                let (block, label) = (number - zone.first, zone.label.clone());
                let name = format!("pageblock {number}, {label}");
                Popup::Block(name, source.block(at, block))
            }
            None => Popup::Block(
                format!("pageblock {number}"),
                vec![("memory".to_owned(), "none".to_owned())],
            ),
        };
    }
}
