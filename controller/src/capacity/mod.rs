//! Weight path, input: how much work each engine group does, and what delay it adds under load.
pub mod availability;
pub mod work;
