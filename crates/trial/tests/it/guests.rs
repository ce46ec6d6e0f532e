//! Forecasts and trials held against what real kernels then did (`tests/guests`).

use std::fs;
use std::path::Path;

use pageblock_doctor::forecast::{Range, forecast};
use pageblock_trial::{Error, Remedy, Span, State, Trials, Verdict, remedies};
use tempfile::TempDir;

const KERNELS: [&str; 2] = ["61", "612"];
/// What a copying shell takes and frees between two steps, in pageblocks.
const MEANWHILE: u64 = 2;

/// Unpacks the state of a guest.
fn guest(name: &str, kernel: &str) -> TempDir {
    let folder = tempfile::tempdir().unwrap();
    let archive = format!("{}/tests/guests/{name}-{kernel}.tar.zst", env!("CARGO_MANIFEST_DIR"));
    let bytes = zstd::decode_all(fs::File::open(archive).unwrap()).unwrap();
    tar::Archive::new(&bytes[..]).unpack(folder.path()).unwrap();
    folder
}

/// Returns the free blocks of an order that a copy of buddyinfo has; a larger one counts as several.
fn free_blocks(folder: &Path, file: &str, order: usize) -> u64 {
    let text = fs::read_to_string(folder.join(file)).unwrap();
    let counts = text.lines().flat_map(|line| line.split_whitespace().skip(4).enumerate());
    let large = counts.filter(|(at, _)| *at >= order);
    large.map(|(at, count)| count.parse::<u64>().unwrap() << (at - order)).sum()
}

fn trials(folder: &Path, order: Option<u8>) -> Trials {
    let state = State::read(folder, &|_| (), &|_| false).unwrap();
    remedies(&state, order, &|| false).unwrap()
}

fn row<'a>(trials: &'a Trials, name: &str) -> &'a Remedy {
    let found = trials.remedies.iter().find(|remedy| remedy.name == name);
    found.unwrap_or_else(|| panic!("no remedy {name}"))
}

#[track_caller]
fn holds(of: Span, outcome: u64, what: &str) {
    let (least, most) = (of.at_least.saturating_sub(MEANWHILE), of.at_most + MEANWHILE);
    assert!((least..=most).contains(&outcome), "{what}: {of:?}, and the kernel made {outcome}");
}

#[test]
fn forecasts_hold_what_kernels_then_made() {
    for name in ["regular", "random", "held", "dust"] {
        for kernel in KERNELS {
            let folder = guest(name, kernel);
            let forecast = forecast(folder.path(), &|_| (), &|_| false).unwrap();
            for order in [9, 10] {
                let of = |range: &&Range| usize::from(range.order) == order;
                let range = forecast.orders.iter().find(of).unwrap();
                let span = Span { at_least: range.at_least, at_most: range.at_most };
                let outcome = free_blocks(folder.path(), "after.buddyinfo", order);
                holds(span, outcome, &format!("forecast of {name}-{kernel}, order {order}"));
            }
        }
    }
}

/// The trial knows what counting does not: where every second page is free, the free scanner of 5.1 and later, which looks at
/// every 32nd, finds none in 6.12, whose CPU lists hold the pages of the first pageblocks; in 6.1 it finds them.
#[test]
fn compaction_in_a_trial_is_that_of_the_kernel() {
    for name in ["regular", "random", "held", "dust"] {
        for kernel in KERNELS {
            let folder = guest(name, kernel);
            let trials = trials(folder.path(), None);
            for order in [9, 10] {
                let gain = trials.compaction[order];
                let outcome = free_blocks(folder.path(), "after.buddyinfo", order);
                holds(gain.after, outcome, &format!("trial of {name}-{kernel}, order {order}"));
            }
            let gains = row(&trials, "compact all memory").verdict == Verdict::Gains;
            assert_eq!(gains, (name, kernel) != ("regular", "612"), "{name}-{kernel}");
        }
    }
}

