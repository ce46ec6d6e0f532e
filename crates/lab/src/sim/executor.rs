//! Runs tasks in the order of virtual time.

use std::cell::RefCell;
use std::future::Future;
use std::pin::Pin;
use std::rc::Rc;
use std::task::{Context, Poll, Waker};

use super::MILLISECOND;
use super::sched::{Happening, TaskId};
use super::task::Ctx;
use super::world::{Pause, World};

type Body<'w> = Pin<Box<dyn Future<Output = ()> + 'w>>;

/// The tasks of a simulation. They share the [`World`].
pub struct Executor<'m> {
    world: Rc<RefCell<World<'m>>>,
    bodies: Vec<Option<Body<'m>>>,
}

/// Where a task starts.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Place {
    /// Near this CPU; it may go elsewhere.
    Near(usize),
    /// On a node, always; anywhere where that has no CPU.
    Node(u8),
}

impl<'m> Executor<'m> {
    /// No task yet.
    #[must_use]
    pub fn new(world: World<'m>) -> Self {
        Self { world: Rc::new(RefCell::new(world)), bodies: Vec::new() }
    }

    /// Looks at or changes the world.
    pub fn with<R>(&self, body: impl FnOnce(&mut World<'m>) -> R) -> R {
        body(&mut self.world.borrow_mut())
    }

    /// Starts a task.
    pub fn spawn<F>(&mut self, place: Place, body: impl FnOnce(Ctx<'m>) -> F) -> TaskId
    where
        F: Future<Output = ()> + 'm,
    {
        let id = self.with(|w| match place {
            Place::Near(cpu) => w.sched.spawn(cpu, None),
            Place::Node(node) => match w.sched.first_cpu_of(node) {
                Some(cpu) => w.sched.spawn(cpu, Some(node)),
                None => w.sched.spawn(0, None),
            },
        });
        let ctx = Ctx { world: Rc::clone(&self.world), id };
        self.bodies.push(Some(Box::pin(body(ctx))));
        debug_assert_eq!(self.bodies.len(), id + 1);
        id
    }

    /// Runs until these tasks are done, or something failed beyond repair, or `go_on` says no: it is
    /// asked now and then. Tells whether they are done.
    pub fn run(&mut self, tasks: &[TaskId], go_on: &mut dyn FnMut(&World<'m>) -> bool) -> bool {
        const ASK_EVERY: u64 = 1 << 16;
        let done = |w: &World<'_>| tasks.iter().all(|&task| w.sched.is_done(task));
        loop {
            let (happening, ask) = {
                let mut world = self.world.borrow_mut();
                if done(&world) {
                    return true;
                }
                world.happenings += 1;
                let next = world.sched.next();
                let now_ms = world.sched.now / MILLISECOND;
                world.vm.set_age_clock(now_ms);
                (next, world.happenings.is_multiple_of(ASK_EVERY))
            };
            if ask && !go_on(&self.world.borrow()) {
                return false;
            }
            match happening {
                None => {
                    self.with(|w| w.failure = Some("every task waits for ever".to_owned()));
                    return false;
                }
                Some(Happening::Written(at)) => self.with(|w| w.written(at)),
                Some(Happening::Timer(task, wait)) => self.with(|w| w.sched.time_out(task, wait)),
                Some(Happening::Resume(task)) => self.resume(task),
            }
            if self.world.borrow().failure.is_some() {
                return false;
            }
        }
    }

    fn resume(&mut self, task: TaskId) {
        {
            let mut world = self.world.borrow_mut();
            if !world.sched.is_running(task) || !world.sched.keeps_cpu(task) {
                return;
            }
        }
        let Some(body) = &mut self.bodies[task] else { return };
        let mut context = Context::from_waker(Waker::noop());
        match body.as_mut().poll(&mut context) {
            Poll::Ready(()) => {
                self.bodies[task] = None;
                self.with(|w| {
                    w.pending = 0;
                    w.sched.finish(task);
                });
            }
            Poll::Pending => self.with(|w| match w.pause.take() {
                Some(Pause::Charge(ns)) => w.sched.charge(task, ns),
                Some(Pause::Block(timeout)) => w.sched.block(task, timeout),
                None => w.failure = Some(format!("task {task} waits for nothing")),
            }),
        }
    }
}
