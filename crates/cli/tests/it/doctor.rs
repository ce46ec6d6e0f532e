//! `pageblock doctor` and `pageblock forecast` on copied machines.

use std::fs;
use std::path::Path;

use crate::{is_documented, pageblock, refuses};

fn machine(name: &str) -> String {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../doctor/tests/machines");
    folder.join(name).to_str().expect("the path is UTF-8").to_owned()
}

#[test]
fn the_first_lines_are_the_answer() {
    let ran = pageblock(&format!("doctor --root {}", machine("6.12-640m-fragmented")));
    assert_eq!((ran.status, ran.stderr.as_str()), (0, ""));
    let lines: Vec<&str> = ran.stdout.lines().collect();
    assert_eq!(lines[1], "Fragmented?    yes: 100 % of free memory is in blocks below 2 MiB");
    assert!(lines[2].starts_with("Does it hurt?  not known: rates need two samples"));
    assert!(lines[3].starts_with("First:         take two samples"));
    assert!(ran.stdout.contains("Missing: /proc/version: "));
    assert!(ran.stdout.lines().all(|line| line.len() < 200));
    let details =
        pageblock(&format!("doctor --details --root {}", machine("6.12-640m-fragmented")));
    assert!(
        details.stdout.contains("fragmentation index of node 0 DMA32 where a request would fail")
    );
}

#[test]
fn two_copies_give_rates_and_the_exit_status_says_how_bad_it_is() {
    let quiet = machine("6.18-24g");
    let folder = tempfile::tempdir().expect("a folder");
    let later = folder.path();
    fs::create_dir(later.join("proc")).unwrap();
    let copied = |name: &str| fs::read_to_string(Path::new(&quiet).join(name)).unwrap();
    for name in ["buddyinfo", "zoneinfo", "meminfo"] {
        fs::write(later.join("proc").join(name), copied(&format!("proc/{name}"))).unwrap();
    }
    let seconds: f64 = copied("proc/uptime").split_whitespace().next().unwrap().parse().unwrap();
    fs::write(later.join("proc/uptime"), format!("{:.2} 0\n", seconds + 10.0)).unwrap();
    let vmstat = copied("proc/vmstat").replace("compact_stall 0\n", "compact_stall 500\n");
    fs::write(later.join("proc/vmstat"), vmstat).unwrap();
    let ran = pageblock(&format!("doctor --root {quiet} --later {}", later.display()));
    assert_eq!(ran.status, 3, "{}", ran.stdout);
    assert!(ran.stdout.contains("Does it hurt?  yes: 50.0 requests/s compact memory themselves"));
    assert!(ran.stdout.contains("Critical: latency spikes"));
    let ran = pageblock(&format!("doctor --json --root {quiet} --later {}", later.display()));
    let json: serde_json::Value = serde_json::from_str(&ran.stdout).expect("it prints JSON");
    is_documented(&json);
    assert_eq!(
        (&json["hurts"], &json["findings"][0]["name"]),
        (&"yes".into(), &"direct_compaction".into())
    );
}

/// People copy one file, or cut one: what it tells is told, and nothing that it lacks.
#[test]
fn one_file_alone_tells_what_it_can() {
    let folder = tempfile::tempdir().expect("a folder");
    let alone = |name: &str, text: &str| {
        for entry in fs::read_dir(folder.path()).unwrap() {
            fs::remove_file(entry.unwrap().path()).unwrap();
        }
        fs::write(folder.path().join(name), text).unwrap();
        pageblock(&format!("doctor --details --root {}", folder.path().display()))
    };
    let whole = |name: &str| {
        fs::read_to_string(Path::new(&machine("6.12-640m-fragmented")).join(name))
            .or_else(|_| {
                fs::read_to_string(
                    Path::new(&machine("6.12-640m-fragmented")).join("proc").join(name),
                )
            })
            .expect("the machine has it")
    };
    let answer = "Fragmented?    yes: 100 % of free memory is in blocks below 2 MiB";
    let lists = alone("buddyinfo", &whole("buddyinfo"));
    assert!(lists.stdout.contains(answer), "{}", lists.stdout);
    assert!(
        !lists.stdout.contains("managed") && !lists.stdout.contains(" of 0 MiB"),
        "{}",
        lists.stdout
    );
    assert!(!lists.stdout.contains("nothing to do"), "{}", lists.stdout);
    let types = "Page block order: 9\nPages per block:  512\n\nFree pages count per migrate type at order       0      1      2\n\
                 Node    0, zone   Normal, type    Unmovable      3      0      0\n\
                 Node    0, zone   Normal, type      Movable      1      2      0\n\n\
                 Number of blocks type     Unmovable      Movable\nNode 0, zone   Normal            2            5\n";
    let types = alone("pagetypeinfo", types);
    assert!(
        types.stdout.contains("pageblocks of node 0 Normal: Movable 5, Unmovable 2"),
        "{}",
        types.stdout
    );
    let log = "[ 2304.372647] XFS: fs_mark(3289) possible memory allocation deadlock size 65624 in kmem_alloc (mode:0x2408240)\n";
    let log = alone("dmesg", log);
    assert!(
        log.stdout.contains("XFS") && log.stdout.contains("free memory not known"),
        "{}",
        log.stdout
    );
    let cut = alone("zoneinfo", "  pages free     7226981\n        min      10136\n");
    assert_eq!((cut.status, cut.stdout.as_str()), (2, ""));
    assert!(
        cut.stderr.contains("zoneinfo:1 ")
            && cut.stderr.contains("a line `Node N, zone NAME` first"),
        "{}",
        cut.stderr
    );
    assert_eq!(cut.stderr.lines().count(), 1);
}

