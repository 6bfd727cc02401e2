//! Which key a request is routed by: the first that is present.
use penstock_abi::conversation_key;

use super::scan::Findings;

/// Where a key came from, as it stands in logs and in `x-penstock-decision`.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum KeySource {
    Header,
    Conversation,
    CacheKey,
    PreviousResponse,
    Prefix,
    User,
    /// No key: any engine is as good.
    None,
}

impl KeySource {
    pub(crate) fn label(self) -> &'static str {
        match self {
            Self::Header => "header",
            Self::Conversation => "conversation",
            Self::CacheKey => "prompt_cache_key",
            Self::PreviousResponse => "previous_response_id",
            Self::Prefix => "prefix",
            Self::User => "user",
            Self::None => "none",
        }
    }
}

#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) struct Key {
    pub(crate) value: u64,
    pub(crate) source: KeySource,
}

/// The key of a request. `header` is the first conversation header's value, `known_response` looks up the key of the
/// conversation that a response belongs to, `otherwise` is the key of a request that has none.
pub(crate) fn choose(
    header: Option<&str>,
    findings: &Findings,
    known_response: impl Fn(&str) -> Option<u64>,
    otherwise: impl FnOnce() -> u64,
) -> Key {
    let id = |text: &Option<String>| text.as_deref().map(conversation_key);
    let previous = || findings.previous_response_id.as_deref().and_then(known_response);
    let header = header.filter(|value| !value.is_empty());
    let found = header
        .map(|value| (conversation_key(value), KeySource::Header))
        .or_else(|| id(&findings.conversation).map(|key| (key, KeySource::Conversation)))
        .or_else(|| id(&findings.prompt_cache_key).map(|key| (key, KeySource::CacheKey)))
        .or_else(|| previous().map(|key| (key, KeySource::PreviousResponse)))
        .or_else(|| findings.prefix.map(|key| (key, KeySource::Prefix)))
        .or_else(|| id(&findings.user).map(|key| (key, KeySource::User)));
    let (value, source) = found.unwrap_or_else(|| (otherwise(), KeySource::None));
    Key { value, source }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn all() -> Findings {
        Findings {
            conversation: Some("00000000000000c1".into()),
            prompt_cache_key: Some("00000000000000c2".into()),
            previous_response_id: Some("r".into()),
            prefix: Some(4),
            user: Some("00000000000000c5".into()),
            ..Findings::default()
        }
    }

    #[test]
    fn the_first_key_that_is_present_counts() {
        let known = |id: &str| (id == "r").then_some(3);
        let mut findings = all();
        let key = |header, findings: &Findings| choose(header, findings, known, || 9);

        assert_eq!(key(Some("000000000000000a"), &findings), Key { value: 10, source: KeySource::Header });
        assert_eq!(key(Some(""), &findings), Key { value: 0xc1, source: KeySource::Conversation });
        findings.conversation = None;
        assert_eq!(key(None, &findings), Key { value: 0xc2, source: KeySource::CacheKey });
        findings.prompt_cache_key = None;
        assert_eq!(key(None, &findings), Key { value: 3, source: KeySource::PreviousResponse });
        findings.previous_response_id = Some("unknown".into());
        assert_eq!(key(None, &findings), Key { value: 4, source: KeySource::Prefix });
        findings.prefix = None;
        assert_eq!(key(None, &findings), Key { value: 0xc5, source: KeySource::User });
        findings.user = None;
        assert_eq!(key(None, &findings), Key { value: 9, source: KeySource::None });
    }
}
