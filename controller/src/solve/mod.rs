//! Weight path, second stage: from a problem to rates per (frontend, class, group).
pub mod problem;
