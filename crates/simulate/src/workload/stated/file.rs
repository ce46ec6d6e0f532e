//! The file of a workload: its tasks and their steps, each value within its limits.

use std::ops::RangeInclusive;

use pageblock_measure::catalogue::deciding;

use crate::sim::{MILLISECOND, Nanos};
use crate::toml_file::{self, Keys, Mistake};
use crate::workload::requests::TASKS;

/// The machine where a file names none: that of this project's recordings.
const MACHINE: &str = "guest-640m";
/// The most rounds, requests of a step in a round, and pages of a file or a mapping.
const ROUNDS: u64 = 1 << 20;
const COUNT: u64 = 1 << 22;
const PAGES: u64 = 1 << 20;
/// The largest slab object in bytes.
const OBJECT: u64 = 8192;
/// The longest time in milliseconds: an hour.
const MS: u64 = 3_600_000;

/// Why a text does not describe a workload.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[error("line {line}: {message}")]
pub struct WorkloadFileError {
    /// The line, from 1.
    pub line: usize,
    /// What is wrong, and what is allowed.
    pub message: String,
}

impl From<Mistake> for WorkloadFileError {
    fn from(Mistake { line, message }: Mistake) -> Self {
        Self { line, message }
    }
}

/// What a file says.
#[derive(Debug)]
pub(super) struct Contents {
    pub(super) name: String,
    pub(super) machine: String,
    /// The measures that decide, by id.
    pub(super) primary: Vec<String>,
    pub(super) latency: bool,
    pub(super) tasks: Vec<Task>,
}

/// Tasks of one kind.
#[derive(Clone, Debug)]
pub(super) struct Task {
    /// How many run side by side.
    pub(super) count: u32,
    pub(super) rounds: u64,
    /// The time between two rounds.
    pub(super) pause: Nanos,
    pub(super) steps: Vec<Step>,
}

/// What a task does in a round, once all steps before are done.
#[derive(Clone, Debug)]
pub(super) struct Step {
    pub(super) what: What,
    pub(super) amount: Amount,
    /// Only every so many rounds, for the first time in the last of them.
    pub(super) every: u64,
    /// The mean time from one request to the next; 0 for as fast as the task can.
    pub(super) gap: Nanos,
}

/// What a step does.
#[derive(Clone, Debug)]
pub(super) enum What {
    Make(Make),
    /// Reads files that an earlier step made, chosen at random, or writes to its mappings.
    Use {
        of: usize,
        pages: Size,
    },
    /// Frees things that an earlier step made, chosen at random.
    Free {
        of: usize,
    },
    Sleep(Nanos),
}

/// What a step makes.
#[derive(Clone, Debug)]
pub(super) struct Make {
    pub(super) thing: Thing,
    /// The order of a block, the bytes of an object, the pages of a file or a mapping.
    pub(super) size: Size,
    pub(super) lifetime: Lifetime,
    /// Whether only the difference from what the step holds is made, or freed.
    pub(super) hold: bool,
}

/// What is made.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Thing {
    Block {
        reclaimable: bool,
    },
    Object {
        reclaimable: bool,
    },
    /// A file, which is written; `together` with all of its step, a page of each in turn.
    File {
        together: bool,
    },
    /// A mapping, which is written to.
    Memory {
        huge: bool,
    },
}

/// A number from the first to the last, each as likely.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Size {
    pub(super) least: u64,
    pub(super) most: u64,
}

/// How many requests a step makes in a round.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) enum Amount {
    Count(Vec<u64>),
    /// As many as have this share of the machine's pages, in percent; one at least.
    Percent(Vec<u64>),
}

/// How long what a step made is held.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Lifetime {
    /// Until the workload ends.
    Whole,
    /// Until the end of the round that comes so many later.
    Rounds(u64),
    /// About exponentially distributed, with this mean.
    Mean(Nanos),
}

/// Reads a file.
pub(super) fn parse(text: &str) -> Result<Contents, Mistake> {
    let parsed = toml_file::parse(text)?;
    let mut keys = Keys::new(text, parsed.get_ref());
    let name = keys.string("name")?;
    let machine = keys.string_or("machine", MACHINE)?;
    let latency = keys.flag("latency")?;
    let primary = keys.texts("primary", |id| deciding::by_id(id).is_some(), &deciding::names())?;
    let tables = keys.tables("task", "[[task]]")?;
    keys.end()?;
    let tasks = tables.into_iter().map(task).collect::<Result<Vec<_>, _>>()?;
    let count: u32 = tasks.iter().map(|task| task.count).sum();
    if !(1..=TASKS).contains(&count) {
        return Err(keys.mistake(&format!("{count} tasks; allowed: 1 to {TASKS}")));
    }
    Ok(Contents { name, machine, primary, latency, tasks })
}

fn task(mut keys: Keys<'_>) -> Result<Task, Mistake> {
    let count = keys.number("count", 1..=TASKS.into(), Some(1))? as u32;
    let rounds = keys.number("rounds", 1..=ROUNDS, Some(1))?;
    let pause = keys.number("pause_ms", 0..=MS, Some(0))? * MILLISECOND;
    let tables = keys.tables("step", "[[task.step]]")?;
    keys.end()?;
    let mut named = Vec::new();
    let steps = tables.into_iter().map(|keys| step(keys, &mut named));
    Ok(Task { count, rounds, pause, steps: steps.collect::<Result<_, _>>()? })
}

