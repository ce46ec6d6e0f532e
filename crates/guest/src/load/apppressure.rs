//! apppressure: apps that are brought to the front in turn, used, and paged out to zram.

mod app;
mod beside;

use std::fs::{self, File};
use std::io::{Read, Write};
use std::os::fd::OwnedFd;
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::time::{Duration, Instant};

use pageblock_simulate::workload::apppressure::{FILE_LEN, MEDIA_PAGES, PAGE_OUT_BATCH};
use rustix::process::{Pid, PidfdFlags, pidfd_open};

use super::{Random, begin, prepared, rest};
use crate::inside::memory::page_out;
use crate::message::Measured;
use pageblock_simulate::workload::apppressure::Amounts;

pub(super) use app::run as app;

/// The folder of the files: `own/APP/N` and `shared/N` of 1 MiB, `media/N` of 128 KiB.
const FOLDER: &str = "/data";
/// How often it is looked for an app to page out.
const LOOK_EVERY: Duration = Duration::from_millis(100);

/// An app as the launcher knows it.
struct Known {
    child: Child,
    to: ChildStdin,
    from: ChildStdout,
    handle: OwnedFd,
    /// Where its anonymous memory is, and how many pages it has.
    memory: (u64, u64),
}

/// An app in the background: its number, since when, and whether it came back.
type Background = Mutex<Vec<(usize, Instant)>>;

/// Runs the rounds; the first only builds the apps up and is not counted.
pub(super) fn run(count: u64, sizes: &Amounts, seed: u64) -> Result<Measured, String> {
    begin("making files", 0.0)?;
    make_files(sizes, seed).map_err(|error| format!("files: {error}"))?;
    begin("starting apps", 0.1)?;
    let mut apps =
        (0..sizes.apps).map(|app| start(sizes, app, seed)).collect::<Result<Vec<_>, _>>()?;
    let (background, over): (Background, AtomicBool) = (Mutex::default(), AtomicBool::new(false));
    let handles: Vec<_> = apps.iter().map(|app| (app.handle.try_clone(), app.memory)).collect();
    let result = std::thread::scope(|scope| {
        beside::start(scope, sizes, seed, &over);
        scope.spawn(|| page_out_old(sizes, &handles, &background, &over));
        let result = rounds(count, &mut apps, &background);
        over.store(true, Relaxed);
        result
    });
    for app in &mut apps {
        // One that the kernel killed is not there.
        let _ = app.child.kill();
        let _ = app.child.wait();
    }
    result
}

fn rounds(count: u64, apps: &mut [Known], background: &Background) -> Result<Measured, String> {
    let mut measured = Measured::default();
    for round in 0..count {
        begin(&format!("round {}", round + 1), 0.1 + 0.9 * round as f64 / count as f64)?;
        if round == 1 {
            prepared()?;
        }
        for (number, app) in apps.iter_mut().enumerate() {
            lock(background).retain(|(other, _)| *other != number);
            let begun = Instant::now();
            if !ask(app, b'l') {
                *measured.counters.entry("apps_gone".to_owned()).or_default() += 1;
                continue;
            }
            if round > 0 {
                let times = measured.samples.entry("launch-time".to_owned()).or_default();
                times.push(begun.elapsed().as_nanos() as u64);
            }
            ask(app, b'u');
            lock(background).push((number, Instant::now()));
        }
    }
    Ok(measured)
}

fn lock(background: &Background) -> std::sync::MutexGuard<'_, Vec<(usize, Instant)>> {
    background.lock().unwrap_or_else(std::sync::PoisonError::into_inner)
}

/// Asks an app to do something and waits until it is done; reports whether it is alive.
fn ask(app: &mut Known, what: u8) -> bool {
    app.to.write_all(&[what]).and_then(|()| app.to.flush()).is_ok()
        && app.from.read_exact(&mut [0]).is_ok()
}

/// Starts an app, which says where its memory is.
fn start(sizes: &Amounts, number: u64, seed: u64) -> Result<Known, String> {
    let failed = |error: std::io::Error| format!("app {number}: {error}");
    let text = serde_json::to_string(sizes).map_err(|error| error.to_string())?;
    let mut child = Command::new("/proc/self/exe")
        .args(["app", &number.to_string(), &seed.to_string(), &text])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .map_err(failed)?;
    let (Some(to), Some(mut from)) = (child.stdin.take(), child.stdout.take()) else {
        return Err(format!("app {number} has no pipes"));
    };
    let mut memory = [0; 16];
    from.read_exact(&mut memory).map_err(failed)?;
    let [address, pages] =
        [0, 8].map(|at| u64::from_le_bytes(std::array::from_fn(|byte| memory[at + byte])));
    let pid = Pid::from_child(&child);
    let handle = pidfd_open(pid, PidfdFlags::empty()).map_err(|error| failed(error.into()))?;
    Ok(Known { child, to, from, handle, memory: (address, pages) })
}

/// Pages out the memory of apps that have been in the background for long enough.
fn page_out_old(
    sizes: &Amounts,
    apps: &[(std::io::Result<OwnedFd>, (u64, u64))],
    background: &Background,
    over: &AtomicBool,
) {
    while !over.load(Relaxed) {
        rest(LOOK_EVERY);
        let old = |(_, since): &(usize, Instant)| {
            since.elapsed() > Duration::from_nanos(sizes.page_out_after)
        };
        let mut list = lock(background);
        let Some(at) = list.iter().position(old) else { continue };
        let (number, _) = list.remove(at);
        drop(list);
        let (Ok(handle), (address, pages)) = &apps[number] else { continue };
        for first in (0..*pages).step_by(PAGE_OUT_BATCH as usize) {
            let pages = u64::from(PAGE_OUT_BATCH).min(pages - first);
            // One that came to the front, or died, keeps the rest.
            if over.load(Relaxed) || page_out(handle, address + first * 4096, pages * 4096).is_err()
            {
                break;
            }
        }
    }
}

fn make_files(sizes: &Amounts, seed: u64) -> std::io::Result<()> {
    let mut random = Random::new(seed, 1);
    let page = [7; 4096];
    let file = |path: String, pages: u64| -> std::io::Result<()> {
        let mut file = File::create(path)?;
        (0..pages).try_for_each(|_| file.write_all(&page))
    };
    for app in 0..sizes.apps {
        fs::create_dir_all(format!("{FOLDER}/own/{app}"))?;
        for at in 0..random.between(sizes.own_pages).div_ceil(FILE_LEN) {
            file(format!("{FOLDER}/own/{app}/{at}"), FILE_LEN)?;
        }
    }
    for folder in ["shared", "media"] {
        fs::create_dir_all(format!("{FOLDER}/{folder}"))?;
    }
    for at in 0..sizes.shared_pages.div_ceil(FILE_LEN) {
        file(format!("{FOLDER}/shared/{at}"), FILE_LEN)?;
    }
    for at in 0..sizes.media_files {
        file(format!("{FOLDER}/media/{at}"), MEDIA_PAGES.into())?;
    }
    rustix::fs::sync();
    fs::write("/proc/sys/vm/drop_caches", "3")
}

/// Reads at most a number of bytes of a file.
fn read(path: &str, bytes: u64) -> std::io::Result<()> {
    let mut buffer = [0; 32 << 10];
    let mut file = File::open(path)?.take(bytes);
    while file.read(&mut buffer)? > 0 {}
    Ok(())
}

/// Reads a file of the user, or its first page.
fn read_media(sizes: &Amounts, random: &mut Random, bytes: u64) -> std::io::Result<()> {
    read(&format!("{FOLDER}/media/{}", random.below(sizes.media_files)), bytes)
}
