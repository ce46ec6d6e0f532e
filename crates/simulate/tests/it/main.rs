//! Whole simulations, small.

mod apppressure;
mod hugealloc;
mod parallelio;
mod simulate;
