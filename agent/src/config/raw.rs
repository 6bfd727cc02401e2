//! The agent's file as it is written.
use std::{
    net::{Ipv4Addr, Ipv6Addr, SocketAddr},
    path::PathBuf,
};

use serde::Deserialize;
use toml::Spanned;

use super::Attach;
use crate::proxy::config::RawHttp;

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Raw {
    pub(super) host: Spanned<String>,
    pub(super) controllers: Spanned<Vec<String>>,
    pub(super) tls: RawTls,
    /// Needed by the kernel data path alone.
    pub(super) device: Option<Spanned<Devices>>,
    pub(super) state_dir: PathBuf,
    #[serde(default = "xdp")]
    pub(super) dataplane: Spanned<String>,
    pub(super) object: Option<PathBuf>,
    pub(super) pin_dir: Option<PathBuf>,
    #[serde(default)]
    pub(super) attach: Attach,
    #[serde(default)]
    pub(super) redirect_only: bool,
    #[serde(default)]
    pub(super) reset_lost: bool,
    pub(super) outer4: Option<Ipv4Addr>,
    pub(super) outer6: Option<Ipv6Addr>,
    #[serde(default = "half")]
    pub(super) max_moved: Spanned<f64>,
    #[serde(default)]
    pub(super) admin: RawAdmin,
    #[serde(default)]
    pub(super) peers: RawPeers,
    pub(super) http: Option<Spanned<RawHttp>>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct RawTls {
    pub(super) ca: PathBuf,
    pub(super) cert: PathBuf,
    pub(super) key: PathBuf,
    pub(super) controller_name: Option<String>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct RawAdmin {
    pub(super) socket: Option<PathBuf>,
    pub(super) metrics: Option<SocketAddr>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct RawPeers {
    pub(super) listen: Option<SocketAddr>,
    pub(super) from: Option<Spanned<Vec<String>>>,
}

#[derive(Clone, Debug, Deserialize)]
#[serde(untagged)]
pub(super) enum Devices {
    One(String),
    Several(Vec<String>),
}

fn xdp() -> Spanned<String> {
    Spanned::new(0..0, "xdp".to_owned())
}

fn half() -> Spanned<f64> {
    Spanned::new(0..0, 0.5)
}
