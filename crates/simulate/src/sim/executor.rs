//! Runs tasks in the order of virtual time.

use std::cell::RefCell;
use std::future::Future;
use std::pin::Pin;
use std::rc::Rc;
use std::task::{Context, Poll, Waker};

use super::MILLISECOND;
use super::sched::{Event, TaskId};
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
    /// Near this CPU; it may migrate.
    Near(usize),
    /// Bound to a node; anywhere if the node has no CPU.
    Node(u8),
}

impl<'m> Executor<'m> {
    /// Makes an executor without tasks.
    #[must_use]
    pub fn new(world: World<'m>) -> Self {
        Self { world: Rc::new(RefCell::new(world)), bodies: Vec::new() }
    }

    /// Runs a closure that reads or changes the world.
    pub fn with<R>(&self, body: impl FnOnce(&mut World<'m>) -> R) -> R {
        body(&mut self.world.borrow_mut())
    }

    /// Starts a task; reports name it by `name`.
    pub fn spawn<F>(
        &mut self,
        name: &'static str,
        place: Place,
        body: impl FnOnce(Ctx<'m>) -> F,
    ) -> TaskId
    where
        F: Future<Output = ()> + 'm,
    {
        let task = self.add(name, place, body);
        self.with(|w| w.sched.start(task));
        task
    }

    /// Adds a task that another one starts ([`Ctx::start`]).
    pub fn add<F>(
        &mut self,
        name: &'static str,
        place: Place,
        body: impl FnOnce(Ctx<'m>) -> F,
    ) -> TaskId
    where
        F: Future<Output = ()> + 'm,
    {
        let id = self.with(|w| {
            w.watch.names.push(name);
            match place {
                Place::Near(cpu) => w.sched.add(cpu, None),
                Place::Node(node) => match w.sched.first_cpu_of(node) {
                    Some(cpu) => w.sched.add(cpu, Some(node)),
                    None => w.sched.add(0, None),
                },
            }
        });
        let ctx = Ctx { world: Rc::clone(&self.world), id };
        self.bodies.push(Some(Box::pin(body(ctx))));
        debug_assert_eq!(self.bodies.len(), id + 1);
        id
    }

    /// Runs until these tasks are done, the simulation fails, a livelock is detected, or `go_on`, which is
    /// called now and then, returns false. Returns whether the tasks are done.
    pub fn run(&mut self, tasks: &[TaskId], go_on: &mut dyn FnMut(&World<'m>) -> bool) -> bool {
        const ASK_EVERY: u64 = 1 << 14;
        let mut world = self.world.borrow_mut();
        while !tasks.iter().all(|&task| world.sched.is_done(task)) {
            world.task_steps += 1;
            let event = world.sched.next();
            let now_ms = world.sched.now / MILLISECOND;
            world.vm.set_age_clock(now_ms);
            world.watch_progress();
            world.watch_history();
            if world.task_steps.is_multiple_of(ASK_EVERY) && !go_on(&world) {
                return false;
            }
            match event {
                None => world.failure = Some("every task waits forever".to_owned()),
                Some(Event::Written(at)) => world.written(at),
                Some(Event::Timer(task)) => world.sched.time_out(task),
                Some(Event::Resume(task)) => {
                    if world.sched.is_running(task) && world.sched.keeps_cpu(task) {
                        drop(world);
                        let polled = poll(&mut self.bodies[task]);
                        world = self.world.borrow_mut();
                        world.blame(task);
                        world.stopped(task, polled);
                    }
                }
            }
            if world.failure.is_some() || world.ended.is_some() {
                return false;
            }
        }
        true
    }
}

/// Polls a task until it pauses or is done.
fn poll(body: &mut Option<Body<'_>>) -> Poll<()> {
    let mut context = Context::from_waker(Waker::noop());
    let polled = body.as_mut().map_or(Poll::Ready(()), |task| task.as_mut().poll(&mut context));
    if polled.is_ready() {
        *body = None;
    }
    polled
}

impl World<'_> {
    /// Handles a task that paused or is done.
    fn stopped(&mut self, task: TaskId, polled: Poll<()>) {
        if polled.is_ready() {
            self.pending = 0;
            self.sched.finish(task);
            return;
        }
        match self.pause.take() {
            Some(Pause::Charge(ns)) => self.sched.charge(task, ns),
            Some(Pause::Block(timeout)) => self.sched.block(task, timeout),
            None => self.failure = Some(format!("task {task} waits for nothing")),
        }
    }
}
