//! The agent's one owner of state: messages, ticks and questions in; installs, reports and answers out.
mod owner;
mod task;

pub use owner::{OrderError, Owner};
pub use task::{RunError, load_orders, run};
