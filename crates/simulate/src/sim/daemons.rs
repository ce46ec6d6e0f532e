//! The machine's own tasks: kswapd, kcompactd, khugepaged, the flusher, the periodic per-CPU tick.

use pageblock_vm::buffer::first_inode;
use pageblock_vm::config::Filesystem;
use pageblock_vm::kswapd::{Daemon, THROTTLE_PAGES};
use pageblock_vm::space::SpaceId;

use super::executor::{Executor, Place};
use super::huge;
use super::task::Ctx;
use super::{MILLISECOND, SECOND};

/// The interval at which changed inodes are written (`fs.xfs.xfssyncd_centisecs`: `xfs_log_worker` then pushes
/// all of them).
const LOG_EVERY: u64 = 30 * SECOND;

/// The interval of the journal's commits (`JBD2_DEFAULT_MAX_COMMIT_AGE`).
const COMMIT_EVERY: u64 = 5 * SECOND;

/// The number of log buffers (`XLOG_MAX_ICLOGS`), and the size of each (`XLOG_BIG_RECORD_BSIZE`, 32 KiB).
const LOG_BUFFERS: usize = 8;
const LOG_BUFFER_PAGES: u64 = 8;

/// Steps of kswapd without a wait after which each further one stands for all that a tick has time for. No run of the
/// published experiments gets there: it only lets time pass for a kswapd that balances without pause.
const BUSY_STEPS: u32 = 1 << 24;
/// The length of a tick (HZ=250).
const TICK: u64 = 4 * MILLISECOND;

/// Starts the daemons.
pub fn spawn(executor: &mut Executor<'_>) {
    let nodes: Vec<u8> = executor.with(|w| w.vm.nodes().iter().map(|n| n.id).collect());
    for (at, &node) in nodes.iter().enumerate() {
        let kswapd = executor.spawn("kswapd", Place::Node(node), move |ctx| kswapd(ctx, at));
        let kcompactd =
            executor.spawn("kcompactd", Place::Node(node), move |ctx| kcompactd(ctx, at));
        executor.with(|w| {
            w.kswapds.push(kswapd);
            w.throttled.push(None);
            w.kcompactds.push(kcompactd);
        });
    }
    let flusher = executor.spawn("flusher", Place::Near(0), flusher);
    executor.with(|w| w.flusher = Some(flusher));
    if executor.with(|w| w.vm.config().checkpoint_bytes > 0) {
        let log = executor.spawn("xfs-cil", Place::Near(0), log);
        executor.with(|w| w.log = Some(log));
    }
    match executor.with(|w| w.vm.config().filesystem) {
        Filesystem::Xfs => _ = executor.spawn("xfsaild", Place::Near(0), xfsaild),
        Filesystem::Ext4 => _ = executor.spawn("jbd2", Place::Near(0), jbd2),
        Filesystem::Fuse => {}
    }
    executor.spawn("vmstat", Place::Near(0), ticks);
    executor.spawn("khugepaged", Place::Near(0), huge::khugepaged);
    executor.with(|w| w.first_program = w.sched.tasks());
}

async fn kswapd(ctx: Ctx<'_>, node: usize) {
    // Writes since kswapd last waited for a slot in the disk's queue.
    let mut batch = 0;
    let mut busy: u32 = 0;
    loop {
        let cpu = ctx.cpu();
        let (step, wrote) = ctx.with(|w| {
            let step = w.vm.step_kswapd(node, cpu);
            w.charge_looks();
            w.charge_work();
            let wrote = w.submit_reclaimed();
            w.wake_daemons();
            let stalled = w.vm.nodes()[node].kswapd.is_running();
            w.sched.set_stalled(ctx.id, stalled);
            (step, wrote)
        });
        batch += wrote;
        ctx.wait_for_queue(&mut batch).await;
        if matches!(step, Daemon::WaitPages(_)) {
            ctx.with(|w| w.throttle(node, THROTTLE_PAGES));
        }
        busy = match step {
            Daemon::Ran | Daemon::WaitIfCongested(_) => busy.saturating_add(1),
            _ => 0,
        };
        if busy > BUSY_STEPS {
            ctx.spend(TICK);
        }
        go_on(&ctx, step).await;
        ctx.with(|w| w.throttled[node] = None);
    }
}

