//! Headers of the fake engine's own, beside those of the chat API.

/// Names the engine that answered.
pub const ENGINE_HEADER: &str = "x-engine-id";
/// Seconds from the request's last byte received to the answer's last byte written, as the engine saw it. A trailer
/// after a stream, a header otherwise.
pub const SECONDS_HEADER: &str = "x-engine-seconds";
