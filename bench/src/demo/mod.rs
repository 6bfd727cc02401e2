//! The demo: one fleet, the same load under three policies, and what it cost, predicted and measured.
//!
//! `phase` runs one policy and watches it (`tail`, `gauge`), `screen` shows it, `prediction` is the assignment's own
//! expectation, `result` compares.
mod gauge;
mod phase;
mod prediction;
mod queue;
mod result;
pub mod run;
mod screen;
pub mod stop;
mod tail;
