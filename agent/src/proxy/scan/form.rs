//! Finds the `model` and `user` fields of a multipart form as it streams in.
use memchr::memmem;

/// Longest boundary (RFC 2046), and the most of a part's head and of a field's value that is looked at.
const MAX_BOUNDARY: usize = 70;
const MAX_PART_HEAD: usize = 4 * 1024;
const MAX_VALUE: usize = 512;

/// One form's scan. Keeps at most a part's head, never a file.
#[derive(Debug)]
pub(crate) struct FormScanner {
    /// CR LF, two dashes and the boundary: what ends a part.
    delimiter: Vec<u8>,
    /// Bytes not yet understood.
    held: Vec<u8>,
    state: State,
    pub(crate) model: Option<String>,
    pub(crate) user: Option<String>,
}

#[derive(Clone, Copy, Debug, Eq, PartialEq)]
enum State {
    Preamble,
    /// After a delimiter: a part's head follows, or two dashes.
    PartHead,
    Value(Wanted),
    Skip,
    /// The form has ended, or is not one.
    End,
}

#[derive(Clone, Copy, Debug, Eq, PartialEq)]
enum Wanted {
    Model,
    User,
}

impl FormScanner {
    /// A scanner for the boundary of a `multipart/form-data` content type; `None` for any other type.
    pub(crate) fn for_content_type(value: &[u8]) -> Option<Self> {
        let text = std::str::from_utf8(value).ok()?;
        let mut parameters = text.split(';').map(str::trim);
        if !parameters.next()?.eq_ignore_ascii_case("multipart/form-data") {
            return None;
        }
        let boundary = parameters.find_map(|parameter| {
            let (name, value) = parameter.split_once('=')?;
            name.trim().eq_ignore_ascii_case("boundary").then(|| value.trim().trim_matches('"'))
        })?;
        if boundary.is_empty() || boundary.len() > MAX_BOUNDARY {
            return None;
        }
        Some(Self {
            delimiter: format!("\r\n--{boundary}").into_bytes(),
            // The first delimiter may stand at the very start, without its CR LF.
            held: b"\r\n".to_vec(),
            state: State::Preamble,
            model: None,
            user: None,
        })
    }

    /// Reads on.
    pub(crate) fn push(&mut self, input: &[u8]) {
        if self.state == State::End {
            return;
        }
        self.held.extend_from_slice(input);
        let mut at = 0;
        while let Some(taken) = self.step(at) {
            at += taken;
        }
        self.held.drain(..at);
    }

    /// One step from `at` in the held bytes. `None`: more is needed.
    fn step(&mut self, at: usize) -> Option<usize> {
        let held = &self.held[at..];
        match self.state {
            State::Preamble | State::Skip => match memmem::find(held, &self.delimiter) {
                Some(found) => {
                    self.state = State::PartHead;
                    Some(found + self.delimiter.len())
                }
                // A delimiter may be cut by the end of what is here.
                None => Some(held.len().saturating_sub(self.delimiter.len() - 1)).filter(|taken| *taken > 0),
            },
            State::PartHead if held.starts_with(b"--") => self.end(),
            State::PartHead => match memmem::find(held, b"\r\n\r\n") {
                Some(found) if found > MAX_PART_HEAD => self.end(),
                Some(found) => {
                    self.state = wanted(&held[..found]).map_or(State::Skip, State::Value);
                    // The delimiter after an empty value shares its CR LF with the end of the head.
                    Some(found + 2).filter(|_| self.state == State::Skip).or(Some(found + 4))
                }
                None if held.len() > MAX_PART_HEAD + 4 => self.end(),
                None => None,
            },
            State::Value(field) => match memmem::find(held, &self.delimiter) {
                Some(found) => {
                    let text = std::str::from_utf8(&held[..found]).ok();
                    let text = text.filter(|text| !text.is_empty() && text.len() <= MAX_VALUE);
                    let place = if field == Wanted::Model { &mut self.model } else { &mut self.user };
                    *place = text.map(str::to_owned);
                    self.state = State::PartHead;
                    Some(found + self.delimiter.len())
                }
                None if held.len() > MAX_VALUE + self.delimiter.len() => {
                    self.state = State::Skip;
                    Some(0)
                }
                None => None,
            },
            State::End => None,
        }
    }

    fn end(&mut self) -> Option<usize> {
        self.state = State::End;
        None
    }
}

/// Which field a part's head names, if it is one that counts. Files never do.
fn wanted(head: &[u8]) -> Option<Wanted> {
    let head = std::str::from_utf8(head).ok()?;
    let disposition = head.lines().find_map(|line| {
        let (name, value) = line.split_once(':')?;
        name.eq_ignore_ascii_case("content-disposition").then_some(value)
    })?;
    let parameter = |wanted: &str| {
        disposition.split(';').find_map(|parameter| {
            let (name, value) = parameter.trim().split_once('=')?;
            name.eq_ignore_ascii_case(wanted).then(|| value.trim_matches('"'))
        })
    };
    match parameter("name") {
        _ if parameter("filename").is_some() => None,
        Some("model") => Some(Wanted::Model),
        Some("user") => Some(Wanted::User),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TYPE: &[u8] = b"multipart/form-data; boundary=\"AaB03x\"";

    fn scan(body: &[u8], step: usize) -> FormScanner {
        let mut scanner = FormScanner::for_content_type(TYPE).unwrap();
        body.chunks(step).for_each(|piece| scanner.push(piece));
        scanner
    }

    #[test]
    fn the_model_is_found_behind_a_file_in_pieces_of_any_size() {
        let body = b"--AaB03x\r\nContent-Disposition: form-data; name=\"file\"; filename=\"model\"\r\n\
            Content-Type: audio/wav\r\n\r\n\r\n--AaB03\r\nname=\"model\"\r\n--AaB03x\r\n\
            content-disposition: form-data; name=\"model\"\r\n\r\nwhisper\r\n\
            --AaB03x\r\ncontent-disposition: form-data; name=user\r\n\r\n\r\n--AaB03x--\r\nmodel";

        for step in 1..=body.len() {
            let scanner = scan(body, step);

            assert_eq!(scanner.model.as_deref(), Some("whisper"), "{step}");
            assert_eq!(scanner.user, None);
        }
    }

    #[test]
    fn a_large_file_is_not_held() {
        let mut body =
            b"--AaB03x\r\nContent-Disposition: form-data; name=\"file\"; filename=\"f\"\r\n\r\n".to_vec();
        body.resize(1 << 20, b'x');

        let scanner = scan(&body, 10_000);

        assert!(scanner.held.len() < 100, "{}", scanner.held.len());
    }

    #[test]
    fn an_endless_part_head_ends_the_scan() {
        let mut body = b"--AaB03x\r\n".to_vec();
        body.resize(100_000, b'x');

        assert_eq!(scan(&body, 1000).state, State::End);
    }

    #[test]
    fn other_content_types_have_no_scanner() {
        for value in
            [&b"application/json"[..], b"multipart/form-data", b"multipart/form-data; boundary=", b"\xff"]
        {
            assert!(FormScanner::for_content_type(value).is_none());
        }
    }
}
