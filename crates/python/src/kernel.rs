//! Kernels: a preset and its switches.

use std::collections::BTreeMap;
use std::collections::hash_map::DefaultHasher;
use std::hash::{Hash, Hasher};
use std::path::PathBuf;

use pageblock::policy::Value;
use pageblock_kernel::preset::PRESETS;
use pageblock_kernel::{Named, Switch, file};
use pageblock_plan::NamedPolicy;
use pageblock_simulate::sim::machine_file::Scale;
use pyo3::exceptions::PyAttributeError;
use pyo3::prelude::*;
use pyo3::types::{PyBool, PyDict, PyString, PyTuple, PyType};

use crate::arguments;
use crate::error::{asked, failed, in_python};
use crate::table::{Columns, Table};

/// A kernel: a version's preset with each switch's value, as `pageblock policy show` prints it.
///
/// `Kernel("linux-6.9")`, `Kernel("linux-6.9,nofragment=off")`, `Kernel("linux-6.9", nofragment=False)`, or the path of a
/// TOML file. Each switch is an attribute: a bool where it is on or off, an int where it is a number, else a str;
/// `help(pageblock.Kernel)` says what each decides. A kernel does not change; `replace` makes another one.
#[pyclass(frozen, module = "pageblock")]
#[derive(Clone)]
pub(crate) struct Kernel {
    pub(crate) policy: NamedPolicy,
}

#[pymethods]
impl Kernel {
    #[new]
    #[pyo3(signature = (kernel, /, **switches))]
    fn new(
        #[pyo3(from_py_with = arguments::kernel)] kernel: KernelArgument,
        switches: Option<&Bound<'_, PyDict>>,
    ) -> PyResult<Self> {
        kernel.get()?.replace(switches)
    }

    /// The name that the user gave it: `linux-6.9,nofragment=off`.
    #[getter]
    fn name(&self) -> &str {
        &self.policy.name
    }

    /// The text that means it everywhere, without the file that it came from: `linux-6.9,nofragment=off`.
    #[getter]
    fn text(&self) -> String {
        let named = &self.policy.kernel;
        let as_named = Named::parse(&named.label).ok();
        if as_named.is_some_and(|of| of.kernel == named.kernel && of.set == named.set) {
            return named.label.clone();
        }
        let set = |(switch, value): &(Switch, Value)| format!(",{}={value}", switch.name());
        named.base.name.to_owned() + &named.set.iter().map(set).collect::<String>()
    }

