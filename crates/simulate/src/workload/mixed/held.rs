//! Kernel memory that is held: messages in sockets, pages in pipes, and tables of pages.

use pageblock::event::Observer;
use pageblock::frame::Pfn;
use pageblock::request::{Gfp, Request};
use pageblock_vm::Vm;
use pageblock_vm::page::Owner;
use pageblock_vm::slab::{CacheId, CacheSpec};
use pageblock_vm::space::SpaceId;
use pageblock_vm::thp::Advice;

use crate::sim::task::{Ctx, Served};
use crate::sim::world::Random;

/// Messages that a pair of sockets holds, a page for each four.
pub const MESSAGES: u64 = 64;
/// Pages that a pipe holds.
pub const PIPE_PAGES: u64 = 16;
/// A mapping with one page for each table of pages.
pub const TABLES: u64 = 8;
/// Pages that a table of pages maps.
pub const TABLE_PAGES: u64 = 512;

/// The pieces that are held, each with about its pages.
#[derive(Debug)]
pub(super) struct Held {
    list: Vec<(u64, Piece)>,
    /// What a message takes: its data (640 bytes, and the `skb_shared_info` behind them), and its `sk_buff`.
    message: [CacheId; 2],
    /// What a pipe takes beside its pages: its list of buffers.
    pipe: CacheId,
}

#[derive(Debug)]
struct Piece {
    objects: Vec<u32>,
    blocks: Vec<Pfn>,
    space: Option<SpaceId>,
}

impl Held {
    pub(super) fn new<O: Observer>(vm: &mut Vm<'_, O>) -> Self {
        let mut cache = |name, size| vm.create_cache(CacheSpec { name, size, reclaimable: false });
        let data = cache("kmalloc-1k", 1024);
        Self { list: Vec::new(), message: [data, cache("skbuff_head_cache", 256)], pipe: data }
    }

    fn pages(&self) -> u64 {
        self.list.iter().map(|(pages, _)| pages).sum()
    }

    /// Holds more or less, until it is about so many pages.
    pub(super) async fn swing_to(
        &mut self,
        ctx: &Ctx<'_>,
        pages: u64,
        random: &mut Random,
    ) -> Served {
        while self.pages() > pages && !self.list.is_empty() {
            let at = random.below(self.list.len() as u64) as usize;
            self.list.swap_remove(at).1.free(ctx);
            ctx.yield_if_ahead().await;
        }
        let mut held = self.pages();
        while held < pages {
            let kind = random.below(4);
            let mut piece = Piece { objects: Vec::new(), blocks: Vec::new(), space: None };
            let made = match kind {
                0 => piece.tables(ctx).await,
                1 => piece.pipe(ctx, self.pipe).await,
                _ => piece.messages(ctx, self.message).await,
            };
            let pages = match kind {
                0 => 2 * TABLES,
                1 => PIPE_PAGES,
                _ => MESSAGES / 4,
            };
            self.list.push((pages, piece));
            made?;
            held += pages;
            ctx.yield_if_ahead().await;
        }
        Ok(())
    }

    /// Frees all.
    pub(super) fn release(&mut self, ctx: &Ctx<'_>) {
        self.list.drain(..).for_each(|(_, piece)| piece.free(ctx));
    }
}

impl Piece {
    async fn messages(&mut self, ctx: &Ctx<'_>, caches: [CacheId; 2]) -> Served {
        for _ in 0..MESSAGES {
            for cache in caches {
                self.objects.push(ctx.object(cache, Gfp::GFP_KERNEL_ACCOUNT).await?);
            }
            ctx.spend(ctx.with(|w| w.costs.message));
            ctx.yield_if_ahead().await;
        }
        Ok(())
    }

    async fn pipe(&mut self, ctx: &Ctx<'_>, cache: CacheId) -> Served {
        self.objects.push(ctx.object(cache, Gfp::GFP_KERNEL_ACCOUNT).await?);
        for _ in 0..PIPE_PAGES {
            let page = Request::new(0, Gfp::GFP_HIGHUSER | Gfp::ACCOUNT);
            ctx.spend(ctx.with(|w| w.costs.pipe_page));
            self.blocks.push(ctx.kernel_block(page, Owner::Driver).await?);
        }
        Ok(())
    }

    /// Maps memory with one page for each table of pages.
    async fn tables(&mut self, ctx: &Ctx<'_>) -> Served {
        let space = ctx.with(|w| w.vm.create_mapping((TABLES * TABLE_PAGES) as u32));
        self.space = Some(space);
        for at in 0..TABLES {
            self.blocks.push(table(ctx).await?);
            ctx.fault_sized(space, (at * TABLE_PAGES) as u32, Advice::None).await?;
        }
        Ok(())
    }

    fn free(self, ctx: &Ctx<'_>) {
        let cpu = ctx.cpu();
        ctx.with(|w| {
            w.pending += w.costs.message_free * self.objects.len() as u64 / 2;
            self.space.into_iter().for_each(|space| w.vm.remove_space(cpu, space));
            self.objects.into_iter().for_each(|object| w.vm.put_object(cpu, object));
        });
        self.blocks.into_iter().for_each(|block| ctx.free_kernel_block(block));
    }
}

/// Allocates a table of pages.
pub(super) async fn table(ctx: &Ctx<'_>) -> Served<Pfn> {
    let request = Request::new(0, Gfp::GFP_KERNEL_ACCOUNT | Gfp::ZERO);
    ctx.spend(ctx.with(|w| w.costs.table));
    ctx.kernel_block(request, Owner::PageTable).await
}
