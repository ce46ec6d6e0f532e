//! Processes that a program starts: the memory that fork, exec and exit take and free.

use pageblock::frame::Pfn;
use pageblock::request::Gfp;
use pageblock_vm::page::Owner;
use pageblock_vm::process::{self, Part};
use pageblock_vm::space::SpaceId;
use pageblock_vm::thp::Advice;

use super::Nanos;
use super::task::{Ctx, Served};

/// Private pages that a small program touches after fork, and after exec: 41.5 in all
/// (docs/experiments/sources.md#compile-jobs).
const PAGES: (u32, u32) = (10, 32);

/// A process.
#[derive(Debug)]
pub struct Process {
    objects: Vec<u32>,
    stack: Vec<Pfn>,
    mm: Mm,
}

/// An address space.
#[derive(Debug)]
struct Mm {
    objects: Vec<u32>,
    tables: Vec<Pfn>,
    space: SpaceId,
}

impl Ctx<'_> {
    /// Starts a program by fork and exec.
    ///
    /// # Errors
    /// If memory is exhausted.
    pub async fn start_program(&self) -> Served<Process> {
        self.spend(self.with(|w| w.costs.program));
        let objects = self.process_objects(Part::Task).await?;
        let mut stack = Vec::new();
        for request in self.with(|w| process::stack_requests(&w.vm.kernel().memory)) {
            stack.push(self.kernel_block(request, Owner::Stack).await?);
        }
        let forked = self.address_space(PAGES.0).await?;
        let mm = self.address_space(PAGES.1).await?;
        self.end_address_space(forked).await;
        Ok(Process { objects, stack, mm })
    }

    /// Runs a program that uses this much CPU time.
    ///
    /// # Errors
    /// If memory is exhausted.
    pub async fn run_program(&self, ns: Nanos) -> Served {
        let process = self.start_program().await?;
        self.spend(ns);
        self.charge_accrued().await;
        self.exit_program(process).await;
        Ok(())
    }

    /// Ends a process.
    pub async fn exit_program(&self, process: Process) {
        self.end_address_space(process.mm).await;
        for block in process.stack {
            self.free_kernel_block(block);
        }
        self.put_objects(process.objects);
    }

    async fn process_objects(&self, part: Part) -> Served<Vec<u32>> {
        let mut objects = Vec::new();
        for cache in self.with(|w| w.vm.process_objects(part)) {
            objects.push(self.object(cache, Gfp::GFP_KERNEL).await?);
        }
        Ok(objects)
    }

    fn put_objects(&self, objects: Vec<u32>) {
        let cpu = self.cpu();
        self.with(|w| {
            for object in objects {
                w.vm.put_object(cpu, object);
            }
        });
    }

    async fn address_space(&self, pages: u32) -> Served<Mm> {
        let objects = self.process_objects(Part::Mm).await?;
        let mut tables = Vec::new();
        for request in self.with(|w| process::table_requests(&w.vm.kernel().memory)) {
            tables.push(self.kernel_block(request, Owner::PageTable).await?);
        }
        let space = self.with(|w| w.vm.create_mapping(pages));
        for index in 0..pages {
            self.fault_sized(space, index, Advice::None).await?;
        }
        Ok(Mm { objects, tables, space })
    }

    async fn end_address_space(&self, mm: Mm) {
        let mut gather = Vec::new();
        for request in process::gather_requests() {
            // It continues without the batch page, a few pages at a time.
            if let Ok(page) = self.kernel_block(request, Owner::Driver).await {
                gather.push(page);
            }
        }
        let cpu = self.cpu();
        self.with(|w| w.vm.remove_space(cpu, mm.space));
        for block in mm.tables.into_iter().chain(gather) {
            self.free_kernel_block(block);
        }
        self.put_objects(mm.objects);
    }
}
