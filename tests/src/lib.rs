//! Integration suites and their harness.
