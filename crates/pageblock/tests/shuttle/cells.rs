//! Frames that share a cell of eight, in a pageblock with an owner.

use pageblock::FrameState;
use pageblock::ids::{CpuId, ZoneIndex};
use pageblock::zone::Geometry;
use shuttle::thread;

use crate::{CPUS, FRAMES, Small, assert_all_free, request, share_in};

/// Two pageblocks of 64 frames, with blocks that share cells of eight and have an owner.
fn share_large() -> &'static Small {
    let policy = "linux-6.12,min_free_kbytes=4,placement=packed";
    share_in(policy, Geometry { pageblock_order: 6, max_order: 6, ..Geometry::default() })
}

fn explore_large(test: impl Fn(&'static Small) + Send + Sync + 'static) {
    let runs = std::env::var("SHUTTLE_RUNS").ok().and_then(|n| n.parse().ok()).unwrap_or(300);
    let test = std::sync::Arc::new(test);
    let (once, again) = (test.clone(), test);
    shuttle::check_random(move || once(share_large()), runs);
    shuttle::check_pct(move || again(share_large()), runs, 3);
}

/// The owner of a pageblock and two others allocate and free the frames of one cell.
#[test]
fn frames_of_a_cell_belong_to_three_cpus() {
    explore_large(|shared| {
        let mut cpu = shared.cpu(CpuId(0)).unwrap();
        let mut shares = [(); CPUS].map(|()| Vec::new());
        for (n, order) in [0, 0, 1, 0, 0, 0, 2, 0, 3, 1, 0].into_iter().enumerate() {
            shares[n % CPUS].push((cpu.alloc(&request(order), &mut ()).unwrap(), order));
        }
        drop(cpu);
        let threads = shares.into_iter().enumerate().map(|(n, share)| {
            thread::spawn(move || {
                let mut cpu = shared.cpu(CpuId(n)).unwrap();
                for (pfn, order) in share {
                    cpu.free(pfn, order + 1, &mut ()).unwrap_err();
                    cpu.free(pfn, order, &mut ()).unwrap();
                    cpu.free(pfn, order, &mut ()).unwrap_err();
                    let own = cpu.alloc(&request(order), &mut ()).unwrap();
                    if n == 1 {
                        cpu.drain(&mut ());
                    }
                    cpu.free(own, order, &mut ()).unwrap();
                }
                assert_eq!(cpu.cache(ZoneIndex(0)).unwrap().strays(), 0);
            })
        });
        threads.collect::<Vec<_>>().into_iter().for_each(|thread| thread.join().unwrap());
        assert_all_free(shared);
    });
}

/// A second free is an error, whatever happens to the frames beside it: they merge, are split and are freed by others.
#[test]
fn second_free_is_an_error_while_cells_change() {
    explore_large(|shared| {
        let mut cpu = shared.cpu(CpuId(0)).unwrap();
        let pages = [(); 12].map(|()| cpu.alloc(&request(0), &mut ()).unwrap());
        cpu.free(pages[3], 0, &mut ()).unwrap();
        cpu.drain(&mut ());
        let other = thread::spawn(move || {
            let mut cpu = shared.cpu(CpuId(1)).unwrap();
            for pfn in pages.into_iter().filter(|&pfn| pfn != pages[3]) {
                cpu.free(pfn, 0, &mut ()).unwrap();
            }
            cpu.drain(&mut ());
            // May have the frames of a few pages, but never that one alone.
            let block = cpu.alloc(&request(3), &mut ()).unwrap();
            cpu.free(block, 3, &mut ()).unwrap();
            cpu.drain(&mut ());
        });
        for _ in 0..6 {
            cpu.free(pages[3], 0, &mut ()).unwrap_err();
        }
        drop(cpu);
        other.join().unwrap();
        assert_all_free(shared);
    });
}

/// Two free a page at the same instant: it is on one list or lost, and never handed out twice. Those beside it are
/// handed out once.
#[test]
fn page_freed_by_two_at_once_has_one_owner_at_most() {
    for others in [[0, 1], [1, 2]] {
        explore_large(move |shared| {
            let mut cpu = shared.cpu(CpuId(0)).unwrap();
            let pages = [(); 6].map(|()| cpu.alloc(&request(0), &mut ()).unwrap());
            drop(cpu);
            let twice = pages[2];
            let threads = others.map(|n| {
                thread::spawn(move || shared.cpu(CpuId(n)).unwrap().free(twice, 0, &mut ()).is_ok())
            });
            let freed = threads.map(|thread| thread.join().unwrap());
            assert!(freed[0] || freed[1], "a block in use was not freed");
            let threads = others.map(|n| {
                thread::spawn(move || {
                    let mut cpu = shared.cpu(CpuId(n)).unwrap();
                    [(); 8].map(|()| cpu.alloc(&request(0), &mut ()).unwrap())
                })
            });
            let mut owned = threads.map(|thread| thread.join().unwrap()).concat();
            owned.extend(pages.into_iter().filter(|&pfn| pfn != twice));
            owned.sort_unstable();
            assert!(owned.is_sorted_by(|a, b| a < b), "two owners: {owned:?}");
            let mut cpu = shared.cpu(CpuId(0)).unwrap();
            // If both frees took effect, it is in use until it is freed once more.
            let lost = !owned.contains(&twice) && cpu.free(twice, 0, &mut ()).is_ok();
            assert!(!lost || freed == [true; 2], "one free lost the page");
            owned.into_iter().for_each(|pfn| cpu.free(pfn, 0, &mut ()).unwrap());
            drop(cpu);
            assert_all_free(shared);
        });
    }
}

/// Two free a page at the same instant, and each allocates again: the page is lost at most, or has two owners where the
/// second free came after the allocation. No frame beside it changes.
#[test]
fn page_freed_by_two_at_once_changes_no_other() {
    explore_large(|shared| {
        let mut cpu = shared.cpu(CpuId(0)).unwrap();
        let pages = [(); 6].map(|()| cpu.alloc(&request(0), &mut ()).unwrap());
        drop(cpu);
        let twice = pages[2];
        let threads = [0, 1].map(|n| {
            thread::spawn(move || {
                let mut cpu = shared.cpu(CpuId(n)).unwrap();
                let freed = cpu.free(twice, 0, &mut ()).is_ok();
                let again = cpu.alloc(&request(0), &mut ()).unwrap();
                for pfn in [pages[n], pages[n + 3]] {
                    cpu.free(pfn, 0, &mut ()).unwrap();
                    cpu.free(pfn, 0, &mut ()).unwrap_err();
                }
                (freed, again)
            })
        });
        let [(first, one), (second, other)] = threads.map(|thread| thread.join().unwrap());
        assert!(first || second, "a block in use was not freed");
        let mut cpu = shared.cpu(CpuId(2)).unwrap();
        for pfn in [one, other, pages[5]] {
            // Both may have been given the page that was freed twice.
            assert!(cpu.free(pfn, 0, &mut ()).is_ok() || pfn == twice, "{pfn} is lost");
        }
        drop(cpu);
        shared.drain_all();
        shared.check_zones().unwrap();
        let mut cpu = shared.cpu(CpuId(2)).unwrap();
        let lost = cpu.free(twice, 0, &mut ()).is_ok();
        drop(cpu);
        shared.drain_all();
        shared.check_zones().unwrap();
        let free = shared.with_zone(ZoneIndex(0), |zone| zone.free_pages());
        // That page is out of use and on no list, if the owner took it again while the other's free was under way.
        let page = shared.with_zone(ZoneIndex(0), |zone| zone.state(twice)).flatten();
        let out_of_use = matches!(page, Some(FrameState::CpuList { order: 0, .. }));
        let found = free.map(|free| free + u64::from(out_of_use));
        assert!(found == Some(FRAMES), "{free:?} are free, lost {lost}");
    });
}
