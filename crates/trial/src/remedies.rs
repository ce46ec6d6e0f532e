//! Tries common advice on a state, one remedy after the other.

use pageblock::frame::Order;
use pageblock::policy::Policy;
use pageblock::tuning;
use pageblock_kernel::rules::kcompactd::Proactive;
use pageblock_vm::compact::kcompactd::proactive_marks;
use serde::Serialize;

use crate::error::Error;
use crate::machine::{Trial, gains};
use crate::remedy::{Confidence, Cost, Effect, OrderGain, Remedy, Span, Verdict};
use crate::state::State;

/// The outcome of all remedies.
#[derive(Clone, Debug, Serialize)]
pub struct Trials {
    /// The kernel's version.
    pub version: String,
    /// The preset whose rules are used for it.
    pub preset: String,
    /// The order that matters beside the pageblock order, and its source.
    pub order: u8,
    /// See `order`.
    pub order_from: String,
    /// The order of a pageblock.
    pub pageblock_order: u8,
    /// The share of free memory in blocks below a pageblock that is where `pagetypeinfo` says, in percent; null
    /// without that file.
    pub types_agree: Option<u64>,
    /// The gain of compacting all memory, at every order.
    pub compaction: Vec<OrderGain>,
    /// The remedies.
    pub remedies: Vec<Remedy>,
}

/// The agreement with `pagetypeinfo`, in percent, from which the guessed pageblock types are good, and from which
/// they are acceptable.
const GOOD: u64 = 95;
const FAIR: u64 = 80;
/// The factors by which watermarks are raised.
const SCALE_FACTOR: u64 = 100;
const MIN_FREE_TIMES: u64 = 2;

/// Tries common advice on a state. `order` is the order that requests need; without it, the order that failed most
/// often in the kernel's log, or the pageblock order. `watch` is called after each trial, and returns whether to
/// stop.
///
/// # Errors
/// If this kernel has no such order, the state contradicts itself, or the caller asked to stop.
pub fn remedies(
    state: &State,
    order: Option<u8>,
    watch: &dyn Fn() -> bool,
) -> Result<Trials, Error> {
    let (order, order_from) = order_of(state, order)?;
    let judge = Judge { state, order };
    let mut remedies = Vec::new();
    let mut add = |remedy: Remedy| {
        remedies.push(remedy);
        if watch() { Err(Error::Doctor(pageblock_doctor::Error::Stopped)) } else { Ok(()) }
    };
    let (compact, compaction) = judge.compact()?;
    add(compact)?;
    add(judge.request()?)?;
    for remedy in judge.huge_page_faults()? {
        add(remedy)?;
    }
    for remedy in judge.drop_caches()? {
        add(remedy)?;
    }
    add(judge.proactive()?)?;
    add(judge.boost())?;
    add(judge.scale_factor()?)?;
    add(judge.min_free()?)?;
    add(judge.defrag_mode())?;
    Ok(Trials {
        version: state.version.clone(),
        preset: state.preset.to_owned(),
        order,
        order_from,
        pageblock_order: state.pageblock_order(),
        types_agree: state.agreement,
        compaction,
        remedies,
    })
}

/// Returns the order that matters beside the pageblock order, and its source.
fn order_of(state: &State, given: Option<u8>) -> Result<(u8, String), Error> {
    let largest = state.largest_order();
    if let Some(order) = given {
        if order > largest {
            return Err(Error::Order { order, largest });
        }
        return Ok((order, "--order".to_owned()));
    }
    // Failures of order 0 do not concern larger blocks.
    let failed = state.failed.iter().find(|&&(order, _)| order > 0 && order <= u32::from(largest));
    Ok(match failed {
        Some(&(order, count)) => (order as u8, format!("{count} failures in the kernel's log")),
        None => (state.pageblock_order(), "no order was given, and none is in a log".to_owned()),
    })
}

/// Tries remedies on a state.
struct Judge<'a> {
    state: &'a State,
    order: Order,
}

/// The outcome of one trial.
struct Outcome {
    blocks: Vec<u64>,
    moved: u64,
    dropped: u64,
}