async fn kcompactd(ctx: Ctx<'_>, node: usize) {
    loop {
        let cpu = ctx.cpu();
        let step = ctx.with(|w| {
            let step = w.vm.step_kcompactd(node, cpu);
            w.charge_work();
            let stalled = w.vm.nodes()[node].kcompactd.is_stalled();
            w.sched.set_stalled(ctx.id, stalled);
            step
        });
        go_on(&ctx, step).await;
    }
}

async fn go_on(ctx: &Ctx<'_>, step: Daemon) {
    match step {
        Daemon::Ran => {
            ctx.spend(100);
            ctx.yield_if_ahead().await;
        }
        Daemon::WaitWrites(ns) => ctx.wait_writes(ns).await,
        Daemon::WaitCongestion(ns) => {
            ctx.with(|w| {
                if !w.vm.kernel().writeback.multi_queue {
                    w.wait_for_queue(ctx.id);
                }
            });
            ctx.block(Some(ns)).await;
        }
        Daemon::WaitIfCongested(ns) => {
            let congested = ctx.with(|w| {
                let congested = w.disk.is_congested();
                if congested {
                    w.wait_for_queue(ctx.id);
                }
                congested
            });
            if congested {
                ctx.block(Some(ns)).await;
            } else {
                ctx.spend(100);
                ctx.yield_if_ahead().await;
            }
        }
        Daemon::Nap(ns) | Daemon::WaitPages(ns) => ctx.block(Some(ns)).await,
        Daemon::Sleep => ctx.block(None).await,
    }
}

/// Writes dirty files, oldest first, while more than the background limit is dirty or a writer requested it;
/// and at every interval writes those that have been dirty for too long.
async fn flusher(ctx: Ctx<'_>) {
    let every = match ctx.with(|w| w.vm.kernel().sysctl.dirty_writeback_centisecs) {
        // Periodic write-back is off.
        0 => u64::MAX / 2,
        centisecs => u64::from(centisecs) * (SECOND / 100),
    };
    let mut asked = false;
    let mut next_look = every;
    loop {
        loop {
            let too_much = ctx.with(|w| w.vm.nr_dirty().0 > w.vm.dirty_limits().background);
            if !(too_much || asked) {
                break;
            }
            // Requested: write one turn's worth, then check again.
            asked = false;
            for _ in 0..if too_much { 64 } else { 256 } {
                if !flush_file(&ctx).await {
                    break;
                }
            }
            if ctx.with(|w| w.vm.nr_dirty().0) == 0 {
                break;
            }
        }
        if ctx.now() >= next_look {
            next_look = ctx.now() + every;
            ctx.with(|w| w.vm.begin_flush_interval());
            while let Some(space) = ctx.with(|w| w.vm.take_expired_file()) {
                write_file(&ctx, space).await;
            }
        }
        let wait = next_look.saturating_sub(ctx.now()).max(MILLISECOND);
        let before = ctx.now();
        ctx.block(Some(wait)).await;
        asked = ctx.now() < before + wait;
    }
}

/// Submits the dirty pages of the file that has been dirty longest; waits while the queue is full. Returns
/// whether there was such a file.
pub(crate) async fn flush_file(ctx: &Ctx<'_>) -> bool {
    let Some(space) = ctx.with(|w| w.vm.take_dirty_file()) else { return false };
    write_file(ctx, space).await;
    true
}

