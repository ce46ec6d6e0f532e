//! The monitors that mmtests runs beside a benchmark (`--run-monitor`): shell scripts that read files of /proc,
//! and so start a few programs every ten seconds.
//!
//! `MONITORS_GZIP` of the configuration (413542d3): proc-vmstat, proc-buddyinfo, proc-pagetypeinfo. Each runs
//! one program to print the time, one to print its file, and one to sleep. The others (top, vmstat, the reader
//! of trace_pipe) start no programs.

use crate::sim::executor::{Executor, Place};
use crate::sim::task::{Ctx, Served};
use crate::sim::{MILLISECOND, SECOND};

/// Scripts that start programs.
const SCRIPTS: usize = 3;
/// `MONITOR_UPDATE_FREQUENCY`.
const EVERY: u64 = 10 * SECOND;
/// CPU time of `date` or `cat`. (K)
const PROGRAM: u64 = MILLISECOND;

/// Starts the monitors, which run as long as the simulation.
pub fn spawn(executor: &mut Executor<'_>, near: &mut impl FnMut() -> Place) {
    for _ in 0..SCRIPTS {
        executor.spawn("monitor", near(), |ctx| async move {
            if script(&ctx).await.is_err() {
                ctx.panic_without_memory();
            }
        });
    }
}

async fn script(ctx: &Ctx<'_>) -> Served {
    while !ctx.is_stopping() {
        ctx.run_program(PROGRAM).await?;
        ctx.run_program(PROGRAM).await?;
        let sleep = ctx.start_program().await?;
        ctx.sleep(EVERY).await;
        ctx.exit_program(sleep).await;
    }
    Ok(())
}