    /// The preset that it starts from: `linux-6.9`.
    #[getter]
    fn base(&self) -> &'static str {
        self.policy.kernel.base.name
    }

    /// What distinguishes the preset from the one before.
    #[getter]
    fn summary(&self) -> &'static str {
        self.policy.kernel.base.summary
    }

    /// Returns every switch with its value.
    fn switches<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        let all = PyDict::new(py);
        for switch in Switch::all() {
            all.set_item(switch.name(), self.value(py, switch)?)?;
        }
        Ok(all)
    }

    /// Returns another kernel in which these switches have these values.
    #[pyo3(signature = (**switches))]
    fn replace(&self, switches: Option<&Bound<'_, PyDict>>) -> PyResult<Self> {
        let mut named = self.policy.kernel.clone();
        for (name, value) in switches.into_iter().flatten() {
            let (name, value) = (name.extract::<String>()?, switch_text(&value)?);
            // What was set before is set again.
            named.set.retain(|(switch, _)| switch.name() != name);
            named.assign(&name, &value).map_err(failed)?;
            named.label = relabelled(&named.label, &name, &value);
        }
        named.check().map_err(failed)?;
        Ok(Self { policy: NamedPolicy::of(named) })
    }

    /// Returns the switches in which another kernel differs, a row each: `switch`, `switch_group`, `a`, `b` (the values of this
    /// one and of the other), `decides`, and `since`, the version or commit that brought the value of the other.
    fn diff(
        &self,
        #[pyo3(from_py_with = arguments::kernel)] other: KernelArgument,
    ) -> PyResult<Table> {
        let other = other.get()?;
        let rows: Vec<_> = self.policy.kernel.kernel.diff(&other.policy.kernel.kernel).collect();
        let each = || rows.iter();
        Columns::of("diff")
            .text("switch", each().map(|(switch, ..)| Some(switch.name())))
            .text("switch_group", each().map(|(switch, ..)| Some(switch.group().name)))
            .text("a", each().map(|(_, a, _)| Some(a.to_string())))
            .text("b", each().map(|(.., b)| Some(b.to_string())))
            .text("decides", each().map(|(switch, ..)| Some(switch.about().summary())))
            .text("since", each().map(|(switch, _, b)| Some(switch.since(*b))))
            .table()
    }

    /// Returns it as TOML, which `Kernel("FILE.toml")` and the program read.
    fn to_toml(&self) -> String {
        file::print(&self.policy.kernel)
    }

    /// Returns the value of a switch, as its attribute does.
    fn switch<'py>(
        &self,
        py: Python<'py>,
        #[pyo3(from_py_with = arguments::switch_name)] name: String,
    ) -> PyResult<Bound<'py, PyAny>> {
        match Switch::find(&name) {
            Some(switch) => self.value(py, switch),
            None => Err(asked(unknown(&name))),
        }
    }

    fn __getattr__<'py>(&self, py: Python<'py>, name: &str) -> PyResult<Bound<'py, PyAny>> {
        if name.starts_with('_') {
            return Err(PyAttributeError::new_err(name.to_owned()));
        }
        match Switch::find(name) {
            Some(switch) => self.value(py, switch),
            None => Err(PyAttributeError::new_err(unknown(name))),
        }
    }

    fn __repr__(&self) -> String {
        format!("<pageblock.Kernel {}>", self.policy.name)
    }

    fn __str__(&self) -> &str {
        &self.policy.name
    }

    fn __eq__(&self, other: &Bound<'_, PyAny>) -> bool {
        other.cast::<Self>().is_ok_and(|other| {
            let (a, b) = (&self.policy, &other.get().policy);
            a.name == b.name && a.kernel.kernel == b.kernel.kernel
        })
    }

    fn __hash__(&self) -> u64 {
        let mut hasher = DefaultHasher::new();
        self.policy.name.hash(&mut hasher);
        hasher.finish()
    }

    fn __reduce__<'py>(slf: &Bound<'py, Self>) -> PyResult<Bound<'py, PyTuple>> {
        let py = slf.py();
        let of = &slf.get().policy.kernel;
        let set: Vec<&str> = of.set.iter().map(|(switch, _)| switch.name()).collect();
        let switches: BTreeMap<&str, String> =
            Switch::all().map(|s| (s.name(), s.get(&of.kernel).to_string())).collect();
        let kept = (of.label.as_str(), of.base.name, set, switches);
        (slf.getattr("_from_kept")?, kept).into_pyobject(py)
    }

    /// Makes a kernel again of what a pickle keeps.
    #[classmethod]
    fn _from_kept(
        _class: &Bound<'_, PyType>,
        label: &str,
        base: &str,
        set: Vec<String>,
        switches: BTreeMap<String, String>,
    ) -> PyResult<Self> {
        let named = Named::from_kept(label, base, &set, &switches).map_err(failed)?;
        Ok(Self { policy: NamedPolicy::of(named) })
    }
}

impl Kernel {
    fn value<'py>(&self, py: Python<'py>, switch: Switch) -> PyResult<Bound<'py, PyAny>> {
        Ok(match switch.get(&self.policy.kernel.kernel) {
            Value::Number(number) => number.into_pyobject(py)?.into_any(),
            Value::Name(name) if switch.is_flag() => {
                PyBool::new(py, name == "on").to_owned().into_any()
            }
            Value::Name(name) => PyString::new(py, name).into_any(),
        })
    }
}

/// A kernel, or the text that names one.
pub(crate) enum KernelArgument<'py> {
    /// A kernel.
    Kernel(Bound<'py, Kernel>),
    /// `NAME,switch=value,...`, or a path.
    Text(String),
    /// The path of a TOML file.
    File(PathBuf),
}

