//! Where a kernel's source comes from, and the copy of it that is patched and built.

use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::fs::{self, File};
use std::io::{BufReader, Read};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::process::Command;

use pageblock_files::{Access, NewFolder};

use super::{Step, Work, key};
use crate::error::Error;

/// What a folder with the source of a kernel has.
const MARKS: [&str; 3] = ["Makefile", "Kbuild", "mm/page_alloc.c"];
/// What a build in the folder itself leaves behind, which builds elsewhere refuse.
const LEFT_BEHIND: [&str; 4] =
    [".config", "include/config", "include/generated", "arch/x86/include/generated"];
const ALLOWED: &str = "allowed: a folder with the source of a kernel, linux-*.tar.xz (or .zst, .gz, .tar), a package linux-source-* of Debian, or its name";

/// The source of a kernel.
pub(super) struct Source {
    given: PathBuf,
    from: From,
    /// Names its folder in the cache.
    pub(super) key: String,
    /// Stands for all of its content.
    pub(super) content: String,
}

enum From {
    /// A folder with its files: size and time of the last change.
    Folder(BTreeMap<PathBuf, String>),
    /// An archive, or a package that has one.
    Archive(PathBuf),
}

impl Source {
    pub(super) fn find(given: &Path, cache: &Path) -> Result<Self, Error> {
        let wrong = |why: String| Error::source(given, why);
        if given.is_dir() {
            if MARKS.iter().any(|mark| !given.join(mark).is_file()) {
                return Err(wrong(format!("it is not the source of a kernel; {ALLOWED}")));
            }
            let path = fs::canonicalize(given).map_err(Error::at(given))?;
            let files = listed(&path)?;
            let text: String = files
                .iter()
                .map(|(path, state)| format!("{}\t{state}\n", path.display()))
                .collect();
            let (key, content) =
                (key(&[path.as_os_str().as_encoded_bytes()]), key(&[text.as_bytes()]));
            return Ok(Self { given: path, from: From::Folder(files), key, content });
        }
        let archive = if given.exists() {
            given.to_owned()
        } else {
            download(given, cache).map_err(wrong)?
        };
        let mut hash = blake3::Hasher::new();
        let file = File::open(&archive).map_err(Error::at(&archive))?;
        hash.update_reader(file).map_err(Error::at(&archive))?;
        let content = hash.finalize().to_hex()[..super::DIGITS].to_owned();
        Ok(Self {
            given: given.to_owned(),
            from: From::Archive(archive),
            key: content.clone(),
            content,
        })
    }

    /// Brings the copy to the state of the source.
    pub(super) fn update(&self, work: &Work<'_>) -> Result<(), Error> {
        let tree = work.folder.join("tree");
        match &self.from {
            From::Archive(_) if tree.is_dir() => Ok(()),
            From::Archive(archive) => {
                work.say(Step::Note("unpacking the source"))?;
                let folder =
                    NewFolder::create_new(&tree, Access::Shared).map_err(Error::at(&tree))?;
                unpack(archive, folder.path()).map_err(|why| Error::source(&self.given, why))?;
                folder.finish().map_err(Error::at(&tree))
            }
            From::Folder(files) => self.copy(files, work),
        }
    }

    /// Copies what changed in a folder since it was copied last.
    fn copy(&self, files: &BTreeMap<PathBuf, String>, work: &Work<'_>) -> Result<(), Error> {
        let (tree, kept, list) =
            (work.folder.join("tree"), work.folder.join("unpatched"), work.folder.join("copied"));
        let before = fs::read_to_string(&list).unwrap_or_default();
        let before: BTreeMap<&Path, &str> = before
            .lines()
            .filter_map(|line| line.split_once('\t'))
            .map(|(path, state)| (Path::new(path), state))
            .collect();
        if before.is_empty() {
            work.say(Step::Note("copying the source"))?;
        }
        // A file that a patch changed has its own content elsewhere.
        let place =
            |file: &Path| if kept.join(file).exists() { kept.join(file) } else { tree.join(file) };
        for (file, state) in files {
            if before.get(file.as_path()) != Some(&state.as_str()) {
                copy(&self.given.join(file), &place(file))?;
            }
        }
        for file in before.keys().filter(|file| !files.contains_key(**file)) {
            let gone = place(file);
            match fs::remove_file(&gone) {
                Err(error) if error.kind() != std::io::ErrorKind::NotFound => {
                    return Err(Error::at(&gone)(error));
                }
                _ => {}
            }
        }
        let text: String =
            files.iter().map(|(path, state)| format!("{}\t{state}\n", path.display())).collect();
        fs::write(&list, text).map_err(Error::at(&list))
    }
}

