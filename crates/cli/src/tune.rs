//! `pageblock tune`: the search is that of the Python package, which has Optuna.

use std::env;
use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use anyhow::{Context, bail};
use clap::ValueEnum;
use serde_json::{Map, Value, json};

use crate::args::tune::TuneArgs;
use crate::{Verdict, interrupt, output};

/// The interpreter that is used instead of python3.
const PYTHON: &str = "PAGEBLOCK_PYTHON";
/// Takes the current folder out of what is imported, where Python put it first: what lies there may be anybody's. `sys` is
/// built in.
const SAFE: &str = "import sys; sys.path[:] = [path for path in sys.path if path]; ";
/// Does the same in Python from 3.11 on, and in the processes that it starts.
const SAFE_PATH: (&str, &str) = ("PYTHONSAFEPATH", "1");
/// Leaves with a status of its own where the package, or what it needs for this, is missing.
const PROBE: &str = "import importlib.util as u; sys.exit(0 if all(map(u.find_spec, ('pageblock', 'optuna'))) else 9)";
/// Runs the package as `python3 -m pageblock` does.
const RUN: &str =
    "import runpy; runpy.run_module('pageblock', run_name='__main__', alter_sys=True)";

pub(crate) fn run(args: &TuneArgs) -> anyhow::Result<Verdict> {
    let request = Value::Object(request(args)?).to_string();
    let python = env::var_os(PYTHON).unwrap_or_else(|| OsString::from("python3"));
    let shown = output::in_line(&Path::new(&python).display().to_string());
    let command = |code: &str| {
        let mut command = Command::new(&python);
        command.env(SAFE_PATH.0, SAFE_PATH.1).arg("-c").arg(format!("{SAFE}{code}"));
        command
    };
    let probe = command(PROBE).stdin(Stdio::null()).status();
    if !probe.with_context(|| shown.clone())?.success() {
        bail!(
            "{shown} has no package pageblock with Optuna, which does the search: pip install 'pageblock[tune]' (docs/python.md), or name an \
             interpreter that has it in {PYTHON}"
        );
    }
    // Ctrl-C reaches the interpreter too, which says what is done.
    interrupt::watch_quietly();
    let status = command(RUN).arg(&request).status();
    let status = status.with_context(|| shown.clone())?;
    match status.code().map(u8::try_from) {
        Some(Ok(0)) => Ok(Verdict::Yes),
        Some(Ok(interrupt::INTERRUPTED)) => Ok(Verdict::Interrupted),
        Some(Ok(code)) => Ok(Verdict::Status(code)),
        _ => bail!("{shown}: {status}"),
    }
}

/// Returns the arguments of `pageblock.tune`, and of its check.
fn request(args: &TuneArgs) -> anyhow::Result<Map<String, Value>> {
    let name = |value: Option<clap::builder::PossibleValue>| {
        value.map_or(String::new(), |value| value.get_name().to_owned())
    };
    let mut request = Map::new();
    let mut set = |key: &str, value: Value| request.insert(key.to_owned(), value);
    set("of", json!(args.of));
    set("kernel", json!(args.kernel));
    set("objectives", json!(args.objectives));
    set("over", json!(name(args.over.to_possible_value())));
    set("knobs", if args.knobs.is_empty() { Value::Null } else { json!(args.knobs) });
    set("machine", json!(args.machine));
    set("scale", json!(args.scale));
    set("trials", json!(args.trials));
    set("batch", json!(args.batch));
    set("seeds", json!(args.seeds));
    set("held_out", json!(args.held_out));
    set("seed", json!(args.seed));
    set("pick", json!(args.pick));
    set("out", json!(text(&args.out.clone().unwrap_or_else(|| own_folder(&args.of)))?));
    set("jobs", json!(args.jobs));
    set("json", json!(args.json));
    if let Some(kernel) = &args.check {
        let program = env::current_exe().context("the running program")?;
        let mut check =
            json!({ "kernel": text(kernel)?, "repeat": args.repeat, "program": text(&program)? });
        if let Some(qemu) = &args.qemu {
            check["qemu"] = json!(text(qemu)?);
        }
        set("check", check);
    }
    Ok(request)
}

/// Returns a folder here with the name of what is tuned.
fn own_folder(of: &str) -> PathBuf {
    let name = Path::new(of).file_stem().unwrap_or_else(|| "pageblock".as_ref());
    Path::new(name).with_extension("tune")
}

fn text(path: &Path) -> anyhow::Result<&str> {
    path.to_str().with_context(|| format!("{}: the name is not UTF-8", path.display()))
}
