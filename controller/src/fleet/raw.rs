//! The fleet file as written: every key optional, every value with its place. [`super::check`] says what must be there.
use std::collections::BTreeMap;

use serde::Deserialize;
use toml::Spanned;

/// A value and where it stands in the text; `None` when the key is absent.
pub(super) type Given<T> = Option<Spanned<T>>;

/// Values by two dotted keys, as in `a.b = 1.0`.
pub(super) type Pairs<T> = BTreeMap<Spanned<String>, BTreeMap<Spanned<String>, Spanned<T>>>;

#[derive(Debug, Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub(super) struct RawFleet {
    pub headroom: Given<f64>,
    pub site: Vec<Spanned<RawSite>>,
    pub rtt_ms: Pairs<f64>,
    pub frontend: Vec<Spanned<RawFrontend>>,
    pub class: Vec<Spanned<RawClass>>,
    pub profile: Vec<Spanned<RawProfile>>,
    pub engine_group: Vec<Spanned<RawGroup>>,
    pub demand: Vec<Spanned<RawDemand>>,
    pub engine: Vec<Spanned<RawEngine>>,
    pub service: Vec<Spanned<RawService>>,
    pub host: Vec<Spanned<RawHost>>,
    pub controller: RawSettings,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub(super) struct RawSite {
    pub id: Given<String>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub(super) struct RawFrontend {
    pub id: Given<String>,
    pub site: Given<String>,
    pub nat_prefix: Given<String>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub(super) struct RawClass {
    pub id: Given<String>,
    pub model: Given<String>,
    pub priority: Given<i64>,
    pub mean_prompt_tokens: Given<f64>,
    pub mean_output_tokens: Given<f64>,
    pub require: Vec<Spanned<String>>,
    pub round_trips: Given<f64>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub(super) struct RawProfile {
    pub id: Given<String>,
    pub capacity_rps: Given<f64>,
    pub reference: Given<RawReference>,
    pub prefill_weight: Given<f64>,
    pub points: Given<Vec<Spanned<RawPoint>>>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub(super) struct RawReference {
    pub prompt_tokens: Given<f64>,
    pub output_tokens: Given<f64>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub(super) struct RawPoint {
    pub utilisation: Given<f64>,
    pub ttft_ms: Given<f64>,
    pub itl_ms: Given<f64>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub(super) struct RawGroup {
    pub id: Given<String>,
    pub site: Given<String>,
    pub model: Given<String>,
    pub models: Vec<Spanned<String>>,
    pub profile: Given<String>,
    pub replicas: Given<u32>,
    pub labels: Vec<Spanned<String>>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub(super) struct RawDemand {
    pub frontend: Given<String>,
    pub class: Given<String>,
    pub rps: Given<f64>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub(super) struct RawEngine {
    pub id: Given<String>,
    pub group: Given<String>,
    pub address: Given<String>,
    pub address6: Given<String>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub(super) struct RawService {
    pub id: Given<String>,
    pub class: Given<String>,
    pub vip: Given<String>,
    pub port: Given<u16>,
    pub protocol: Given<String>,
    pub key: Given<String>,
    pub source_prefix4: Given<u8>,
    pub source_prefix6: Given<u8>,
    pub payload_offset_bytes: Given<u8>,
    pub payload_length_bytes: Given<u8>,
    pub forwarding: Given<String>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub(super) struct RawHost {
    pub id: Given<String>,
    pub frontend: Given<String>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub(super) struct RawSettings {
    pub listen: Given<String>,
    pub tls: Given<RawTls>,
    pub state_dir: Given<String>,
    pub admin_socket: Given<String>,
    pub metrics: Given<String>,
    pub policy: Given<String>,
    pub move_penalty_ms: Given<f64>,
    pub solve_interval_ms: Given<f64>,
    pub publish_interval_ms: Given<f64>,
    pub publish_saving_share: Given<f64>,
    pub table_slots: Given<usize>,
    pub record_mib: Given<u32>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub(super) struct RawTls {
    pub ca: Given<String>,
    pub certificate: Given<String>,
    pub key: Given<String>,
}
