//! The part of the RESP protocol that a proxy needs: where commands and replies end, and their
//! leading strings.

use bytes::{Buf as _, Bytes, BytesMut};

/// Bytes that are not RESP. The rest of the connection cannot be parsed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("these bytes do not follow the RESP protocol")]
pub(crate) struct NotResp;

/// One command of a request stream.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Command {
    /// The unchanged bytes.
    pub(crate) raw: Bytes,
    /// The name and the arguments. Empty for an empty line or array, which servers do not answer.
    pub(crate) parts: Vec<Bytes>,
}

impl Command {
    /// Whether the name or any argument of the command contains `needle`.
    pub(crate) fn contains(&self, needle: &[u8]) -> bool {
        self.parts.iter().any(|part| needle.is_empty() || part.windows(needle.len()).any(|window| window == needle))
    }
}

/// Takes the first command off `buffer`; `None` if it is incomplete.
pub(crate) fn take_command(buffer: &mut BytesMut) -> Result<Option<Command>, NotResp> {
    if buffer.first() != Some(&b'*') {
        // An inline command: words on a line.
        let Some(end) = buffer.iter().position(|byte| *byte == b'\n').map(|at| at + 1) else { return Ok(None) };
        let raw = buffer.split_to(end).freeze();
        let words = raw.split(u8::is_ascii_whitespace).filter(|word| !word.is_empty());
        let parts = words.map(|word| raw.slice_ref(word)).collect();
        return Ok(Some(Command { raw, parts }));
    }
    let Some(end) = frame_end(buffer, 0)? else { return Ok(None) };
    let raw = buffer.split_to(end).freeze();
    let parts = elements(&raw).ok_or(NotResp)?;
    Ok(Some(Command { raw, parts }))
}

/// Takes the first reply off `buffer`; `None` if it is incomplete.
pub(crate) fn take_reply(buffer: &mut BytesMut) -> Result<Option<Bytes>, NotResp> {
    Ok(frame_end(buffer, 0)?.map(|end| buffer.split_to(end).freeze()))
}

/// Returns the elements of an array or push frame, up to the first nested aggregate: the content of
/// strings, and the text after the type of others. `None` for other frames.
pub(crate) fn elements(frame: &Bytes) -> Option<Vec<Bytes>> {
    let mut rest = frame.clone();
    if !matches!(rest.first(), Some(b'*' | b'>')) {
        return None;
    }
    let count = take_line(&mut rest)?.parse::<i64>().ok()?;
    let mut parts = Vec::new();
    for _ in 0..count {
        match rest.first()? {
            b'$' => {
                let Ok(length) = usize::try_from(take_line(&mut rest)?.parse::<i64>().ok()?) else {
                    parts.push(Bytes::new());
                    continue;
                };
                if rest.len() < length + 2 {
                    return None;
                }
                parts.push(rest.split_to(length));
                rest.advance(2);
            }
            b'+' | b'-' | b':' | b'_' | b'#' | b',' | b'(' => parts.push(Bytes::from(take_line(&mut rest)?)),
            _ => break,
        }
    }
    Some(parts)
}

/// Takes the rest of the line after the type byte.
fn take_line(rest: &mut Bytes) -> Option<String> {
    let end = rest.windows(2).position(|two| two == b"\r\n")?;
    let line = rest.split_to(end);
    rest.advance(2);
    Some(String::from_utf8_lossy(&line[1..]).into_owned())
}

/// Returns the end of the frame at `at`; `None` if it is incomplete.
fn frame_end(buffer: &[u8], at: usize) -> Result<Option<usize>, NotResp> {
    let Some(kind) = buffer.get(at) else { return Ok(None) };
    let Some(line) = buffer[at..].windows(2).position(|two| two == b"\r\n") else { return Ok(None) };
    let after = at + line + 2;
    let length = || -> Result<i64, NotResp> {
        std::str::from_utf8(&buffer[at + 1..at + line]).ok().and_then(|text| text.parse().ok()).ok_or(NotResp)
    };
    let children = match kind {
        b'+' | b'-' | b':' | b',' | b'(' | b'#' | b'_' => 0,
        b'$' | b'=' | b'!' => {
            let Ok(length) = usize::try_from(length()?) else { return Ok(Some(after)) };
            let end = after + length + 2;
            return Ok((end <= buffer.len()).then_some(end));
        }
        b'*' | b'~' | b'>' => length()?,
        b'%' => 2 * length()?,
        // Attributes precede the reply they describe.
        b'|' => 2 * length()? + 1,
        _ => return Err(NotResp),
    };
    let mut end = after;
    for _ in 0..children {
        match frame_end(buffer, end)? {
            Some(next) => end = next,
            None => return Ok(None),
        }
    }
    Ok(Some(end))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn commands_are_taken_one_by_one_however_they_are_cut() {
        let stream = b"*2\r\n$3\r\nGET\r\n$1\r\na\r\nPING\r\n*1\r\n$4\r\nPING\r\n";
        for cut in 0..stream.len() {
            let mut buffer = BytesMut::from(&stream[..cut]);
            let mut names = Vec::new();
            while let Some(command) = take_command(&mut buffer).unwrap() {
                names.push(command.parts);
            }
            buffer.extend_from_slice(&stream[cut..]);
            while let Some(command) = take_command(&mut buffer).unwrap() {
                names.push(command.parts);
            }
            assert_eq!(names, [vec!["GET", "a"], vec!["PING"], vec!["PING"]], "cut at {cut}");
        }
    }

    #[test]
    fn a_reply_ends_where_its_last_element_ends() {
        let replies = [
            "+OK\r\n",
            "$-1\r\n",
            "$3\r\na\r\n\r\n",
            "*2\r\n*1\r\n:1\r\n$0\r\n\r\n",
            "%1\r\n+a\r\n:1\r\n",
            "|1\r\n+ttl\r\n:9\r\n$1\r\nx\r\n",
            ">3\r\n$7\r\nmessage\r\n$1\r\nc\r\n$1\r\nm\r\n",
            "_\r\n",
        ];
        for reply in replies {
            for cut in 0..reply.len() {
                assert_eq!(take_reply(&mut BytesMut::from(&reply[..cut])), Ok(None), "{reply:?} cut at {cut}");
            }
            let mut buffer = BytesMut::from(format!("{reply}+next\r\n").as_bytes());
            assert_eq!(take_reply(&mut buffer), Ok(Some(Bytes::copy_from_slice(reply.as_bytes()))));
        }
        assert_eq!(take_reply(&mut BytesMut::from("HTTP/1.1 200\r\n")), Err(NotResp));
    }

    #[test]
    fn a_needle_is_found_in_any_part_of_a_command() {
        let command = take_command(&mut BytesMut::from("*2\r\n$4\r\nECHO\r\n$5\r\nhello\r\n")).unwrap().unwrap();
        assert!(command.contains(b"ell") && command.contains(b"ECHO") && !command.contains(b"OKhello"));
    }
}
