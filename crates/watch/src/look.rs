//! How it looks: colours by what a terminal has, and letters.

use pageblock_measure::value::history::{Cell, Content};
use pageblock_picture::{Rgb, Theme, character};
use ratatui::style::{Color, Modifier, Style};

/// The colours that a terminal has.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Colors {
    /// None, or none are wanted.
    None,
    /// Sixteen.
    Sixteen,
    /// 256.
    Palette,
    /// All.
    True,
}

impl Colors {
    /// Returns the colours of a terminal, by the environment: `NO_COLOR`, `COLORTERM` and `TERM`.
    #[must_use]
    pub fn of(environment: &dyn Fn(&str) -> Option<String>) -> Self {
        let has = |name: &str| environment(name).filter(|value| !value.is_empty());
        let term = has("TERM").unwrap_or_default();
        match has("COLORTERM").as_deref() {
            _ if has("NO_COLOR").is_some() || term == "dumb" || term.starts_with("vt") => {
                Self::None
            }
            Some("truecolor" | "24bit") => Self::True,
            _ if term.contains("direct") => Self::True,
            _ if term.contains("256color") => Self::Palette,
            _ => Self::Sixteen,
        }
    }
}

/// What a pageblock is taken for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Class {
    /// What is in it.
    Of(Content),
    /// Held by pages alone that may be free, on per-CPU lists.
    Unsure,
}

/// What is known of a pageblock.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(crate) struct Seen {
    /// `None` if it was not read yet.
    pub(crate) cell: Option<Cell>,
    pub(crate) unsure: bool,
}

impl Seen {
    /// Returns a pageblock of a class.
    pub(crate) fn of(class: Class) -> Self {
        let cell = |content| Some(Cell { content, ..Cell::default() });
        match class {
            Class::Of(content) => Self { cell: cell(content), unsure: false },
            Class::Unsure => Self { cell: cell(Content::Mixed), unsure: true },
        }
    }

    /// Returns its class; `None` if it was not read yet.
    pub(crate) fn class(self) -> Option<Class> {
        let of = |cell: Cell| if self.unsure { Class::Unsure } else { Class::Of(cell.content) };
        self.cell.map(of)
    }

    /// Returns its letter.
    pub(crate) fn letter(self) -> char {
        match self.cell {
            None => ':',
            Some(_) if self.unsure => '?',
            Some(cell) => character(&cell),
        }
    }
}

/// How it looks.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Look {
    /// The colours.
    pub colors: Colors,
    /// What the terminal's background is.
    pub theme: Theme,
    /// Whether only ASCII is written.
    pub ascii: bool,
}

impl Look {
    /// Returns the look for an environment.
    #[must_use]
    pub fn of(environment: &dyn Fn(&str) -> Option<String>) -> Self {
        let has = |name: &str| environment(name).filter(|value| !value.is_empty());
        let locale = has("LC_ALL").or_else(|| has("LC_CTYPE")).or_else(|| has("LANG"));
        // Without a locale most terminals still take UTF-8; `C` says that nothing is known of this one.
        let other =
            |name: String| !["utf-8", "utf8"].iter().any(|u| name.to_lowercase().contains(u));
        let ascii = has("TERM").is_some_and(|term| term == "linux" || term == "dumb")
            || locale.is_some_and(|name| other(name.clone()) && name != "C" && name != "POSIX");
        // Some terminals say their colours: `15;0` is white on black.
        let background = has("COLORFGBG").and_then(|value| {
            value.rsplit(';').next().and_then(|number| number.parse::<u8>().ok())
        });
        let light = background.is_some_and(|number| number == 7 || number == 15);
        let theme = if light { Theme::Light } else { Theme::Dark };
        Self { colors: Colors::of(environment), theme, ascii }
    }

    /// Tells whether two pageblocks fit into a character, one above the other.
    #[must_use]
    pub fn is_dense(self, letters: bool) -> bool {
        !letters && !self.ascii && matches!(self.colors, Colors::True | Colors::Palette)
    }

