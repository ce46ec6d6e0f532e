//! Tests of the view.

mod fake;
mod keys;
mod live;
mod screens;
mod tapes;
