//! The in-kernel data path, one file per stage. The programs that the kernel loads are under `bin`.
#![no_std]