    fn color(self, rgb: Rgb) -> Color {
        match self.colors {
            Colors::True => Color::Rgb(rgb.0, rgb.1, rgb.2),
            _ => Color::Indexed(nearest(rgb)),
        }
    }

    /// Returns the colour of a pageblock, where the terminal has enough of them.
    #[must_use]
    pub(crate) fn content(self, seen: Seen) -> Color {
        match seen.class() {
            Some(Class::Of(Content::Hole)) => Color::Reset,
            Some(class) => self.color(self.rgb(class)),
            None => self.color(match self.theme {
                Theme::Dark => (0x0c, 0x0e, 0x10),
                Theme::Light => (0xd9, 0xde, 0xe3),
            }),
        }
    }

    const fn rgb(self, class: Class) -> Rgb {
        match (class, self.theme) {
            (Class::Of(content), _) => self.theme.content(content),
            (Class::Unsure, Theme::Dark) => (0x5f, 0x00, 0x5f),
            (Class::Unsure, Theme::Light) => (0xd7, 0xaf, 0xd7),
        }
    }

    /// Returns the style of a letter on its colour.
    #[must_use]
    pub(crate) fn on(self, seen: Seen) -> Style {
        let class = seen.class().unwrap_or(Class::Of(Content::Hole));
        match self.colors {
            Colors::None => match class {
                Class::Of(Content::Unmovable) => Style::new().add_modifier(Modifier::REVERSED),
                Class::Of(Content::Mixed) => Style::new().add_modifier(Modifier::BOLD),
                _ => Style::new(),
            },
            Colors::Sixteen => match class {
                Class::Of(Content::Hole | Content::Free) => Style::new(),
                Class::Of(Content::Movable) => Style::new().fg(Color::White).bg(Color::Blue),
                Class::Of(Content::Unmovable) => Style::new().fg(Color::Black).bg(Color::Gray),
                Class::Of(Content::Reclaimable) => Style::new().fg(Color::Black).bg(Color::Yellow),
                Class::Of(Content::Mixed) => Style::new().fg(Color::White).bg(Color::Magenta),
                Class::Of(Content::Reserved) => Style::new().fg(Color::DarkGray),
                Class::Unsure => Style::new().fg(Color::Magenta),
            },
            Colors::Palette | Colors::True => match class {
                Class::Of(Content::Hole) => Style::new(),
                _ => Style::new().fg(self.ink_on(class)).bg(self.content(seen)),
            },
        }
    }

    /// Returns black or white, whichever is told better from a colour.
    fn ink_on(self, class: Class) -> Color {
        let (red, green, blue) = self.rgb(class);
        let light = u32::from(red) * 299 + u32::from(green) * 587 + u32::from(blue) * 114;
        if light > 120_000 { self.color((0, 0, 0)) } else { self.color((255, 255, 255)) }
    }

    /// Returns the style of what is less important.
    #[must_use]
    pub fn faint(self) -> Style {
        match (self.colors, self.theme) {
            (Colors::None, _) => Style::new(),
            (Colors::Sixteen, _) => Style::new().add_modifier(Modifier::DIM),
            (_, Theme::Dark) => Style::new().fg(self.color((0xa2, 0xab, 0xb4))),
            (_, Theme::Light) => Style::new().fg(self.color((0x5b, 0x65, 0x70))),
        }
    }

    /// Returns the style of figures over time.
    #[must_use]
    pub fn curve(self) -> Style {
        match (self.colors, self.theme) {
            (Colors::None, _) => Style::new(),
            (Colors::Sixteen, _) => Style::new().fg(Color::Cyan),
            (_, Theme::Dark) => Style::new().fg(self.color((0x6d, 0xb7, 0xf2))),
            (_, Theme::Light) => Style::new().fg(self.color((0x0b, 0x5f, 0xa5))),
        }
    }