/// What a step of each name makes.
type Named = Vec<(Option<String>, Option<Thing>)>;

const DO: [&str; 8] = ["blocks", "objects", "files", "memory", "read", "touch", "free", "sleep"];

fn step(mut keys: Keys<'_>, named: &mut Named) -> Result<Step, Mistake> {
    keys.require("do")?;
    let what = keys.choice("do", &DO)?;
    let every = keys.number("every", 1..=ROUNDS, Some(1))?;
    if DO[what] == "sleep" {
        let time = keys.number("ms", 1..=MS, None)? * MILLISECOND;
        keys.end()?;
        named.push((None, None));
        return Ok(Step { what: What::Sleep(time), amount: Amount::Count(vec![1]), every, gap: 0 });
    }
    let gap = match keys.has("per_second") {
        true => 1000 * MILLISECOND / keys.number("per_second", 1..=1_000_000, None)?,
        false => 0,
    };
    let what = match DO[what] {
        "blocks" | "objects" | "files" | "memory" => {
            let name = keys.has("name").then(|| keys.string("name")).transpose()?;
            let make = make(&mut keys, DO[what], gap > 0)?;
            named.push((name, Some(make.thing)));
            What::Make(make)
        }
        use_or_free => {
            let of = of(&mut keys, use_or_free, named)?;
            named.push((None, None));
            match use_or_free {
                "free" => What::Free { of },
                _ => What::Use { of, pages: size(&mut keys, "pages", 1..=PAGES, None)? },
            }
        }
    };
    let amount = amount(&mut keys)?;
    keys.end()?;
    Ok(Step { what, amount, every, gap })
}

fn make(keys: &mut Keys<'_>, what: &str, timed: bool) -> Result<Make, Mistake> {
    let reclaimable =
        |keys: &mut Keys<'_>| Ok(keys.choice("type", &["unmovable", "reclaimable"])? == 1);
    let (thing, size) = match what {
        "blocks" => {
            let thing = Thing::Block { reclaimable: reclaimable(keys)? };
            (thing, size(keys, "order", 0..=10, Some(0))?)
        }
        "objects" => {
            let thing = Thing::Object { reclaimable: reclaimable(keys)? };
            (thing, size(keys, "bytes", 1..=OBJECT, None)?)
        }
        "files" => {
            let thing = Thing::File { together: keys.flag("together")? };
            (thing, size(keys, "pages", 1..=PAGES, None)?)
        }
        _ => {
            let thing = Thing::Memory { huge: keys.flag("huge")? };
            (thing, size(keys, "pages", 1..=PAGES, None)?)
        }
    };
    let hold = keys.flag("hold")?;
    let lifetime = match (keys.has("lifetime_ms"), keys.has("lifetime_rounds")) {
        (true, true) => {
            return Err(keys.mistake("a step has `lifetime_ms` or `lifetime_rounds`, not both"));
        }
        (true, false) if !timed => {
            return Err(
                keys.mistake("`lifetime_ms` needs `per_second`: else the step takes no time")
            );
        }
        (true, false) => Lifetime::Mean(keys.number("lifetime_ms", 1..=MS, None)? * MILLISECOND),
        (false, true) => Lifetime::Rounds(keys.number("lifetime_rounds", 0..=ROUNDS, None)?),
        (false, false) => Lifetime::Whole,
    };
    if hold && lifetime != Lifetime::Whole {
        return Err(keys.mistake("what a step holds (`hold`) has no lifetime"));
    }
    Ok(Make { thing, size, lifetime, hold })
}

/// Returns the number of the earlier step that a step uses, or frees from.
fn of(keys: &mut Keys<'_>, what: &str, named: &Named) -> Result<usize, Mistake> {
    let name = keys.string("of")?;
    let fits = |thing: Thing| match what {
        "read" => matches!(thing, Thing::File { .. }),
        "touch" => matches!(thing, Thing::Memory { .. }),
        _ => true,
    };
    let found = named.iter().rposition(|(of, _)| of.as_deref() == Some(&name));
    match found {
        Some(at) if named[at].1.is_some_and(fits) => Ok(at),
        _ => {
            let made = if what == "read" {
                "files"
            } else if what == "touch" {
                "memory"
            } else {
                "something"
            };
            Err(keys.mistake(&format!(
                "`of` is \"{name}\"; allowed: the `name` of an earlier step of this task that makes {made}"
            )))
        }
    }
}

fn size(
    keys: &mut Keys<'_>,
    key: &'static str,
    allowed: RangeInclusive<u64>,
    default: Option<u64>,
) -> Result<Size, Mistake> {
    match *keys.numbers(key, allowed, default)? {
        [only] => Ok(Size { least: only, most: only }),
        [least, most] if least <= most => Ok(Size { least, most }),
        _ => Err(keys.mistake(&format!("`{key}` is a number, or [LEAST, MOST]"))),
    }
}

fn amount(keys: &mut Keys<'_>) -> Result<Amount, Mistake> {
    match (keys.has("count"), keys.has("percent")) {
        (true, false) => Ok(Amount::Count(keys.numbers("count", 0..=COUNT, None)?)),
        (false, true) => Ok(Amount::Percent(keys.numbers("percent", 0..=1000, None)?)),
        _ => Err(keys.mistake("a step has either `count` or `percent` (of the machine's pages)")),
    }
}
