//! `cargo xtask`: set-up, build, demo, tests and benches.
fn main() {}
