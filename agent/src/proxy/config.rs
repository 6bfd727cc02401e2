//! The `[http]` section of the agent's file: as written, and checked.
use std::{
    net::SocketAddr,
    num::NonZeroUsize,
    path::{Path, PathBuf},
    time::Duration,
};

use http::HeaderName;
use serde::Deserialize;

use super::{h1::field::HeadLimits, scan::ScanLimits};

/// The section as it stands in the file. Every key but `listen` and `class` has a default.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RawHttp {
    listen: Vec<RawListen>,
    class: Vec<RawClass>,
    workers: Option<usize>,
    default_class: Option<String>,
    conversation_headers: Option<Vec<String>>,
    model_header: Option<String>,
    priority_header: Option<String>,
    #[serde(default)]
    constraint_headers: Vec<String>,
    #[serde(default)]
    unreadable_body: UnreadableBody,
    prompt_prefix_bytes: Option<u64>,
    access_log: Option<PathBuf>,
    metrics: Option<SocketAddr>,
    drain_ms: Option<u64>,
    #[serde(default)]
    upstream: RawUpstream,
    #[serde(default)]
    limits: RawLimits,
    #[serde(default)]
    retry: RawRetry,
    #[serde(default)]
    bound: RawBound,
}

#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct RawListen {
    /// `ADDRESS:PORT`, or `unix:PATH`.
    address: String,
    certificate: Option<PathBuf>,
    key: Option<PathBuf>,
}

#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct RawClass {
    id: String,
    #[serde(default)]
    models: Vec<String>,
    #[serde(default)]
    labels: Vec<String>,
    #[serde(default)]
    paths: Vec<String>,
    priority: Option<u8>,
    mean_output_tokens: Option<u32>,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
struct RawUpstream {
    #[serde(default)]
    protocol: UpstreamProtocol,
    tls: Option<RawUpstreamTls>,
    connect_timeout_ms: Option<u64>,
    response_timeout_ms: Option<u64>,
    stream_timeout_ms: Option<u64>,
    idle_ms: Option<u64>,
    requests_per_connection: Option<u32>,
    idle_connections: Option<usize>,
    warm_connections: Option<usize>,
}

#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct RawUpstreamTls {
    ca: PathBuf,
    server_name: String,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
struct RawLimits {
    head_bytes: Option<usize>,
    head_fields: Option<usize>,
    head_timeout_ms: Option<u64>,
    body_timeout_ms: Option<u64>,
    write_timeout_ms: Option<u64>,
    idle_timeout_ms: Option<u64>,
    decision_bytes: Option<usize>,
    json_depth: Option<u32>,
    connections: Option<usize>,
    http2_streams: Option<u32>,
    http2_resets: Option<usize>,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
struct RawRetry {
    attempts: Option<u32>,
    ratio: Option<f64>,
    floor_per_second: Option<f64>,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
struct RawBound {
    ratio: Option<f64>,
    slack_tokens: Option<i64>,
}

/// What becomes of a body that is not readable JSON or nests too deep.
#[derive(Clone, Copy, Debug, Default, Deserialize, Eq, PartialEq)]
#[serde(rename_all = "kebab-case")]
pub enum UnreadableBody {
    /// Routed by headers, path and defaults.
    #[default]
    Route,
    /// Answered with 400.
    Refuse,
}

/// What is spoken with engines.
#[derive(Clone, Copy, Debug, Default, Deserialize, Eq, PartialEq)]
#[serde(rename_all = "kebab-case")]
pub enum UpstreamProtocol {
    #[default]
    Http1,
    /// HTTP/2: by prior knowledge, or by ALPN over TLS.
    Http2,
}

/// The section, checked.
#[derive(Clone, Debug, PartialEq)]
pub struct HttpConfig {
    pub listen: Vec<Listen>,
    pub classes: Vec<ClassConfig>,
    pub workers: NonZeroUsize,
    pub default_class: Option<usize>,
    pub conversation_headers: Vec<String>,
    pub model_header: String,
    pub priority_header: String,
    pub constraint_headers: Vec<String>,
    pub unreadable_body: UnreadableBody,
    pub access_log: Option<PathBuf>,
    /// Where `/metrics` is served, in plain HTTP.
    pub metrics: Option<SocketAddr>,
    /// How long requests under way may take at the end.
    pub drain: Duration,
    pub upstream: UpstreamConfig,
    pub limits: Limits,
    pub retry: RetryConfig,
    pub bound: BoundConfig,
    pub(crate) scan: ScanLimits,
}

#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Listen {
    pub address: ListenAddress,
    pub tls: Option<CertificateFiles>,
}

#[derive(Clone, Debug, Eq, PartialEq)]
pub enum ListenAddress {
    Tcp(SocketAddr),
    Unix(PathBuf),
}

/// PEM files, read again when they change.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct CertificateFiles {
    pub certificate: PathBuf,
    pub key: PathBuf,
}