/// Copies a file, with its mode, or a link as a link.
fn copy(from: &Path, to: &Path) -> Result<(), Error> {
    if let Some(folder) = to.parent() {
        fs::create_dir_all(folder).map_err(Error::at(folder))?;
    }
    if from.is_symlink() {
        let target = fs::read_link(from).map_err(Error::at(from))?;
        // What was there before.
        let _ = fs::remove_file(to);
        return std::os::unix::fs::symlink(target, to).map_err(Error::at(to));
    }
    fs::copy(from, to).map(|_| ()).map_err(Error::at(from))
}

/// Lists the files of a folder without what git, and builds in it, keep there.
fn listed(root: &Path) -> Result<BTreeMap<PathBuf, String>, Error> {
    let (mut files, mut folders) = (BTreeMap::new(), vec![PathBuf::new()]);
    while let Some(below) = folders.pop() {
        let folder = root.join(&below);
        for entry in fs::read_dir(&folder).map_err(Error::at(&folder))? {
            let entry = entry.map_err(Error::at(&folder))?;
            let path = below.join(entry.file_name());
            let made =
                matches!(path.extension().and_then(OsStr::to_str), Some("o" | "a" | "cmd" | "ko"));
            if made
                || path == Path::new(".git")
                || LEFT_BEHIND.iter().any(|left| path == Path::new(left))
            {
                continue;
            }
            let meta = entry.metadata().map_err(Error::at(&entry.path()))?;
            if meta.is_dir() {
                folders.push(path);
            } else {
                files
                    .insert(path, format!("{} {}.{}", meta.len(), meta.mtime(), meta.mtime_nsec()));
            }
        }
    }
    Ok(files)
}

/// Unpacks the source that an archive or a package holds into a folder.
fn unpack(archive: &Path, to: &Path) -> Result<(), String> {
    let said = |error: std::io::Error| error.to_string();
    let file = BufReader::new(File::open(archive).map_err(said)?);
    if !is_package(archive).map_err(said)? {
        return unpack_tar(plain(file).map_err(said)?, to).map_err(said);
    }
    let mut package = ar::Archive::new(file);
    while let Some(entry) = package.next_entry() {
        let entry = entry.map_err(said)?;
        if !entry.header().identifier().starts_with(b"data.tar") {
            continue;
        }
        let mut data = tar::Archive::new(plain(BufReader::new(entry)).map_err(said)?);
        for file in data.entries().map_err(said)? {
            let file = file.map_err(said)?;
            let path = file.path().map_err(said)?.to_string_lossy().into_owned();
            if path.contains("usr/src/linux-source-")
                && path.contains(".tar")
                && file.header().entry_type().is_file()
            {
                return unpack_tar(plain(BufReader::new(file)).map_err(said)?, to).map_err(said);
            }
        }
    }
    Err(format!("this package has no usr/src/linux-source-*.tar.xz; {ALLOWED}"))
}

fn is_package(path: &Path) -> std::io::Result<bool> {
    let mut start = Vec::new();
    File::open(path)?.take(8).read_to_end(&mut start)?;
    Ok(start == b"!<arch>\n")
}

/// Decompresses what is compressed.
fn plain<'r>(mut reader: impl std::io::BufRead + 'r) -> std::io::Result<Box<dyn Read + 'r>> {
    let start = reader.fill_buf()?;
    Ok(match start {
        [0xfd, b'7', b'z', b'X', b'Z', ..] => Box::new(liblzma::read::XzDecoder::new(reader)),
        [0x28, 0xb5, 0x2f, 0xfd, ..] => Box::new(zstd::stream::read::Decoder::with_buffer(reader)?),
        [0x1f, 0x8b, ..] => Box::new(flate2::read::GzDecoder::new(reader)),
        _ => Box::new(reader),
    })
}