#[test]
fn dropped_caches_give_what_they_gave_the_kernel() {
    for kernel in KERNELS {
        let folder = guest("cache", kernel);
        let trials = trials(folder.path(), None);
        let after = |name: &str| {
            let effect = row(&trials, name).effect.as_ref().unwrap();
            effect.orders.iter().find(|gain| gain.order == 9).unwrap().after
        };
        let dropped = free_blocks(folder.path(), "dropped.buddyinfo", 9);
        holds(after("drop the page cache"), dropped, &format!("dropped, {kernel}"));
        let compacted = free_blocks(folder.path(), "after.buddyinfo", 9);
        let both = "drop the page cache, then compact";
        holds(after(both), compacted, &format!("dropped and compacted, {kernel}"));
        assert_eq!(row(&trials, both).verdict, Verdict::Gains);
        // The file had 50,000 pages in memory.
        assert!((49_000..51_000).contains(&row(&trials, both).cost.dropped));
    }
}

#[test]
fn what_a_state_does_not_tell_is_not_judged() {
    let folder = guest("random", "61");
    let order_3 = trials(folder.path(), Some(3));
    assert_eq!((order_3.order, order_3.pageblock_order), (3, 9));
    for name in ["vm.watermark_boost_factor", "vm.defrag_mode"] {
        let remedy = row(&order_3, name);
        assert!(remedy.effect.is_none() && remedy.confidence.is_none(), "{remedy:?}");
        assert!(matches!(remedy.verdict, Verdict::NotJudged | Verdict::NotHere));
    }
    // 6.1 has no defrag_mode.
    assert_eq!(row(&order_3, "vm.defrag_mode").verdict, Verdict::NotHere);
    // More is free than any new watermark: kswapd has nothing to do.
    let scale = row(&order_3, "vm.watermark_scale_factor=100");
    assert_eq!(scale.verdict, Verdict::GainsNothing);
    let doubled =
        order_3.remedies.iter().find(|r| r.name.starts_with("vm.min_free_kbytes=")).unwrap();
    assert!(doubled.cost.kept_free > 0 && doubled.verdict == Verdict::GainsNothing);
}

#[test]
fn the_order_that_failed_in_the_log_is_the_one_that_matters() {
    let folder = guest("regular", "61");
    fs::write(
        folder.path().join("dmesg"),
        "cat: page allocation failure: order:4, mode:0xcc0(GFP_KERNEL)\n",
    )
    .unwrap();
    let state = State::read(folder.path(), &|_| (), &|_| false).unwrap();
    let order = remedies(&state, None, &|| false).unwrap();
    assert_eq!((order.order, order.order_from.as_str()), (4, "1 failures in the kernel's log"));
    assert!(matches!(
        remedies(&state, Some(11), &|| false),
        Err(Error::Order { order: 11, largest: 10 })
    ));
    assert!(matches!(remedies(&state, None, &|| true), Err(Error::Doctor(_))));
    fs::remove_file(folder.path().join("proc/version")).unwrap();
    assert!(matches!(State::read(folder.path(), &|_| (), &|_| false), Err(Error::NoVersion)));
}

/// A fault compacts as a request of a pageblock's order does; the setting that is on needs no command.
#[test]
fn modes_of_huge_pages_are_tried() {
    let folder = guest("dust", "612");
    let none = trials(folder.path(), Some(9));
    assert_eq!(row(&none, "transparent_hugepage/defrag").verdict, Verdict::NotHere);
    let huge = folder.path().join("sys/kernel/mm/transparent_hugepage");
    fs::create_dir_all(&huge).unwrap();
    fs::write(huge.join("defrag"), "always defer defer+madvise [madvise] never\n").unwrap();
    let tried = trials(folder.path(), Some(9));
    let request = row(&tried, "let a request of order 9 compact");
    for mode in ["always", "defer"] {
        let own = row(&tried, &format!("transparent_hugepage/defrag={mode}"));
        assert_eq!((own.verdict, own.cost), (request.verdict, request.cost));
        let command = format!("echo {mode} > /sys/kernel/mm/transparent_hugepage/defrag");
        assert_eq!(own.command.as_deref(), Some(command.as_str()));
    }
    fs::write(huge.join("defrag"), "[always] defer defer+madvise madvise never\n").unwrap();
    let tried = trials(folder.path(), Some(9));
    let own = row(&tried, "transparent_hugepage/defrag=always");
    assert_eq!((own.verdict, own.command.as_ref()), (Verdict::GainsNothing, None));
}
