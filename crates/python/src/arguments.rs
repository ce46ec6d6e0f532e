//! Arguments of public functions: one way to say each, and one line for what is wrong with it.
//!
//! A function of this module has the name of the argument that it reads, in whatever function of Python that is.

use std::path::PathBuf;

use pageblock_plan::own::is_file;
use pageblock_plan::run;
use pyo3::prelude::*;
use pyo3::types::{PyBool, PyByteArray, PyBytes, PyDict, PyFloat, PyInt, PyString};

use crate::error::asked;
use crate::kernel::{Kernel, KernelArgument, KernelArguments};
use crate::workload::{Workload, of_file};

type Given<'a, 'py> = &'a Bound<'py, PyAny>;

/// Says what an argument is, and what is allowed.
fn wrong(name: &str, value: Given<'_, '_>, allowed: &str) -> PyErr {
    asked(format!("{name} {}: allowed: {allowed}", shown(value)))
}

/// Returns a value in a line: what Python prints, or its type where that is long.
fn shown(value: Given<'_, '_>) -> String {
    let printed = value.repr().map(|text| text.to_string()).unwrap_or_default();
    match printed.len() <= 60 && !printed.is_empty() && !printed.contains(['\n', '\r']) {
        true => printed,
        false => match value.get_type().name() {
            Ok(name) => format!("of type {name}"),
            Err(_) => "of a type without a name".to_owned(),
        },
    }
}

/// Reads a whole number from `least` on; truth values are none.
fn whole(name: &str, value: Given<'_, '_>, least: u64) -> PyResult<u64> {
    let read = if value.is_instance_of::<PyBool>() { None } else { value.extract::<u64>().ok() };
    match read.filter(|read| *read >= least) {
        Some(read) => Ok(read),
        None => Err(wrong(name, value, &format!("a whole number from {least} on"))),
    }
}

fn size(name: &str, value: Given<'_, '_>, least: u64) -> PyResult<usize> {
    let read = whole(name, value, least)?;
    usize::try_from(read).map_err(|_| wrong(name, value, "a smaller number"))
}

fn text_of(name: &str, value: Given<'_, '_>, allowed: &str) -> PyResult<String> {
    value.extract::<String>().map_err(|_| wrong(name, value, allowed))
}

fn path_of(name: &str, value: Given<'_, '_>) -> PyResult<PathBuf> {
    let text = value.cast::<PyString>().is_ok_and(|text| text.to_string().is_empty());
    match value.extract::<PathBuf>() {
        Ok(path) if !text => Ok(path),
        _ => Err(wrong(name, value, "the path of a file or a folder")),
    }
}

fn flag(name: &str, value: Given<'_, '_>) -> PyResult<bool> {
    value.extract::<bool>().map_err(|_| wrong(name, value, "True, False"))
}

fn optional<'a, 'py, T>(
    value: Given<'a, 'py>,
    read: impl FnOnce(Given<'a, 'py>) -> PyResult<T>,
) -> PyResult<Option<T>> {
    if value.is_none() { Ok(None) } else { read(value).map(Some) }
}

/// Reads several texts, or one.
fn texts(name: &str, value: Given<'_, '_>, allowed: &str) -> PyResult<Vec<String>> {
    if let Ok(one) = value.extract::<String>() {
        return Ok(vec![one]);
    }
    let several = value.try_iter().map_err(|_| wrong(name, value, allowed))?;
    several.map(|one| text_of(name, &one?, allowed)).collect()
}

/// Declares the readers of arguments by their names.
macro_rules! arguments {
    ($($argument:ident: $kind:ty = |$value:ident| $read:expr;)*) => {
        $(
            pub(crate) fn $argument($value: Given<'_, '_>) -> PyResult<$kind> {
                $read
            }
        )*
    };
}