/// Unpacks an archive whose files are all below one folder, without that.
fn unpack_tar(reader: impl Read, to: &Path) -> std::io::Result<()> {
    let wrong = || {
        std::io::Error::other(format!("it is not an archive of the source of a kernel; {ALLOWED}"))
    };
    let mut archive = tar::Archive::new(reader);
    for entry in archive.entries().map_err(|_| wrong())? {
        let mut entry = entry.map_err(|_| wrong())?;
        let path = entry.path()?.into_owned();
        let below: PathBuf =
            path.components().filter(|part| part.as_os_str() != ".").skip(1).collect();
        if below.as_os_str().is_empty() || below.components().any(|part| part.as_os_str() == "..") {
            continue;
        }
        // What stands behind a link may be anywhere: an archive could write any file.
        let behind = |folder: &Path| to.join(folder).is_symlink();
        if entry.header().entry_type().is_hard_link() || below.ancestors().skip(1).any(behind) {
            return Err(std::io::Error::other(format!(
                "{} is a hard link, or a link leads to it: no source of a kernel has that",
                below.display()
            )));
        }
        let target = to.join(below);
        if let Some(folder) = target.parent() {
            fs::create_dir_all(folder)?;
        }
        entry.unpack(target)?;
    }
    if MARKS.iter().any(|mark| !to.join(mark).is_file()) {
        return Err(wrong());
    }
    Ok(())
}

/// Lets apt download a package with a source into the cache, where it stays.
fn download(name: &Path, cache: &Path) -> Result<PathBuf, String> {
    let text = name.to_string_lossy();
    let plain = |c: char| c.is_ascii_alphanumeric() || "+-.".contains(c);
    if text.starts_with('-') || !text.chars().all(plain) {
        return Err(format!("there is no such file or folder; {ALLOWED}"));
    }
    let folder = cache.join("packages").join(&*text);
    fs::create_dir_all(&folder).map_err(|error| format!("{}: {error}", folder.display()))?;
    // A package that is there is not downloaded again.
    let output =
        Command::new("apt-get").args(["download", "-qq", &text]).current_dir(&folder).output();
    let newest = fs::read_dir(&folder).into_iter().flatten().flatten().filter_map(|entry| {
        let path = entry.path();
        let is_package = path.extension().is_some_and(|ending| ending == "deb");
        is_package.then(|| Some((entry.metadata().ok()?.modified().ok()?, path)))?
    });
    let newest = newest.max().map(|(_, path)| path);
    match (newest, output) {
        (Some(path), _) => Ok(path),
        (None, Err(_)) => Err(format!(
            "there is no such file or folder, and no apt-get to download it; {ALLOWED}"
        )),
        (None, Ok(output)) => {
            let said = String::from_utf8_lossy(&output.stderr);
            let error = said
                .lines()
                .find_map(|line| line.strip_prefix("E: "))
                .unwrap_or("no package came")
                .to_owned();
            Err(format!("there is no such file or folder, and apt-get download {text}: {error}"))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns an archive of a source with one more entry before a file of it.
    fn archive(add: impl FnOnce(&mut tar::Builder<Vec<u8>>)) -> Vec<u8> {
        let mut made = tar::Builder::new(Vec::new());
        let file = |made: &mut tar::Builder<Vec<u8>>, name: &str| {
            let mut header = tar::Header::new_gnu();
            header.set_size(1);
            header.set_mode(0o644);
            made.append_data(&mut header, format!("linux/{name}"), &b"x"[..]).unwrap();
        };
        for mark in MARKS {
            file(&mut made, mark);
        }
        add(&mut made);
        file(&mut made, "out/there");
        made.into_inner().unwrap()
    }

    fn link(made: &mut tar::Builder<Vec<u8>>, kind: tar::EntryType, name: &str, to: &Path) {
        let mut header = tar::Header::new_gnu();
        header.set_entry_type(kind);
        header.set_size(0);
        made.append_link(&mut header, format!("linux/{name}"), to).unwrap();
    }

    #[test]
    fn an_archive_writes_nothing_behind_its_links() {
        let (tree, elsewhere) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        let evil = archive(|made| link(made, tar::EntryType::Symlink, "out", elsewhere.path()));
        let why = unpack_tar(&evil[..], tree.path()).unwrap_err().to_string();
        assert!(why.starts_with("out/there is a hard link, or a link leads to it"), "{why}");
        assert_eq!(fs::read_dir(elsewhere.path()).unwrap().count(), 0);

        let tree = tempfile::tempdir().unwrap();
        let hard =
            archive(|made| link(made, tar::EntryType::Link, "hard", Path::new("linux/Kbuild")));
        let why = unpack_tar(&hard[..], tree.path()).unwrap_err().to_string();
        assert!(why.starts_with("hard is a hard link"), "{why}");

        // Sources have links between their own folders.
        let tree = tempfile::tempdir().unwrap();
        let plain = archive(|made| link(made, tar::EntryType::Symlink, "near", Path::new("mm")));
        unpack_tar(&plain[..], tree.path()).unwrap();
        assert!(tree.path().join("out/there").is_file() && tree.path().join("near").is_symlink());
    }
}
