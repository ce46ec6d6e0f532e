//! Writes a recording of any length, to try sizes that nobody has recorded yet.
//!
//! `cargo run --release -p pageblock-recording --example generate -- OUT.pbrec 1000000000`

use std::collections::VecDeque;
use std::path::Path;

use pageblock::frame::Pfn;
use pageblock::mobility::Migratetype;
use pageblock::request::Gfp;
use pageblock_recording::{Losses, Record, Recording, What};
use rand_pcg::Pcg64Mcg;
use rand_pcg::rand_core::{Rng, SeedableRng};

/// The frames of a machine of 64 GiB.
const FRAMES: u64 = 16 << 20;
/// Blocks in use at a time.
const IN_USE: usize = 100_000;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let mut args = std::env::args().skip(1);
    let (Some(out), Some(events)) = (args.next(), args.next()) else {
        return Err("usage: generate OUT.pbrec EVENTS".into());
    };
    let model = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../recordings/debian-6.12-640m");
    let mut of = Recording::open(&model)?;
    of.name = "generated".to_owned();
    let mut writer = of.writer(Path::new(&out))?;
    let mut random = Pcg64Mcg::seed_from_u64(1);
    let mut in_use = VecDeque::new();
    let mut t_us = 0;
    for _ in 0..events.parse::<u64>()? {
        let word = random.next_u64();
        t_us += word & 3;
        let cpu = (word >> 8) as u16 & 15;
        let pid = 1000 + (word >> 16) as u32 % 200;
        let frees = word & 16 == 0 || in_use.len() > IN_USE;
        let what = match if frees { in_use.pop_front() } else { None } {
            Some((pfn, order)) => What::Free { pfn, order },
            None => {
                let order = [0, 0, 0, 0, 0, 0, 1, 3][(word >> 32) as usize & 7];
                let pfn = Pfn(((word >> 36) % FRAMES) & !((1 << order) - 1));
                let (gfp, mt) = match word & 64 {
                    0 => (Gfp::GFP_HIGHUSER_MOVABLE, Migratetype::Movable),
                    _ => (Gfp::GFP_KERNEL, Migratetype::Unmovable),
                };
                in_use.push_back((pfn, order));
                What::Alloc { pfn: Some(pfn), order, mt, gfp }
            }
        };
        writer.push(&Record { t_us, cpu, pid, what })?;
    }
    writer.finish(&Losses::default())?;
    Ok(())
}