pub(crate) async fn write_file(ctx: &Ctx<'_>, space: SpaceId) {
    let mut from = 0;
    while let Some(run) = ctx.with(|w| {
        w.pending += w.costs.submit;
        w.vm.start_write(space, from)
    }) {
        from = run.index + run.pages;
        ctx.with(|w| w.submit_run(run));
        while ctx.with(|w| w.disk.is_full()) {
            ctx.wait_writes(SECOND).await;
        }
    }
    // Blocks were allocated; when they are written, the file has grown.
    // Linux: the second change is committed when the write ends.
    let Some(inode) = ctx.with(|w| w.vm.spaces().get(space).inode()) else {
        return ctx.yield_if_ahead().await;
    };
    for extents in [true, false] {
        if ctx.commit_inode(inode, extents).await.is_err() {
            ctx.panic_without_memory();
        }
    }
    ctx.yield_if_ahead().await;
}

/// Writes a checkpoint of the changes when enough has accumulated and at every interval (`xlog_cil_push_work`,
/// `xfs_log_worker`).
// Linux: the log is written beside the files; here that is part of the disk's rate.
async fn log(ctx: Ctx<'_>) {
    let mut next = 0;
    loop {
        if ctx.now() >= next {
            next = ctx.now() + ctx.with(|w| w.scale.of(LOG_EVERY));
        }
        if !ctx.with(|w| w.vm.checkpoint_is_due()) {
            ctx.block(Some(next.saturating_sub(ctx.now()).max(MILLISECOND))).await;
        }
        if ctx.now() < next && !ctx.with(|w| w.vm.checkpoint_is_due()) {
            continue;
        }
        let mut left = ctx.with(|w| w.vm.begin_checkpoint()).div_ceil(4096);
        while left > 0 {
            // Each buffer queues for the disk behind the files' pages.
            let mut done = 0;
            for _ in 0..LOG_BUFFERS {
                let pages = left.min(LOG_BUFFER_PAGES);
                if pages == 0 {
                    break;
                }
                left -= pages;
                done = ctx.with(|w| w.submit_log(pages));
            }
            ctx.sleep(done.saturating_sub(ctx.now())).await;
        }
        let cpu = ctx.cpu();
        ctx.with(|w| w.vm.end_checkpoint(cpu));
    }
}

/// Writes changed inodes, a cluster at a time, for which it needs the cluster's metadata block.
// Linux: the block itself is written too; here that is part of the disk's rate.
async fn xfsaild(ctx: Ctx<'_>) {
    loop {
        // A scaled machine has proportionally fewer inodes, and changes them in proportionally less time.
        let every = ctx.with(|w| w.scale.of(LOG_EVERY));
        ctx.sleep(every).await;
        while let Some(buffer) = ctx.with(|w| w.vm.take_logged()) {
            if ctx.inode_buffer(first_inode(buffer), false).await.is_err() {
                ctx.panic_without_memory();
            }
        }
    }
}

/// Commits the running transaction at every interval.
// Linux: the log is written beside the files; here that is part of the disk's rate.
async fn jbd2(ctx: Ctx<'_>) {
    loop {
        // As with XFS's log, time is as long as the machine is large.
        let every = ctx.with(|w| w.scale.of(COMMIT_EVERY));
        ctx.sleep(every).await;
        ctx.with(|w| w.vm.commit_journal());
    }
}

/// Writes everything dirty and waits for it (`sync`).
pub async fn sync(ctx: &Ctx<'_>) {
    loop {
        while flush_file(ctx).await {}
        if ctx.with(|w| w.vm.nr_dirty()) == (0, 0) {
            return;
        }
        ctx.wait_writes(100 * MILLISECOND).await;
    }
}

/// Runs each CPU's list maintenance once a second (`vmstat_update`).
async fn ticks(ctx: Ctx<'_>) {
    loop {
        ctx.sleep(SECOND).await;
        ctx.with(|w| {
            for cpu in 0..w.vm.allocator().cpus() {
                w.vm.vmstat_tick(cpu);
            }
            w.sched.collect_pressure();
        });
    }
}
