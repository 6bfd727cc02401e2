//! Questions of people and programs to the running controller: a Unix socket for its owner, and `/metrics`.
//!
//! On the socket, one JSON object a line, one answer each. The control loop answers; the tasks here hold no state.
pub mod client;
mod http;
mod metrics;
mod socket;
pub mod status;

pub use http::MetricsServer;
pub use socket::SocketServer;

use penstock_wire::Epoch;
use serde::{Deserialize, Serialize};
use tokio::sync::oneshot;
use tracing::debug;

use crate::record::entry::TickInputs;
use status::Status;

/// Questions that wait for the control loop; a further asker waits for a place.
pub const QUESTIONS: usize = 16;

/// What may be asked.
#[derive(Clone, Copy, Debug, Deserialize, Eq, PartialEq, Serialize)]
#[serde(tag = "command", rename_all = "kebab-case", deny_unknown_fields)]
pub enum Request {
    Status {},
    /// What the last solve was made from, so that the asker can solve, explain and change it by itself.
    Inputs {},
    /// Publish what was in force at an epoch, and nothing else until `Release`.
    Rollback {
        to: Epoch,
    },
    Release {},
    /// Epochs that can be rolled back to.
    Epochs {},
}

/// What the controller answers.
#[derive(Clone, Debug, Deserialize, PartialEq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Answer {
    Status(Box<Status>),
    Inputs(Box<RunningInputs>),
    Published {
        epoch: Epoch,
        moved_slots: usize,
    },
    Released,
    /// Oldest first.
    Epochs(Vec<Epoch>),
    Error(String),
}

/// A running controller's fleet file and the inputs of its last solve.
#[derive(Clone, Debug, Deserialize, PartialEq, Serialize)]
pub struct RunningInputs {
    pub fleet: String,
    pub inputs: TickInputs,
}

/// A request that waits for its answer.
#[derive(Debug)]
pub struct Question {
    pub request: Request,
    reply: oneshot::Sender<Answer>,
}

impl Question {
    fn new(request: Request) -> (Self, oneshot::Receiver<Answer>) {
        let (reply, answer) = oneshot::channel();
        (Self { request, reply }, answer)
    }

    pub fn answer(self, answer: Answer) {
        if self.reply.send(answer).is_err() {
            debug!("the asker left before the answer");
        }
    }
}
