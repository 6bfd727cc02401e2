//! Questions and orders of a person on this host, over a Unix socket: one JSON object a line, one answer each. Metrics
//! over HTTP, where the configuration says so.
mod client;
mod http;
mod metrics;
mod server;
mod status;

pub use client::{AskError, ask};
pub use http::MetricsServer;
pub use server::{Answer, Question, Request, Server};
pub use status::{Connection, LastRefusal, Status};
