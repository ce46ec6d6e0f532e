//! `pageblock machine`.

use std::path::PathBuf;

use crate::{file, pageblock, prints, refuses};

/// Makes a folder with copies of a server's files: two nodes, 48 CPUs.
fn server() -> PathBuf {
    let folder = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join("server");
    let nodes = folder.join("sys/devices/system/node");
    for (node, cpus) in [("node0", "0-11,24-35"), ("node1", "12-23,36-47")] {
        std::fs::create_dir_all(nodes.join(node)).unwrap();
        std::fs::write(nodes.join(node).join("cpulist"), format!("{cpus}\n")).unwrap();
    }
    let zone = |node: u32, name: &str, start: u64, spanned: u64, managed: u64| {
        let cpus: String =
            (0..48).map(|cpu| format!("    cpu: {cpu}\n              count: 0\n")).collect();
        format!(
            "Node {node}, zone {name:>8}\n  pages free     {managed}\n        spanned  {spanned}\n        \
             present  {managed}\n        managed  {managed}\n  pagesets\n{cpus}  start_pfn:           {start}\n"
        )
    };
    let zoneinfo = [
        zone(0, "DMA", 1, 4095, 3840),
        zone(0, "DMA32", 4096, 1_044_480, 772_608),
        zone(0, "Normal", 1 << 20, 1 << 20, (1 << 20) - 4000),
        zone(1, "Normal", 2 << 20, 2 << 20, (2 << 20) - 4000),
    ];
    std::fs::write(folder.join("zoneinfo"), zoneinfo.concat()).unwrap();
    let meminfo =
        "MemTotal:       15656912 kB\nSwapTotal:       2097148 kB\nHugepagesize:       2048 kB\n";
    std::fs::write(folder.join("meminfo"), meminfo).unwrap();
    folder
}

#[test]
fn a_machine_from_copied_files_runs_at_a_scale() {
    let folder = server();
    let text = prints(&format!("machine from {} --name db-7", folder.display()));
    assert!(text.starts_with("name = \"db-7\"\n"), "{text}");
    assert!(text.contains("cpus = 24\nmemory_mib = [[0, 3032], [4096, 8176]]\n"), "{text}");
    assert!(text.contains("cpus = 24\nmemory_mib = [[8192, 16368]]\n"), "{text}");
    assert!(text.contains("swap_mib = 2047\n"), "{text}");
    let toml = file("db-7.toml", &text);
    let run = format!(
        "run thpfioscale --policy linux-6.9 --scale 1/128 --tables all --machine {}",
        toml.display()
    );
    let ran = pageblock(&run);
    assert_eq!(ran.status, 0, "{}", ran.stderr);
    assert!(ran.stdout.contains("Extfrag total"), "{}", ran.stdout);
}

#[test]
fn this_machine_is_described() {
    if !std::path::Path::new("/proc/zoneinfo").exists() {
        eprintln!("skipped: there is no /proc/zoneinfo");
        return;
    }
    let text = prints("machine from /proc --name here");
    let toml = file("here.toml", &text);
    // Every machine can be read back; not every machine fits every workload.
    let ran = pageblock(&format!("run nothing --policy linux-6.9 --machine {}", toml.display()));
    assert!(ran.stderr.starts_with("error: there is no workload 'nothing'"), "{}", ran.stderr);
    assert!(text.contains("[[node]]\ncpus = "), "{text}");
}

#[test]
fn invalid_machines_are_refused() {
    refuses(
        "machine from /nowhere",
        "error: /nowhere: no zoneinfo; allowed: /proc, or a folder with a copy",
    );
    let folder = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join("no-machine");
    std::fs::create_dir_all(&folder).unwrap();
    std::fs::write(folder.join("zoneinfo"), "Node 0, zone DMA\n  managed many\n").unwrap();
    let ran = pageblock(&format!("machine from {}", folder.display()));
    assert_eq!(ran.status, 2);
    assert!(
        ran.stderr
            .contains("zoneinfo:2 (byte 17): found \"  managed many\"; allowed: a whole number")
    );
}

#[test]
fn included_machines_are_listed_and_shown() {
    let names = prints("machine list");
    for name in names.lines() {
        let text = prints(&format!("machine show {name}"));
        assert!(text.contains(&format!("name = \"{name}\"")), "{text}");
    }
    assert!(names.lines().count() >= 11);
    refuses("machine show laptop", "error: there is no machine 'laptop'; there are skylake-1s, ");
}

#[test]
fn every_key_is_documented() {
    let text =
        std::fs::read_to_string(concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/machines.md"))
            .unwrap();
    let wrong = file(
        "wrong-key.toml",
        "name = \"m\"\nx = 1\n[[node]]\ncpus = 1\nmemory_mib = [[0, 64]]\n\
        [disk]\nread_us = 1\nread_places = 1\nwrite_mib_s = 1\n",
    );
    let run = |path: &std::path::Path| {
        pageblock(&format!("run hugealloc --policy linux-6.9 --machine {}", path.display())).stderr
    };
    let error = run(&wrong);
    let (_, keys) = error.trim_end().split_once("allowed: ").unwrap();
    let others = ["cpus", "memory_mib", "read_us", "read_places", "write_mib_s", "size_gib"];
    let tables = ["node", "disk", "fragment"];
    for key in keys.split(", ").filter(|key| !tables.contains(key)).chain(others) {
        assert!(text.contains(&format!("| `{key}` |")), "{key}");
    }
    // The example in the page is a valid machine.
    let example: String = text
        .lines()
        .skip_while(|line| !line.starts_with("    name ="))
        .take_while(|line| line.is_empty() || line.starts_with("    "))
        .map(|line| format!("{}\n", line.trim_start()))
        .collect();
    let error = run(&file("example.toml", &format!("{example}no_key = 1\n")));
    assert!(error.contains("unknown key `no_key` of [disk]"), "{error}");
}

/// A load that does nothing has the same events and counts nothing, however its machine was fragmented before.
#[test]
fn what_fragments_a_machine_is_in_no_count() {
    let asleep = file(
        "asleep.toml",
        "name = \"asleep\"\n[[task]]\n[[task.step]]\ndo = \"sleep\"\nms = 100\n",
    );
    let run = |machine: &str| {
        let command =
            format!("run {} --policy linux-6.12 --machine {machine} --json", asleep.display());
        let ran = pageblock(&format!("{command} --seeds 1"));
        let runs: serde_json::Value = serde_json::from_str(&ran.stdout).unwrap();
        let counts = runs[0]["counters"].as_object().unwrap().values();
        assert!(counts.into_iter().all(|count| count == 0), "{machine}: {}", runs[0]["counters"]);
        (runs[0]["event_hash"].clone(), runs[0]["free_blocks"].clone())
    };
    let (plain, fragmented) = (run("guest-640m"), run("guest-640m,free=50%,spread=90%"));
    assert_eq!(plain.0, fragmented.0);
    assert_ne!(plain.1, fragmented.1);
}
