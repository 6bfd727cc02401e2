//! Layouts, hashes and limits that the kernel program and user space share. One definition, used by both sides.
#![no_std]