impl KernelArgument<'_> {
    /// Returns the kernel.
    pub(crate) fn get(&self) -> PyResult<Kernel> {
        let parsed = match self {
            Self::Kernel(kernel) => return Ok(kernel.get().clone()),
            Self::Text(text) => NamedPolicy::parse(text),
            Self::File(path) => NamedPolicy::parse(&path.display().to_string()),
        };
        Ok(Kernel { policy: parsed.map_err(failed)? })
    }
}

/// One kernel or several.
pub(crate) enum KernelArguments<'py> {
    /// One.
    One(KernelArgument<'py>),
    /// Several.
    Several(Vec<KernelArgument<'py>>),
}

impl KernelArguments<'_> {
    /// Returns the policies.
    pub(crate) fn policies(&self) -> PyResult<Vec<NamedPolicy>> {
        match self {
            Self::One(one) => Ok(vec![one.get()?.policy]),
            Self::Several(several) => {
                several.iter().map(|one| one.get().map(|kernel| kernel.policy)).collect()
            }
        }
    }
}

/// Returns a value in the notation of kernels.
fn switch_text(value: &Bound<'_, PyAny>) -> PyResult<String> {
    if let Ok(truth) = value.cast::<PyBool>() {
        return Ok(if truth.is_true() { "on" } else { "off" }.to_owned());
    }
    // Python refuses to print numbers of thousands of digits.
    let text = value.str().map_err(|_| asked("a switch has a number that is too long"))?;
    Ok(text.to_string())
}

/// Returns a label in which a switch has another value.
fn relabelled(label: &str, name: &str, value: &str) -> String {
    let is_of = |part: &str| part.split('=').next().is_some_and(|of| of.trim() == name);
    let kept: Vec<&str> = label.split(',').filter(|part| !is_of(part)).collect();
    format!("{},{name}={value}", kept.join(","))
}

/// Returns the words for a switch that does not exist.
fn unknown(name: &str) -> String {
    let mut any = Named::of_preset(&PRESETS[0]);
    match any.assign(name, "") {
        Err(error) => in_python(&error.to_string()),
        Ok(()) => format!("unknown switch '{name}'"),
    }
}

/// Returns every kernel that is included, the oldest first.
#[pyfunction]
pub(crate) fn kernels() -> Vec<Kernel> {
    let kernel = |preset| Kernel { policy: NamedPolicy::of(Named::of_preset(preset)) };
    PRESETS.iter().map(kernel).collect()
}

/// Returns every switch, a row each: `switch`, `switch_group`, `decides`, `since` (what brought it), `allowed` (its values).
#[pyfunction]
pub(crate) fn switches() -> PyResult<Table> {
    let each = Switch::all;
    Columns::of("switches")
        .text("switch", each().map(|switch| Some(switch.name())))
        .text("switch_group", each().map(|switch| Some(switch.group().name)))
        .text("decides", each().map(|switch| Some(switch.about().summary())))
        .text("since", each().map(|switch| Some(switch.remarks())))
        .text("allowed", each().map(|switch| Some(switch.about().values.to_string())))
        .table()
}

/// Returns every workload, a row each: `workload`, `summary`, `machine` (the one that it was published for).
#[pyfunction]
pub(crate) fn workloads() -> PyResult<Table> {
    let each = || pageblock_simulate::workload::ALL.iter();
    Columns::of("workloads")
        .text("workload", each().map(|workload| Some(workload.name())))
        .text("summary", each().map(|workload| Some(workload.head().summary)))
        .text("machine", each().map(|workload| Some(workload.head().machine)))
        .table()
}

/// Returns the names of the machines that are included.
#[pyfunction]
pub(crate) fn machines() -> Vec<&'static str> {
    pageblock_plan::machines::names().collect()
}

/// Returns the memory of a machine in KiB: one of `machines()`, or the path of a TOML file.
#[pyfunction]
pub(crate) fn memory_kib(
    #[pyo3(from_py_with = arguments::machine_name)] machine: String,
) -> PyResult<u64> {
    let machine = pageblock_plan::machines::load(&machine, Scale::WHOLE).map_err(failed)?;
    let pages: u64 = machine.memory.iter().map(|range| range.end.0 - range.start.0).sum();
    Ok(pages * pageblock::tuning::KBYTES_PER_PAGE)
}
