//! The HTTP door: an OpenAI-compatible proxy on the same slot tables as the packet door.
//!
//! A request's way: `listen` accepts, `connection` serves requests in turn, `request` reads a head and scans the body
//! (`scan`) until `class`, `key` and `route` can choose an engine, `upload` sends it there, `relay` passes the answer
//! back. Framing (`h1`) and choices (`class`, `key`, `choice`) are pure; the rest owns sockets and clocks.
mod access_log;
mod affinity;
mod budget;
mod choice;
mod class;
mod client;
pub mod config;
mod connection;
mod deadline;
pub mod engine;
mod error;
mod exchange;
pub mod fuzz;
mod h1;
mod h2;
mod io;
mod key;
mod listen;
pub mod metrics;
mod models;
mod pool;
mod relay;
mod request;
pub mod route;
mod scan;
mod scrape;
mod seat;
pub mod server;
pub mod tls;
mod upload;
mod usage;
mod worker;
