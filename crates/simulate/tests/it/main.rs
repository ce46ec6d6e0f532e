//! Simulations of small machines.

mod apppressure;
mod hugealloc;
mod parallelio;
mod simulate;
