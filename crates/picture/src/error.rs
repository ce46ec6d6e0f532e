//! Why a picture is not drawn.

/// An error of drawing.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The runs have no data for it.
    #[error("nothing to draw: {0}")]
    Nothing(&'static str),
    /// A history is damaged.
    #[error("{name}: {what}")]
    History {
        /// Whose.
        name: String,
        /// What is wrong with it.
        what: String,
    },
    /// The drawing library failed.
    #[error("cannot draw: {0}")]
    Draw(String),
}
