//! Decodes the text of JSON strings.

/// The text between the quotes of a JSON string, or `None` where it is not valid: an unknown escape, half of a
/// surrogate pair, or bytes that are not UTF-8.
pub(crate) fn decode(raw: &[u8]) -> Option<String> {
    if memchr::memchr(b'\\', raw).is_none() {
        return std::str::from_utf8(raw).ok().map(str::to_owned);
    }
    let mut text = Vec::with_capacity(raw.len());
    let mut at = 0;
    while let Some(&byte) = raw.get(at) {
        at += 1;
        if byte != b'\\' {
            text.push(byte);
            continue;
        }
        let escape = *raw.get(at)?;
        at += 1;
        let plain = match escape {
            b'"' | b'\\' | b'/' => escape,
            b'b' => 0x08,
            b'f' => 0x0c,
            b'n' => b'\n',
            b'r' => b'\r',
            b't' => b'\t',
            b'u' => {
                let letter = unicode(raw, &mut at)?;
                text.extend_from_slice(letter.encode_utf8(&mut [0; 4]).as_bytes());
                continue;
            }
            _ => return None,
        };
        text.push(plain);
    }
    String::from_utf8(text).ok()
}

/// The character of `\uXXXX` (or of a surrogate pair), whose digits start at `at`.
fn unicode(raw: &[u8], at: &mut usize) -> Option<char> {
    let first = four_digits(raw, at)?;
    let code = match first {
        0xd800..0xdc00 => {
            if raw.get(*at..*at + 2)? != b"\\u" {
                return None;
            }
            *at += 2;
            let second = four_digits(raw, at)?.checked_sub(0xdc00).filter(|low| *low < 0x400)?;
            0x1_0000 + ((first - 0xd800) << 10) + second
        }
        code => code,
    };
    char::from_u32(code)
}

fn four_digits(raw: &[u8], at: &mut usize) -> Option<u32> {
    let digits = raw.get(*at..*at + 4)?;
    *at += 4;
    digits.iter().try_fold(0, |code, digit| Some(code << 4 | char::from(*digit).to_digit(16)?))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn escapes_are_decoded() {
        assert_eq!(
            decode(br#"mod\u0065l \"a\" \\ \/ \n\t\ud83d\ude00"#).unwrap(),
            "model \"a\" \\ / \n\t\u{1f600}"
        );
    }

    #[test]
    fn what_is_not_text_is_refused() {
        for raw in
            [&b"\\"[..], b"\\x41", b"\\u12", b"\\ud800", b"\\ud800\\u0041", b"\\udc00", b"\xff", b"\\n\xff"]
        {
            assert_eq!(decode(raw), None, "{raw:?}");
        }
    }

    proptest! {
        #[test]
        fn any_text_survives_serde_jsons_escapes(text: String) {
            let json = serde_json::to_string(&text).unwrap();

            prop_assert_eq!(decode(&json.as_bytes()[1..json.len() - 1]), Some(text));
        }
    }
}
