use proptest::prelude::*;

use super::*;

const LIMITS: ScanLimits = ScanLimits { depth: 16, prompt_bytes: 64 };

fn scan_in_steps(body: &[u8], step: usize) -> Result<Findings, ScanError> {
    let mut scanner = JsonScanner::new(LIMITS);
    for piece in body.chunks(step) {
        scanner.push(piece)?;
    }
    // A number alone has no end but the body's.
    let ended = scanner.state == State::End || scanner.state == State::Bare && scanner.depth == 0;
    assert!(ended || serde_json::from_slice::<serde_json::Value>(body).is_err());
    Ok(scanner.findings())
}

fn scan(body: &str) -> Findings {
    scan_in_steps(body.as_bytes(), body.len().max(1)).unwrap()
}

fn prefix(body: &str) -> u64 {
    scan(body).prefix.unwrap()
}

#[test]
fn every_field_is_found_in_pieces_of_any_size() {
    let body = r#" {"tools": [{"model": "no", "x": [[]]}], "model" : "chat-70b","stream":true,
        "conversation":{"x":{"id":"no"},"id":"c1"},"prompt_cache_key":"k","previous_response_id":"r",
        "user":"u","max_completion_tokens":256, "n": -1.5e3, "z": null} "#;

    for step in 1..=body.len() {
        let found = scan_in_steps(body.as_bytes(), step).unwrap();

        assert_eq!(
            found,
            Findings {
                model: Some("chat-70b".to_owned()),
                stream: true,
                conversation: Some("c1".to_owned()),
                prompt_cache_key: Some("k".to_owned()),
                previous_response_id: Some("r".to_owned()),
                user: Some("u".to_owned()),
                prefix: None,
                max_tokens: Some(256),
            },
            "{step}"
        );
    }
}

#[test]
fn a_number_alone_ends_with_the_body() {
    assert_eq!(scan("1"), Findings::default());
}

