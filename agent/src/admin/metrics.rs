//! The status as Prometheus reads it.
use std::fmt::{Display, Write as _};

use super::Status;

/// Text exposition format, version 0.0.4.
pub(super) fn text(status: &Status) -> String {
    let mut page = Page(String::new());
    page.gauge("epoch", "Epoch in force as one number.", status.epoch_number);
    page.gauge(
        "connected",
        "1 while a controller is connected.",
        u8::from(status.connection.controller.is_some()),
    );
    page.gauge("slots_in_transition", "Slots whose flows are looked up.", status.slots_in_transition);
    page.gauge(
        "save_failed",
        "1 if the snapshot in force is not on disk.",
        u8::from(status.save_error.is_some()),
    );
    page.head("order", "gauge", "1 for each kind of a person's orders in force.");
    let kinds = status.orders.kinds();
    for (label, is_set) in [
        ("frozen", kinds.frozen),
        ("pinned", kinds.pinned),
        ("nearest", kinds.nearest),
        ("detached", kinds.detached),
    ] {
        page.sample("order", Some(("order", label)), u8::from(is_set));
    }
    page.head("mismatches_total", "counter", "Updates whose result had other hashes than the controller's.");
    page.sample("mismatches_total", None, status.mismatches);
    page.head("refusals_total", "counter", "Updates that were not taken.");
    for (reason, count) in &status.refusals {
        page.sample("refusals_total", Some(("reason", reason)), count);
    }
    page.head("packets_total", "counter", "Packets by reason.");
    for (reason, count) in &status.packets {
        page.sample("packets_total", Some(("reason", reason)), count);
    }
    page.0
}

struct Page(String);

impl Page {
    fn gauge(&mut self, name: &str, help: &str, value: impl Display) {
        self.head(name, "gauge", help);
        self.sample(name, None, value);
    }

    // Writing to a `String` cannot fail.
    fn head(&mut self, name: &str, kind: &str, help: &str) {
        _ = writeln!(self.0, "# HELP penstock_agent_{name} {help}\n# TYPE penstock_agent_{name} {kind}");
    }

    /// Labels are ours and need no escape.
    fn sample(&mut self, name: &str, label: Option<(&str, &str)>, value: impl Display) {
        let label = label.map(|(key, value)| format!("{{{key}=\"{value}\"}}")).unwrap_or_default();
        _ = writeln!(self.0, "penstock_agent_{name}{label} {value}");
    }
}
