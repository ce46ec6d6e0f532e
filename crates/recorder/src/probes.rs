//! Probes on the kernel's functions that move pages without an event, where it takes probes.

use std::fs::File;
use std::io::Write;
use std::path::Path;

use crate::error::{Error, read};
use crate::owner::Owner;

/// The group of the probes in a recording.
pub(crate) const GROUP: &str = "pageblock";

/// What moves pages without an event.
struct Silent {
    /// What it is, for a person.
    what: &'static str,
    /// Its name in a recording.
    name: &'static str,
    /// The function, by its names in several versions.
    functions: &'static [&'static str],
    /// What to keep of the arguments, the most informative first; nothing if only the return counts.
    arguments: &'static [&'static str],
    /// What to keep of the returned value, under the name with `_ret`.
    returned: Option<&'static str>,
}

/// A frame is told by the address of its `struct page` and that of the first one.
const SILENT: [Silent; 5] = [
    Silent {
        what: "isolation of free blocks",
        name: "isolate_free_page",
        functions: &["__isolate_free_page"],
        arguments: &[
            "page=$arg1:x64 order=$arg2:u32 base=@vmemmap_base:x64",
            "page=$arg1:x64 order=$arg2:u32",
        ],
        returned: Some("ret=$retval:s32"),
    },
    Silent {
        what: "bulk allocation",
        name: "alloc_pages_bulk",
        functions: &["alloc_pages_bulk_noprof", "__alloc_pages_bulk"],
        arguments: &[],
        returned: Some("ret=$retval:s64"),
    },
    Silent {
        what: "splits",
        name: "split_page",
        functions: &["split_page"],
        arguments: &[
            "page=$arg1:x64 order=$arg2:u32 base=@vmemmap_base:x64",
            "page=$arg1:x64 order=$arg2:u32",
        ],
        returned: None,
    },
    Silent {
        what: "splits of free blocks",
        name: "split_free_page",
        functions: &["split_free_page"],
        arguments: &["page=$arg1:x64 order=$arg2:u32"],
        returned: None,
    },
    Silent {
        what: "captures",
        name: "compaction_capture",
        functions: &["compaction_capture"],
        arguments: &["page=$arg2:x64 order=$arg3:u32"],
        returned: None,
    },
];

/// The probes that could be set, and what has none.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Probes {
    /// The names of the events.
    pub events: Vec<String>,
    /// What moves pages without an event or a probe: a replay infers it.
    pub inferred: Vec<&'static str>,
    /// Whether the kernel takes probes at all.
    pub taken: bool,
}

/// Returns the group of a process's probes while it records.
pub(crate) fn group_of(owner: Owner) -> String {
    format!("{GROUP}_{}", owner.name('_'))
}

/// Returns the probes that this kernel may take, without setting them.
pub(crate) fn possible(root: &Path) -> Result<Probes, Error> {
    let functions = functions(root)?;
    let mut probes = Probes { taken: takes_probes(root), ..Probes::default() };
    for silent in &SILENT {
        if silent.functions.iter().any(|name| functions.contains(name)) {
            probes.events.extend(names(silent));
        } else {
            probes.inferred.push(silent.what);
        }
    }
    Ok(probes)
}

/// Sets probes for this process; what cannot be set is left out.
pub(crate) fn set(root: &Path, own: Owner) -> Result<Probes, Error> {
    let functions = functions(root)?;
    let group = group_of(own);
    let mut probes = Probes { taken: takes_probes(root), ..Probes::default() };
    for silent in &SILENT {
        let set =
            silent.functions.iter().filter(|name| functions.contains(*name)).any(|function| {
                let entry = silent.arguments.is_empty()
                    || silent.arguments.iter().any(|arguments| {
                        define(root, &format!("p:{group}/{} {function} {arguments}", silent.name))
                    });
                let returned = silent.returned.is_none_or(|value| {
                    define(root, &format!("r:{group}/{}_ret {function} {value}", silent.name))
                });
                entry && returned
            });
        if set {
            probes.events.extend(names(silent));
        } else {
            probes.inferred.push(silent.what);
        }
    }
    Ok(probes)
}

fn names(silent: &Silent) -> Vec<String> {
    let entry = (!silent.arguments.is_empty()).then(|| silent.name.to_owned());
    let returned = silent.returned.map(|_| format!("{}_ret", silent.name));
    entry.into_iter().chain(returned).collect()
}

/// Reports whether the kernel takes probes.
fn takes_probes(root: &Path) -> bool {
    root.join("kprobe_events").exists()
}

/// Returns the functions of [`SILENT`] that the kernel has; none where it takes no probes.
fn functions(root: &Path) -> Result<Vec<&'static str>, Error> {
    if !takes_probes(root) {
        return Ok(Vec::new());
    }
    let symbols = read(Path::new("/proc/kallsyms"))?;
    let mut found = Vec::new();
    for name in SILENT.iter().flat_map(|silent| silent.functions) {
        let is_it = |line: &str| line.split_ascii_whitespace().nth(2) == Some(*name);
        if symbols.lines().any(is_it) {
            found.push(*name);
        }
    }
    Ok(found)
}

/// Defines or removes a probe; reports whether the kernel accepts it.
fn define(root: &Path, line: &str) -> bool {
    // Appended: a file that is cut loses the probes of everybody.
    let file = File::options().append(true).open(root.join("kprobe_events"));
    file.is_ok_and(|mut file| file.write_all(format!("{line}\n").as_bytes()).is_ok())
}

/// Removes the probes of processes for which `gone` holds; returns their names, and whether each was removed.
pub(crate) fn remove(root: &Path, gone: impl Fn(Owner) -> bool) -> Vec<(String, bool)> {
    let text = std::fs::read_to_string(root.join("kprobe_events")).unwrap_or_default();
    let mut removed = Vec::new();
    for line in text.lines() {
        let Some(name) = line.split_ascii_whitespace().next().and_then(|w| w.split_once(':'))
        else {
            continue;
        };
        let owner = name.1.strip_prefix(GROUP).and_then(|rest| rest.strip_prefix('_'));
        let owner = owner.and_then(|rest| Owner::parse(rest.split('/').next()?, '_'));
        if owner.is_some_and(&gone) {
            removed.push((name.1.to_owned(), define(root, &format!("-:{}", name.1))));
        }
    }
    removed
}
