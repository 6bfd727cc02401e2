//! What each solve was made from and what it gave, on disk: enough to solve it again bit by bit.
//!
//! [`entry`] is one solve, [`ring`] keeps the newest ones in a bounded folder, [`replay`] solves them again.
pub mod entry;
pub mod replay;
pub mod ring;
