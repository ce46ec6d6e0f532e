//! The colours of the page's themes (`web/src/colors.ts`), which differ in lightness as well as in hue, for the colour-blind
//! and in grey.

use pageblock_measure::value::history::Content;

/// What colours are seen on.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Theme {
    /// White.
    Light,
    /// Nearly black.
    Dark,
}

/// Red, green and blue.
pub type Rgb = (u8, u8, u8);

impl Theme {
    /// Returns the colour of a class of content.
    #[must_use]
    pub const fn content(self, content: Content) -> Rgb {
        match (self, content) {
            (Self::Light, Content::Hole) => (0xff, 0xff, 0xff),
            (Self::Light, Content::Free) => (0xee, 0xf1, 0xe6),
            (Self::Light, Content::Movable) => (0x9f, 0xd0, 0xee),
            (Self::Light, Content::Unmovable) => (0x6b, 0x12, 0x04),
            (Self::Light, Content::Reclaimable) => (0xdd, 0x95, 0x00),
            (Self::Light, Content::Mixed) => (0xc8, 0x6b, 0xb0),
            (Self::Light, Content::Reserved) => (0x5e, 0x62, 0x66),
            (Self::Dark, Content::Hole) => (0x14, 0x18, 0x1c),
            (Self::Dark, Content::Free) => (0x20, 0x27, 0x2d),
            (Self::Dark, Content::Movable) => (0x2b, 0x6c, 0xa0),
            (Self::Dark, Content::Unmovable) => (0xff, 0xe9, 0xdd),
            (Self::Dark, Content::Reclaimable) => (0xe9, 0xb9, 0x3f),
            (Self::Dark, Content::Mixed) => (0xe0, 0x7a, 0xbd),
            (Self::Dark, Content::Reserved) => (0x42, 0x48, 0x4e),
        }
    }
}
