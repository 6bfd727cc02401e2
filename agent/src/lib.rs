//! The process on a frontend host: keeps the kernel's maps current and reports what it sees.
pub mod admin;
pub mod config;
pub mod datapath;
pub mod install;
pub mod orders;
pub mod proxy;
pub mod run;
pub mod signal;
pub mod subscribe;
