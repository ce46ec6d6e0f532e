//! Pictures for papers: SVG and PNG, by plotters. The text of a PNG is set in DejaVu Sans, which is part of the program.

mod colors;
mod curves;
mod frontier;
mod map;
mod matrix;
mod waterfall;

use std::path::Path;
use std::sync::Once;

use pageblock_measure::compare::bisect::Answer;
use plotters::prelude::*;
use plotters::style::{FontStyle, register_font};

pub use self::frontier::{Point, points};
use crate::error::Error;
use crate::opened::Opened;

/// What a picture shows.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum PlotKind {
    /// The pageblocks at one moment.
    Map,
    /// Free memory by order over time.
    Orders,
    /// Claims, pollutions and steals by types.
    Matrix,
    /// Free memory, held pageblocks, and the work for memory over time.
    Timeline,
    /// Huge pages against the work for them, for every policy and seed.
    Frontier,
}

/// The form of a file.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Format {
    /// Lines and text.
    Svg,
    /// Pixels.
    Png,
}

impl Format {
    /// Returns the form that a file's name asks for by its ending.
    #[must_use]
    pub fn of(path: &Path) -> Option<Self> {
        match path.extension()?.to_str()? {
            "svg" => Some(Self::Svg),
            "png" => Some(Self::Png),
            _ => None,
        }
    }
}

/// The area that a picture is drawn on, and its runs.
type Area<DB> = DrawingArea<DB, plotters::coord::Shift>;

const FONT: &str = "sans-serif";
/// The pixels of a PNG for a unit of its layout.
const PNG_SCALE: u32 = 2;

/// Draws a picture; `share` is the moment of a map, from 0 (the beginning) to 1 (the end).
///
/// # Errors
/// [`Error::Nothing`] where the runs have no data for it, [`Error::Draw`] where the library fails.
pub fn draw(
    kind: PlotKind,
    format: Format,
    runs: &[Opened],
    points: &[Point],
    share: f64,
) -> Result<Vec<u8>, Error> {
    match kind {
        PlotKind::Frontier if points.is_empty() => {
            return Err(Error::Nothing("no run counts huge pages and the work for them"));
        }
        PlotKind::Frontier => {}
        _ if runs.is_empty() => {
            return Err(Error::Nothing("no run has its history (run --pictures)"));
        }
        _ => {}
    }
    render(&Drawing::Runs { kind, runs, points, share }, format)
}

/// Draws a bisection as a waterfall.
///
/// # Errors
/// [`Error::Draw`] where the library fails.
pub fn waterfall(of: &Answer, format: Format) -> Result<Vec<u8>, Error> {
    render(&Drawing::Waterfall(of), format)
}

fn render(drawing: &Drawing<'_>, format: Format) -> Result<Vec<u8>, Error> {
    fonts();
    let (width, height) = drawing.size();
    match format {
        Format::Svg => {
            let mut text = String::new();
            {
                let root = SVGBackend::with_string(&mut text, (width, height)).into_drawing_area();
                drawing.draw(&root, 1)?;
                root.present().map_err(failed)?;
            }
            Ok(text.into_bytes())
        }
        Format::Png => {
            let (width, height) = (width * PNG_SCALE, height * PNG_SCALE);
            let mut pixels = vec![0; (width * height * 3) as usize];
            {
                let backend = BitMapBackend::with_buffer(&mut pixels, (width, height));
                let root = backend.into_drawing_area();
                drawing.draw(&root, PNG_SCALE as i32)?;
                root.present().map_err(failed)?;
            }
            encode(&pixels, width, height)
        }
    }
}

fn encode(pixels: &[u8], width: u32, height: u32) -> Result<Vec<u8>, Error> {
    let failed = |error: png::EncodingError| Error::Draw(error.to_string());
    let mut bytes = Vec::new();
    let mut encoder = png::Encoder::new(&mut bytes, width, height);
    encoder.set_color(png::ColorType::Rgb);
    encoder.set_depth(png::BitDepth::Eight);
    let mut writer = encoder.write_header().map_err(failed)?;
    writer.write_image_data(pixels).map_err(failed)?;
    writer.finish().map_err(failed)?;
    Ok(bytes)
}

