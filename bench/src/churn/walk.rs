//! Demand from step to step: noise, a random walk, and walks of public traces.
use std::{
    collections::BTreeMap,
    path::{Path, PathBuf},
};

use anyhow::Context;

use crate::solver::fleet::Random;

/// Factors on every supply's demand, one row a step.
pub type Factors = Vec<Vec<f64>>;

/// Independent noise round the same demand.
#[must_use]
pub fn noise(supplies: usize, steps: usize, spread: f64) -> Factors {
    let random = &mut Random::new(11);
    (0..=steps).map(|_| (0..supplies).map(|_| (spread * random.normal()).exp()).collect()).collect()
}

/// Each step's demand differs by noise from the last one's.
#[must_use]
pub fn random_walk(supplies: usize, steps: usize, spread: f64) -> Factors {
    let random = &mut Random::new(12);
    let mut now = vec![1.0; supplies];
    let mut walk = vec![now.clone()];
    for _ in 0..steps {
        now.iter_mut().for_each(|factor| *factor *= (spread * random.normal()).exp());
        walk.push(now.clone());
    }
    walk
}

/// The folder of traces beside the workspace, if it is there.
#[must_use]
pub fn traces() -> Option<PathBuf> {
    let folder = PathBuf::from(concat!(env!("CARGO_MANIFEST_DIR"), "/../../shared/data/traces"));
    folder.is_dir().then_some(folder)
}

/// ServeGen: every supply follows one client's rate in windows of 10 minutes, the busiest day at 1.
///
/// # Errors
/// The file is not there or has another form.
pub fn servegen(folder: &Path, supplies: usize, steps: usize) -> anyhow::Result<Factors> {
    let path = folder.join("servegen_m_small.csv");
    let text = std::fs::read_to_string(&path).with_context(|| format!("reading {}", path.display()))?;
    let mut rates: BTreeMap<u32, BTreeMap<u32, f64>> = BTreeMap::new();
    for line in text.lines().skip(1).filter(|line| !line.is_empty()) {
        let fields: Vec<&str> = line.split(',').collect();
        let &[client, start, rate, ..] = fields.as_slice() else {
            anyhow::bail!("{} has the line {line:?}", path.display());
        };
        let (client, start): (u32, f64) = (client.parse()?, start.parse()?);
        let window = format!("{:.0}", start / 600.0).parse()?;
        rates.entry(client).or_default().insert(window, rate.parse()?);
    }
    let first = rates.values().filter_map(|windows| windows.keys().next()).max().copied().unwrap_or(0);
    let clients: Vec<&BTreeMap<u32, f64>> = rates.values().collect();
    let at = |supply: usize, step: usize| {
        let window = first + u32::try_from(step).unwrap_or(u32::MAX);
        clients[supply % clients.len()].get(&window).copied().unwrap_or(0.0)
    };
    let walk: Factors =
        (0..=steps).map(|step| (0..supplies).map(|supply| at(supply, step)).collect()).collect();
    Ok(relative(walk))
}

/// Azure: all supplies follow the arrivals in windows of 10 s.
///
/// # Errors
/// The file is not there or has another form.
pub fn azure(folder: &Path, supplies: usize, steps: usize) -> anyhow::Result<Factors> {
    let path = folder.join("azure2023/AzureLLMInferenceTrace_conv.csv");
    let text = std::fs::read_to_string(&path).with_context(|| format!("reading {}", path.display()))?;
    let mut windows: BTreeMap<u32, f64> = BTreeMap::new();
    for line in text.lines().skip(1).filter(|line| !line.is_empty()) {
        let clock =
            line.split([' ', ',']).nth(1).with_context(|| format!("a line without a time: {line:?}"))?;
        let parts: Vec<f64> = clock.split(':').map(str::parse).collect::<Result<_, _>>()?;
        let seconds = parts.iter().fold(0.0, |sum, part| sum * 60.0 + part);
        *windows.entry(format!("{:.0}", (seconds / 10.0).floor()).parse()?).or_default() += 1.0;
    }
    let counts: Vec<f64> = windows.into_values().skip(1).take(steps + 1).collect();
    Ok(relative(counts.into_iter().map(|count| vec![count; supplies]).collect()))
}

/// Scales a walk so that its mean step has a mean factor of 0.8 and no step one above 1.
fn relative(mut walk: Factors) -> Factors {
    let sums: Vec<f64> = walk.iter().map(|step| step.iter().sum()).collect();
    let most = sums.iter().copied().fold(f64::MIN_POSITIVE, f64::max);
    let width = f64::from(u32::try_from(walk.first().map_or(1, Vec::len)).unwrap_or(1));
    for step in &mut walk {
        step.iter_mut().for_each(|factor| *factor = (*factor * width / most).max(1e-3));
    }
    walk
}
