//! The order of the folders of a crate's `src`, for tests of how code is laid out (those of `crates/vm`, `crates/recording` and
//! `crates/measure` too).

use std::fs;
use std::path::PathBuf;

use crate::source::{code, named_after, rust_files};

/// The folders of `src`, lowest first: each imports only from itself and from those before it.
pub(crate) struct Folders {
    pub(crate) names: &'static [&'static str],
    /// The modules outside of them that every folder may import.
    pub(crate) open: &'static [&'static str],
}

/// A file of a folder.
pub(crate) struct File {
    /// The folder's place in the order.
    pub(crate) at: usize,
    /// Below `src`.
    pub(crate) name: String,
    pub(crate) text: String,
}

pub(crate) fn src() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("src")
}

impl Folders {
    /// Returns the place of a folder in the order.
    pub(crate) fn place(&self, name: &str) -> Option<usize> {
        self.names.iter().position(|&known| known == name)
    }

    /// Reads every file of the folders.
    pub(crate) fn files(&self) -> Vec<File> {
        let of = |(at, folder): (usize, &&str)| {
            let read = move |file: PathBuf| File {
                at,
                name: file.strip_prefix(src()).unwrap().display().to_string(),
                text: fs::read_to_string(&file).unwrap(),
            };
            rust_files(&src().join(folder)).into_iter().map(read).collect::<Vec<_>>()
        };
        self.names.iter().enumerate().flat_map(of).collect()
    }

    /// Returns the imports in a text of a folder that it must not have, with the numbers of their lines.
    pub(crate) fn wrong_names(&self, at: usize, text: &str) -> Vec<String> {
        let mut wrong = Vec::new();
        for (number, line) in (1..).zip(text.lines()) {
            let line = code(line);
            for named in named_after(line, "crate::") {
                match self.place(named) {
                    Some(other) if other <= at => {}
                    Some(_) => wrong
                        .push(format!("{number}: {} must not import from {named}", self.names[at])),
                    None if self.open.contains(&named) => {}
                    None => wrong.push(format!("{number}: crate::{named} is no folder of src")),
                }
            }
            if line.contains("super::super") {
                wrong.push(format!(
                    "{number}: write a path from the crate's root, not super::super"
                ));
            }
        }
        wrong
    }

    /// Returns the names in `src` that are none of the folders, sorted.
    pub(crate) fn outside(&self) -> Vec<String> {
        let names = fs::read_dir(src()).unwrap().map(|entry| entry.unwrap().file_name());
        let mut names: Vec<String> = names
            .map(|name| name.into_string().unwrap())
            .filter(|name| self.place(name).is_none())
            .collect();
        names.sort();
        names
    }
}

/// Fails where `wrong` finds something in a file.
#[track_caller]
pub(crate) fn none(files: &[File], wrong: impl Fn(&File) -> Vec<String>) {
    let all = files.iter().flat_map(|file| {
        let found = wrong(file).into_iter();
        found.map(|what| format!("{}:{what}", file.name)).collect::<Vec<_>>()
    });
    let all: Vec<String> = all.collect();
    assert!(all.is_empty(), "{}", all.join("\n"));
    assert!(files.len() > 20, "only {} files were read", files.len());
}