fn fonts() {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| {
        // A font that this program brings is well-formed; without it a PNG would have no text.
        let _ = register_font(FONT, FontStyle::Normal, dejavu::sans::regular());
        let _ = register_font(FONT, FontStyle::Bold, dejavu::sans::bold());
    });
}

fn failed(error: impl std::fmt::Display) -> Error {
    Error::Draw(error.to_string())
}

/// A picture to be drawn.
enum Drawing<'d> {
    Runs { kind: PlotKind, runs: &'d [Opened], points: &'d [Point], share: f64 },
    Waterfall(&'d Answer),
}

impl Drawing<'_> {
    fn size(&self) -> (u32, u32) {
        match *self {
            Self::Runs { kind, runs, points, .. } => match kind {
                PlotKind::Map => map::size(runs),
                PlotKind::Orders => (860, 60 + 260 * runs.len() as u32),
                PlotKind::Matrix => matrix::size(runs),
                PlotKind::Timeline => curves::timeline_size(runs),
                PlotKind::Frontier => (860, 560 + 22 * frontier::names(points).len() as u32),
            },
            Self::Waterfall(of) => waterfall::size(of),
        }
    }

    fn draw<DB: DrawingBackend>(&self, root: &Area<DB>, scale: i32) -> Result<(), Error> {
        root.fill(&WHITE).map_err(failed)?;
        match *self {
            Self::Runs { kind, runs, points, share } => match kind {
                PlotKind::Map => map::draw(root, runs, share, scale),
                PlotKind::Orders => curves::orders(root, runs, scale),
                PlotKind::Matrix => matrix::draw(root, runs, scale),
                PlotKind::Timeline => curves::timeline(root, runs, scale),
                PlotKind::Frontier => frontier::draw(root, points, scale),
            },
            Self::Waterfall(of) => waterfall::draw(root, of, scale),
        }
    }
}

/// Writes a line of text with its upper left corner at a place.
fn write<DB: DrawingBackend>(
    area: &Area<DB>,
    text: &str,
    place: (i32, i32),
    size: i32,
    color: RGBColor,
) -> Result<(), Error> {
    let style = (FONT, size).into_font().color(&color);
    area.draw(&Text::new(text.to_owned(), place, style)).map_err(failed)
}

/// Returns a name that fits a width of so many letters.
fn fitted(name: &str, letters: usize) -> String {
    if name.chars().nth(letters).is_none() {
        return name.to_owned();
    }
    name.chars().take(letters.saturating_sub(3)).collect::<String>() + "..."
}

#[cfg(test)]
mod tests {
    use pageblock_measure::{Counters, Run};

    use super::*;

    /// A name's letters may have several bytes each.
    #[test]
    fn a_long_name_is_cut_between_letters() {
        assert_eq!(fitted(&"\u{e9}".repeat(9), 9), "\u{e9}".repeat(9));
        assert_eq!(fitted(&"\u{e9}".repeat(10), 9), "\u{e9}".repeat(6) + "...");
    }

    /// XML forbids control characters, escaped ones too.
    #[test]
    fn a_drawing_has_no_control_characters() {
        let counters: Counters = [("pgsteal_kswapd", 5)].into_iter().collect();
        let policy = "a\u{1b}[31m\u{7}\r\n\u{ffff}\u{202e}</text><script>\u{9b}".to_owned();
        let run = Run { policy, counters, ..Run::default() };
        let svg = draw(PlotKind::Frontier, Format::Svg, &[], &points(&[run]), 1.0).unwrap();
        let svg = String::from_utf8(svg).unwrap();
        let allowed =
            |c: char| c == '\n' || !(c.is_control() || matches!(c, '\u{ffff}' | '\u{202e}'));
        assert!(svg.chars().all(allowed), "{svg}");
        assert!(
            svg.contains("a\\u001b[31m\\u0007\\u000d\\n\\uffff\\u202e&lt;/text&gt;&lt;script&gt;"),
            "{svg}"
        );
    }
}
