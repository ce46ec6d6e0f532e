//! What the guest needs before its load: file systems, drivers, disks, settings.

use std::ffi::CStr;
use std::fs::{self, File};
use std::io::Write;
use std::path::Path;
use std::time::{Duration, Instant};

use rustix::mount::{MountFlags, mount};
use rustix::system::finit_module;

use super::memory::{PAGE, swap_on};
use crate::job::{Disks, Job, Setting};
use crate::settings::LRU_GEN;

/// How long a disk may take to appear.
const DISK_WAIT: Duration = Duration::from_secs(30);
/// A page's bytes at which the version and the last page of swap stand, and its mark.
const SWAP_HEADER: usize = 1024;
const SWAP_MARK: &[u8; 10] = b"SWAPSPACE2";

/// Mounts what the kernel gives by itself.
pub(super) fn mount_kernel() -> Result<(), String> {
    for (kind, at) in [("devtmpfs", "/dev"), ("proc", "/proc"), ("sysfs", "/sys")] {
        attach(kind, at, kind)?;
    }
    let tracing = Path::new("/sys/kernel/tracing");
    let tracing = if tracing.is_dir() { "/sys/kernel/tracing" } else { "/sys/kernel/debug" };
    let kind = if tracing.ends_with("debug") { "debugfs" } else { "tracefs" };
    attach(kind, tracing, kind)
}

fn attach(source: &str, at: &str, kind: &str) -> Result<(), String> {
    let none: Option<&CStr> = None;
    match mount(source, at, kind, MountFlags::empty(), none) {
        // A kernel with CONFIG_DEVTMPFS_MOUNT was first.
        Ok(()) | Err(rustix::io::Errno::BUSY) => Ok(()),
        Err(error) => Err(format!("mount {source} on {at} as {kind}: {error}")),
    }
}

/// Loads the drivers and removes their files, which take memory.
pub(super) fn load_modules(job: &Job) -> Result<(), String> {
    for path in &job.modules {
        let file = File::open(path).map_err(|error| format!("{path}: {error}"))?;
        match finit_module(&file, c"", 0) {
            Ok(()) | Err(rustix::io::Errno::EXIST) => {}
            // Which checksum a kernel has is its choice; what needs one says so itself.
            Err(_) if path.contains("crc") => {}
            Err(error) => return Err(format!("{path}: {error}")),
        }
        drop(file);
        fs::remove_file(path).map_err(|error| format!("{path}: {error}"))?;
    }
    Ok(())
}

/// Mounts the disks, and starts to swap.
pub(super) fn mount_disks(disks: &Disks) -> Result<(), String> {
    if let Some((device, filesystem)) = &disks.data {
        wait_for(device)?;
        attach(device, "/data", filesystem.name())?;
    }
    if let Some(device) = &disks.recording {
        wait_for(device)?;
        attach(device, "/recording", "ext4")?;
    }
    if disks.zram_mib > 0 {
        let size = format!("{}M", disks.zram_mib);
        fs::write("/sys/block/zram0/disksize", size).map_err(|error| format!("zram0: {error}"))?;
        make_swap("/dev/zram0").map_err(|error| format!("/dev/zram0: {error}"))?;
    }
    if let Some(device) = &disks.swap {
        wait_for(device)?;
        make_swap(device).map_err(|error| format!("{device}: {error}"))?;
    }
    Ok(())
}

#[expect(clippy::disallowed_methods, reason = "a driver finds its disks in real time")]
fn wait_for(device: &str) -> Result<(), String> {
    let begun = Instant::now();
    while !Path::new(device).exists() {
        if begun.elapsed() > DISK_WAIT {
            return Err(format!("{device} did not appear: this kernel has no driver virtio_blk"));
        }
        std::thread::sleep(Duration::from_millis(50));
    }
    Ok(())
}

/// Writes the header of swap and swaps to the device.
fn make_swap(device: &str) -> std::io::Result<()> {
    let name = device.trim_start_matches("/dev/");
    let sectors: u64 = fs::read_to_string(format!("/sys/block/{name}/size"))?
        .trim()
        .parse()
        .map_err(std::io::Error::other)?;
    let last = u32::try_from(sectors * 512 / PAGE as u64 - 1).map_err(std::io::Error::other)?;
    let mut page = vec![0; PAGE];
    page[SWAP_HEADER..SWAP_HEADER + 4].copy_from_slice(&1_u32.to_le_bytes());
    page[SWAP_HEADER + 4..SWAP_HEADER + 8].copy_from_slice(&last.to_le_bytes());
    page[PAGE - SWAP_MARK.len()..].copy_from_slice(SWAP_MARK);
    let mut file = File::options().write(true).open(device)?;
    file.write_all(&page)?;
    file.sync_all()?;
    swap_on(Path::new(device))
}

/// Writes the settings.
pub(super) fn set(settings: &[Setting]) -> Result<(), String> {
    for Setting { file, value, optional } in settings {
        let path = Path::new(file);
        if !path.exists() {
            if *optional {
                continue;
            }
            return Err(format!("this kernel has no {file}"));
        }
        fs::write(path, value)
            .map_err(|error| format!("{file} does not take '{value}': {error}"))?;
        if file == LRU_GEN {
            let reads = fs::read_to_string(path).map_err(|error| format!("{file}: {error}"))?;
            check_lru_gen(value, &reads)?;
        }
    }
    Ok(())
}

/// Checks that a kernel has the parts of the multi-generational LRU that were asked for: it leaves out those that its CPUs
/// cannot do.
fn check_lru_gen(asked: &str, reads: &str) -> Result<(), String> {
    let number = |text: &str| match text.trim().strip_prefix("0x") {
        Some(hex) => u32::from_str_radix(hex, 16).ok(),
        None => text.trim().parse().ok(),
    };
    let all = match asked {
        "y" | "Y" => Some(7),
        "n" | "N" => Some(0),
        asked => number(asked),
    };
    match (all, number(reads)) {
        (Some(asked), Some(reads)) if asked == reads => Ok(()),
        _ => Err(format!("{LRU_GEN} is {} after '{asked}' was written", reads.trim())),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_lru_that_a_kernel_has_is_the_one_that_was_asked_for() {
        for (asked, reads) in
            [("7", "0x0007\n"), ("y", "0x0007\n"), ("0", "0x0000\n"), ("1", "0x0001")]
        {
            assert_eq!(check_lru_gen(asked, reads), Ok(()));
        }
        let error = check_lru_gen("7", "0x0003\n").unwrap_err();
        assert_eq!(error, "/sys/kernel/mm/lru_gen/enabled is 0x0003 after '7' was written");
    }
}
