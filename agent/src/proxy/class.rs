//! Which class a request is of: a pure function of its model, path and headers.
use super::config::ClassConfig;

/// What a request says about its class.
#[derive(Clone, Debug, Default)]
pub(crate) struct Wishes<'a> {
    pub(crate) model: Option<&'a str>,
    pub(crate) path: &'a str,
    /// Values of the constraint headers: hard filters.
    pub(crate) constraints: Vec<&'a str>,
    pub(crate) priority: Option<u8>,
}

/// Why a request has no class.
#[derive(Clone, Debug, Eq, PartialEq, thiserror::Error)]
pub(crate) enum ClassError {
    #[error("the model {model:?} does not exist here; known: {known}")]
    UnknownModel { model: String, known: String },
    #[error("the request names no model, and no class takes its path")]
    NoModel,
    #[error("no engine that may serve this request satisfies {constraints}")]
    Constraints { constraints: String },
}

/// The position of the class in `classes`. The first class that fits, in the order of the file; one of the wished
/// priority before others. Constraints are never relaxed.
pub(crate) fn select(
    classes: &[ClassConfig],
    default: Option<usize>,
    wishes: &Wishes<'_>,
) -> Result<usize, ClassError> {
    let fits = |class: &&(usize, &ClassConfig)| {
        wishes.constraints.iter().all(|wanted| class.1.labels.iter().any(|label| label == wanted))
    };
    let matching: Vec<(usize, &ClassConfig)> = match wishes.model {
        Some(model) => {
            let serves = |class: &ClassConfig| class.models.iter().any(|known| known == model);
            classes.iter().enumerate().filter(|(_, class)| serves(class)).collect()
        }
        None => by_path(classes, default, wishes.path),
    };
    if matching.is_empty() {
        return Err(match wishes.model {
            Some(model) => ClassError::UnknownModel { model: model.to_owned(), known: known_models(classes) },
            None => ClassError::NoModel,
        });
    }
    let wished =
        |class: &&(usize, &ClassConfig)| wishes.priority.is_some() && class.1.priority == wishes.priority;
    let eligible: Vec<_> = matching.iter().filter(fits).collect();
    let first = eligible.iter().copied().find(wished).or(eligible.first().copied());
    first
        .map(|(at, _)| *at)
        .ok_or_else(|| ClassError::Constraints { constraints: wishes.constraints.join(", ") })
}

/// Classes whose path is the longest that starts the request's, or the default.
fn by_path<'a>(
    classes: &'a [ClassConfig],
    default: Option<usize>,
    path: &str,
) -> Vec<(usize, &'a ClassConfig)> {
    let longest = |class: &ClassConfig| {
        class.paths.iter().filter(|start| path.starts_with(start.as_str())).map(String::len).max()
    };
    let best = classes.iter().filter_map(longest).max();
    if best.is_some() {
        return classes.iter().enumerate().filter(|(_, class)| longest(class) == best).collect();
    }
    default.map(|at| (at, &classes[at])).into_iter().collect()
}

fn known_models(classes: &[ClassConfig]) -> String {
    let mut known: Vec<&str> =
        classes.iter().flat_map(|class| class.models.iter().map(String::as_str)).collect();
    known.sort_unstable();
    known.dedup();
    known.join(", ")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn class(id: &str, models: &[&str], labels: &[&str], paths: &[&str], priority: u8) -> ClassConfig {
        let owned = |texts: &[&str]| texts.iter().map(|text| (*text).to_owned()).collect();
        ClassConfig {
            id: id.to_owned(),
            models: owned(models),
            labels: owned(labels),
            paths: owned(paths),
            priority: Some(priority),
            mean_output_tokens: 1,
        }
    }

    fn classes() -> Vec<ClassConfig> {
        vec![
            class("us", &["big"], &["us"], &[], 1),
            class("eu", &["big"], &["eu", "vision"], &[], 1),
            class("urgent", &["big"], &["us"], &[], 0),
            class("audio", &["whisper"], &[], &["/v1/audio/", "/asr"], 1),
            class("rest", &[], &[], &["/"], 3),
        ]
    }

    #[test]
    fn a_model_has_its_first_class() {
        assert_eq!(select(&classes(), None, &Wishes { model: Some("big"), ..Wishes::default() }), Ok(0));
    }

    #[test]
    fn constraints_filter_and_are_never_relaxed() {
        let with = |constraints: Vec<&'static str>| {
            select(&classes(), Some(0), &Wishes { model: Some("big"), constraints, ..Wishes::default() })
        };

        assert_eq!(with(vec!["eu", "vision"]), Ok(1));
        assert_eq!(
            with(vec!["us", "vision"]),
            Err(ClassError::Constraints { constraints: "us, vision".into() })
        );
    }

    #[test]
    fn a_wished_priority_is_taken_where_a_class_has_it() {
        let with = |priority| {
            select(
                &classes(),
                None,
                &Wishes { model: Some("big"), priority: Some(priority), ..Wishes::default() },
            )
        };

        assert_eq!(with(0), Ok(2));
        assert_eq!(with(3), Ok(0));
    }

    #[test]
    fn without_a_model_the_longest_path_decides_then_the_default() {
        let at = |path| select(&classes(), None, &Wishes { path, ..Wishes::default() });
        let pathless = [class("only", &["m"], &[], &[], 1)];

        assert_eq!(at("/v1/audio/speech"), Ok(3));
        assert_eq!(at("/v1/chat"), Ok(4));
        assert_eq!(select(&pathless, Some(0), &Wishes { path: "/x", ..Wishes::default() }), Ok(0));
        assert_eq!(
            select(&pathless, None, &Wishes { path: "/x", ..Wishes::default() }),
            Err(ClassError::NoModel)
        );
    }

    #[test]
    fn a_model_that_nobody_serves_is_refused_with_the_known_names() {
        let error =
            select(&classes(), Some(0), &Wishes { model: Some("small"), ..Wishes::default() }).unwrap_err();

        assert_eq!(error.to_string(), "the model \"small\" does not exist here; known: big, whisper");
    }
}