#[test]
fn wrong_folders_and_times_are_refused() {
    refuses(
        "doctor --root /there/is/nothing",
        "error: /there/is/nothing: no such folder; expected a copied tree",
    );
    let empty = tempfile::tempdir().expect("a folder");
    refuses(&format!("doctor --root {}", empty.path().display()), "error: ");
    refuses(
        "doctor --interval 5x",
        "error: invalid value '5x' for '--interval <TIME>': a time from 0.5s to 24h",
    );
    refuses("doctor --interval 0.1s", "error: invalid value '0.1s'");
    refuses(&format!("forecast {}", empty.path().display()), "error: ");
}

/// Returns a folder with a zone of two pageblocks, by its free pages, its min watermark, and its words of `/proc/kpageflags`.
pub(crate) fn two_pageblocks(free: u64, min: u64, words: &[Vec<u64>]) -> tempfile::TempDir {
    let folder = tempfile::tempdir().expect("a folder");
    let zone = format!(
        "Node 0, zone   Normal\n  pages free     {free}\n        min      {min}\n        low      10\n        high     12\n        \
         spanned  1024\n        present  1024\n        managed  1024\n  start_pfn:           0\n"
    );
    fs::write(folder.path().join("zoneinfo"), zone).unwrap();
    let bytes: Vec<u8> = words.concat().into_iter().flat_map(u64::to_le_bytes).collect();
    fs::write(folder.path().join("kpageflags"), bytes).unwrap();
    folder
}

#[test]
fn a_forecast_is_text_a_map_and_json() {
    // A pageblock that one slab page holds, and one of page cache with 189 free frames.
    let (free, slab, cache) = (1_u64 << 10, 1_u64 << 7, 1_u64 << 3 | 1 << 5);
    let words = [vec![free; 511], vec![slab], vec![free; 189], vec![cache; 323]];
    let folder = two_pageblocks(700, 8, &words);
    let ran = pageblock(&format!("forecast {}", folder.path().display()));
    assert_eq!((ran.status, ran.stderr.as_str()), (0, ""));
    let mut lines = ran.stdout.lines();
    assert_eq!(
        lines.next(),
        Some(
            "2 MiB blocks: 0 of 2 are free; compaction: 0 to 1 more; reclaim: 1 more; both: 1 more."
        )
    );
    assert_eq!(
        lines.next(),
        Some("  1 hold a page that does not move, or may not, 1 of them by 3 pages or fewer.")
    );
    assert_eq!(ran.stdout.lines().last(), Some("0 Normal 0 1m"));
    // Letters, as this is no terminal.
    assert!(!ran.stdout.contains('\u{1b}'));
    let ran = pageblock(&format!("forecast --json {}", folder.path().display()));
    let json: serde_json::Value = serde_json::from_str(&ran.stdout).expect("it prints JSON");
    is_documented(&json);
    assert_eq!(json["held"]["bins"][0]["pages"][0]["kind"], "slab");
    refuses(
        &format!("forecast --verify {}", folder.path().display()),
        "error: the argument '--verify[=<HOW>]' cannot be used with",
    );
}

/// The state of a fragmented 6.12 guest, beside what compacting all memory then made of it.
#[test]
fn remedies_are_tried_on_a_state_and_say_what_they_gain() {
    let folder = tempfile::tempdir().expect("a folder");
    let archive = "../trial/tests/guests/dust-612.tar.zst";
    let archive = fs::File::open(Path::new(env!("CARGO_MANIFEST_DIR")).join(archive)).unwrap();
    let tar = zstd::decode_all(archive).unwrap();
    tar::Archive::new(&tar[..]).unpack(folder.path()).unwrap();
    let path = folder.path().display();

    let ran = pageblock(&format!("forecast {path} --remedies"));
    assert_eq!((ran.status, ran.stderr.as_str()), (0, ""));
    let row = |name: &str| {
        let found = ran.stdout.lines().find(|line| line.starts_with(name));
        found.unwrap_or_else(|| panic!("no {name} in {}", ran.stdout))
    };
    assert!(row("vm.min_free_kbytes=").contains("gains nothing"));
    assert!(row("vm.defrag_mode").contains("not in this kernel"));
    assert!(ran.stdout.contains("  echo 1 > /proc/sys/vm/compact_memory\n"));

    let ran = pageblock(&format!("forecast {path} --remedies --json"));
    let json: serde_json::Value = serde_json::from_str(&ran.stdout).expect("it prints JSON");
    is_documented(&json);
    let after = fs::read_to_string(folder.path().join("after.buddyinfo")).unwrap();
    let blocks =
        after.lines().filter_map(|line| line.split_whitespace().last()?.parse::<u64>().ok());
    let made: u64 = blocks.sum();
    let orders = json["trials"]["compaction"].as_array().expect("a list of orders");
    let largest = &orders.last().expect("it has orders")["after"];
    let holds =
        largest["at_least"].as_u64() <= Some(made) && largest["at_most"].as_u64() >= Some(made);
    assert!(holds, "{largest}: the kernel made {made}");

    refuses(
        &format!("forecast {path} --remedies --order 30"),
        "error: --order 30: this kernel's largest order is 10",
    );
    refuses(&format!("forecast {path} --order 3"), "error: the following required arguments");
}
