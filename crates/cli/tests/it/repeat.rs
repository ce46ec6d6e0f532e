//! `repeat`: a saved run is made again from its file alone, or the file says what it lacks.

use std::path::PathBuf;

use serde_json::Value;

use crate::{Ran, compares, file, pageblock, prints, refuses};

const MACHINE: &str = "\
name = \"shed\"
slab = \"slab\"
swap_mib = 64
pageblock_order = 8
cma_mib = 8
dma32_end_mib = 32
[[node]]
cpus = 9
memory_mib = [[0, 64]]
[[node]]
cpus = 8
memory_mib = [[64, 128]]
[disk]
read_us = 77
read_places = 3
write_mib_s = 350
size_gib = 20
";
const POLICY: &str =
    "base = \"linux-5.10\"\nnofragment = \"on\"\nswappiness = 90\nmin_free_kbytes = 3000\n";

fn path(name: &str) -> PathBuf {
    let path = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join(name);
    let _ = std::fs::remove_file(&path);
    path
}

/// Four runs of a machine file and a policy file that are gone, as a file of this name.
fn saved(name: &str) -> PathBuf {
    let machine = file(&format!("{name}-machine.toml"), MACHINE);
    let policy = file(&format!("{name}-policy.toml"), POLICY);
    let saved = path(&format!("{name}.json"));
    compares(&format!(
        "run thpfioscale --scale 1/2 --machine {} --policy {} --policy linux-3.10,pcp_orders=0-3+thp \
         --seeds 2 --first-seed 40 --save {}",
        machine.display(),
        policy.display(),
        saved.display()
    ));
    std::fs::remove_file(machine).expect("it was written");
    std::fs::remove_file(policy).expect("it was written");
    saved
}

#[test]
fn a_run_is_repeated_from_its_file_alone() {
    let saved = saved("repeat");
    let again = path("repeat-again.json");
    let text = prints(&format!("repeat {} --save {}", saved.display(), again.display()));
    let read = |path| std::fs::read_to_string(path).expect("it was saved");
    assert_eq!(read(&saved), read(&again));
    let lines: Vec<_> = text.lines().collect();
    assert_eq!(lines.len(), 4, "{text}");
    let start =
        "linux-3.10,pcp_orders=0-3+thp, seed 40, thpfioscale on shed at 1/2: the same event hash ";
    assert!(lines[1].starts_with(start), "{text}");
    assert!(lines[2].starts_with("repeat-policy, seed 41, "), "{text}");
    // A single run without the list around it is a file too.
    let runs: Value = serde_json::from_str(&read(&saved)).expect("it is JSON");
    let one = file("repeat-one.json", &runs[3].to_string());
    assert_eq!(prints(&format!("repeat {}", one.display())), format!("{}\n", lines[3]));
}

#[test]
fn what_differs_is_named_and_what_lacks_is_refused() {
    let saved = saved("differs");
    let text = std::fs::read_to_string(&saved).expect("it was saved");
    let run = serde_json::from_str::<Value>(&text).expect("it is JSON")[0].take();
    let hash = run["event_hash"].clone();
    let with = |change: &dyn Fn(&mut Value)| {
        let mut run = run.clone();
        change(&mut run);
        file("differs-changed.json", &format!("[{run}]")).display().to_string()
    };
    let differs = |change: &dyn Fn(&mut Value), expect: &str| {
        let Ran { status, stdout, stderr } = pageblock(&format!("repeat {}", with(change)));
        assert_eq!((status, stderr.as_str()), (1, ""), "{stdout}");
        let line = "differs-policy, seed 40, thpfioscale on shed at 1/2: ";
        assert!(stdout.starts_with(line) && stdout.lines().count() == 1, "{stdout}");
        let hash = hash.as_str().expect("it is text");
        assert!(stdout[line.len()..].starts_with(&expect.replace("HASH", hash)), "{stdout}");
        let version = env!("CARGO_PKG_VERSION");
        let end = format!("; saved by pageblock {version}, repeated by {version}\n");
        assert!(stdout.ends_with(&end), "{stdout}");
    };
    differs(
        &|run| run["event_hash"] = "cafe".into(),
        "event hash cafe in the file, HASH now; saved",
    );
    differs(&|run| run["counters"]["pgfault"] = 7.into(), "pgfault 7 in the file, ");
    differs(
        &|run| run["kernel"]["switches"]["boost"] = "off".into(),
        "event hash HASH in the file, ",
    );
    differs(&|run| run["setup"]["machine"]["disk"]["read_us"] = 900.into(), "");
    let lacks = |change: &dyn Fn(&mut Value), expect: &str| {
        let file = with(change);
        refuses(&format!("repeat {file}"), &format!("error: {file}: [0]: {expect}"));
    };
    let remove = |run: &mut Value, path: &str, key: &str| {
        run.pointer_mut(path).and_then(Value::as_object_mut).expect("an object").remove(key);
    };
    let older = "is missing: an older pageblock saved the run";
    lacks(&|run| remove(run, "", "kernel"), &format!("the key `kernel` {older}"));
    lacks(&|run| remove(run, "", "setup"), &format!("the key `setup` {older}"));
    let missing = "kernel, saved by pageblock ";
    lacks(&|run| remove(run, "/kernel/switches", "boost"), missing);
    lacks(&|run| run["kernel"]["switches"]["boots"] = "on".into(), missing);
    lacks(&|run| run["kernel"]["switches"]["boost"] = "v99".into(), missing);
    lacks(&|run| run["kernel"]["base"] = "linux-99".into(), missing);
    lacks(&|run| run["workload"] = "qemu-6.12".into(), "`qemu-6.12` is not a workload");
    let machine = "setup, saved by pageblock ";
    lacks(&|run| run["setup"]["layout"] = 2.into(), machine);
    lacks(&|run| run["setup"]["scale"] = "2".into(), machine);
    lacks(&|run| run["setup"]["machine"]["slab"] = "slob".into(), machine);
    lacks(&|run| run["setup"]["machine"]["node"][0]["cpus"] = 9999.into(), machine);
    let file = with(&|run| remove(run, "/setup/machine", "zram"));
    let place = format!("error: {file}: line 1, column ");
    refuses(&format!("repeat {file}"), &place);
    let empty = crate::file("differs-empty.json", "[]").display().to_string();
    refuses(&format!("repeat {empty}"), &format!("error: {empty}: there is no run in it"));
}