#[test]
fn escaped_names_and_texts_are_decoded() {
    assert_eq!(scan(r#"{"mod\u0065l":"a\/b"}"#).model.unwrap(), "a/b");
}

#[test]
fn the_last_of_repeated_names_counts() {
    assert_eq!(scan(r#"{"model":"a","model":"b"}"#).model.unwrap(), "b");
}

#[test]
fn a_quote_inside_a_text_does_not_end_it() {
    let found = scan(r#"{"user":"a\",\"model\":\"x","model":"y\\"}"#);

    assert_eq!(found.model.unwrap(), "y\\");
    assert_eq!(found.user.unwrap(), r#"a","model":"x"#);
}

#[test]
fn turns_of_one_conversation_share_their_prefix() {
    let first = r#"{"messages":[{"role":"system","content":"s"},{"role":"user","content":"q"}]}"#;
    let later = r#"{"model":"m","messages":[{"role":"system","content":"s"},
        {"content":"q","role":"user"},{"role":"assistant","content":"a"},{"role":"user","content":"q2"}]}"#;

    assert_eq!(prefix(first), prefix(later));
}

#[test]
fn conversations_that_share_a_system_text_have_different_prefixes() {
    let with = |question: &str| {
        prefix(&format!(
            r#"{{"messages":[{{"role":"system","content":"s"}},{{"role":"user","content":"{question}"}}]}}"#
        ))
    };

    assert_ne!(with("one"), with("two"));
}

#[test]
fn the_system_text_counts_wherever_it_stands() {
    let with = |system: &str| {
        (
            prefix(&format!(r#"{{"system":"{system}","messages":[{{"role":"user","content":"q"}}]}}"#)),
            prefix(&format!(r#"{{"messages":[{{"role":"user","content":"q"}}],"system":"{system}"}}"#)),
        )
    };

    assert_eq!(with("a").0, with("a").1);
    assert_ne!(with("a").0, with("b").0);
}

#[test]
fn blanks_between_the_parts_of_a_content_do_not_count() {
    let dense = r#"{"messages":[{"role":"user","content":[{"type":"text","text":"a b"}]}]}"#;
    let loose = r#"{"messages": [ {"role" : "user", "content": [ { "type": "text", "text": "a b" } ] } ] }"#;
    let other = r#"{"messages":[{"role":"user","content":[{"type":"text","text":"ab"}]}]}"#;

    assert_eq!(prefix(dense), prefix(loose));
    assert_ne!(prefix(dense), prefix(other));
}

#[test]
fn roles_inside_a_content_are_not_the_messages() {
    let body = r#"{"messages":[{"content":[{"role":"user","content":"x"}],"role":"assistant"},{"role":"user","content":"q"}]}"#;
    let plain = r#"{"messages":[{"role":"user","content":"q"}]}"#;

    assert_eq!(prefix(body), prefix(plain));
}

#[test]
fn a_prompt_counts_up_to_its_prefix() {
    let start = "p".repeat(70);

    assert_eq!(
        prefix(&format!(r#"{{"prompt":"{start} one"}}"#)),
        prefix(&format!(r#"{{"prompt":"{start} two"}}"#))
    );
    assert_ne!(prefix(r#"{"prompt":"one"}"#), prefix(r#"{"prompt":"two"}"#));
}

#[test]
fn lists_of_texts_or_tokens_count_whole() {
    assert_ne!(prefix(r#"{"input":["a","b"]}"#), prefix(r#"{"input":["a","c"]}"#));
    assert_ne!(prefix(r#"{"input":[1,2,3]}"#), prefix(r#"{"input":[1,2,4]}"#));
    assert_ne!(prefix(r#"{"input":"a"}"#), prefix(r#"{"input":"b"}"#));
}

#[test]
fn a_long_model_is_unknown() {
    assert_eq!(scan(&format!(r#"{{"model":"{}"}}"#, "m".repeat(513))).model, None);
}

#[test]
fn what_is_not_json_is_refused_with_its_place() {
    for (body, at) in [
        ("hello", 0),
        ("{model}", 1),
        (r#"{"a" "b"}"#, 5),
        (r#"{"a":1,}"#, 7),
        ("[1,]", 3),
        ("[1}", 2),
        ("{]", 1),
        ("{} {}", 3),
        ("]", 0),
    ] {
        for step in [1, 100] {
            assert_eq!(scan_in_steps(body.as_bytes(), step), Err(ScanError::Syntax { at }), "{body}");
        }
    }
}

#[test]
fn nesting_is_bounded() {
    let deep = |levels: usize| format!("{}{}", "[".repeat(levels), "]".repeat(levels));

    assert!(scan_in_steps(deep(16).as_bytes(), 7).is_ok());
    assert_eq!(scan_in_steps(deep(17).as_bytes(), 7), Err(ScanError::TooDeep { limit: 16 }));
    assert_eq!(scan_in_steps("[".repeat(1 << 20).as_bytes(), 4096), Err(ScanError::TooDeep { limit: 16 }));
}

#[test]
fn a_model_that_is_not_utf_8_is_unknown() {
    let found = scan_in_steps(b"{\"model\":\"\xff\"}", 3).unwrap();

    assert_eq!(found.model, None);
}

fn json(depth: u32) -> impl Strategy<Value = serde_json::Value> {
    let leaf = prop_oneof![
        Just(serde_json::Value::Null),
        any::<bool>().prop_map(Into::into),
        any::<i64>().prop_map(Into::into),
        any::<f64>().prop_map(Into::into),
        any::<String>().prop_map(Into::into),
    ];
    leaf.prop_recursive(depth, 64, 6, |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..6).prop_map(Into::into),
            prop::collection::vec((any::<String>(), inner), 0..6)
                .prop_map(|pairs| serde_json::Value::Object(pairs.into_iter().collect())),
        ]
    })
}

proptest! {
    #[test]
    fn any_json_is_accepted_and_its_model_found(value in json(6), model: Option<String>, step in 1_usize..40) {
        let mut body = serde_json::json!({ "x": value });
        if let Some(model) = &model {
            body["model"] = model.as_str().into();
        }

        let found = scan_in_steps(serde_json::to_string_pretty(&body).unwrap().as_bytes(), step).unwrap();

        let expected = model.filter(|model| !model.is_empty() && serde_json::to_string(model).unwrap().len() <= 514);
        prop_assert_eq!(found.model, expected);
    }

    #[test]
    fn arbitrary_bytes_never_panic_and_pieces_do_not_matter(
        body in prop::collection::vec(prop::sample::select(&b"{}[]\",:\\ a1tn\xff"[..]), 0..60),
        step in 1_usize..8,
    ) {
        let whole = scan_in_steps(&body, body.len().max(1));

        prop_assert_eq!(scan_in_steps(&body, step), whole);
    }
}