/// Which requests are of a class.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct ClassConfig {
    /// Id of the class in the controller's fleet file.
    pub id: String,
    pub models: Vec<String>,
    /// What the class's engines are known to satisfy: values that constraint headers may ask for.
    pub labels: Vec<String>,
    /// Starts of paths whose requests are of this class when no model says otherwise.
    pub paths: Vec<String>,
    pub priority: Option<u8>,
    /// Output of a request that sets no bound, for the estimate of work in flight.
    pub mean_output_tokens: u32,
}

#[derive(Clone, Debug, Eq, PartialEq)]
pub struct UpstreamConfig {
    pub protocol: UpstreamProtocol,
    pub tls: Option<UpstreamTls>,
    pub connect_timeout: Duration,
    /// Until the head of a response: above the longest prefill.
    pub response_timeout: Duration,
    /// Between two pieces of a response's body.
    pub stream_timeout: Duration,
    /// After which an idle connection is given up; below the engines' own limit.
    pub idle: Duration,
    /// After which a connection is given up; below the engines' own limit.
    pub requests_per_connection: u32,
    /// Idle connections kept for each engine by each worker.
    pub idle_connections: usize,
    /// Connections that each worker keeps open to each engine before requests need them.
    pub warm_connections: usize,
}

#[derive(Clone, Debug, Eq, PartialEq)]
pub struct UpstreamTls {
    pub ca: PathBuf,
    pub server_name: String,
}

#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Limits {
    pub(crate) head: HeadLimits,
    /// For a whole head, from its first byte.
    pub head_timeout: Duration,
    /// Between two pieces of a request's body.
    pub body_timeout: Duration,
    /// For a client that does not read.
    pub write_timeout: Duration,
    /// Between two requests on a connection.
    pub idle_timeout: Duration,
    /// Bytes of a body after which an engine is chosen with what is known, and that are kept for a retry.
    pub decision_bytes: usize,
    /// Connections of each worker; one more is closed at once.
    pub connections: usize,
    /// Concurrent streams of one HTTP/2 connection.
    pub http2_streams: u32,
    /// Streams that a client may have reset before they were answered; one more ends the connection.
    pub http2_resets: usize,
}

#[derive(Clone, Copy, Debug, PartialEq)]
pub struct RetryConfig {
    /// Attempts of one request, the first included.
    pub attempts: u32,
    /// Retries earned by each success.
    pub ratio: f64,
    /// Retries granted without successes, for the whole agent.
    pub floor_per_second: f64,
}

/// When an engine passes new conversations to the fallback.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct BoundConfig {
    /// Times the engine's weight of all tokens in flight of the class.
    pub ratio: f64,
    /// Tokens in flight that an engine may always have above that.
    pub slack_tokens: i64,
}

/// Why the `[http]` section is not usable.
#[derive(Clone, Debug, Eq, PartialEq, thiserror::Error)]
pub enum HttpConfigError {
    #[error("http.{key}: {reason}")]
    Value { key: String, reason: String },
}

fn wrong(key: impl Into<String>, reason: impl Into<String>) -> HttpConfigError {
    HttpConfigError::Value { key: key.into(), reason: reason.into() }
}

