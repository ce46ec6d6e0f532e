//! The files of a recording beside its events: in a folder, or attached to one file.

use std::collections::{BTreeMap, HashMap};
use std::fs;
use std::io::Cursor;
use std::path::{Path, PathBuf};

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;

use crate::input::bytes::Input;
use crate::input::error::Error;
use crate::input::tar;
use crate::state::paths::{DEPTH, check_name, find, is_reserved};

/// The key of an attachment, before its path: the value is base64 of zstd of the content.
const KEY: &str = "file:";
/// The folder of the entries of `static.tar` among attachments.
pub(crate) const STATIC: &str = "static/";
/// The folder of the state at the end.
pub(crate) const END: &str = "end/";
/// Strong compression, which is still fast for files of a few megabytes.
const ZSTD_LEVEL: i32 = 19;
/// The limit of all attachments, compressed: their texts are in a table of 32-bit offsets.
const LIMIT_BYTES: usize = 512 << 20;

/// The files beside the events.
pub(crate) enum Files {
    /// In a folder, plain or compressed.
    Folder(PathBuf),
    /// Attached to a file.
    Attached(Attachments),
}

/// Files that are attached to another, each compressed with zstd, by path.
#[derive(Default)]
pub(crate) struct Attachments {
    pub(crate) of: PathBuf,
    pub(crate) files: BTreeMap<String, Vec<u8>>,
}

impl Files {
    /// Opens a file by its path without the ending of its compression; `None` if there is none.
    pub(crate) fn open(&self, path: &str) -> Result<Option<Input>, Error> {
        match self {
            Self::Folder(dir) => {
                let (folder, name) = path.rsplit_once('/').unwrap_or(("", path));
                find(&dir.join(folder), name).map(|path| Input::open(&path)).transpose()
            }
            Self::Attached(files) => files.open(path),
        }
    }

    /// Reports whether there is a folder of this name.
    pub(crate) fn has_folder(&self, name: &str) -> bool {
        match self {
            Self::Folder(dir) => dir.join(name).is_dir(),
            Self::Attached(files) => {
                files.files.keys().any(|path| path.starts_with(&format!("{name}/")))
            }
        }
    }

    /// Returns the folder, or the file with the attachments.
    pub(crate) fn path(&self) -> &Path {
        match self {
            Self::Folder(dir) => dir,
            Self::Attached(files) => &files.of,
        }
    }

    /// Returns the settings of the machine, by the paths that the names in `static.tar` encode.
    pub(crate) fn settings(&self) -> Result<BTreeMap<String, Vec<u8>>, Error> {
        let mut settings = BTreeMap::new();
        match self {
            Self::Folder(_) => {
                if let Some(input) = self.open("static.tar")? {
                    tar::each_file(input, |name, content| {
                        let path = name.trim_start_matches("./").replace("__", "/");
                        check_name(self.path(), &format!("{STATIC}{path}"))?;
                        settings.insert(path, content);
                        Ok(())
                    })?;
                }
            }
            Self::Attached(files) => {
                for path in files.files.keys().filter(|path| path.starts_with(STATIC)) {
                    let setting = path[STATIC.len()..].to_owned();
                    settings.insert(setting, files.content(path)?);
                }
            }
        }
        Ok(settings)
    }

    /// Returns all files as attachments.
    pub(crate) fn attach(self) -> Result<Attachments, Error> {
        let dir = match self {
            Self::Attached(files) => return Ok(files),
            Self::Folder(dir) => dir,
        };
        let mut all = Attachments { of: dir.clone(), files: BTreeMap::new() };
        for (path, content) in Self::Folder(dir.clone()).settings()? {
            all.insert(format!("{STATIC}{path}"), &content)?;
        }
        let mut found = Vec::new();
        files_below(&dir, "", DEPTH, &mut found)?;
        for (name, path) in found {
            let mut input = Input::open(&path)?;
            let compression = input.compression();
            let plain = name.strip_suffix(".xz").or_else(|| name.strip_suffix(".zst"));
            let name = plain.filter(|_| compression.is_some()).unwrap_or(&name).to_owned();
            if compression == Some("zstd") {
                // Read to its end to find damage; large tables are not kept unpacked.
                while !input.next_chunk()?.is_empty() {}
                all.keep(name, fs::read(&path).map_err(|e| Error::io(&path, e))?)?;
            } else {
                all.insert(name, &input.read_to_end(LIMIT_BYTES)?)?;
            }
        }
        Ok(all)
    }
}

