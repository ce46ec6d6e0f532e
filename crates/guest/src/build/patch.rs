//! A patch, applied to a tree so that only files whose content changes are written: make compiles nothing else.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Component, Path, PathBuf};
use std::process::Command;

use pageblock_files::ScratchFolder;

use crate::error::Error;

/// A patch as `diff -up` or git writes it, with one folder before each path.
pub(super) struct Patch {
    given: PathBuf,
    /// The name that its kernel's release ends with.
    pub(super) name: String,
    pub(super) text: Vec<u8>,
    /// The files that it changes.
    files: BTreeSet<PathBuf>,
}

impl Patch {
    pub(super) fn read(given: &Path) -> Result<Self, Error> {
        let wrong = |why: &str| Error::source(given, why.to_owned());
        let text = fs::read(given).map_err(Error::at(given))?;
        let plain = |c: char| if c.is_ascii_alphanumeric() || c == '.' { c } else { '-' };
        let stem = given.file_stem().unwrap_or_default().to_string_lossy();
        let name: String = stem.chars().map(plain).collect::<String>().trim_matches('-').to_owned();
        // A release has 64 characters.
        if name.is_empty() || name.len() > 40 {
            return Err(wrong("its name names the kernel: 1 to 40 letters and digits are allowed"));
        }
        let files = changed(&String::from_utf8_lossy(&text)).map_err(|why| wrong(&why))?;
        if files.is_empty() {
            return Err(wrong(
                "it changes no file: a patch has lines that begin with '--- a/' and '+++ b/'",
            ));
        }
        Ok(Self { given: given.to_owned(), name, text, files })
    }
}

/// Returns the files that a patch changes, below the first folder of their paths.
fn changed(text: &str) -> Result<BTreeSet<PathBuf>, String> {
    let mut files = BTreeSet::new();
    let mut old = None;
    for line in text.lines() {
        if let Some(path) = line.strip_prefix("--- ") {
            old = Some(path);
        } else if let (Some(before), Some(after)) = (old.take(), line.strip_prefix("+++ ")) {
            for path in [before, after] {
                let path = path.split('\t').next().unwrap_or_default().trim();
                if path == "/dev/null" {
                    continue;
                }
                let below: PathBuf = Path::new(path).components().skip(1).collect();
                let inside = below.components().all(|part| matches!(part, Component::Normal(_)));
                if !inside || path.starts_with('/') || below.as_os_str().is_empty() {
                    return Err(format!(
                        "'{path}' is no path below one folder, such as a/mm/page_alloc.c"
                    ));
                }
                files.insert(below);
            }
        }
    }
    Ok(files)
}

/// Makes the tree of a folder what it is with a patch, or without one.
pub(super) fn apply(folder: &Path, patch: Option<&Patch>) -> Result<(), Error> {
    let (tree, kept) = (folder.join("tree"), folder.join("unpatched"));
    let added_list = folder.join("added");
    let mut added: BTreeSet<PathBuf> =
        fs::read_to_string(&added_list).unwrap_or_default().lines().map(PathBuf::from).collect();
    let none = BTreeSet::new();
    let wanted = patch.map_or(&none, |patch| &patch.files);
    for file in wanted {
        if added.contains(file) || kept.join(file).exists() {
            continue;
        }
        if tree.join(file).exists() {
            copy(&tree.join(file), &kept.join(file))?;
        } else {
            added.insert(file.clone());
            let list: String = added.iter().map(|path| format!("{}\n", path.display())).collect();
            fs::write(&added_list, list).map_err(Error::at(&added_list))?;
        }
    }
    let patched = ScratchFolder::new().map_err(Error::at(folder))?;
    if let Some(patch) = patch {
        for file in wanted.iter().filter(|file| !added.contains(*file)) {
            copy(&kept.join(file), &patched.path().join(file))?;
        }
        run(patch, patched.path())?;
    }
    let files = files_below(&kept)?.into_iter().chain(added.iter().cloned());
    for file in files {
        let from =
            if wanted.contains(&file) { patched.path().join(&file) } else { kept.join(&file) };
        settle(&from, &tree.join(&file))?;
    }
    Ok(())
}

/// Makes a file of the tree what it is to be, and leaves it alone if it is that.
fn settle(wanted: &Path, file: &Path) -> Result<(), Error> {
    match fs::read(wanted) {
        Ok(bytes) if fs::read(file).is_ok_and(|now| now == bytes) => Ok(()),
        Ok(_) => copy(wanted, file),
        Err(_) if file.exists() => fs::remove_file(file).map_err(Error::at(file)),
        Err(_) => Ok(()),
    }
}

fn copy(from: &Path, to: &Path) -> Result<(), Error> {
    if let Some(folder) = to.parent() {
        fs::create_dir_all(folder).map_err(Error::at(folder))?;
    }
    // Written and not linked: make sees by its time that it is newer than its object.
    let bytes = fs::read(from).map_err(Error::at(from))?;
    fs::write(to, bytes).map_err(Error::at(to))
}

