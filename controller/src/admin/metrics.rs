//! The status as Prometheus reads it.
use std::fmt::{Display, Write as _};

use super::status::{Mode, Status};
use crate::reserve::Reserve;

/// Text exposition format, version 0.0.4.
pub(super) fn text(status: &Status) -> String {
    let mut page = Page(String::new());
    let counters = &status.counters;
    for (name, help, value) in [
        ("ticks_total", "Solves begun.", counters.ticks),
        ("held_ticks_total", "Ticks whose inputs did not cohere.", counters.held_ticks),
        ("by_distance_ticks_total", "Ticks whose own plan was not proven.", counters.by_distance_ticks),
        ("publishes_total", "Epochs published.", counters.publishes),
        ("publish_errors_total", "Publishes that failed.", counters.publish_errors),
        ("moved_slots_total", "Slots that changed engine.", counters.moved_slots),
        ("record_errors_total", "Solves that were not recorded.", counters.record_errors),
        ("dropped_reports_total", "Demand reports that the loop did not read.", counters.dropped_reports),
    ] {
        page.head(name, "counter", help);
        page.sample(name, &[], value);
    }
    page.gauge("waiting_slots", "Moves that wait for fewer slots in transition.", counters.waiting_slots);
    page.gauge("epoch", "Newest epoch as one number.", status.epoch_number);
    page.gauge(
        "proven",
        "1 while the policy's own plan is in force.",
        u8::from(status.mode == Mode::Planned),
    );
    page.gauge("tick_seconds", "Time that the last tick took.", status.tick_ms / 1e3);
    page.gauge("saving_ratio", "Delay that the last plan saves over the split in force.", status.saving);
    if let Some(excess) = status.excess {
        page.gauge("excess_ratio", "Objective over the optimum without a move penalty, less 1.", excess);
    }
    plan(&mut page, status);
    if let Some(reserve) = &status.reserve {
        self::reserve(&mut page, reserve);
    }
    page.head("demand_rps", "gauge", "Offered requests/s.");
    for row in &status.demand {
        page.sample("demand_rps", &[("frontend", &row.frontend), ("class", &row.class)], row.rps);
    }
    page.head("weight_ratio", "gauge", "Published fraction of a frontend's traffic of a class.");
    for row in &status.published {
        let labels: [(&str, &dyn Display); 3] =
            [("frontend", &row.frontend), ("class", &row.class), ("group", &row.group)];
        page.sample("weight_ratio", &labels, row.weight);
    }
    agents(&mut page, status);
    hosts(&mut page, status);
    page.0
}

fn plan(page: &mut Page, status: &Status) {
    let Some(plan) = &status.plan else { return };
    if let Some(mean) = plan.mean_e2e_ms {
        page.gauge("mean_e2e_seconds", "Predicted mean E2E of served requests.", mean / 1e3);
    }
    if let Some(gap) = plan.gap {
        page.gauge("gap_ratio", "Certified distance from the optimum.", gap);
    }
    page.head("shed_rps", "gauge", "Demand that the plan does not serve.");
    for row in &plan.shed {
        page.sample("shed_rps", &[("frontend", &row.frontend), ("class", &row.class)], row.rps);
    }
    page.head("utilisation_ratio", "gauge", "Predicted load over capacity.");
    for group in &plan.groups {
        page.sample("utilisation_ratio", &[("group", &group.id)], group.utilisation);
    }
    page.head("shadow_price_seconds", "gauge", "Cost of one more reference request/s at the group.");
    for group in &plan.groups {
        if let Some(price) = group.shadow_price_ms {
            page.sample("shadow_price_seconds", &[("group", &group.id)], price / 1e3);
        }
    }
}

fn reserve(page: &mut Page, reserve: &Reserve) {
    page.head(
        "wrong_profile_mean_e2e_seconds",
        "gauge",
        "Mean E2E if capacities are this share of the profiles'.",
    );
    for wrong in [&reserve.if_slower, &reserve.if_faster] {
        if let Some(mean) = wrong.mean_e2e_ms {
            page.sample("wrong_profile_mean_e2e_seconds", &[("factor", &wrong.capacity_factor)], mean / 1e3);
        }
    }
    page.head(
        "n_minus_one_ratio",
        "gauge",
        "Served share of a priority's demand after the loss of the site.",
    );
    for loss in &reserve.n_minus_one {
        for (priority, share) in loss.served_share.iter().enumerate() {
            if let Some(share) = share {
                page.sample("n_minus_one_ratio", &[("site", &loss.site), ("priority", &priority)], share);
            }
        }
    }
    if let Some(difference) = reserve.second_opinion {
        page.gauge("second_opinion_ratio", "Objective over that of the readable solver, less 1.", difference);
    }
}

fn agents(page: &mut Page, status: &Status) {
    page.head("agent_connected", "gauge", "1 while the agent is connected.");
    for agent in &status.agents {
        let labels: [(&str, &dyn Display); 2] = [("host", &agent.host), ("frontend", &agent.frontend)];
        page.sample("agent_connected", &labels, u8::from(agent.connected));
    }
    page.head("agent_lag_seconds", "gauge", "Age of the oldest publication that the agent does not have.");
    for agent in &status.agents {
        let labels: [(&str, &dyn Display); 2] = [("host", &agent.host), ("frontend", &agent.frontend)];
        page.sample("agent_lag_seconds", &labels, agent.lag_seconds);
    }
}

/// What a person ordered, and what went wrong, by host.
fn hosts(page: &mut Page, status: &Status) {
    page.head("agent_lag_epochs", "gauge", "Publications that the agent does not have.");
    for agent in &status.agents {
        page.sample("agent_lag_epochs", &[("host", &agent.host)], agent.lag_epochs);
    }
    page.head("agent_mismatches_total", "counter", "Updates whose result had other hashes at the agent.");
    for agent in &status.agents {
        page.sample("agent_mismatches_total", &[("host", &agent.host)], agent.mismatches);
    }
    page.head("agent_order", "gauge", "1 for each kind of order in force on the host.");
    for agent in &status.agents {
        for order in &agent.orders {
            page.sample("agent_order", &[("host", &agent.host), ("order", order)], 1);
        }
    }
    page.gauge("rolled_back", "1 while a rollback is in force.", u8::from(status.rolled_back.is_some()));
}

struct Page(String);

impl Page {
    fn gauge(&mut self, name: &str, help: &str, value: impl Display) {
        self.head(name, "gauge", help);
        self.sample(name, &[], value);
    }

    // Writing to a `String` cannot fail.
    fn head(&mut self, name: &str, kind: &str, help: &str) {
        let name = format!("penstock_controller_{name}");
        _ = writeln!(self.0, "# HELP {name} {help}\n# TYPE {name} {kind}");
    }

    fn sample(&mut self, name: &str, labels: &[(&str, &dyn Display)], value: impl Display) {
        let labels: Vec<String> = labels
            .iter()
            .map(|(name, value)| format!("{name}=\"{}\"", escaped(&value.to_string())))
            .collect();
        let labels = if labels.is_empty() { String::new() } else { format!("{{{}}}", labels.join(",")) };
        _ = writeln!(self.0, "penstock_controller_{name}{labels} {value}");
    }
}

/// Ids have no quotes and no line ends, but may have backslashes.
fn escaped(label: &str) -> String {
    label.replace('\\', "\\\\")
}
