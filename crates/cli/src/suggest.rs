//! Shell completion of arguments that accept any text: existing names.

use clap::builder::{PossibleValue, StringValueParser, TypedValueParser};
use clap::error::Error;
use clap::{Arg, Command};
use pageblock::preset::PRESETS;
use pageblock_plan::machines;
use pageblock_simulate::workload;

/// A parser that accepts any text, and suggests names for completion.
#[derive(Clone)]
pub(crate) struct Suggested(fn() -> Vec<&'static str>);

/// Suggests policies: the presets.
pub(crate) fn policy() -> Suggested {
    Suggested(|| PRESETS.iter().map(|preset| preset.name).collect())
}

/// Suggests machines included in the program.
pub(crate) fn machine() -> Suggested {
    Suggested(|| machines::names().collect())
}

/// Suggests workloads.
pub(crate) fn workload_name() -> Suggested {
    Suggested(|| workload::ALL.iter().map(|workload| workload.name()).collect())
}

/// Suggests workloads that guests run.
#[cfg(feature = "full")]
pub(crate) fn guest_workload() -> Suggested {
    Suggested(|| pageblock_guest::workload::NAMES.to_vec())
}

impl TypedValueParser for Suggested {
    type Value = String;

    fn parse_ref(
        &self,
        command: &Command,
        argument: Option<&Arg>,
        value: &std::ffi::OsStr,
    ) -> Result<String, Error> {
        StringValueParser::new().parse_ref(command, argument, value)
    }

    fn possible_values(&self) -> Option<Box<dyn Iterator<Item = PossibleValue> + '_>> {
        Some(Box::new((self.0)().into_iter().map(PossibleValue::new)))
    }
}