impl TryFrom<RawHttp> for HttpConfig {
    type Error = HttpConfigError;

    fn try_from(raw: RawHttp) -> Result<Self, Self::Error> {
        let classes = raw.class.into_iter().map(checked_class).collect::<Result<Vec<_>, _>>()?;
        if classes.is_empty() {
            return Err(wrong("class", "at least one is needed"));
        }
        if let Some(twice) =
            (1..classes.len()).find(|at| classes[..*at].iter().any(|c| c.id == classes[*at].id))
        {
            return Err(wrong(format!("class[{twice}].id"), format!("{:?} stands twice", classes[twice].id)));
        }
        let default_class =
            match &raw.default_class {
                Some(id) => Some(classes.iter().position(|class| class.id == *id).ok_or_else(|| {
                    wrong("default_class", format!("{id:?} is not a class of this section"))
                })?),
                None => None,
            };
        if raw.listen.is_empty() {
            return Err(wrong("listen", "at least one is needed"));
        }
        let workers = match raw.workers {
            Some(workers) => {
                NonZeroUsize::new(workers).ok_or_else(|| wrong("workers", "must be 1 or more"))?
            }
            None => std::thread::available_parallelism().unwrap_or(NonZeroUsize::MIN),
        };
        let default_headers = || ["x-conversation-id", "x-session-id"].map(str::to_owned).to_vec();
        let headers = raw.conversation_headers.unwrap_or_else(default_headers);
        let one =
            |key, given: Option<String>, default: &str| header(key, given.as_deref().unwrap_or(default));
        Ok(Self {
            listen: raw.listen.into_iter().enumerate().map(checked_listen).collect::<Result<_, _>>()?,
            classes,
            workers,
            default_class,
            conversation_headers: checked_headers("conversation_headers", &headers)?,
            model_header: one("model_header", raw.model_header, "x-model")?,
            priority_header: one("priority_header", raw.priority_header, "x-priority")?,
            constraint_headers: checked_headers("constraint_headers", &raw.constraint_headers)?,
            unreadable_body: raw.unreadable_body,
            access_log: raw.access_log,
            metrics: raw.metrics,
            drain: millis("drain_ms", raw.drain_ms, 30_000)?,
            upstream: checked_upstream(raw.upstream)?,
            scan: ScanLimits {
                depth: in_range("limits.json_depth", raw.limits.json_depth.unwrap_or(64), 1, 128)?,
                prompt_bytes: in_range(
                    "prompt_prefix_bytes",
                    raw.prompt_prefix_bytes.unwrap_or(1024),
                    16,
                    1 << 20,
                )?,
            },
            limits: checked_limits(&raw.limits)?,
            retry: checked_retry(&raw.retry)?,
            bound: checked_bound(&raw.bound)?,
        })
    }
}

impl HttpConfig {
    /// The same with relative paths in `folder`.
    #[must_use]
    pub fn in_folder(mut self, folder: &Path) -> Self {
        let place = |path: &mut PathBuf| *path = folder.join(&path);
        for listen in &mut self.listen {
            if let ListenAddress::Unix(path) = &mut listen.address {
                place(path);
            }
            if let Some(files) = &mut listen.tls {
                place(&mut files.certificate);
                place(&mut files.key);
            }
        }
        if let Some(tls) = &mut self.upstream.tls {
            place(&mut tls.ca);
        }
        if let Some(log) = &mut self.access_log {
            place(log);
        }
        self
    }
}

fn in_range<T: Copy + PartialOrd + std::fmt::Display>(
    key: &str,
    value: T,
    least: T,
    most: T,
) -> Result<T, HttpConfigError> {
    if value >= least && value <= most {
        return Ok(value);
    }
    Err(wrong(key, format!("{value} is not between {least} and {most}")))
}

fn millis(key: &str, value: Option<u64>, default: u64) -> Result<Duration, HttpConfigError> {
    Ok(Duration::from_millis(in_range(key, value.unwrap_or(default), 1, 86_400_000)?))
}

