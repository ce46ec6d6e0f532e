//! Where the files of a machine are: below `/`, in a copied tree such as a sosreport, or side by side in a folder.

use std::fs::File;
use std::io::{self, Read};
use std::path::{Path, PathBuf};

use serde::Serialize;

/// The largest file that is read whole, far above real ones.
const FILE_BYTES: u64 = 64 << 20;

/// A tree of a machine's files.
#[derive(Clone, Debug)]
pub struct Tree {
    root: PathBuf,
}

/// Why a file is not there.
#[derive(Clone, PartialEq, Eq, Debug, Serialize)]
pub struct Missing {
    /// The file, as the kernel names it.
    pub file: String,
    /// Why: `no such file`, `no permission`, or what is wrong with its text.
    pub why: String,
}

impl Tree {
    /// Makes a tree from its root: `/`, or a folder with `proc` and `sys`, or one with the files of `/proc` themselves.
    #[must_use]
    pub fn new(root: &Path) -> Self {
        Self { root: root.to_owned() }
    }

    /// Returns the root.
    #[must_use]
    pub fn root(&self) -> &Path {
        &self.root
    }

    /// Tells whether it is the machine that this program runs on.
    #[must_use]
    pub fn is_live(&self) -> bool {
        self.root == Path::new("/")
    }

    /// Returns the path of a file that the kernel names so, such as `/proc/vmstat`: the first that is there of those
    /// with the whole path below the root, in other forms of it, plain or compressed.
    #[must_use]
    pub fn find(&self, file: &str) -> Option<PathBuf> {
        let whole = file.trim_start_matches('/');
        let beside = whole.strip_prefix("proc/").unwrap_or(whole);
        [whole, beside]
            .into_iter()
            .flat_map(|path| ["", ".zst", ".xz"].map(|end| self.root.join(format!("{path}{end}"))))
            .find(|path| path.is_file())
    }

    /// Reads a file as text.
    ///
    /// # Errors
    /// If it is not there, cannot be read, or is compressed and damaged.
    pub fn read(&self, file: &str) -> Result<String, Missing> {
        let missing = |why: String| Missing { file: file.to_owned(), why };
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

    /// Reads a setting of one line; `None` if it is not there.
    #[must_use]
    pub fn setting(&self, file: &str) -> Option<String> {
        Some(self.read(file).ok()?.trim().to_owned())
    }

    /// Returns the names in a folder, sorted; none if it is not there.
    #[must_use]
    pub fn names(&self, folder: &str) -> Vec<String> {
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
    File::open(path)?.take(FILE_BYTES).read_to_end(&mut bytes)?;
    Ok(bytes)
}
