//! `/v1/models`: the models of all classes, answered here.
use serde_json::json;

use super::{config::ClassConfig, request::Request};

/// Whether the request asks for the list.
pub(crate) fn is_asked(request: &Request) -> bool {
    request.method() == b"GET" && request.path() == "/v1/models"
}

/// The list in OpenAI's shape, each model once, with the classes that serve it.
pub(crate) fn list(classes: &[ClassConfig]) -> String {
    let mut models: Vec<&str> =
        classes.iter().flat_map(|class| class.models.iter().map(String::as_str)).collect();
    models.sort_unstable();
    models.dedup();
    let entry = |model: &&str| {
        let serves = |class: &&ClassConfig| class.models.iter().any(|known| known == model);
        let serving: Vec<&str> = classes.iter().filter(serves).map(|class| class.id.as_str()).collect();
        json!({ "id": model, "object": "model", "created": 0, "owned_by": "penstock", "classes": serving })
    };
    json!({ "object": "list", "data": models.iter().map(entry).collect::<Vec<_>>() }).to_string()
}
