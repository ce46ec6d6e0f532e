//! Simulations of small machines.

mod apppressure;
mod history;
mod hugealloc;
mod parallelio;
mod simulate;
