//! Who runs when, on which CPU.

use super::*;

fn sched(cpu_nodes: &[NodeId]) -> Sched {
    Sched { switch: 0, ..Sched::new(cpu_nodes, Kind::Year2018, Scheduler::Cfs) }
}

fn resumed(sched: &mut Sched) -> (Nanos, TaskId) {
    match sched.next() {
        Some(Event::Resume(task)) => (sched.now, task),
        other => panic!("{other:?}"),
    }
}

#[test]
fn two_tasks_share_a_cpu_by_slices() {
    let mut sched = sched(&[NodeId(0)]);
    let (a, b) = (sched.spawn(0, None), sched.spawn(0, None));
    let mut ran = Vec::new();
    while ran.len() < 6 {
        let (_, task) = resumed(&mut sched);
        if sched.keeps_cpu(task) {
            ran.push(task);
            sched.charge(task, 3 * MILLISECOND);
        }
    }
    assert_eq!(ran, [a, a, b, b, a, a]);
}

#[test]
fn a_woken_task_runs_at_once_or_after_half_of_those_that_wait() {
    for (scheduler, next) in [(Scheduler::Cfs, [0, 3]), (Scheduler::Eevdf, [3, 0])] {
        let mut sched = Sched { scheduler, ..sched(&[NodeId(0)]) };
        let sleeper = sched.spawn(0, None);
        resumed(&mut sched);
        sched.block(sleeper, None);
        let tasks: Vec<_> = (0..4).map(|_| sched.spawn(0, None)).collect();
        assert_eq!((sleeper, tasks[2]), (0, 3));
        resumed(&mut sched);
        sched.charge(tasks[0], SLICE);
        let mut ran = Vec::new();
        while ran.len() < 3 {
            let (_, task) = resumed(&mut sched);
            if !sched.keeps_cpu(task) {
                continue;
            }
            if task == tasks[1] {
                // A third task waits, a fourth, and the first again.
                sched.wake(sleeper);
            }
            ran.push(task);
            sched.charge(task, SLICE);
        }
        assert_eq!(ran, [tasks[1], next[0], next[1]], "{scheduler:?}");
    }
}

#[test]
fn emulated_cpus_wait_for_each_other() {
    let mut sched = Sched { kind: Kind::Emulated, ..sched(&[NodeId(0), NodeId(0)]) };
    let (a, b) = (sched.spawn(0, None), sched.spawn(1, None));
    resumed(&mut sched);
    sched.charge(a, 10);
    assert_eq!(resumed(&mut sched), (0, b));
    sched.block(b, None);
    assert_eq!(resumed(&mut sched), (20, a));
    sched.charge(a, 10);
    assert_eq!(resumed(&mut sched), (30, a));
}

#[test]
fn a_woken_task_takes_an_idle_cpu_of_its_node_first() {
    let mut sched = sched(&[NodeId(0), NodeId(0), NodeId(1)]);
    let tasks: Vec<_> = (0..3).map(|_| sched.spawn(0, None)).collect();
    assert_eq!(tasks.iter().map(|&t| sched.cpu_of(t)).collect::<Vec<_>>(), [0, 1, 2]);
    let bound = sched.spawn(2, Some(0));
    assert_eq!(sched.cpu_of(bound), 0, "it waits on its own node");
    // Its CPU is idle again: the queued task runs there.
    sched.block(tasks[0], Some(5));
    assert!(sched.is_running(bound));
}

#[test]
fn a_late_timer_does_not_end_the_next_wait() {
    let mut sched = sched(&[NodeId(0)]);
    let task = sched.spawn(0, None);
    resumed(&mut sched);
    sched.block(task, Some(10));
    sched.wake(task);
    resumed(&mut sched);
    sched.block(task, Some(100));
    let Some(Event::Timer(task)) = sched.next() else { panic!("the timer of the second wait") };
    assert_eq!(sched.now, 100);
    sched.time_out(task);
    assert!(sched.is_running(task));
}

#[test]
fn what_is_to_happen_at_one_time_follows_in_the_order_of_asking() {
    let mut sched = Sched { switch: 10, ..sched(&[NodeId(0)]) };
    let task = sched.spawn(0, None);
    sched.written_at(10, 7);
    assert_eq!(resumed(&mut sched), (10, task));
    sched.block(task, Some(0));
    sched.written_at(10, 8);
    let rest = std::iter::from_fn(|| sched.next());
    use Event::{Timer, Written};
    assert_eq!(rest.collect::<Vec<_>>(), [Written(7), Timer(task), Written(8)]);
}

#[test]
fn timers_of_waits_that_ended_are_left_out() {
    let mut sched = sched(&[NodeId(0)]);
    let task = sched.spawn(0, None);
    for _ in 0..100 {
        resumed(&mut sched);
        sched.block(task, Some(1000));
        sched.wake(task);
    }
    assert!(sched.timers.len() <= 2, "{:?}", sched.timers);
    resumed(&mut sched);
    assert_eq!((sched.next(), sched.now), (None, 0));
}