arguments! {
    jobs: Option<usize> = |value| optional(value, |value| size("jobs", value, 1));
    guest_jobs: Option<u16> = |value| optional(value, |value| {
        u16::try_from(whole("jobs", value, 1)?).map_err(|_| wrong("jobs", value, "a number from 1 to 65535"))
    });
    repeat: u64 = |value| whole("repeat", value, 1);
    cpus: u64 = |value| whole("cpus", value, 1);
    nodes: u64 = |value| whole("nodes", value, 1);
    memory: Option<u64> = |value| optional(value, |value| whole("memory", value, 1));
    timeout: u64 = |value| whole("timeout", value, 1);
    seed: Option<u64> = |value| optional(value, |value| whole("seed", value, 0));
    tasks: u32 = |value| {
        u32::try_from(whole("tasks", value, 1)?).map_err(|_| wrong("tasks", value, "a smaller number"))
    };
    mismatches: usize = |value| size("mismatches", value, 0);
    interval: f64 = |value| match value.extract::<f64>() {
        Ok(seconds) if !value.is_instance_of::<PyBool>() => Ok(seconds),
        _ => Err(wrong("interval", value, "seconds")),
    };
    pictures: bool = |value| flag("pictures", value);
    published: bool = |value| flag("published", value);
    force: bool = |value| flag("force", value);
    record: bool = |value| flag("record", value);
    details: bool = |value| flag("details", value);
    stars: String = |value| text_of("stars", value, "'classic', 'modern', 'off'");
    tables: String = |value| text_of("tables", value, "'summary', 'all', a part of a title");
    kind: String = |value| text_of("kind", value, "'map', 'series', 'orders', 'matrix', 'frontier'");
    at: f64 = |value| match value.extract::<f64>() {
        Ok(share) if !value.is_instance_of::<PyBool>() => Ok(share),
        _ => Err(wrong("at", value, "a share of the run from 0 to 1")),
    };
    name: String = |value| text_of("name", value, "a text");
    flag_names: String = |value| text_of("names", value, "flags as tracepoints print them: 'GFP_ATOMIC'");
    latency: bool = |value| flag("latency", value);
    switch_name: String = |value| text_of("name", value, "the name of a switch");
    version: Option<String> = |value| optional(value, |value| text_of("kernel", value, "a version such as '6.12'"));
    start: Option<String> = |value| optional(value, |value| text_of("start", value, "a time such as '-10m'"));
    end: Option<String> = |value| optional(value, |value| text_of("end", value, "a time such as '-10m'"));
    accelerator: Option<String> = |value| optional(value, |value| text_of("accelerator", value, "'kvm', 'icount', 'tcg', None"));
    columns: Option<Vec<String>> = |value| optional(value, |value| texts("columns", value, "names of columns"));
    sysctls: Vec<String> = |value| texts("sysctls", value, "texts such as 'vm.swappiness=10'");
    path: PathBuf = |value| path_of("path", value);
    out: Option<PathBuf> = |value| optional(value, |value| path_of("out", value));
    page: PathBuf = |value| path_of("out", value);
    save: Option<PathBuf> = |value| optional(value, |value| path_of("save", value));
    proc: Option<PathBuf> = |value| optional(value, |value| path_of("proc", value));
    root: Option<PathBuf> = |value| optional(value, |value| path_of("root", value));
    later: Option<PathBuf> = |value| optional(value, |value| path_of("later", value));
    flight: Option<PathBuf> = |value| optional(value, |value| path_of("flight", value));
    qemu: Option<PathBuf> = |value| optional(value, |value| path_of("qemu", value));
    program: Option<PathBuf> = |value| optional(value, |value| path_of("program", value));
    sources: Vec<PathBuf> = |value| paths("sources", value);
    guests: Vec<PathBuf> = |value| paths("kernels", value);
    log: PathBuf = |value| value.extract().map_err(|_| {
        wrong("log", value, "the path of a file, the bytes of a log, or its text with a line feed")
    });
    machine_name: String = |value| machine_text(value);
    machine: Option<String> = |value| optional(value, |value| machine_text(value));
    scale: String = |value| scale_text(value);
    guest_scale: Option<String> = |value| optional(value, |value| scale_text(value));
}

fn paths(name: &str, value: Given<'_, '_>) -> PyResult<Vec<PathBuf>> {
    if let Ok(one) = value.extract::<PathBuf>() {
        return Ok(vec![one]);
    }
    let several = value.try_iter().map_err(|_| wrong(name, value, "a path, or several"))?;
    several.map(|one| path_of(name, &one?)).collect()
}

/// Returns a machine as text: a name, or the path of a TOML file.
#[pyfunction]
#[pyo3(signature = (machine, /))]
pub(crate) fn machine_text(machine: &Bound<'_, PyAny>) -> PyResult<String> {
    match machine.extract::<PathBuf>() {
        Ok(path) => Ok(path.display().to_string()),
        Err(_) => {
            Err(wrong("machine", machine, "a name of machines(), or the path of a TOML file"))
        }
    }
}

/// The largest denominator of a scale.
const DENOMINATOR: u64 = 1024 * 1024;

