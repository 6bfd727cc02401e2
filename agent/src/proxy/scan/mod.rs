//! What a request's body says about its class and its key, found while the body streams in.
mod form;
mod json;
mod prefix;
mod text;

pub(crate) use form::FormScanner;
pub(crate) use json::{Findings, JsonScanner, ScanError, ScanLimits};