impl Judge<'_> {
    /// Returns the orders to count.
    fn orders(&self) -> Vec<Order> {
        let mut orders = vec![self.order, self.state.pageblock_order()];
        orders.sort_unstable();
        orders.dedup();
        orders
    }

    /// Runs a trial under both assumptions, and counts the free blocks of some orders.
    fn attempt(
        &self,
        orders: &[Order],
        act: impl Fn(&mut Trial<'_>) -> u64,
    ) -> Result<(Vec<OrderGain>, Cost), Error> {
        let count = |trial: &Trial<'_>| orders.iter().map(|&o| trial.free_blocks(o)).collect();
        let tried = self.state.try_both(|trial| {
            let before: Vec<u64> = count(trial);
            let dropped = act(trial);
            (before, Outcome { blocks: count(trial), moved: trial.moved, dropped })
        })?;
        let [(before, worst), (before_best, best)] = tried;
        let cost =
            Cost { moved: Span::of(worst.moved, best.moved), dropped: worst.dropped, kept_free: 0 };
        Ok((gains(orders, [[&before, &worst.blocks], [&before_best, &best.blocks]]), cost))
    }

    /// Returns the row of a remedy that was tried.
    fn row(
        &self,
        name: &str,
        command: Option<&str>,
        tried: (Vec<OrderGain>, Cost),
        why: String,
    ) -> Remedy {
        let (orders, cost) = tried;
        let wanted = self.orders();
        let effect = Effect {
            orders: orders.into_iter().filter(|gain| wanted.contains(&gain.order)).collect(),
        };
        let verdict = effect.verdict(self.order);
        let confidence = Some(self.confidence(&effect));
        let command = command.map(str::to_owned);
        Remedy {
            name: name.to_owned(),
            command,
            verdict,
            effect: Some(effect),
            cost,
            confidence,
            why,
        }
    }

    /// Returns the confidence in a trial, from the distance of its bounds and from how well the types of pageblocks
    /// are known.
    fn confidence(&self, effect: &Effect) -> Confidence {
        let close = effect.orders.iter().all(|gain| {
            let gained = gain.after.at_most.abs_diff(gain.before);
            (gain.after.at_most - gain.after.at_least) * 10 <= gained.max(1)
        });
        match self.state.agreement {
            Some(agreement) if close && agreement >= GOOD => Confidence::High,
            Some(agreement) if agreement >= FAIR => Confidence::Medium,
            _ => Confidence::Low,
        }
    }

    fn compact(&self) -> Result<(Remedy, Vec<OrderGain>), Error> {
        let all: Vec<Order> = (0..=self.state.largest_order()).collect();
        let tried = self.attempt(&all, |trial| {
            trial.compact_memory();
            0
        })?;
        let why = match (tried.1.moved.at_most, self.state.moves_folios) {
            (0, _) => {
                "nothing moves: the scanners meet no page that may move, or find no room".to_owned()
            }
            (_, true) => format!(
                "both scanners of {} run over this state; at least: a large folio or a pinned page ends the run",
                self.state.preset
            ),
            _ => format!("both scanners of {} run over this state", self.state.preset),
        };
        let orders = tried.0.clone();
        Ok((
            self.row(
                "compact all memory",
                Some("echo 1 > /proc/sys/vm/compact_memory"),
                tried,
                why,
            ),
            orders,
        ))
    }

    /// Returns the row for the compaction that a request of the order does by itself.
    fn request(&self) -> Result<Remedy, Error> {
        let name = format!("let a request of order {} compact", self.order);
        self.request_of(self.order, name)
    }

    /// Returns the rows for the settings by which a fault for a huge page compacts itself, or leaves it to kcompactd.
    fn huge_page_faults(&self) -> Result<Vec<Remedy>, Error> {
        let file = "/sys/kernel/mm/transparent_hugepage/defrag";
        let name = |mode: &str| format!("transparent_hugepage/defrag={mode}");
        let Some(now) = &self.state.thp_defrag else {
            let why = "this kernel has no transparent huge pages, or their settings were not read";
            return Ok(vec![not_here("transparent_hugepage/defrag", why)]);
        };
        let tried = self.request_of(self.state.pageblock_order(), name("always"))?;
        let modes = [
            ("always", "; each such fault stalls for it"),
            ("defer", "; kcompactd does it, later: the fault itself gets small pages"),
        ];
        let row = |(mode, what): (&str, &str)| match now == mode {
            true => Remedy {
                verdict: Verdict::GainsNothing,
                name: name(mode),
                why: format!("it is set so: {}{what}", tried.why),
                ..tried.clone()
            },
            false => Remedy {
                name: name(mode),
                command: Some(format!("echo {mode} > {file}")),
                why: format!("{}{what}", tried.why),
                ..tried.clone()
            },
        };
        Ok(modes.map(row).to_vec())
    }

    /// Returns the row for the compaction that a request of an order does by itself.
    fn request_of(&self, order: Order, name: String) -> Result<Remedy, Error> {
        let served = self.state.try_both(|trial| {
            let before = trial.free_blocks(order);
            (before > 0 || trial.compact_for(order), trial.moved, before)
        })?;
        let [(worst, moved, before), (best, most, _)] = served;
        let (verdict, why) = match (before, worst, best) {
            (1.., ..) => (
                Verdict::GainsNothing,
                "a block of the order is free: a request need not compact".to_owned(),
            ),
            (_, true, _) => {
                (Verdict::Gains, "a request gets a block after its own compaction".to_owned())
            }
            (_, _, true) => {
                (Verdict::MayGain, "a request may get a block after its own compaction".to_owned())
            }
            _ => {
                (Verdict::GainsNothing, "a request compacts in vain, and stalls for it".to_owned())
            }
        };
        let cost = Cost { moved: Span::of(moved, most), ..Cost::default() };
        let sure = if worst == best { Confidence::Medium } else { Confidence::Low };
        Ok(Remedy { name, command: None, verdict, effect: None, cost, confidence: Some(sure), why })
    }

    #[expect(
        clippy::redundant_closure_for_method_calls,
        reason = "the method is of one lifetime, the closure of any"
    )]
    fn drop_caches(&self) -> Result<[Remedy; 2], Error> {
        let orders = self.orders();
        let command = "echo 1 > /proc/sys/vm/drop_caches";
        let dropped = self.attempt(&orders, |trial| trial.drop_caches())?;
        let alone = self.row(
            "drop the page cache",
            Some(command),
            dropped,
            "clean pages that no process maps are freed where they stand; what is read again costs I/O. Slab (2) is not \
             judged: which of its pages come free, nothing tells"
                .to_owned(),
        );
        let both = self.attempt(&orders, |trial| {
            let dropped = trial.drop_caches();
            trial.compact_memory();
            dropped
        })?;
        let then = self.row(
            "drop the page cache, then compact",
            Some("echo 1 > /proc/sys/vm/drop_caches; echo 1 > /proc/sys/vm/compact_memory"),
            both,
            "compaction has fewer pages to move, and more room".to_owned(),
        );
        Ok([alone, then])
    }

    fn proactive(&self) -> Result<Remedy, Error> {
        let name = "vm.compaction_proactiveness";
        let rule = self.state.kernel.kcompactd.proactive;
        if rule == Proactive::Off {
            return Ok(not_here(name, "kernels before 5.9 do not compact by themselves"));
        }
        let now = u64::from(self.state.kernel.sysctl.compaction_proactiveness);
        let [score, _] = self.state.try_both(|trial| trial.score())?;
        let runs_at = |value: u64| score > proactive_marks(value, rule).1;
        let (_, high) = proactive_marks(now, rule);
        if now > 0 && runs_at(now) {
            let why = format!(
                "it is {now}: kcompactd compacts by itself already, as the score {score} is above {high}"
            );
            let tried = self.proactively(now, rule)?;
            return Ok(self.row(&format!("{name}={now} (as it is)"), None, tried, why));
        }
        let Some(value) =
            (1..=20).map(|step| step * 5).find(|&value| value > now && runs_at(value))
        else {
            let why = format!(
                "no value makes kcompactd run: the score is {score}, and it starts above 10 at the earliest"
            );
            let cost = Cost::default();
            let (verdict, confidence) = (Verdict::GainsNothing, Some(Confidence::Medium));
            return Ok(Remedy {
                name: name.to_owned(),
                command: None,
                verdict,
                effect: None,
                cost,
                confidence,
                why,
            });
        };
        let (low, high) = proactive_marks(value, rule);
        let tried = self.proactively(value, rule)?;
        let why = format!(
            "it is {now}; {value} is the least at which kcompactd runs here: the score {score} is above {high}, and it \
             compacts down to {low}, again and again"
        );
        let command = format!("sysctl vm.compaction_proactiveness={value}");
        Ok(self.row(&format!("{name}={value}"), Some(&command), tried, why))
    }

    fn proactively(&self, value: u64, rule: Proactive) -> Result<(Vec<OrderGain>, Cost), Error> {
        let (low, _) = proactive_marks(value, rule);
        self.attempt(&self.orders(), |trial| {
            trial.compact_proactively(low);
            0
        })
    }

    fn boost(&self) -> Remedy {
        let name = "vm.watermark_boost_factor";
        let now = u64::from(self.state.kernel.allocator.watermark_boost_factor);
        if self.state.kernel.allocator.boost == pageblock::policy::Boost::Off {
            return not_here(name, "kernels before 5.0 do not boost watermarks");
        }
        let boosted: u64 = self.state.snapshot.zones.iter().map(|zone| zone.boost).sum();
        let now_boosted = match boosted {
            0 => "no zone is boosted now".to_owned(),
            pages => format!("zones are boosted by {pages} pages now"),
        };
        let why = format!(
            "it is {now}, and acts when a request takes a block of another type: a state shows no demand ({now_boosted}); \
             --recording judges it"
        );
        not_judged(name, why)
    }

    fn defrag_mode(&self) -> Remedy {
        let name = "vm.defrag_mode";
        match self.state.sysctls.defrag_mode {
            None => not_here(
                name,
                "this kernel has no such setting, or it was not read (6.15 and later have it)",
            ),
            Some(now) => not_judged(
                name,
                format!(
                    "it is {now}, and decides where later requests go: a state shows no demand; --recording judges it"
                ),
            ),
        }
    }

    fn scale_factor(&self) -> Result<Remedy, Error> {
        let now = u64::from(self.state.kernel.allocator.watermark_scale_factor);
        let name = "vm.watermark_scale_factor";
        if self.state.kernel.allocator.wmark_gap == pageblock::policy::WmarkGap::Quarter {
            return Ok(not_here(name, "kernels before 4.6 do not have it"));
        }
        let value = SCALE_FACTOR.max(now * 2).min(1000);
        let mut policy = self.state.kernel.allocator;
        policy.watermark_scale_factor = value as u32;
        self.marks(&format!("{name}={value}"), now, &policy, self.min_free_kbytes())
    }

    fn min_free(&self) -> Result<Remedy, Error> {
        let now = self.min_free_kbytes();
        let value = now * MIN_FREE_TIMES;
        self.marks(&format!("vm.min_free_kbytes={value}"), now, &self.state.kernel.allocator, value)
    }

    /// Returns the setting, or what the watermarks imply it to be.
    fn min_free_kbytes(&self) -> u64 {
        let of_marks = || {
            let min: u64 = self.state.snapshot.zones.iter().map(|zone| zone.wmark.min).sum();
            min * tuning::KBYTES_PER_PAGE
        };
        self.state.sysctls.min_free_kbytes.unwrap_or_else(of_marks)
    }

    /// Judges a change of watermarks: whether kswapd would free memory at once, and how much.
    fn marks(&self, name: &str, now: u64, policy: &Policy, kbytes: u64) -> Result<Remedy, Error> {
        let [(more, short), _] = self.state.try_both(|trial| {
            let zones = || trial.zones().iter();
            let lowmem = tuning::lowmem_pages(policy, zones().map(|z| (z.kind(), z.managed())));
            let (mut more, mut short) = (0, 0);
            for zone in zones() {
                let (kind, managed) = (zone.kind(), zone.managed());
                let sizes = zone.geometry();
                let marks = tuning::watermarks(policy, kind, managed, lowmem, kbytes, sizes);
                more += marks.high.saturating_sub(zone.watermarks().high);
                if zone.free_pages() < marks.low {
                    short += marks.high - zone.free_pages();
                }
            }
            (more, short)
        })?;
        let cost = Cost { kept_free: more, ..Cost::default() };
        let command = Some(format!("sysctl {name}"));
        let name = name.to_owned();
        if short > 0 {
            let why = format!(
                "it is {now}; kswapd would free {short} pages at once. Which, and so which blocks become free, a state does \
                 not tell"
            );
            let (verdict, confidence) = (Verdict::NotJudged, None);
            return Ok(Remedy { name, command, verdict, effect: None, cost, confidence, why });
        }
        let why = format!(
            "it is {now}; more memory is free than the new low watermarks, so that kswapd frees nothing now. It keeps more \
             pages free later, not larger blocks"
        );
        let (verdict, confidence) = (Verdict::GainsNothing, Some(Confidence::High));
        Ok(Remedy { name, command, verdict, effect: None, cost, confidence, why })
    }
}

/// Returns the row of a remedy that this kernel does not have.
fn not_here(name: &str, why: &str) -> Remedy {
    Remedy {
        name: name.to_owned(),
        command: None,
        verdict: Verdict::NotHere,
        effect: None,
        cost: Cost::default(),
        confidence: None,
        why: why.to_owned(),
    }
}

/// Returns the row of a remedy that a state cannot judge.
fn not_judged(name: &str, why: String) -> Remedy {
    Remedy { verdict: Verdict::NotJudged, why, ..not_here(name, "") }
}
