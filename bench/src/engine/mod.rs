//! The fake engine: an OpenAI chat server whose latency follows a profile as its own load rises.
//!
//! `server` reads requests and hands them to `replica`, which says when each token is due; `answer` writes it.
mod answer;
pub mod config;
pub mod curve;
pub mod headers;
mod metrics;
pub(crate) mod replica;
mod request;
mod server;

pub use server::serve;
