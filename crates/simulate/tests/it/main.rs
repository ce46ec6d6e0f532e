//! Simulations of small machines.

mod apppressure;
mod builds;
mod history;
mod hugealloc;
mod mixed;
mod parallelio;
mod simulate;
