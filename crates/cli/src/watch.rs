//! `pageblock watch`: a view of this machine, or of a file, in the terminal.

use std::io::IsTerminal;
use std::path::Path;

use anyhow::bail;
use pageblock_doctor::flight::Flight;
use pageblock_plan::subjects;
use pageblock_watch::{
    App, Colors, End, FlightTape, HistoryTape, Live, LivePlan, Look, Source, once, run as show,
};

use crate::args::report::PicturedArgs;
use crate::args::watch::{ColorChoice, WatchArgs};
use crate::progress::terminal;
use crate::{Verdict, interrupt, output};

/// The screen of `--once` where the terminal does not say its size: as wide as a mail's reader bears.
const SCREEN: (u16, u16) = (100, 40);

pub(crate) fn run(args: &WatchArgs) -> anyhow::Result<Verdict> {
    let at = args.at.unwrap_or(if args.once { 1.0 } else { 0.0 });
    if !(0.0..=1.0).contains(&at) {
        bail!("--at {at} is not a share from 0 to 1");
    }
    if args.interval.is_zero() {
        bail!("--interval: a time from 0.5s to 24h; not 0");
    }
    let is_terminal = std::io::stdout().is_terminal() && std::io::stdin().is_terminal();
    if !args.once && !is_terminal {
        bail!("standard input and output are not a terminal; --once prints one screen as text");
    }
    let look = look(args);
    interrupt::watch_quietly();
    let mut sources = match &args.file {
        Some(file) => tapes(args, file, at)?,
        None => match live(args)? {
            Some(live) => vec![live],
            None => Vec::new(),
        },
    };
    if interrupt::requested() {
        return Ok(Verdict::Interrupted);
    }
    if args.once {
        let screens = sources.iter().map(|source| {
            let look = Look { colors: Colors::None, ..look };
            once(&mut App::new(source.as_ref(), look, 1), source.as_ref(), size())
        });
        output::print(&screens.collect::<Vec<_>>().join("\n"))?;
        return Ok(Verdict::Yes);
    }
    let ended = show(&mut sources, look, args.interval, &args.save_in, &interrupt::requested)?;
    Ok(match ended {
        End::Quit => Verdict::Yes,
        End::Interrupted => Verdict::Interrupted,
    })
}

fn look(args: &WatchArgs) -> Look {
    let mut look = Look::of(&|name| std::env::var(name).ok());
    look.ascii |= args.ascii;
    look.colors = match args.colors {
        ColorChoice::Auto => look.colors,
        ColorChoice::Never => Colors::None,
        ColorChoice::Sixteen => Colors::Sixteen,
        ColorChoice::Palette => Colors::Palette,
        ColorChoice::Truecolor => Colors::True,
    };
    look
}

/// Opens this machine; for one screen it reads the whole map and a second moment. `None` after Ctrl-C.
fn live(args: &WatchArgs) -> anyhow::Result<Option<Box<dyn Source>>> {
    let events = !args.no_events;
    let plan = LivePlan { root: args.root.clone(), interval: args.interval, events };
    let mut live = Live::open(plan)?;
    if args.once {
        if interrupt::wait(args.interval) {
            return Ok(None);
        }
        live.read_all()?;
        live.tick()?;
    }
    Ok(Some(Box::new(live)))
}

/// Opens a file: a flight file, saved runs or a recording.
fn tapes(args: &WatchArgs, file: &Path, at: f64) -> anyhow::Result<Vec<Box<dyn Source>>> {
    let mut tapes: Vec<Box<dyn Source>> = Vec::new();
    if file.is_file() && Flight::open(file).is_ok() {
        match FlightTape::open(file, &interrupt::requested) {
            Ok(tape) => tapes.push(Box::new(tape)),
            Err(_) if interrupt::requested() => {}
            Err(error) => return Err(error.into()),
        }
    } else {
        let pictured = PicturedArgs {
            sources: vec![file.to_owned()],
            policies: args.policies.clone(),
            seed: args.seed,
            capture: args.capture.clone(),
        };
        for subject in &subjects::load(&pictured.sources()?, false, &terminal())?.subjects {
            if let Some(tape) = HistoryTape::open(subject)? {
                tapes.push(Box::new(tape));
            }
        }
    }
    if tapes.is_empty() && !interrupt::requested() {
        bail!(
            "{}: nothing to show: it has no history. `pageblock run ... --pictures --save FILE` keeps one; a recording needs \
             its events and start state",
            file.display()
        );
    }
    for tape in &mut tapes {
        let last = tape.position().1 - 1;
        tape.seek((at * last as f64).round() as usize);
    }
    Ok(tapes)
}

/// Returns the columns and lines of one screen: those of the terminal, if it is one.
fn size() -> (u16, u16) {
    let terminal = console::Term::stdout().size_checked();
    terminal.map_or(SCREEN, |(lines, columns)| (columns.max(60), lines.max(21) - 1))
}
