//! `pageblock guest run --kernel-source`: kernels that are built, from a source whose make writes an image that says only its
//! version.

use std::fs;
use std::path::Path;
use std::process::Command;

use crate::guest::{folder, makes_disks, qemu, report};
use crate::{Ran, ran, refuses};

/// A make that notes what it was asked for, and fails where the source does not compile.
const MAKEFILE: &str = r#"
allnoconfig:
	cp $(KCONFIG_ALLCONFIG) $(O)/.config
bzImage:
	grep -q CONFIG_TRANSPARENT_HUGEPAGE=y $(O)/.config
	if grep -q broken mm/page_alloc.c; then echo 'mm/page_alloc.c:1:1: error: broken' >&2; exit 1; fi
	echo "built$(LOCALVERSION) of `cat mm/page_alloc.c`" >>$(O)/built
	mkdir -p $(O)/arch/x86/boot
	{ head -c 514 /dev/zero; printf HdrS; head -c 8 /dev/zero; printf '\000\001'; head -c 240 /dev/zero; \
	  printf '6.12.0$(LOCALVERSION) ($(KBUILD_BUILD_USER)@$(KBUILD_BUILD_HOST)) #1'; head -c 400 /dev/zero; } >$(O)/arch/x86/boot/bzImage
"#;

const PATCH: &str = "\
Takes another way.

--- a/mm/page_alloc.c
+++ b/mm/page_alloc.c
@@ -1 +1 @@
-one way
+another way
";

/// Writes a source, a patch of it, and QEMU; returns whether this machine can run all that.
fn prepare(folder: &Path) -> bool {
    let tools = ["make", "patch"];
    let missing = tools.iter().find(|tool| Command::new(tool).arg("--version").output().is_err());
    if let Some(tool) = missing {
        eprintln!("skipped: {tool} is missing");
    }
    if missing.is_some() || !makes_disks() {
        return false;
    }
    fs::create_dir_all(folder.join("linux/mm")).expect("it can be made");
    let write =
        |file: &str, text: &str| fs::write(folder.join(file), text).expect("it can be written");
    write("linux/Makefile", MAKEFILE);
    write("linux/Kbuild", "");
    write("linux/mm/page_alloc.c", "one way\n");
    write("other.patch", PATCH);
    write("reported", &report(32));
    qemu(folder, "10.0.2", &format!("cp '{}/reported' \"$report\"", folder.display()));
    true
}

fn guest_run(folder: &Path, source: &str, patches: &[&str]) -> Ran {
    let mut command = Command::new(env!("CARGO_BIN_EXE_pageblock"));
    command.args(["guest", "run", "mixed", "--accel", "tcg", "--qemu"]).arg(folder.join("qemu"));
    command.arg("-o").arg(folder.join("out")).arg("--kernel-source").arg(folder.join(source));
    for patch in patches {
        command.arg("--patch").arg(folder.join(patch));
    }
    ran(command.env("PAGEBLOCK_CACHE", folder.join("cache")))
}

/// Returns what was built so far, a line each.
fn built(folder: &Path) -> Vec<String> {
    let kernels = fs::read_dir(folder.join("cache/kernels")).expect("a folder of builds");
    let lists = kernels.map(|entry| entry.expect("it can be read").path().join("objects/built"));
    let texts = lists.filter_map(|list| fs::read_to_string(list).ok());
    texts.flat_map(|text| text.lines().map(str::to_owned).collect::<Vec<_>>()).collect()
}

