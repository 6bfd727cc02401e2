//! Bench suites, the simulator and the load generator.
