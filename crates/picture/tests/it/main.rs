//! Saved runs of strangers, compared and drawn.

mod saved;
