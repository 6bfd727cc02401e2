//! HTTP/2 on either side. A stream looks like a connection of HTTP/1.1 with one message: what serves requests and
//! relays answers has one form of them, with one set of checks.
pub(crate) mod client;
mod inbound;
mod outbound;
pub(crate) mod prefixed;
pub(crate) mod server;