fn header(key: &str, name: &str) -> Result<String, HttpConfigError> {
    match HeaderName::try_from(name) {
        Ok(name) => Ok(name.as_str().to_owned()),
        Err(_) => Err(wrong(key, format!("{name:?} is not a header's name"))),
    }
}

fn checked_headers(key: &str, names: &[String]) -> Result<Vec<String>, HttpConfigError> {
    names.iter().map(|name| header(key, name)).collect()
}

fn checked_listen((at, raw): (usize, RawListen)) -> Result<Listen, HttpConfigError> {
    let key = format!("listen[{at}]");
    let address = match raw.address.strip_prefix("unix:") {
        Some(path) if !path.is_empty() => ListenAddress::Unix(path.into()),
        _ => ListenAddress::Tcp(raw.address.parse().map_err(|error| {
            wrong(
                format!("{key}.address"),
                format!("{:?} is not ADDRESS:PORT or unix:PATH: {error}", raw.address),
            )
        })?),
    };
    let tls = match (raw.certificate, raw.key) {
        (Some(certificate), Some(key)) => Some(CertificateFiles { certificate, key }),
        (None, None) => None,
        _ => return Err(wrong(key, "certificate and key go together")),
    };
    if tls.is_some() && matches!(address, ListenAddress::Unix(_)) {
        return Err(wrong(key, "a Unix socket takes no TLS"));
    }
    Ok(Listen { address, tls })
}

fn checked_class(raw: RawClass) -> Result<ClassConfig, HttpConfigError> {
    if raw.id.is_empty() {
        return Err(wrong("class.id", "must not be empty"));
    }
    if let Some(path) = raw.paths.iter().find(|path| !path.starts_with('/')) {
        return Err(wrong(format!("class.{}.paths", raw.id), format!("{path:?} does not start with /")));
    }
    if let Some(priority) = raw.priority {
        in_range(&format!("class.{}.priority", raw.id), priority, 0, 3)?;
    }
    Ok(ClassConfig {
        mean_output_tokens: raw.mean_output_tokens.unwrap_or(256),
        id: raw.id,
        models: raw.models,
        labels: raw.labels,
        paths: raw.paths,
        priority: raw.priority,
    })
}

fn checked_upstream(raw: RawUpstream) -> Result<UpstreamConfig, HttpConfigError> {
    Ok(UpstreamConfig {
        protocol: raw.protocol,
        tls: raw.tls.map(|tls| UpstreamTls { ca: tls.ca, server_name: tls.server_name }),
        connect_timeout: millis("upstream.connect_timeout_ms", raw.connect_timeout_ms, 2_000)?,
        response_timeout: millis("upstream.response_timeout_ms", raw.response_timeout_ms, 600_000)?,
        stream_timeout: millis("upstream.stream_timeout_ms", raw.stream_timeout_ms, 300_000)?,
        idle: millis("upstream.idle_ms", raw.idle_ms, 4_000)?,
        requests_per_connection: in_range(
            "upstream.requests_per_connection",
            raw.requests_per_connection.unwrap_or(99),
            1,
            u32::MAX,
        )?,
        idle_connections: raw.idle_connections.unwrap_or(256),
        warm_connections: in_range("upstream.warm_connections", raw.warm_connections.unwrap_or(0), 0, 64)?,
    })
}

fn checked_limits(raw: &RawLimits) -> Result<Limits, HttpConfigError> {
    Ok(Limits {
        head: HeadLimits {
            bytes: in_range("limits.head_bytes", raw.head_bytes.unwrap_or(32 << 10), 1 << 10, 1 << 20)?,
            fields: in_range("limits.head_fields", raw.head_fields.unwrap_or(128), 8, 4096)?,
        },
        head_timeout: millis("limits.head_timeout_ms", raw.head_timeout_ms, 10_000)?,
        body_timeout: millis("limits.body_timeout_ms", raw.body_timeout_ms, 30_000)?,
        write_timeout: millis("limits.write_timeout_ms", raw.write_timeout_ms, 60_000)?,
        idle_timeout: millis("limits.idle_timeout_ms", raw.idle_timeout_ms, 75_000)?,
        decision_bytes: in_range(
            "limits.decision_bytes",
            raw.decision_bytes.unwrap_or(1 << 20),
            1 << 10,
            64 << 20,
        )?,
        connections: in_range("limits.connections", raw.connections.unwrap_or(50_000), 1, 10_000_000)?,
        http2_streams: in_range("limits.http2_streams", raw.http2_streams.unwrap_or(256), 1, 1 << 16)?,
        http2_resets: in_range("limits.http2_resets", raw.http2_resets.unwrap_or(20), 1, 1 << 16)?,
    })
}

