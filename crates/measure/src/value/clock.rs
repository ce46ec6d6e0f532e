//! Whose time a run's samples have.

use serde::{Deserialize, Serialize};

/// A clock whose times are not compared with others.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Clock {
    /// A guest's, whose CPUs were emulated: an instruction takes the emulator's time.
    Emulated,
}
