//! `pageblock flight` over copied files that change while it runs.

use std::fs;
use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::process::{Child, Command, Stdio};

use rustix::process::{Pid, Signal, kill_process};

use crate::{is_documented, pageblock, prints, refuses};

/// Makes the files of a machine below `root`.
fn machine(root: &Path) {
    let own = Path::new(env!("CARGO_MANIFEST_DIR")).join("../doctor/tests/machines/6.18-24g/proc");
    for name in ["buddyinfo", "zoneinfo", "meminfo", "vmstat", "version", "pressure/memory"] {
        let to = root.join("proc").join(name);
        fs::create_dir_all(to.parent().unwrap()).unwrap();
        fs::copy(own.join(name), to).unwrap();
    }
    fs::write(root.join("proc/uptime"), "5000.00 1.00\n").unwrap();
    fs::create_dir_all(root.join("dev")).unwrap();
    fs::write(root.join("dev/kmsg"), "6,1,1000,-;booted\n").unwrap();
}

fn start(arguments: &str) -> Child {
    let mut command = Command::new(env!("CARGO_BIN_EXE_pageblock"));
    let command = command.args(arguments.split_whitespace()).stdin(Stdio::null());
    command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().expect("the program was built")
}

#[test]
fn a_failure_is_recorded_kept_and_explained() {
    let folder = tempfile::tempdir().expect("a folder");
    let (root, ring) = (folder.path().join("root"), folder.path().join("a.ring"));
    machine(&root);
    let recording = format!("--root {} --ring {} --interval 0.5s", root.display(), ring.display());
    let mut recorder = start(&format!("flight {recording} --size 2 --on-failure"));
    let mut notes = BufReader::new(recorder.stderr.take().unwrap()).lines().map(Result::unwrap);
    assert_eq!(
        notes.next().unwrap(),
        format!("recording to {} (2 MiB); Ctrl-C or SIGTERM ends it", ring.display())
    );
    let report =
        Path::new(env!("CARGO_MANIFEST_DIR")).join("../doctor/tests/reports/6.15-oom-shmem.txt");
    let report = fs::read_to_string(report).unwrap();
    let lines: String = report.lines().map(|line| format!("4,7,5001000000,-;{line}\n")).collect();
    let mut log = fs::OpenOptions::new().append(true).open(root.join("dev/kmsg")).unwrap();
    log.write_all(lines.as_bytes()).unwrap();
    let oom = notes.find(|note| note.starts_with("oom: ")).expect("it is told");
    assert!(oom.contains("invoked oom-killer"), "{oom}");
    let kept =
        notes.find_map(|note| Some(note.strip_prefix("kept: ")?.to_owned())).expect("a file");
    kill_process(Pid::from_child(&recorder), Signal::TERM).unwrap();
    let rest: Vec<String> = notes.collect();
    assert!(recorder.wait().unwrap().success(), "{rest:?}");
    assert!(rest.iter().any(|note| note.contains(" samples, ")), "{rest:?}");

    for file in [&kept, &ring.display().to_string()] {
        let shown = pageblock(&format!("flight show {file}"));
        assert_eq!((shown.status, shown.stderr.as_str()), (3, ""));
        assert!(
            shown.stdout.contains("oom: ") && shown.stdout.contains("\nuntil "),
            "{}",
            shown.stdout
        );
        let shown = pageblock(&format!("flight show {file} --json"));
        let json: serde_json::Value = serde_json::from_str(&shown.stdout).expect("it prints JSON");
        is_documented(&json);
        assert_eq!(json["events"][0]["kind"], "oom");
        let bundle = prints(&format!("flight bundle {file}"));
        for part in ["Line ", "invoked oom-killer", "--- /proc/zoneinfo", "8. Files after"] {
            assert!(bundle.contains(part), "{part}");
        }
        let json = prints(&format!("flight bundle {file} --json"));
        let json: serde_json::Value = serde_json::from_str(&json).expect("it prints JSON");
        is_documented(&json);
        assert_eq!(json["explanations"].as_array().map(Vec::len), Some(1));
        let out = folder.path().join("bundle.txt");
        let ran = pageblock(&format!("flight bundle {file} -o {}", out.display()));
        assert_eq!((ran.status, ran.stdout.as_str()), (0, ""));
        assert_eq!(fs::read_to_string(&out).unwrap(), bundle);
    }
    // The recorder goes on with its ring; a machine that started again has no rates over that.
    fs::write(root.join("proc/uptime"), "9.00 1.00\n").unwrap();
    let ran = pageblock(&format!("flight {recording} --duration 1s"));
    assert_eq!(ran.status, 0, "{}", ran.stderr);
    assert!(ran.stderr.contains(" MiB, going on)"), "{}", ran.stderr);
    let shown = pageblock(&format!("flight show {}", ring.display()));
    assert!(shown.stdout.contains("started 1 times meanwhile"), "{}", shown.stdout);
    let examined = pageblock(&format!("doctor --flight {}", ring.display()));
    assert!(
        examined.stdout.contains("1 allocation failures or OOM reports") || examined.status <= 3
    );
    let times = examined.stdout.lines().find_map(|line| line.strip_prefix("Examined:      "));
    assert!(times.is_some_and(|times| times.contains("Z to 20")), "{}", examined.stdout);
    for when in ["--to 2001-01-01T00:00:00Z", "--from 2001-01-01T00:00:00Z"] {
        refuses(
            &format!("doctor --flight {} {when}", ring.display()),
            &format!("error: {when}: {} covers 20", ring.display()),
        );
    }
}

#[test]
fn wrong_files_sizes_and_times_are_refused() {
    let folder = tempfile::tempdir().expect("a folder");
    let text = folder.path().join("text");
    fs::write(&text, "This is no flight file.\n").unwrap();
    let text = text.display();
    refuses(
        &format!("flight show {text}"),
        &format!("error: {text}: no flight file; expected one"),
    );
    refuses(&format!("flight bundle {text}"), &format!("error: {text}: no flight file"));
    refuses(&format!("doctor --flight {text}"), &format!("error: {text}: no flight file"));
    refuses(&format!("flight --ring {text}"), &format!("error: {text}: no flight file"));
    assert_eq!(fs::read_to_string(text.to_string()).unwrap(), "This is no flight file.\n");
    refuses("flight show /there/is/nothing", "error: /there/is/nothing: No such file");
    refuses("flight --ring /there/is/nothing", "error: /there/is/nothing: No such file");
    refuses("flight --size 0", "error: invalid value '0' for '--size <MIB>'");
    refuses(
        "flight show a --from yesterday",
        "error: invalid value 'yesterday' for '--from <TIME>': a local time such as 03:12",
    );
    let empty = folder.path().join("empty.ring");
    let root = folder.path().join("root");
    refuses(&format!("flight --root {} --ring {}", root.display(), empty.display()), "error: ");
    assert!(!empty.exists());
    machine(&root);
    let recording = format!("flight --root {} --ring {}", root.display(), empty.display());
    assert_eq!(pageblock(&format!("{recording} --size 1 --duration 0.5s")).status, 0);
    refuses(
        &format!("{recording} --size 2 --duration 0.5s"),
        &format!("error: {}: a ring of 1 MiB", empty.display()),
    );
    refuses(&format!("flight show {} --from -1s --to -5s", empty.display()), "error: --from ");
    refuses(
        &format!(
            "flight show {} --from 2001-01-01T00:00:00Z --to 2001-01-02T00:00:00Z",
            empty.display()
        ),
        &format!("error: {}: no sample from 2001-01-01", empty.display()),
    );
}
