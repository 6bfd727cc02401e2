//! What goes wrong with a request, whose fault it is, and what the client is told.
use super::{
    class::ClassError,
    h1::{body::BodyError, field::HeadError},
    scan::ScanError,
};

/// A request that ends without an engine's answer.
#[derive(Debug, thiserror::Error)]
pub(crate) enum RequestError {
    #[error("the request's head is not acceptable: {0}")]
    Head(HeadError),
    #[error("the request's body is not acceptable: {0}")]
    Body(BodyError),
    #[error("the body cannot be read: {0}")]
    Unreadable(ScanError),
    #[error("the expectation is not known")]
    Expectation,
    #[error("the request did not arrive in time")]
    ClientSlow,
    #[error("{0}")]
    Class(ClassError),
    #[error("no engine serves class {class} at the moment")]
    NoEngine { class: String },
    #[error("engine {engine} cannot be reached")]
    Connect { engine: String },
    #[error("engine {engine} closed the connection before it answered")]
    Broken { engine: String },
    #[error("engine {engine} did not answer in time")]
    EngineSlow { engine: String },
    #[error("engine {engine} answered with what is not HTTP: {error}")]
    Garbage { engine: String, error: HeadError },
}

/// Whose fault it is.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum Side {
    Client,
    Engine,
    /// Nothing is wrong with either: there is no capacity.
    Fleet,
}

impl RequestError {
    pub(crate) fn side(&self) -> Side {
        match self {
            Self::Head(_) | Self::Body(_) | Self::Unreadable(_) | Self::Expectation | Self::ClientSlow => {
                Side::Client
            }
            Self::Class(_) => Side::Client,
            Self::NoEngine { .. } => Side::Fleet,
            Self::Connect { .. } | Self::Broken { .. } | Self::EngineSlow { .. } | Self::Garbage { .. } => {
                Side::Engine
            }
        }
    }

    pub(crate) fn status(&self) -> u16 {
        match self {
            Self::Head(HeadError::TooLong { .. } | HeadError::TooManyFields { .. }) => 431,
            Self::Head(HeadError::Version) => 505,
            Self::Head(_) | Self::Body(_) | Self::Unreadable(_) => 400,
            Self::Expectation => 417,
            Self::ClientSlow => 408,
            Self::Class(ClassError::UnknownModel { .. }) => 404,
            Self::Class(ClassError::NoModel) => 400,
            Self::Class(ClassError::Constraints { .. }) => 403,
            Self::NoEngine { .. } => 503,
            Self::Connect { .. } | Self::Broken { .. } | Self::Garbage { .. } => 502,
            Self::EngineSlow { .. } => 504,
        }
    }

    /// `code` of the answer; also the label of metrics.
    pub(crate) fn code(&self) -> &'static str {
        match self {
            Self::Head(HeadError::TooLong { .. } | HeadError::TooManyFields { .. }) => "head_too_large",
            Self::Head(_) => "malformed_head",
            Self::Body(_) => "malformed_body",
            Self::Unreadable(_) => "unreadable_body",
            Self::Expectation => "unknown_expectation",
            Self::ClientSlow => "request_timeout",
            Self::Class(ClassError::UnknownModel { .. }) => "model_not_found",
            Self::Class(ClassError::NoModel) => "model_missing",
            Self::Class(ClassError::Constraints { .. }) => "constraint_not_satisfied",
            Self::NoEngine { .. } => "no_engine",
            Self::Connect { .. } => "engine_unreachable",
            Self::Broken { .. } => "engine_closed",
            Self::EngineSlow { .. } => "engine_timeout",
            Self::Garbage { .. } => "engine_garbage",
        }
    }

    /// The answer's body, in the shape that OpenAI's clients know.
    pub(crate) fn body(&self) -> String {
        let kind = match self.side() {
            Side::Client => "invalid_request_error",
            Side::Engine => "api_error",
            Side::Fleet => "overloaded_error",
        };
        error_json(&self.to_string(), kind, self.code())
    }

    /// A whole answer in HTTP/1.1. `close` says that the connection ends after it.
    pub(crate) fn answer(&self, request_id: &str, close: bool) -> Vec<u8> {
        let (status, body) = (self.status(), self.body());
        let retry = if status == 503 { "retry-after: 1\r\n" } else { "" };
        let close = if close { "connection: close\r\n" } else { "" };
        let id =
            if request_id.is_empty() { String::new() } else { format!("x-request-id: {request_id}\r\n") };
        let length = body.len();
        let reason = http::StatusCode::from_u16(status).ok().and_then(|status| status.canonical_reason());
        let reason = reason.unwrap_or_default();
        format!(
            "HTTP/1.1 {status} {reason}\r\ncontent-type: application/json\r\ncontent-length: {length}\r\n{id}{retry}{close}\r\n{body}"
        )
        .into_bytes()
    }
}

/// `{"error": {"message", "type", "param", "code"}}`.
pub(crate) fn error_json(message: &str, kind: &str, code: &str) -> String {
    serde_json::json!({ "error": { "message": message, "type": kind, "param": null, "code": code } })
        .to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_answer_has_openais_shape_and_its_own_length() {
        let class = ClassError::UnknownModel { model: "a\"b".into(), known: "m".into() };

        let answer = String::from_utf8(RequestError::Class(class).answer("id-1", true)).unwrap();

        let (head, body) = answer.split_once("\r\n\r\n").unwrap();
        let json: serde_json::Value = serde_json::from_str(body).unwrap();
        assert!(head.starts_with("HTTP/1.1 404 Not Found\r\n"));
        assert!(head.contains(&format!("content-length: {}\r\n", body.len())));
        assert!(head.contains("x-request-id: id-1\r\n") && head.ends_with("connection: close"));
        assert_eq!(json["error"]["code"], "model_not_found");
        assert_eq!(json["error"]["type"], "invalid_request_error");
    }
}
