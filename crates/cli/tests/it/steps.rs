//! The steps of requests that no small workload makes: costly ones that may not do I/O, ones for one node whose
//! compaction ends without a block, and ones that work for whole pageblocks in vain.

use pageblock::frame::Order;
use pageblock::mobility::Migratetype;
use pageblock::policy::Policy;
use pageblock::request::Gfp;
use pageblock::slowpath::{Caller, CompactResult, Contention, Demand, Outcome, SlowPath, Step};
use pageblock_kernel::Named;

/// The requests, with their orders.
const REQUESTS: &[(Gfp, Order)] = &[
    (Gfp(Gfp::DIRECT_RECLAIM.0 | Gfp::RETRY_MAYFAIL.0), 4),
    (Gfp(Gfp::GFP_TRANSHUGE.0 | Gfp::NORETRY.0 | Gfp::THISNODE.0), 9),
    (Gfp::GFP_KERNEL, 0),
];

/// Returns the steps as a text.
pub(crate) fn hash(kernel: &str) -> String {
    let policy = Named::parse(kernel).unwrap_or_else(|error| panic!("{error}")).kernel.allocator;
    let results = [CompactResult::Skipped, CompactResult::Complete];
    let of = |&(gfp, order)| results.map(|result| steps(&policy, gfp, order, result)).concat();
    REQUESTS.iter().map(of).collect()
}

/// Returns the steps of requests that retry as long as they may: one for which reclaim frees nothing, and one for which
/// compaction makes blocks that others take.
pub(crate) fn retries(kernel: &str) -> String {
    let policy = Named::parse(kernel).unwrap_or_else(|error| panic!("{error}")).kernel.allocator;
    let of = |pages| {
        let demand = Demand {
            gfp: Gfp::GFP_KERNEL,
            order: 3,
            migratetype: Migratetype::Unmovable,
            max_order: 10,
            pageblock_order: 9,
        };
        let mut path = SlowPath::new(&policy, demand, Caller::default());
        let (mut steps, mut outcome) = (String::new(), Outcome::Start);
        for _ in 0..200 {
            let step = path.next(outcome);
            steps += &format!("{step:?}\n");
            outcome = match step {
                Step::TryAlloc { .. } => Outcome::NoPage,
                Step::DirectReclaim { .. } => Outcome::Reclaimed { pages },
                Step::DirectCompact { .. } => {
                    Outcome::Compacted(CompactResult::Success, Contention::None)
                }
                Step::ReclaimRetry { .. } if pages == 0 => Outcome::Yes,
                Step::Fail => break,
                _ => Outcome::No,
            };
        }
        steps
    };
    of(0) + &of(1)
}

/// The steps of a request for which reclaim makes progress, compaction ends with `result`, and no page is found.
fn steps(policy: &Policy, gfp: Gfp, order: Order, result: CompactResult) -> String {
    let migratetype = gfp.migratetype().expect("one mobility bit at most");
    let demand = Demand { gfp, order, migratetype, max_order: 10, pageblock_order: 9 };
    let mut path = SlowPath::new(policy, demand, Caller::default());
    let (mut steps, mut outcome) = (String::new(), Outcome::Start);
    for _ in 0..20 {
        let step = path.next(outcome);
        steps += &format!("{step:?}\n");
        outcome = match step {
            Step::TryAlloc { .. } => Outcome::NoPage,
            Step::DirectReclaim { .. } => Outcome::Reclaimed { pages: 1 },
            Step::DirectCompact { .. } => Outcome::Compacted(result, Contention::None),
            _ => Outcome::No,
        };
    }
    steps
}
