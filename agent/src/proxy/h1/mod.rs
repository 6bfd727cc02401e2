//! HTTP/1.1 framing as pure functions over bytes: heads, bodies, and what is written of them.
//!
//! Strict where leniency lets two parties disagree about where a message ends: bare line feeds, folded fields,
//! doubled lengths and chunk extensions are refused, not repaired.
pub(crate) mod body;
pub(crate) mod compose;
pub(crate) mod field;
pub(crate) mod request;
pub(crate) mod response;
