//! An assignment as people and programs read it: by name, as JSON or as a table.
use std::fmt;

use penstock_wire::{ClassId, FrontendId, GroupId};

use super::instance::Instance;
use crate::policy::Plan;
use crate::solve::evaluate::evaluate;

/// The result of a solve. Its JSON is the output of `penstock-controller solve --json`.
#[derive(Clone, Debug, PartialEq, serde::Deserialize, serde::Serialize)]
pub struct Report {
    /// Mean delay of served requests; null when none is served.
    pub mean_e2e_ms: Option<f64>,
    /// Delay of served and price of shed requests, ms x requests/s; without the move penalty.
    pub objective: f64,
    /// No assignment costs less; null from a policy that proves nothing.
    pub lower_bound: Option<f64>,
    /// Relative gap between the two for the problem as solved, move penalty included.
    pub gap: Option<f64>,
    /// Every pair that the filters allow, sorted by frontend, class and group.
    pub weights: Vec<WeightRow>,
    /// Demand that is not served; pairs that shed nothing are left out.
    pub shed: Vec<ShedRow>,
    pub groups: Vec<GroupRow>,
}

#[derive(Clone, Debug, PartialEq, serde::Deserialize, serde::Serialize)]
pub struct WeightRow {
    pub frontend: FrontendId,
    pub class: ClassId,
    pub group: GroupId,
    pub rps: f64,
    /// Fraction of the frontend's served traffic of the class.
    pub weight: f64,
}

#[derive(Clone, Debug, PartialEq, serde::Deserialize, serde::Serialize)]
pub struct ShedRow {
    pub frontend: FrontendId,
    pub class: ClassId,
    pub rps: f64,
}

#[derive(Clone, Debug, PartialEq, serde::Deserialize, serde::Serialize)]
pub struct GroupRow {
    pub id: GroupId,
    /// Reference requests/s.
    pub load_rps: f64,
    pub utilisation: f64,
    /// What one more reference request/s at the group costs everybody, ms; null from a policy that proves nothing.
    pub shadow_price_ms: Option<f64>,
}

impl Report {
    pub fn of(instance: &Instance, plan: &Plan) -> Self {
        let problem = &instance.problem;
        let evaluation = evaluate(problem, &plan.assignment());
        let mut weights = Vec::with_capacity(problem.arcs.len());
        let mut shed = Vec::new();
        for (supply, pair) in instance.pairs.iter().enumerate() {
            let (frontend, class) = (&pair.frontend, &pair.class);
            for arc in problem.arcs_of(supply) {
                weights.push(WeightRow {
                    frontend: frontend.clone(),
                    class: class.clone(),
                    group: instance.group_of(arc).clone(),
                    rps: plan.rates[arc],
                    weight: plan.weights[arc],
                });
            }
            if plan.shed[supply] > 0.0 {
                shed.push(ShedRow {
                    frontend: frontend.clone(),
                    class: class.clone(),
                    rps: plan.shed[supply],
                });
            }
        }
        let groups = (0..instance.groups.len())
            .map(|group| GroupRow {
                id: instance.groups[group].clone(),
                load_rps: evaluation.loads[group],
                utilisation: evaluation.utilisation[group],
                // A group without capacity has no price: nothing can be sent there.
                shadow_price_ms: plan
                    .proof
                    .as_ref()
                    .map(|proof| proof.group_price[group])
                    .filter(|price| price.is_finite()),
            })
            .collect();
        let served = evaluation.mean_e2e_ms.map_or(0.0, |mean| mean * evaluation.served_rps);
        let refused: f64 =
            problem.supplies.iter().zip(&plan.shed).map(|(supply, shed)| supply.shed_price * shed).sum();
        let certificate = plan.proof.as_ref().map(|proof| &proof.certificate);
        Self {
            mean_e2e_ms: evaluation.mean_e2e_ms,
            objective: served + refused,
            lower_bound: certificate.map(|certificate| certificate.lower_bound),
            gap: certificate.map(|certificate| certificate.gap),
            weights,
            shed,
            groups,
        }
    }
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.mean_e2e_ms {
            Some(mean) => writeln!(f, "mean E2E {mean:.2} ms")?,
            None => writeln!(f, "nothing is served")?,
        }
        if let (Some(bound), Some(gap)) = (self.lower_bound, self.gap) {
            writeln!(f, "objective {:.3}, no assignment below {bound:.3} (gap {gap:.1e})", self.objective)?;
        }
        writeln!(f, "\n{:<16} {:<16} {:<16} {:>10} {:>9}", "frontend", "class", "group", "req/s", "weight")?;
        for row in self.weights.iter().filter(|row| row.rps > 0.0) {
            let (frontend, class, group) = (row.frontend.as_str(), row.class.as_str(), row.group.as_str());
            let percent = 100.0 * row.weight;
            writeln!(f, "{frontend:<16} {class:<16} {group:<16} {:>10.3} {percent:>8.2}%", row.rps)?;
        }
        for row in &self.shed {
            let (frontend, class) = (row.frontend.as_str(), row.class.as_str());
            writeln!(f, "{frontend:<16} {class:<16} {:<16} {:>10.3}", "shed", row.rps)?;
        }
        writeln!(
            f,
            "\n{:<16} {:>14} {:>12} {:>18}",
            "group", "load, req/s", "utilisation", "shadow price, ms"
        )?;
        for row in &self.groups {
            let price = row.shadow_price_ms.map_or_else(|| "-".to_owned(), |price| format!("{price:.1}"));
            let id = row.id.as_str();
            writeln!(f, "{id:<16} {:>14.3} {:>12.4} {price:>18}", row.load_rps, row.utilisation)?;
        }
        Ok(())
    }
}