/// Returns the files of a folder, by their paths below it; none if it is not there.
pub(super) fn files_below(root: &Path) -> Result<Vec<PathBuf>, Error> {
    let (mut files, mut folders) = (Vec::new(), vec![PathBuf::new()]);
    while let Some(below) = folders.pop() {
        let folder = root.join(&below);
        if !folder.is_dir() {
            continue;
        }
        for entry in fs::read_dir(&folder).map_err(Error::at(&folder))? {
            let entry = entry.map_err(Error::at(&folder))?;
            let path = below.join(entry.file_name());
            let kind = entry.file_type().map_err(Error::at(&folder))?;
            if kind.is_dir() { folders.push(path) } else { files.push(path) }
        }
    }
    files.sort_unstable();
    Ok(files)
}

/// Runs `patch` in a folder that has the files as they were.
fn run(patch: &Patch, folder: &Path) -> Result<(), Error> {
    let mut command = Command::new("patch");
    command.args(["-p1", "--batch", "--forward", "--no-backup-if-mismatch", "-r", "-", "-i"]);
    let given = fs::canonicalize(&patch.given).map_err(Error::at(&patch.given))?;
    command.arg(given).current_dir(folder).env("LC_ALL", "C");
    let output = command.output().map_err(|error| Error::Program(format!("patch: {error}")))?;
    if output.status.success() {
        return Ok(());
    }
    let said = String::from_utf8_lossy(&output.stdout).into_owned()
        + &String::from_utf8_lossy(&output.stderr);
    let is_reason = |line: &&str| {
        line.contains("FAILED") || line.contains("can't find") || line.contains("malformed")
    };
    let why = said.lines().find(is_reason).unwrap_or("patch refuses it").trim();
    let file = said.lines().find_map(|line| line.strip_prefix("patching file "));
    Err(Error::source(
        &patch.given,
        format!("it does not apply to {}: {why}", file.unwrap_or("this source")),
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    const CHANGE: &str =
        "--- a/mm/one.c\n+++ b/mm/one.c\n@@ -1,3 +1,3 @@\n first\n-second\n+2nd\n third\n";
    const ADD: &str = "--- /dev/null\n+++ b/mm/new.c\n@@ -0,0 +1 @@\n+new\n";

    /// A folder with a tree of two files.
    fn folder() -> tempfile::TempDir {
        let folder = tempfile::tempdir().unwrap();
        fs::create_dir_all(folder.path().join("tree/mm")).unwrap();
        fs::write(folder.path().join("tree/mm/one.c"), "first\nsecond\nthird\n").unwrap();
        fs::write(folder.path().join("tree/mm/two.c"), "untouched\n").unwrap();
        folder
    }

    fn patch(folder: &Path, name: &str, text: &str) -> Result<Patch, String> {
        let path = folder.join(name);
        fs::write(&path, text).unwrap();
        Patch::read(&path).map_err(|e| e.to_string().replace(&folder.display().to_string(), "X"))
    }

    #[test]
    fn a_patch_takes_the_place_of_another_and_leaves_no_trace() {
        let folder = folder();
        let read = |file: &str| fs::read_to_string(folder.path().join("tree/mm").join(file)).ok();
        let both = patch(folder.path(), "both.patch", &format!("{CHANGE}{ADD}")).unwrap();
        apply(folder.path(), Some(&both)).unwrap();
        assert_eq!(read("one.c").as_deref(), Some("first\n2nd\nthird\n"));
        assert_eq!(read("new.c").as_deref(), Some("new\n"));
        let written = |file: &str| {
            fs::metadata(folder.path().join("tree/mm").join(file)).unwrap().modified().unwrap()
        };
        let before = written("one.c");
        let change = patch(folder.path(), "change.patch", CHANGE).unwrap();
        apply(folder.path(), Some(&change)).unwrap();
        assert_eq!(read("new.c"), None);
        assert_eq!(written("one.c"), before, "its content is the same, so make compiles nothing");
        apply(folder.path(), None).unwrap();
        assert_eq!(read("one.c").as_deref(), Some("first\nsecond\nthird\n"));
        assert_eq!(read("two.c").as_deref(), Some("untouched\n"));
    }

    #[test]
    fn what_does_not_apply_changes_nothing() {
        let folder = folder();
        let wrong = patch(folder.path(), "wrong.patch", &CHANGE.replace("second", "else")).unwrap();
        let error = apply(folder.path(), Some(&wrong)).unwrap_err().to_string();
        assert!(
            error.contains("wrong.patch: it does not apply to mm/one.c: Hunk #1 FAILED"),
            "{error}"
        );
        let text = fs::read_to_string(folder.path().join("tree/mm/one.c")).unwrap();
        assert_eq!(text, "first\nsecond\nthird\n");
    }

    #[test]
    fn what_is_no_patch_is_refused() {
        let folder = folder();
        let error = |name: &str, text: &str| patch(folder.path(), name, text).err().unwrap();
        assert!(error("a.patch", "hello").starts_with("X/a.patch: it changes no file"));
        assert!(
            error("b.patch", "--- a/../../x\n+++ b/../../x\n")
                .contains("is no path below one folder")
        );
        assert!(
            error("c.patch", "--- /etc/passwd\n+++ /etc/passwd\n").contains("is no path below")
        );
        assert!(error("-.patch", CHANGE).contains("its name names the kernel"));
        let named = patch(folder.path(), "v2 of_mine.patch", CHANGE).unwrap();
        assert_eq!(named.name, "v2-of-mine");
    }
}
