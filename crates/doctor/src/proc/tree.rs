//! The place of a machine's files: below `/`, in a copied tree such as a sosreport, in one flat folder, or in memory.

use std::collections::{BTreeMap, BTreeSet};
use std::io::{self, Read};
use std::path::{Path, PathBuf};

use serde::Serialize;

/// The largest size of a file that is read as a whole, far above real ones.
const FILE_BYTES: u64 = 64 << 20;

/// A tree of a machine's files.
#[derive(Clone, Debug)]
pub struct Tree {
    root: PathBuf,
    /// The files by the kernel's names, if they are in memory.
    texts: Option<BTreeMap<String, Result<String, String>>>,
}

/// The reason why a file is missing.
#[derive(Clone, PartialEq, Eq, Debug, Serialize)]
pub struct Missing {
    /// The file, as the kernel names it.
    pub file: String,
    /// The reason: `no such file`, `no permission`, or the error in its text.
    pub why: String,
}

impl Tree {
    /// Returns the tree at a root: `/`, or a folder with `proc` and `sys`, or one with the files of `/proc` themselves.
    #[must_use]
    pub fn new(root: &Path) -> Self {
        Self { root: root.to_owned(), texts: None }
    }

    /// Returns a tree of files in memory by the kernel's names, each with its text or the reason why it could not be read.
    /// Errors call the tree `name`.
    #[must_use]
    pub fn of_texts(name: &Path, texts: BTreeMap<String, Result<String, String>>) -> Self {
        Self { root: name.to_owned(), texts: Some(texts) }
    }

    /// Returns the root.
    #[must_use]
    pub fn root(&self) -> &Path {
        &self.root
    }

    /// Returns whether it is the machine on which this program runs.
    #[must_use]
    pub fn is_live(&self) -> bool {
        self.texts.is_none() && self.root == Path::new("/")
    }

    /// Returns whether a file exists.
    #[must_use]
    pub fn has(&self, file: &str) -> bool {
        match &self.texts {
            Some(texts) => texts.get(file).is_some_and(Result::is_ok),
            None => self.find(file).is_some(),
        }
    }

    /// Returns the path of a file by the kernel's name, such as `/proc/vmstat`: the first that exists of those
    /// with the whole path below the root or another form of it, plain or compressed.
    #[must_use]
    pub fn find(&self, file: &str) -> Option<PathBuf> {
        let whole = file.trim_start_matches('/');
        let beside = whole.strip_prefix("proc/").unwrap_or(whole);
        [whole, beside]
            .into_iter()
            .flat_map(|path| ["", ".zst", ".xz"].map(|end| self.root.join(format!("{path}{end}"))))
            .find(|path| path.is_file())
    }

    /// Returns whether a file of exactly this name exists.
    #[must_use]
    pub fn is_file(&self, file: &str) -> bool {
        match self.path_of(file) {
            Some(path) => path.is_file(),
            None => self.has(file),
        }
    }

    /// Returns the path of a file of exactly this name; `None` if the tree is in memory.
    #[must_use]
    pub fn path_of(&self, file: &str) -> Option<PathBuf> {
        self.texts.is_none().then(|| self.root.join(file.trim_start_matches('/')))
    }

    /// Reads a file as text.
    ///
    /// # Errors
    /// If the file does not exist, cannot be read, or is compressed and damaged.
    pub fn read(&self, file: &str) -> Result<String, Missing> {
        let missing = |why: String| Missing { file: file.to_owned(), why };
        if let Some(texts) = &self.texts {
            let text = texts.get(file).ok_or_else(|| missing("no such file".to_owned()))?;
            return text.clone().map_err(missing);
        }
        let path = self.find(file).ok_or_else(|| missing("no such file".to_owned()))?;
        let bytes = match path.extension().and_then(|end| end.to_str()) {
            Some("zst" | "xz") => pageblock_recording::Input::open(&path)
                .and_then(|mut input| input.read_to_end(FILE_BYTES as usize))
                .map_err(|error| missing(error.to_string()))?,
            _ => read_plain(&path).map_err(|error| {
                missing(match error.kind() {
                    io::ErrorKind::PermissionDenied => "no permission".to_owned(),
                    _ => error.to_string(),
                })
            })?,
        };
        Ok(String::from_utf8_lossy(&bytes).into_owned())
    }

    /// Reads a setting of one line; `None` if it is missing.
    #[must_use]
    pub fn setting(&self, file: &str) -> Option<String> {
        Some(self.read(file).ok()?.trim().to_owned())
    }

    /// Returns the sorted names in a folder; an empty list if it does not exist.
    #[must_use]
    pub fn names(&self, folder: &str) -> Vec<String> {
        if let Some(texts) = &self.texts {
            let inside = format!("{}/", folder.trim_end_matches('/'));
            let names =
                texts.keys().filter_map(|file| file.strip_prefix(&inside)?.split('/').next());
            return names.map(str::to_owned).collect::<BTreeSet<_>>().into_iter().collect();
        }
        let path = self.root.join(folder.trim_start_matches('/'));
        let entries = std::fs::read_dir(path).into_iter().flatten().filter_map(Result::ok);
        let mut names: Vec<String> =
            entries.filter_map(|entry| entry.file_name().into_string().ok()).collect();
        names.sort();
        names
    }
}

fn read_plain(path: &Path) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    super::open_regular(path)?.take(FILE_BYTES).read_to_end(&mut bytes)?;
    Ok(bytes)
}
