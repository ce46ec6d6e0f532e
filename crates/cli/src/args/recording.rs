//! Arguments of `pageblock recording`.

use std::path::PathBuf;

use clap::{Args, Subcommand};
use pageblock_recording::Position;

use super::CaptureArgs;

#[derive(Subcommand, Debug)]
pub(crate) enum RecordingCommand {
    /// Print the contents of a recording: machine, span, size, states, grade
    Info(LookArgs),
    /// Print the first events
    Head(HeadArgs),
    /// Count events by kind, requests by type and order, fallbacks, commands
    Stats(LookArgs),
    /// Print the callers that requested pages, for a recording made with --stacks
    Stacks(LookArgs),
    /// Write a part of a recording as one file
    #[command(after_help = SLICE_HELP)]
    Slice(SliceArgs),
    /// Write a recording or a capture in another format
    #[command(after_help = CONVERT_HELP)]
    Convert(ConvertArgs),
    /// Write a recording without the names of commands, files and the host
    #[command(after_help = ANONYMISE_HELP)]
    Anonymise(OutArgs),
}

const SLICE_HELP: &str = "\
A position is a time from the first event (2.5s, 300ms, 10min) or the number of an event, as verify prints it.
A state belongs to a part that has its marks; without the state at the start a replay infers it.";

const CONVERT_HELP: &str = "\
The ending of OUT says the format: .pbrec is one file, .llfree a trace for LLFree, a name without an ending a folder of
text (docs/recordings.md). A .pbrec that was cut becomes a whole one of the events that it still has.";

const ANONYMISE_HELP: &str = "\
Commands become command-1, command-2 and so on, the same for the same; kernel threads keep their names. Settings
below /proc/sys/vm and /sys/kernel/mm stay, other files of the machine and the text of the kernel's version go.";

#[derive(Args, Debug)]
pub(crate) struct LookArgs {
    /// The recording: a .pbrec, a folder, or a capture of another tool
    #[arg(value_name = "RECORDING")]
    pub(crate) recording: PathBuf,
    #[command(flatten)]
    pub(crate) capture: CaptureArgs,
    /// Print JSON
    #[arg(long)]
    pub(crate) json: bool,
}

#[derive(Args, Debug)]
pub(crate) struct HeadArgs {
    /// The recording: a .pbrec, a folder, or a capture of another tool
    #[arg(value_name = "RECORDING")]
    pub(crate) recording: PathBuf,
    /// Begin here: a time from the first event such as 2.5s, or an event's number
    #[arg(long, value_name = "POSITION", value_parser = position)]
    pub(crate) from: Option<Position>,
    /// Print this many events
    #[arg(short = 'n', long, value_name = "N", default_value_t = 20)]
    pub(crate) events: usize,
}

#[derive(Args, Debug)]
pub(crate) struct SliceArgs {
    /// The recording: a .pbrec, a folder, or a capture of another tool
    #[arg(value_name = "RECORDING")]
    pub(crate) recording: PathBuf,
    /// The file to write, NAME.pbrec; it must not exist
    #[arg(short, long, value_name = "OUT")]
    pub(crate) out: PathBuf,
    /// Where it begins; by default at the first event
    #[arg(long, value_name = "POSITION", value_parser = position)]
    pub(crate) from: Option<Position>,
    /// Where it ends; by default after the last event
    #[arg(long, value_name = "POSITION", value_parser = position)]
    pub(crate) to: Option<Position>,
}

#[derive(Args, Debug)]
pub(crate) struct ConvertArgs {
    /// The recording: a .pbrec, a folder, or a capture of another tool
    #[arg(value_name = "RECORDING")]
    pub(crate) recording: PathBuf,
    /// The file or folder to write; it must not exist
    #[arg(short, long, value_name = "OUT")]
    pub(crate) out: PathBuf,
    #[command(flatten)]
    pub(crate) capture: CaptureArgs,
}

#[derive(Args, Debug)]
pub(crate) struct OutArgs {
    /// The recording: a .pbrec, a folder, or a capture of another tool
    #[arg(value_name = "RECORDING")]
    pub(crate) recording: PathBuf,
    /// The file to write, NAME.pbrec; it must not exist
    #[arg(short, long, value_name = "OUT")]
    pub(crate) out: PathBuf,
}

/// Parses a position: the number of an event, or a time.
fn position(text: &str) -> Result<Position, String> {
    if let Ok(event) = text.parse() {
        return Ok(Position::Event(event));
    }
    let units = [("ms", 1e3), ("us", 1.0), ("min", 60e6), ("s", 1e6), ("h", 3600e6)];
    let parts = units.into_iter().find_map(|(unit, us)| Some((text.strip_suffix(unit)?, us)));
    let time = parts.and_then(|(number, us)| Some(number.parse::<f64>().ok()? * us));
    match time {
        Some(us) if (0.0..1e18).contains(&us) => Ok(Position::Time(us as u64)),
        _ => Err("allowed: an event's number, or a time such as 2.5s, 300ms or 10min".to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn positions_are_numbers_of_events_or_times() {
        assert_eq!(position("12"), Ok(Position::Event(12)));
        assert_eq!(position("2.5s"), Ok(Position::Time(2_500_000)));
        assert_eq!(position("300ms"), Ok(Position::Time(300_000)));
        assert_eq!(position("1min"), Ok(Position::Time(60_000_000)));
        assert!(
            ["-1", "s", "1e30s", "NaNs", "2 parsecs", ""]
                .iter()
                .all(|text| position(text).is_err())
        );
    }
}