/// Returns a scale as text: of a text, a `Fraction`, or a number such as `1/64`.
#[pyfunction]
#[pyo3(signature = (scale, /))]
pub(crate) fn scale_text(scale: &Bound<'_, PyAny>) -> PyResult<String> {
    const ALLOWED: &str =
        "a fraction of at most 1 and at least 1/1024: '1/64', 1/64, Fraction(1, 64)";
    if scale.is_none() {
        return Ok("1".to_owned());
    }
    if let Ok(text) = scale.cast::<PyString>() {
        return Ok(text.to_string());
    }
    let fractions = scale.py().import("fractions")?.getattr("Fraction")?;
    let number = scale.is_instance(&fractions)?
        || scale.is_instance_of::<PyFloat>()
        || scale.is_instance_of::<PyInt>()
        || scale.hasattr("__float__")?;
    if !number || scale.is_instance_of::<PyBool>() {
        return Err(wrong("scale", scale, ALLOWED));
    }
    let exact = fractions.call1((scale,)).or_else(|_| fractions.call1((scale.extract::<f64>()?,)));
    let near = exact.and_then(|exact| exact.call_method1("limit_denominator", (DENOMINATOR,)));
    match near {
        // A number beyond all floating-point ones is too large, too.
        Ok(near) if near.extract::<f64>().ok() == scale.extract::<f64>().ok() => {
            Ok(near.str()?.to_string())
        }
        _ => Err(wrong("scale", scale, ALLOWED)),
    }
}

/// Returns the seeds that are meant: `first` and those after it for a number, or those of a range, a list, or an array.
#[pyfunction]
#[pyo3(signature = (seeds, first = 1, name = "seeds"))]
pub(crate) fn seed_list(seeds: &Bound<'_, PyAny>, first: u64, name: &str) -> PyResult<Vec<u64>> {
    let allowed = format!("how many, 1 to {}, or which: a range, a list, an array", run::MAX_SEEDS);
    let is_text =
        seeds.is_instance_of::<PyString>() || seeds.is_instance_of::<PyBool>() || is_bytes(seeds);
    if let (false, Ok(count)) = (is_text, seeds.extract::<u64>()) {
        return match (1..=run::MAX_SEEDS).contains(&count) && first.checked_add(count).is_some() {
            true => Ok((first..first + count).collect()),
            false => Err(wrong(name, seeds, &allowed)),
        };
    }
    let Some(several) = seeds.try_iter().ok().filter(|_| !is_text) else {
        return Err(wrong(name, seeds, &allowed));
    };
    let mut all = Vec::new();
    for one in several {
        let one = one?;
        let seed = whole(name, &one, 0)?;
        if all.contains(&seed) {
            return Err(asked(format!("{name}: {seed} is given twice")));
        }
        all.push(seed);
        if all.len() as u64 > run::MAX_SEEDS {
            return Err(wrong(name, seeds, &allowed));
        }
    }
    match all.is_empty() {
        true => Err(wrong(name, seeds, &allowed)),
        false => Ok(all),
    }
}

/// Reads `seeds`.
pub(crate) fn seeds(value: Given<'_, '_>) -> PyResult<Vec<u64>> {
    seed_list(value, 1, "seeds")
}

/// Reads `seeds` of replays, which begin with 0.
pub(crate) fn draws(value: Given<'_, '_>) -> PyResult<u64> {
    let seeds = seed_list(value, 0, "seeds")?;
    match seeds.iter().copied().eq(0..seeds.len() as u64) {
        true => Ok(seeds.len() as u64),
        false => Err(wrong("seeds", value, "how many: replays have the seeds 0, 1, 2 and so on")),
    }
}

const KERNEL: &str = "a name of kernels() with ,switch=value, a Kernel, or the path of a TOML file";

pub(crate) fn kernel_of<'py>(name: &str, value: Given<'_, 'py>) -> PyResult<KernelArgument<'py>> {
    if let Ok(kernel) = value.cast::<Kernel>() {
        return Ok(KernelArgument::Kernel(kernel.clone()));
    }
    if let Ok(text) = value.extract::<String>() {
        return Ok(KernelArgument::Text(text));
    }
    match value.extract::<PathBuf>() {
        Ok(path) => Ok(KernelArgument::File(path)),
        Err(_) => Err(wrong(name, value, KERNEL)),
    }
}

/// Reads `progress`: what makes a bar, or a truth value.
pub(crate) fn progress<'py>(value: Given<'_, 'py>) -> PyResult<Option<Bound<'py, PyAny>>> {
    match value.is_none() || value.is_instance_of::<PyBool>() || value.is_callable() {
        true => Ok(Some(value.clone()).filter(|value| !value.is_none())),
        false => Err(wrong("progress", value, "True, False, None, tqdm")),
    }
}

