//! Bench suites, the fake engine, the load generator and the demo.
//!
//! A suite is a module with `pub fn run(&Options) -> anyhow::Result<Vec<Row>>`, registered in `suite`.
pub mod churn;
pub mod delivery;
pub mod demo;
pub mod engine;
pub mod load;
pub mod pps;
pub mod proxy;
pub mod row;
pub mod solver;
pub mod suite;
pub mod table;
pub mod testbed;
pub mod xdp;