/// Finds the files of a folder that are neither events nor `static.tar`, with their paths in it.
pub(crate) fn files_below(
    dir: &Path,
    prefix: &str,
    depth: u32,
    found: &mut Vec<(String, PathBuf)>,
) -> Result<(), Error> {
    for entry in fs::read_dir(dir).map_err(|e| Error::io(dir, e))? {
        let path = entry.map_err(|e| Error::io(dir, e))?.path();
        let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
        if prefix.is_empty() && is_reserved(&name) {
            continue;
        }
        if path.is_dir() && depth > 0 {
            files_below(&path, &format!("{prefix}{name}/"), depth - 1, found)?;
        } else if path.is_file() {
            found.push((format!("{prefix}{name}"), path));
        }
    }
    Ok(())
}

impl Attachments {
    /// Reads the attachments among the texts of a file.
    pub(crate) fn read(of: &Path, texts: &HashMap<String, String>) -> Result<Self, Error> {
        let mut files = BTreeMap::new();
        for (key, value) in texts {
            let Some(path) = key.strip_prefix(KEY) else { continue };
            check_name(of, path)?;
            let bytes = STANDARD.decode(value);
            let bytes =
                bytes.map_err(|_| Error::pbrec(of, format!("its attachment {path} is damaged")))?;
            files.insert(path.to_owned(), bytes);
        }
        Ok(Self { of: of.to_owned(), files })
    }

    /// Starts without a file.
    pub(crate) fn of(of: &Path) -> Self {
        Self { of: of.to_owned(), files: BTreeMap::new() }
    }

    /// Adds the names of processes.
    pub(crate) fn insert_comms(&mut self, comms: &BTreeMap<u32, String>) -> Result<(), Error> {
        self.insert("comms.json".to_owned(), &serde_json::to_vec(comms).unwrap_or_default())
    }

    /// Adds a file.
    pub(crate) fn insert(&mut self, path: String, content: &[u8]) -> Result<(), Error> {
        // With the size known, small files cost little.
        let packed =
            zstd::bulk::compress(content, ZSTD_LEVEL).map_err(|e| Error::io(&self.of, e))?;
        self.keep(path, packed)
    }

    /// Adds a file that is compressed.
    fn keep(&mut self, path: String, packed: Vec<u8>) -> Result<(), Error> {
        check_name(&self.of, &path)?;
        let all: usize = self.files.values().map(Vec::len).sum();
        if all + packed.len() > LIMIT_BYTES {
            let why = format!(
                "{path} does not fit: files beside the events may have {} MiB in all, compressed",
                LIMIT_BYTES >> 20
            );
            return Err(Error::Convert { file: self.of.clone(), why });
        }
        self.files.insert(path, packed);
        Ok(())
    }

    /// Returns the texts for a file: those of the state at the end, or all others.
    pub(crate) fn texts(&self, at_the_end: bool) -> impl Iterator<Item = (String, String)> {
        let files = self.files.iter().filter(move |(path, _)| path.starts_with(END) == at_the_end);
        files.map(|(path, packed)| (format!("{KEY}{path}"), STANDARD.encode(packed)))
    }

    /// Removes the files of a folder.
    pub(crate) fn remove_folder(&mut self, prefix: &str) {
        self.files.retain(|path, _| !path.starts_with(prefix));
    }

    fn open(&self, path: &str) -> Result<Option<Input>, Error> {
        let Some(packed) = self.files.get(path) else { return Ok(None) };
        let name = self.of.join(path);
        Input::from_reader(Cursor::new(packed.clone()), &name).map(Some)
    }

    /// Returns the content of a file; nothing if there is none.
    pub(crate) fn content(&self, path: &str) -> Result<Vec<u8>, Error> {
        self.open(path)?.map_or(Ok(Vec::new()), |mut input| input.read_to_end(LIMIT_BYTES))
    }
}