#[test]
fn a_source_and_its_patch_are_columns_and_are_built_once() {
    let folder = folder("source");
    if !prepare(&folder) {
        return;
    }
    let first = guest_run(&folder, "linux", &["other.patch"]);
    assert_eq!(first.status, 0, "{}", first.stderr);
    assert!(
        first.stderr.contains("the first build takes about a quarter of an hour"),
        "{}",
        first.stderr
    );
    assert!(first.stdout.contains("A real-6.12.0 "), "{}", first.stdout);
    assert!(first.stdout.contains("B real-6.12.0-other"), "{}", first.stdout);
    let both = ["built of one way", "built-other of another way"];
    assert_eq!(built(&folder), both);

    let again = guest_run(&folder, "linux", &["other.patch"]);
    assert_eq!((again.status, again.stdout), (0, first.stdout));
    assert_eq!(again.stderr.matches("done before").count(), 2, "{}", again.stderr);
    assert_eq!(built(&folder), both, "images are built once");

    // What changes in the folder is built, with the same objects.
    fs::write(folder.join("linux/mm/page_alloc.c"), "a new way\n").expect("it can be written");
    let changed = guest_run(&folder, "linux", &[]);
    assert_eq!(changed.status, 0, "{}", changed.stderr);
    assert_eq!(built(&folder)[2..], ["built of a new way"]);
    assert!(!changed.stderr.contains("done before"), "another kernel: {}", changed.stderr);
    assert_eq!(
        fs::read_to_string(folder.join("linux/mm/page_alloc.c")).expect("it is there"),
        "a new way\n"
    );
}

#[test]
fn an_archive_is_a_source() {
    let folder = folder("archive");
    if !prepare(&folder) {
        return;
    }
    let tar = Command::new("tar")
        .arg("-C")
        .arg(&folder)
        .args(["-cf"])
        .arg(folder.join("linux.tar"))
        .arg("linux")
        .status();
    if !tar.is_ok_and(|status| status.success()) {
        eprintln!("skipped: tar is missing");
        return;
    }
    let made = guest_run(&folder, "linux.tar", &[]);
    assert_eq!(made.status, 0, "{}", made.stderr);
    assert_eq!(built(&folder), ["built of one way"]);
}

#[test]
fn what_cannot_be_built_is_named() {
    let folder = folder("not-built");
    if !prepare(&folder) {
        return;
    }
    let error = |patch: &str, text: &str| {
        fs::write(folder.join(patch), text).expect("it can be written");
        let ran = guest_run(&folder, "linux", &[patch]);
        assert_eq!((ran.status, ran.stdout.as_str()), (2, ""), "{}", ran.stderr);
        ran.stderr.lines().last().expect("an error").replace(&folder.display().to_string(), "X")
    };
    let broken = error("broken.patch", &PATCH.replace("another way", "broken"));
    assert!(
        broken.starts_with("error: the kernel cannot be built: mm/page_alloc.c:1:1: error: broken; X/cache/kernels/"),
        "{broken}"
    );
    let wrong = error("wrong.patch", &PATCH.replace("one way", "no way"));
    assert_eq!(
        wrong,
        "error: X/wrong.patch: it does not apply to mm/page_alloc.c: Hunk #1 FAILED at 1."
    );
    assert!(!folder.join("started").exists(), "no guest runs before all kernels are there");
}

#[test]
fn what_is_no_source_is_refused() {
    let both = "error: the following required arguments were not provided";
    refuses("guest run mixed --kernel x --patch y", both);
    refuses("guest run mixed", both);
    let folder = folder("no-source");
    if !prepare(&folder) {
        return;
    }
    let error = |source: &str| {
        let ran = guest_run(&folder, source, &[]);
        assert_eq!((ran.status, ran.stdout.as_str()), (2, ""), "{}", ran.stderr);
        ran.stderr.lines().last().expect("an error").replace(&folder.display().to_string(), "X")
    };
    let folder_error = error("linux/mm");
    assert!(
        folder_error
            .starts_with("error: X/linux/mm: it is not the source of a kernel; allowed: a folder"),
        "{folder_error}"
    );
    let file_error = error("linux/Makefile");
    assert!(
        file_error.starts_with(
            "error: X/linux/Makefile: it is not an archive of the source of a kernel; allowed"
        ),
        "{file_error}"
    );
    assert!(
        !fs::read_dir(folder.join("cache/kernels"))
            .expect("a folder")
            .any(|entry| { entry.expect("it can be read").path().join("tree").exists() })
    );
}
