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
use crate::error::Error;

type Body<'w> = Pin<Box<dyn Future<Output = ()> + 'w>>;

/// Called with the world for progress reports ([`World::share_done`]); returns `false` to stop the run.
pub type Progress<'p> = dyn FnMut(&World<'_>) -> bool + 'p;

/// Why tasks did not get to their end.
#[derive(Debug)]
pub enum Stop {
    /// The machine ended early ([`World::ended`]), or who follows the run stopped it.
    Ended,
    /// The simulation failed.
    Failed(Error),
}

impl From<Error> for Stop {
    fn from(error: Error) -> Self {
        Self::Failed(error)
    }
}

/// The result of what runs tasks.
pub type Ran<T = ()> = Result<T, Stop>;

/// The tasks of a simulation. They share the [`World`].
pub struct Executor<'m> {
    progress: &'m mut Progress<'m>,
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
    pub fn new(world: World<'m>, progress: &'m mut Progress<'m>) -> Self {
        Self { progress, world: Rc::new(RefCell::new(world)), bodies: Vec::new() }
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

    /// Runs until these tasks are done.
    ///
    /// # Errors
    /// [`Error::Simulation`], with the phase, if the simulation fails or a livelock is detected; [`Stop::Ended`] if
    /// the machine ends early, or [`Progress`], which is called now and then, says so.
    pub fn run(&mut self, tasks: &[TaskId], phase: &str) -> Ran {
        const ASK_EVERY: u64 = 1 << 14;
        let mut world = self.world.borrow_mut();
        while !tasks.iter().all(|&task| world.sched.is_done(task)) {
            world.task_steps += 1;
            let event = world.sched.next();
            let now_ms = world.sched.now / MILLISECOND;
            world.vm.set_age_clock(now_ms);
            world.watch_progress();
            world.watch_history();
            if world.task_steps.is_multiple_of(ASK_EVERY) && !(self.progress)(&world) {
                return Err(world.stop(phase));
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
                return Err(world.stop(phase));
            }
        }
        Ok(())
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
    /// Returns why a phase did not get to its end.
    fn stop(&self, phase: &str) -> Stop {
        match &self.failure {
            Some(failure) => Error::Simulation(format!("{phase}: {failure}")).into(),
            None => Stop::Ended,
        }
    }

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
