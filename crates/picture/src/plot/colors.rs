//! The colours of drawings: those of the light theme.

use pageblock_measure::value::history::Content;
use plotters::style::RGBColor;

use crate::theme::Theme;

pub(super) const INK: RGBColor = RGBColor(0x1b, 0x1f, 0x24);
pub(super) const FAINT: RGBColor = RGBColor(0x5b, 0x65, 0x70);
pub(super) const GRID: RGBColor = RGBColor(0xd9, 0xde, 0xe3);
pub(super) const DOT: RGBColor = RGBColor(0x33, 0x00, 0x2a);

/// Returns the colour of a class of content.
pub(super) const fn content(content: Content) -> RGBColor {
    let (red, green, blue) = Theme::Light.content(content);
    RGBColor(red, green, blue)
}

/// Returns the colour of a mark on a class of content.
pub(super) const fn mark(content: Content) -> RGBColor {
    match content {
        Content::Unmovable => RGBColor(0xff, 0xd9, 0xcc),
        Content::Reserved => RGBColor(0x9a, 0xa0, 0xa6),
        Content::Mixed => DOT,
        _ => INK,
    }
}

/// Colours of lines, one for each run.
const LINES: [RGBColor; 6] = [
    RGBColor(0x0b, 0x5f, 0xa5),
    RGBColor(0xc2, 0x41, 0x0c),
    RGBColor(0x2f, 0x7d, 0x32),
    RGBColor(0x7a, 0x3e, 0x9d),
    RGBColor(0x8a, 0x6d, 0x00),
    RGBColor(0x55, 0x5b, 0x61),
];

pub(super) fn line(at: usize) -> RGBColor {
    LINES[at % LINES.len()]
}

/// From small orders to large.
const RAMP: [RGBColor; 11] = [
    RGBColor(0x2a, 0x0f, 0x4a),
    RGBColor(0x3d, 0x2a, 0x75),
    RGBColor(0x3b, 0x4c, 0x94),
    RGBColor(0x2f, 0x6c, 0xa3),
    RGBColor(0x25, 0x89, 0xa8),
    RGBColor(0x2a, 0xa5, 0xa0),
    RGBColor(0x4d, 0xbf, 0x8a),
    RGBColor(0x86, 0xd3, 0x6f),
    RGBColor(0xc3, 0xe1, 0x5c),
    RGBColor(0xec, 0xe2, 0x7c),
    RGBColor(0xf8, 0xf0, 0xbd),
];

/// Returns a step of the ramp.
pub(super) fn ramp(at: usize, of: usize) -> RGBColor {
    RAMP[(at * (RAMP.len() - 1)) / of.saturating_sub(1).max(1) % RAMP.len()]
}
