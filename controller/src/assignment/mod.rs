//! Weight path, first and third stage: from a fleet, its demand and its capacity to a problem, and from an answer back
//! to names, rates and engines.
pub mod expand;
pub mod instance;
pub mod published;
pub mod report;
