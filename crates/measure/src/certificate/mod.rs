//! What can be concluded from a recording: how far a free replay under the recorded kernel's own policy is from
//! what was recorded, and which parts of a what-if table that supports.
//!
//! A change that a what-if shows is larger than the replay's own error, or it says nothing.

pub mod across;
pub mod contents;
mod course;
mod grades;
pub mod note;
mod outcome;
mod reproduced;
mod support;
pub mod verification;

pub use self::course::Course;
pub use self::grades::{Grades, Loop};
pub use self::outcome::{EndState, Outcome, median};
pub use self::reproduced::{Certified, Drawn, Reproduced, Taken};
pub use self::support::{
    Certificate, DRAWS, Distance, FEW, Grade, Judgement, Kind, Measure, Part, Support, tested,
};
