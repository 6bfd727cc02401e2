//! The process on a frontend host: keeps the kernel's maps current and reports what it sees.

pub mod install;
