//! Simulations of small machines.

mod apppressure;
mod history;
mod hugealloc;
mod mixed;
mod parallelio;
mod simulate;
