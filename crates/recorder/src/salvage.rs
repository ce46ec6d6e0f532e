//! From the pages of the ring buffers to a recording: at the end of a session, or from what a killed recorder left.

use std::fs;
use std::path::{Path, PathBuf};

use pageblock_files::Access;

use crate::drain::Spool;
use crate::error::{Error, copy, part_folder, read};
use crate::finish::{Progress, Remains};
use crate::ring::{segments, take_start};
use crate::state::{SNAPSHOT, remove_parts};
use crate::stop::{Stop, reason};
use crate::trace_dat::{End, Meta};

/// The folder of the pages in a recording that is not finished.
pub(crate) const PAGES: &str = "trace.raw";
pub(crate) const META: &str = "meta.json";

/// Returns the folder's name while it is not finished.
pub(crate) fn partial_of(out: &Path) -> PathBuf {
    let mut name = out.as_os_str().to_owned();
    name.push(".partial");
    name.into()
}

/// Makes a recording of what a killed recorder left behind, without the end state: in its place, or as a copy where
/// the recording is to have another name or disk.
///
/// # Errors
/// If the folder is not such a folder, or the recording cannot be written, or the caller stops it. What was left behind stays.
pub fn salvage(
    partial: &Path,
    out: &Path,
    stop: Stop<'_>,
    progress: Progress<'_>,
) -> Result<(), Error> {
    let absolute = |path| std::path::absolute(path).map_err(Error::io(path));
    // `absolute` keeps a slash at the end, `components` does not.
    let partial: PathBuf = absolute(partial)?.components().collect();
    let out: PathBuf = absolute(out)?.components().collect();
    if out.exists() {
        return Err(Error::Exists(out));
    }
    let not = |missing| Error::NotPartial { path: partial.clone(), missing };
    let pages = partial.join(PAGES);
    let path = pages.join(META);
    if !path.is_file() {
        return Err(not("trace.raw/meta.json"));
    }
    let parts = segments(&pages)?;
    let spool = Spool { folder: pages, segmented: !parts.is_empty() };
    let folders = parts.iter().map(|(_, folder)| folder.as_path());
    let states = std::iter::once(partial.as_path()).chain(folders);
    let state = states.map(|folder| folder.join("start")).find(|s| s.join(SNAPSHOT).is_file());
    let Some(state) = state else { return Err(not("start state")) };
    let meta: Meta = serde_json::from_str(&read(&path)?).map_err(|_| not("valid meta.json"))?;
    let place = partial_of(&out);
    let end = End::default();
    let remains = |folder, pages| Remains { folder, pages, meta: &meta, end: &end, tasks: &[] };
    let done = if place == partial {
        without_end(&partial)
            .and_then(|()| take_start(&partial, &spool))
            .and_then(|pages| remove_parts(&partial.join("start")).map(|()| pages))
            .and_then(|pages| remains(&place, pages).make(&out, stop, progress))
    } else {
        let made = pageblock_files::new_folder(&place, Access::Private);
        made.map_err(Error::creating(&place))?;
        let pages: Vec<PathBuf> = match spool.segmented {
            true => parts
                .into_iter()
                .map(|(_, folder)| folder)
                .skip_while(|folder| !state.starts_with(folder) && state != partial.join("start"))
                .collect(),
            false => vec![spool.folder],
        };
        let copied = copy_start(&partial, &state, &place)
            .and_then(|()| remove_parts(&place.join("start")))
            .and_then(|()| remains(&place, pages).make(&out, stop, progress));
        copied.inspect_err(|_| {
            let _ = fs::remove_dir_all(&place);
        })
    };
    done.map_err(|error| match reason(error, stop) {
        Error::Stopped => Error::Stopped,
        why => Error::Kept { partial: partial.clone(), why: Box::new(why) },
    })
}

/// Removes an end state: the events up to it were not all written.
fn without_end(partial: &Path) -> Result<(), Error> {
    let end = partial.join("end");
    if end.exists() { fs::remove_dir_all(&end).map_err(Error::io(&end)) } else { Ok(()) }
}

/// Copies the start state and the settings.
fn copy_start(from: &Path, state: &Path, to: &Path) -> Result<(), Error> {
    let target = to.join("start");
    part_folder(&target)?;
    for entry in fs::read_dir(state).map_err(Error::io(state))? {
        let entry = entry.map_err(Error::io(state))?;
        copy(&entry.path(), &target.join(entry.file_name()))?;
    }
    copy(&from.join("static.tar"), &to.join("static.tar"))
}
