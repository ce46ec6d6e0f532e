//! `pageblock guest run`: what it refuses, and runs whose guests are played by a script in the place of QEMU.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::{Ran, is_documented, ran, refuses};

/// A folder of a test, empty.
pub(crate) fn folder(name: &str) -> PathBuf {
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("guest-{name}"));
    let _ = fs::remove_dir_all(&folder);
    fs::create_dir_all(&folder).expect("cargo gives a folder to write to");
    folder
}

/// Writes an image that says its version and nothing else.
fn kernel(folder: &Path, name: &str, version: &str) -> PathBuf {
    let mut image = vec![0; 0x400];
    image[0x202..0x206].copy_from_slice(b"HdrS");
    image[0x20e..0x210].copy_from_slice(&0x100_u16.to_le_bytes());
    image[0x300..0x300 + version.len()].copy_from_slice(version.as_bytes());
    let path = folder.join(name);
    fs::write(&path, image).expect("it can be written");
    path
}

/// What a guest's program reports of a run with so many stalls.
pub(crate) fn report(stalls: u64) -> String {
    let order = "0 ".repeat(11);
    let files = |stalls: u64, free: u64| {
        serde_json::json!({
            "vmstat": format!("nr_free_pages {free}\nallocstall_normal {stalls}\nthp_fault_alloc 3\n"),
            "buddyinfo": format!("Node 0, zone   Normal {order}\n"),
            "pagetypeinfo": format!(
                "Page block order: 9\nPages per block:  512\n\nNode    0, zone   Normal, type    Unmovable {order}\n\
                 Number of blocks type     Unmovable      Movable  Reclaimable\nNode 0, zone   Normal            3           90            7\n"
            ),
            "zoneinfo": "Node 0, zone   Normal\n  pages free     100\n        spanned  51200\n        present  51200\n        managed  51200\n",
            "meminfo": "MemTotal: 204800 kB\nMemFree: 102400 kB\n",
        })
    };
    let histogram = "# trigger info: hist:keys=alloc_migratetype:vals=hitcount if alloc_order == 0 [active]\n\
        { alloc_migratetype: 0, fallback_migratetype: 1, fallback_order: 4 } hitcount: 6  change_ownership: 1\n    Dropped: 0\n";
    let lines = [
        serde_json::json!({"kind": "booted", "release": "6.1.0"}),
        serde_json::json!({"kind": "start", "files": files(10, 90)}),
        serde_json::json!({"kind": "phase", "name": "round 1", "before": 0.5}),
        serde_json::json!({"kind": "measured", "samples": {"fault-base-1": [5, 7]}, "counters": {}, "notes": []}),
        serde_json::json!({"kind": "end", "files": files(10 + stalls, 80), "fallbacks": histogram}),
    ];
    lines.iter().map(|line| format!("{line}\n")).collect()
}

/// Writes a script that is QEMU for the program: it says its version, and plays `guest`, which has the file of the console
/// in `$console` and that of the report in `$report`.
pub(crate) fn qemu(folder: &Path, version: &str, guest: &str) -> PathBuf {
    let script = format!(
        "#!/bin/sh\nif [ \"$1\" = --version ]; then echo 'QEMU emulator version {version}'; exit; fi\n\
         echo started >> '{}/started'\n\
         for word; do case $word in file,id=console,path=*) console=${{word#file,id=console,path=}};;\n\
         file,id=report,path=*) report=${{word#file,id=report,path=}};; esac; done\n{guest}\n",
        folder.display()
    );
    let path = folder.join("qemu");
    fs::write(&path, script).expect("it can be written");
    fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).expect("it is ours");
    path
}

fn guest_run(folder: &Path, workload: &str, arguments: &[&str]) -> Ran {
    let mut command = Command::new(env!("CARGO_BIN_EXE_pageblock"));
    command.args(["guest", "run", workload, "--accel", "tcg", "--qemu"]).arg(folder.join("qemu"));
    command.arg("-o").arg(folder.join("out")).args(arguments);
    ran(&mut command)
}

/// Reports whether this machine can make the disk of a guest's files.
pub(crate) fn makes_disks() -> bool {
    let there =
        ["/usr/sbin", "/sbin", "/usr/bin"].iter().any(|f| Path::new(f).join("mkfs.ext4").is_file());
    let setpriv = Command::new("setpriv").arg("--version").output().is_ok();
    if !there || !setpriv {
        eprintln!("skipped: mkfs.ext4 or setpriv is missing");
    }
    there && setpriv
}

#[test]
fn what_is_no_kernel_is_refused() {
    let none = "error: --kernel /nowhere/x.deb: there is no such file or folder";
    refuses("guest run mixed --kernel /nowhere/x.deb", none);
    refuses(
        "guest run mixed --kernel Cargo.toml",
        "error: --kernel Cargo.toml: it is not an image of Linux for x86-64 (bzImage)",
    );
    refuses(
        "guest run mixed --kernel tests",
        "error: --kernel tests: it has no boot/vmlinuz-*; allowed: a Debian",
    );
    refuses(
        "guest run nothing --kernel x",
        "error: no guest runs 'nothing'; allowed: thpfioscale, ",
    );
    refuses(
        "guest run mixed --kernel x --sysctl swappiness",
        "error: --sysctl swappiness: allowed: KEY=VALUE such as",
    );
    refuses(
        "guest run mixed --kernel x --memory 1000000000",
        "error: invalid value '1000000000' for '--memory <MIB>'",
    );
    refuses(
        "guest run thpfioscale --kernel x --memory 64 --cpus 2 -o made",
        "error: thpfioscale needs 8 CPUs a node; machine guest-64m-2c-1n has 2",
    );
    assert!(!Path::new("made").exists());
    refuses(
        "guest run thpfioscale --kernel x --machine guest-640m",
        "error: thpfioscale needs 8 CPUs a node",
    );
    refuses(
        "guest run hugealloc-short --kernel x --repeat 0",
        "error: --repeat 0: 1 to 1000 times are possible",
    );
}

