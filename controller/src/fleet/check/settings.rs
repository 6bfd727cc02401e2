//! The `[controller]` table.
use std::net::{Ipv6Addr, SocketAddr};
use std::ops::Range;
use std::path::PathBuf;
use std::time::Duration;

use super::Checker;
use crate::fleet::fault::FaultKind;
use crate::fleet::raw::{Given, RawSettings, RawTls};
use crate::fleet::settings::{PolicyName, Settings, TlsFiles};
use crate::fleet::units::Milliseconds;

const DEFAULT_PORT: u16 = 7460;
const DEFAULT_STATE_DIR: &str = "/var/lib/penstock/controller";
const DEFAULT_MOVE_PENALTY_MS: f64 = 5.0;
const DEFAULT_SOLVE_INTERVAL_MS: f64 = 1_000.0;
const DEFAULT_PUBLISH_INTERVAL_MS: f64 = 10_000.0;
const DEFAULT_PUBLISH_SAVING: f64 = 0.005;
const DEFAULT_TABLE_SLOTS: usize = 1 << 16;
const TABLE_SLOTS: std::ops::RangeInclusive<usize> = 256..=1 << 18;
const DEFAULT_RECORD_MIB: u32 = 64;

const POLICIES: (&[(&str, PolicyName)], &str) = (
    &[
        ("optimizer", PolicyName::Optimizer),
        ("feedback", PolicyName::Feedback),
        ("nearest", PolicyName::Nearest),
        ("round-robin", PolicyName::RoundRobin),
        ("least-loaded", PolicyName::LeastLoaded),
    ],
    "optimizer, feedback, nearest, round-robin, least-loaded",
);

impl Checker {
    pub(super) fn settings(&mut self, raw: &RawSettings) -> Option<Settings> {
        let listen = match &raw.listen {
            Some(given) => self.parsed(given, "controller.listen", "an address with a port"),
            None => Some(SocketAddr::from((Ipv6Addr::UNSPECIFIED, DEFAULT_PORT))),
        };
        let metrics = match &raw.metrics {
            Some(given) => self.parsed(given, "controller.metrics", "an address with a port").map(Some),
            None => Some(None),
        };
        let tls = match &raw.tls {
            Some(given) => self.tls(given.get_ref(), &given.span()).map(Some),
            None => Some(None),
        };
        let state_dir = path(&raw.state_dir).unwrap_or_else(|| PathBuf::from(DEFAULT_STATE_DIR));
        let admin_socket = path(&raw.admin_socket).unwrap_or_else(|| state_dir.join("admin.sock"));
        let policy = self.word(&raw.policy, "controller.policy", PolicyName::Optimizer, POLICIES);
        let move_penalty =
            self.quantity_or(&raw.move_penalty_ms, "controller.move_penalty_ms", DEFAULT_MOVE_PENALTY_MS);
        let solve_interval =
            self.interval(&raw.solve_interval_ms, "controller.solve_interval_ms", DEFAULT_SOLVE_INTERVAL_MS);
        let publish_interval = self.interval(
            &raw.publish_interval_ms,
            "controller.publish_interval_ms",
            DEFAULT_PUBLISH_INTERVAL_MS,
        );
        let publish_saving = self.quantity_or(
            &raw.publish_saving_share,
            "controller.publish_saving_share",
            DEFAULT_PUBLISH_SAVING,
        );
        let table_slots = self.table_slots(&raw.table_slots);
        let record_mib = raw.record_mib.as_ref().map_or(DEFAULT_RECORD_MIB, |given| *given.get_ref());
        Some(Settings {
            listen: listen?,
            tls: tls?,
            state_dir,
            admin_socket,
            metrics: metrics?,
            policy: policy?,
            move_penalty: move_penalty?,
            solve_interval: solve_interval?,
            publish_interval: publish_interval?,
            publish_saving: publish_saving?,
            table_slots: table_slots?,
            record_bytes: u64::from(record_mib) << 20,
        })
    }

    fn tls(&mut self, raw: &RawTls, owner: &Range<usize>) -> Option<TlsFiles> {
        let mut file = |given: &Given<String>, key: &str| {
            self.required(given, owner, key).map(|given| PathBuf::from(given.get_ref()))
        };
        let ca = file(&raw.ca, "controller.tls.ca");
        let certificate = file(&raw.certificate, "controller.tls.certificate");
        let key = file(&raw.key, "controller.tls.key");
        Some(TlsFiles { ca: ca?, certificate: certificate?, key: key? })
    }

    /// A time above 0, and short enough for a timer.
    fn interval(&mut self, given: &Given<f64>, key: &str, default: f64) -> Option<Duration> {
        let interval: Milliseconds = self.quantity_or(given, key, default)?;
        let duration = Duration::try_from_secs_f64(interval.get() / 1e3).ok().filter(|time| !time.is_zero());
        if let (None, Some(given)) = (duration, given) {
            self.fault(&given.span(), key, FaultKind::NotPositive);
        }
        duration
    }

    fn table_slots(&mut self, given: &Given<usize>) -> Option<usize> {
        let Some(given) = given else { return Some(DEFAULT_TABLE_SLOTS) };
        let slots = *given.get_ref();
        if slots.is_power_of_two() && TABLE_SLOTS.contains(&slots) {
            return Some(slots);
        }
        self.fault(&given.span(), "controller.table_slots", FaultKind::TableSlots(slots));
        None
    }
}

fn path(given: &Given<String>) -> Option<PathBuf> {
    given.as_ref().map(|given| PathBuf::from(given.get_ref()))
}