fn checked_retry(raw: &RawRetry) -> Result<RetryConfig, HttpConfigError> {
    Ok(RetryConfig {
        attempts: in_range("retry.attempts", raw.attempts.unwrap_or(3), 1, 10)?,
        ratio: in_range("retry.ratio", raw.ratio.unwrap_or(0.2), 0.0, 1.0)?,
        floor_per_second: in_range("retry.floor_per_second", raw.floor_per_second.unwrap_or(10.0), 0.0, 1e6)?,
    })
}

fn checked_bound(raw: &RawBound) -> Result<BoundConfig, HttpConfigError> {
    Ok(BoundConfig {
        ratio: in_range("bound.ratio", raw.ratio.unwrap_or(1.25), 1.0, 100.0)?,
        slack_tokens: in_range("bound.slack_tokens", raw.slack_tokens.unwrap_or(32_768), 0, i64::MAX)?,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    const LEAST: &str =
        "listen = [{ address = \"127.0.0.1:8080\" }]\nclass = [{ id = \"chat\", models = [\"m\"] }]\n";

    fn checked(more: &str) -> Result<HttpConfig, HttpConfigError> {
        toml::from_str::<RawHttp>(&format!("{LEAST}{more}")).unwrap().try_into()
    }

    #[test]
    fn a_section_of_listen_and_class_has_the_documented_defaults() {
        let config = checked("").unwrap();

        assert_eq!(config.conversation_headers, ["x-conversation-id", "x-session-id"]);
        assert_eq!(config.limits.decision_bytes, 1 << 20);
        assert_eq!(config.upstream.idle, Duration::from_secs(4));
        assert_eq!(config.retry, RetryConfig { attempts: 3, ratio: 0.2, floor_per_second: 10.0 });
    }

    #[test]
    fn what_is_wrong_is_named_by_its_full_key() {
        for (more, message) in [
            ("workers = 0", "http.workers: must be 1 or more"),
            ("default_class = \"x\"", "http.default_class: \"x\" is not a class of this section"),
            ("model_header = \"a b\"", "http.model_header: \"a b\" is not a header's name"),
            ("[limits]\njson_depth = 129", "http.limits.json_depth: 129 is not between 1 and 128"),
            ("[retry]\nratio = 1.5", "http.retry.ratio: 1.5 is not between 0 and 1"),
        ] {
            assert_eq!(checked(more).unwrap_err().to_string(), message);
        }
    }

    #[test]
    fn unknown_keys_are_refused() {
        assert!(toml::from_str::<RawHttp>(&format!("{LEAST}worker = 3")).is_err());
    }

    #[test]
    fn listeners_are_tcp_or_unix_and_tls_needs_both_files() {
        let listen = |text: &str| {
            let text = format!("listen = [{{ {text} }}]\nclass = [{{ id = \"c\" }}]");
            HttpConfig::try_from(toml::from_str::<RawHttp>(&text).unwrap())
                .map(|config| config.listen[0].clone())
        };

        assert_eq!(
            listen("address = \"unix:/run/p.sock\"").unwrap().address,
            ListenAddress::Unix("/run/p.sock".into())
        );
        assert!(listen("address = \"[::1]:80\", certificate = \"a\", key = \"b\"").unwrap().tls.is_some());
        assert!(listen("address = \"[::1]:80\", certificate = \"a\"").is_err());
        assert!(listen("address = \"localhost:80\"").is_err());
    }
}