/// Reads `stop`: an event.
pub(crate) fn stop<'py>(value: Given<'_, 'py>) -> PyResult<Option<Bound<'py, PyAny>>> {
    match value.is_none() || value.hasattr("is_set")? {
        true => Ok(Some(value.clone()).filter(|value| !value.is_none())),
        false => Err(wrong("stop", value, "an event with is_set, None")),
    }
}

/// Reads `kernel`.
pub(crate) fn kernel<'py>(value: Given<'_, 'py>) -> PyResult<KernelArgument<'py>> {
    kernel_of("kernel", value)
}

/// Reads `kernel`, which may be None.
pub(crate) fn some_kernel<'py>(value: Given<'_, 'py>) -> PyResult<Option<KernelArgument<'py>>> {
    optional(value, |value| kernel_of("kernel", value))
}

/// Reads `baseline`.
pub(crate) fn baseline<'py>(value: Given<'_, 'py>) -> PyResult<Option<KernelArgument<'py>>> {
    optional(value, |value| kernel_of("baseline", value))
}

/// Reads `kernels`: one, or several.
pub(crate) fn kernels<'py>(value: Given<'_, 'py>) -> PyResult<KernelArguments<'py>> {
    if let Ok(one) = kernel_of("kernels", value) {
        return Ok(KernelArguments::One(one));
    }
    let is_one = value.is_instance_of::<PyDict>() || is_bytes(value);
    let Some(several) = value.try_iter().ok().filter(|_| !is_one) else {
        return Err(wrong("kernels", value, &format!("{KERNEL}; or several of these")));
    };
    let several: PyResult<Vec<_>> = several.map(|one| kernel_of("kernels", &one?)).collect();
    several.map(KernelArguments::Several)
}

/// Reads `kernels`, which may be None.
pub(crate) fn some_kernels<'py>(value: Given<'_, 'py>) -> PyResult<Option<KernelArguments<'py>>> {
    optional(value, kernels)
}

/// A workload that is included, or one's own.
pub(crate) enum WorkloadArgument<'py> {
    /// One's own.
    Own(Bound<'py, Workload>),
    /// A name.
    Name(String),
}

/// Reads `workload`.
pub(crate) fn workload<'py>(value: Given<'_, 'py>) -> PyResult<WorkloadArgument<'py>> {
    if let Ok(own) = value.cast::<Workload>() {
        return Ok(WorkloadArgument::Own(own.clone()));
    }
    let name = workload_name(value)?;
    if is_file(&name) {
        return of_file(value.py(), &name).map(WorkloadArgument::Own);
    }
    match name.contains(':') {
        true => imported(value.py(), &name).map(WorkloadArgument::Own),
        false => Ok(WorkloadArgument::Name(name)),
    }
}

/// Imports a workload by `module:name`.
fn imported<'py>(py: Python<'py>, name: &str) -> PyResult<Bound<'py, Workload>> {
    let (module, attribute) = name.split_once(':').unwrap_or((name, ""));
    let found = py.import(module).and_then(|module| module.getattr(attribute));
    match found.map(Bound::cast_into::<Workload>) {
        Ok(Ok(workload)) => Ok(workload),
        Ok(Err(_)) => Err(asked(format!("workload '{name}': it is no pageblock.Workload"))),
        Err(error) => {
            let why = error.value(py).to_string().replace('\n', ", ");
            Err(asked(format!("workload '{name}': {why}")))
        }
    }
}

/// Returns one's own workload: itself, or what a file or `module:name` means; None for one that is included.
#[pyfunction]
#[pyo3(signature = (workload, /))]
pub(crate) fn own_workload<'py>(
    workload: &Bound<'py, PyAny>,
) -> PyResult<Option<Bound<'py, Workload>>> {
    match self::workload(workload)? {
        WorkloadArgument::Own(own) => Ok(Some(own)),
        WorkloadArgument::Name(_) => Ok(None),
    }
}

/// Returns whether a value is bytes, whose parts are numbers that nobody meant.
pub(crate) fn is_bytes(value: Given<'_, '_>) -> bool {
    value.is_instance_of::<PyBytes>() || value.is_instance_of::<PyByteArray>()
}

/// Reads `workload` where it must be one that is included, or the path of a file.
pub(crate) fn workload_name(value: Given<'_, '_>) -> PyResult<String> {
    if let (false, false, Ok(path)) =
        (value.is_instance_of::<PyString>(), is_bytes(value), value.extract::<PathBuf>())
    {
        return Ok(path.to_string_lossy().into_owned());
    }
    text_of(
        "workload",
        value,
        "a name of workloads(), a workload file, 'module:name' of a Workload, or a Workload",
    )
}