    /// Returns the style of what is selected or just happened.
    #[must_use]
    pub fn accent(self) -> Style {
        let bold = Style::new().add_modifier(Modifier::BOLD);
        match self.colors {
            Colors::None => bold.add_modifier(Modifier::REVERSED),
            Colors::Sixteen => bold.fg(Color::Black).bg(Color::Green),
            Colors::Palette | Colors::True => bold.fg(self.accent_color()),
        }
    }

    /// Returns the colour of what is selected, which no class of content has.
    #[must_use]
    pub fn accent_color(self) -> Color {
        match self.theme {
            Theme::Dark => self.color((0x5f, 0xff, 0x87)),
            Theme::Light => self.color((0x00, 0x87, 0x00)),
        }
    }

    /// Returns the style of a line that says that something is bad.
    #[must_use]
    pub fn alarm(self) -> Style {
        let bold = Style::new().add_modifier(Modifier::BOLD);
        match self.colors {
            Colors::None => bold,
            Colors::Sixteen => bold.fg(Color::Red),
            _ => bold.fg(self.color(match self.theme {
                Theme::Dark => (0xff, 0x9a, 0x66),
                Theme::Light => (0xc2, 0x41, 0x0c),
            })),
        }
    }
}

/// Returns the number of the colour of the 256 that is nearest: of the cube of six steps a channel, or of the greys.
fn nearest((red, green, blue): Rgb) -> u8 {
    const STEPS: [i32; 6] = [0, 95, 135, 175, 215, 255];
    let step = |value: u8| {
        let far = |at: &usize| (STEPS[*at] - i32::from(value)).abs();
        (0..6).min_by_key(far).unwrap_or(0)
    };
    let of = |r: i32, g: i32, b: i32| {
        let square = |a: i32, b: u8| (a - i32::from(b)).pow(2);
        square(r, red) + square(g, green) + square(b, blue)
    };
    let (r, g, b) = (step(red), step(green), step(blue));
    let cube = (16 + 36 * r + 6 * g + b, of(STEPS[r], STEPS[g], STEPS[b]));
    let greys = (0..24).map(|at| {
        let value = 8 + 10 * at;
        (232 + at as usize, of(value, value, value))
    });
    let best = greys.chain([cube]).min_by_key(|&(_, far)| far).unwrap_or(cube);
    best.0 as u8
}

#[cfg(test)]
mod tests {
    use super::*;

    fn colors(variables: &[(&str, &str)]) -> Colors {
        let find = |name: &str| {
            let found = variables.iter().find(|(own, _)| *own == name);
            found.map(|(_, value)| (*value).to_owned())
        };
        Colors::of(&find)
    }

    #[test]
    fn a_terminal_says_its_colors() {
        assert_eq!(colors(&[("TERM", "xterm-256color")]), Colors::Palette);
        assert_eq!(colors(&[("TERM", "xterm"), ("COLORTERM", "truecolor")]), Colors::True);
        assert_eq!(colors(&[("TERM", "screen")]), Colors::Sixteen);
        assert_eq!(colors(&[("TERM", "xterm-256color"), ("NO_COLOR", "1")]), Colors::None);
        assert_eq!(colors(&[("TERM", "screen"), ("NO_COLOR", "")]), Colors::Sixteen);
    }

    /// In 256 colours no two classes fall together, and their lightness differs as in the themes.
    #[test]
    fn classes_are_told_apart_in_256_colors() {
        for theme in [Theme::Dark, Theme::Light] {
            let look = Look { colors: Colors::Palette, theme, ascii: false };
            let classes = Content::ALL.into_iter().filter(|&content| content != Content::Hole);
            let classes = classes.map(Class::Of).chain([Class::Unsure]);
            let mut numbers: Vec<u8> = classes.map(|class| nearest(look.rgb(class))).collect();
            let all = numbers.len();
            numbers.sort_unstable();
            numbers.dedup();
            assert_eq!(numbers.len(), all, "{theme:?}");
        }
    }
}
