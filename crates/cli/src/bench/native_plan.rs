//! What will be timed: arguments that were checked.

use anyhow::bail;
use pageblock_bench::native;
use pageblock_bench::need::{self, Bytes, Limit, Need};

use super::args::NativeArgs;
use crate::plan::Format;

/// `pageblock bench native`.
#[derive(Clone, Debug)]
pub(crate) struct NativePlan {
    pub(crate) plan: native::Plan,
    pub(crate) format: Format,
}

impl NativePlan {
    pub(crate) fn new(args: NativeArgs) -> anyhow::Result<Self> {
        let keys = native::keys();
        if let Some(unknown) = args.patterns.iter().find(|p| !keys.contains(&p.as_str())) {
            bail!("--pattern '{unknown}' is not one of {}", keys.join(", "));
        }
        let mut patterns = args.patterns;
        if patterns.is_empty() {
            patterns = keys.into_iter().map(str::to_owned).collect();
        }
        // Tables of the other allocators end at 64 GiB; patterns need a few hundred blocks.
        if let Some(gib) = args.gib.iter().find(|gib| !(0.25..=64.0).contains(*gib)) {
            bail!("--gib {gib} is not a size from 0.25 to 64");
        }
        if let Some(order) = args.orders.iter().find(|&&order| order > 9) {
            bail!("--order {order} is not an order from 0 to 9");
        }
        if args.rounds == 0 {
            bail!("--rounds 0 measures nothing");
        }
        let frames = |gib: f64| (gib * f64::from(1 << 18)) as u64 & !0x3ff;
        let gib = args.gib;
        let frames = gib.iter().copied().map(frames).collect();
        let plan = native::Plan { orders: args.orders, frames, rounds: args.rounds, patterns };
        let Need { address_space, memory } = Need::of(&plan);
        let fits = |need: Bytes, what: &str, limit: Option<Limit>| match limit {
            Some(Limit { bytes, by }) if need > bytes => bail!(
                "--gib {}: {need} of {what} are needed, {bytes} are allowed ({by}); a smaller size, fewer \
                 orders or fewer patterns need less",
                gib.iter().map(f64::to_string).collect::<Vec<_>>().join(" --gib ")
            ),
            _ => Ok(()),
        };
        fits(address_space, "address space", need::address_space_limit())?;
        fits(memory, "memory", need::memory_limit())?;
        Ok(Self { plan, format: Format::new(args.json) })
    }
}
