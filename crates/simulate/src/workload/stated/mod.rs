//! Workloads that are stated in a file: tasks that repeat steps, each with sizes, types, rates and lifetimes.
//!
//! A file becomes the requests of a workload whose requests come from outside ([`super::requests`]). The same seed has the
//! same requests under every kernel; docs/workloads.md has every key.

mod file;
mod stream;

use std::sync::Arc;

use super::requests::{Requests, Source, Stream};
use file::Task;
pub use file::WorkloadFileError;

/// Reads a workload from the text of a file.
///
/// # Errors
/// [`WorkloadFileError`] with the line, for a text that is not TOML, an unknown key or a wrong value.
pub fn parse(text: &str) -> Result<Requests, WorkloadFileError> {
    let file::Contents { name, machine, primary, latency, tasks } = file::parse(text)?;
    let tables: String = primary
        .iter()
        .map(|id| {
            format!("[[primary]]\nmeasure = \"{id}\"\nwhy = \"the workload's file names it\"\n")
        })
        .collect();
    let count = tasks.iter().map(|task| task.count).sum();
    Ok(Requests {
        name,
        machine,
        tasks: count,
        tables,
        latency,
        text: text.to_owned(),
        source: Arc::new(Stated { tasks }),
    })
}

/// The tasks of a file.
#[derive(Debug)]
struct Stated {
    tasks: Vec<Task>,
}

impl Source for Stated {
    fn open(&self, seed: u64, task: u32, pages: u64) -> Result<Box<dyn Stream>, String> {
        let mut first = 0;
        for kind in &self.tasks {
            if task < first + kind.count {
                return Ok(Box::new(stream::Rounds::new(kind.clone(), seed, task, pages)));
            }
            first += kind.count;
        }
        Err(format!("there is no task {task}"))
    }
}

#[cfg(test)]
mod tests;
