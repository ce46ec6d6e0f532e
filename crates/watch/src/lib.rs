//! A view of a machine's memory in a terminal: this machine while it runs, or a recording, a flight file or a run.
//!
//! A [`Source`] says what is seen at each moment, [`App`] what the user looks at, `screen` draws the one as the other asks.
//! [`run`] does so in a terminal, [`once`] as text.
#![forbid(unsafe_code)]

mod app;
mod error;
mod keyboard;
mod live;
mod look;
mod screen;
mod source;
mod tape;
mod terminal;

pub use app::{Action, App, Key};
pub use error::Error;
pub use live::{Live, LivePlan};
pub use look::{Colors, Look};
pub use screen::{draw, once};
pub use source::{About, Curve, Level, Moment, Note, Source, ZoneAbout, ZoneNow};
pub use tape::{FlightTape, HistoryTape};
pub use terminal::{End, run};
