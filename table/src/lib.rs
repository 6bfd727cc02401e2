//! Slot tables: quotas, moves, canonical tables and fallbacks. Pure, integer and fixed-point arithmetic only.
#![no_std]
extern crate alloc;