#[test]
fn a_guest_becomes_a_saved_run_once() {
    if !makes_disks() {
        return;
    }
    let folder = folder("run");
    fs::write(folder.join("reported"), report(32)).expect("it can be written");
    qemu(&folder, "10.0.2", &format!("cp '{}/reported' \"$report\"", folder.display()));
    let image = kernel(&folder, "bzImage", "6.1.0-9 (debian) #1");
    let arguments = [
        "--kernel",
        image.to_str().expect("it is UTF-8"),
        "--sysctl",
        "default",
        "--sysctl",
        "vm.swappiness=1",
    ];
    let first = guest_run(&folder, "mixed", &arguments);
    assert_eq!(first.status, 0, "{}", first.stderr);
    assert!(first.stdout.contains("B real-6.1.0,vm.swappiness=1"), "{}", first.stdout);
    let stalls =
        first.stdout.lines().find(|line| line.starts_with("Allocation stalls")).expect("a row");
    assert_eq!(
        stalls.split_whitespace().collect::<Vec<_>>(),
        ["Allocation", "stalls", "32", "32", "+0", "%"]
    );
    assert!(first.stdout.contains("Fragmenting fallbacks, unmovable"), "{}", first.stdout);
    // What the kernel does not count is not there.
    assert!(!first.stdout.contains("Mixed pageblocks"), "{}", first.stdout);

    let again = guest_run(&folder, "mixed", &arguments);
    assert_eq!(again.stderr.matches("done before").count(), 2, "{}", again.stderr);
    assert_eq!(again.stdout, first.stdout);
    let started = fs::read_to_string(folder.join("started")).expect("guests were started");
    assert_eq!(started.lines().count(), 3, "a first boot, and a guest for each setting");
    // Another setting is another run; disks and kernels do not stay.
    let other =
        guest_run(&folder, "mixed", &["--kernel", arguments[1], "--sysctl", "vm.swappiness=2"]);
    assert_eq!(other.status, 0, "{}", other.stderr);
    let mut kept: Vec<_> = fs::read_dir(folder.join("out/real-6.1.0/run-1"))
        .expect("a folder of a run")
        .map(|entry| entry.expect("it can be read").file_name().into_string().expect("UTF-8"))
        .collect();
    kept.sort();
    assert_eq!(kept, ["command", "console", "report", "request.json", "run.json"]);

    let saved =
        fs::read_to_string(folder.join("out/real-6.1.0/run-1/run.json")).expect("it is saved");
    let json: serde_json::Value = serde_json::from_str(&saved).expect("it is JSON");
    is_documented(&json);
    assert_eq!(json[0]["clock"], "emulated");
    assert_eq!(json[0]["blocks_by_type"]["Movable"], 90);

    // What a kernel leaves is less than its guest has.
    let memory = folder.join("out/memory.json");
    let kept = fs::read_to_string(&memory).expect("a first boot is kept");
    let mut kept: serde_json::Value = serde_json::from_str(&kept).expect("it is JSON");
    for pages in kept.as_object_mut().expect("an object").values_mut() {
        *pages = u64::MAX.into();
    }
    fs::write(&memory, kept.to_string()).expect("it can be written");
    let Ran { status, stderr, .. } = guest_run(&folder, "mixed", &arguments);
    assert_eq!(status, 2);
    assert!(stderr.contains("memory.json: more pages are free than a guest has"), "{stderr}");
}

#[test]
fn a_guest_that_dies_is_named_with_its_last_lines() {
    if !makes_disks() {
        return;
    }
    let folder = folder("panic");
    let dies = "echo '[ 3.1] Kernel panic - not syncing: out of memory' > \"$console\"";
    qemu(&folder, "10.0.2", dies);
    let image = kernel(&folder, "bzImage", "6.1.0-9 (debian) #1");
    let Ran { status, stdout, stderr } =
        guest_run(&folder, "mixed", &["--kernel", image.to_str().expect("it is UTF-8")]);
    assert_eq!((status, stdout.as_str()), (2, ""));
    let error = stderr.lines().last().expect("an error");
    assert!(
        error.starts_with("error: the first boot of 6.1.0-9: the kernel died: Kernel panic - not syncing: out of memory; its console is "),
        "{error}"
    );
    assert!(!folder.join("out/runs.json").exists());
}

#[test]
fn an_emulator_that_is_not_there_is_named() {
    let image = kernel(&folder("none"), "bzImage", "6.1.0-9 (debian) #1");
    let arguments = format!("guest run mixed --kernel {} --qemu /nowhere/qemu", image.display());
    refuses(&arguments, "error: failed to execute /nowhere/qemu: No such file or directory");
}

#[test]
fn an_old_emulator_is_refused_for_a_new_kernel() {
    let folder = folder("old");
    qemu(&folder, "7.2.22", "exit 1");
    let image = kernel(&folder, "bzImage", "6.12.9 (debian) #1");
    let ran = guest_run(&folder, "mixed", &["--kernel", image.to_str().expect("it is UTF-8")]);
    assert_eq!(ran.status, 2);
    assert!(
        ran.stderr.starts_with("error: QEMU 7.2.22 without KVM damages the memory of Linux 6.12"),
        "{}",
        ran.stderr
    );
}
