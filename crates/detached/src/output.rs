//! What a command writes, kept within a limit: the beginning and the end.
//!
//! The beginning, up to half of the limit, is one file. What follows goes to pieces of a quarter each, and only the last
//! two are kept. All is appended and nothing is moved, so the files make sense at any moment, whoever is killed.

use std::fs::{self, File};
use std::io::{self, ErrorKind, Read, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};
use std::time::SystemTime;

use crate::durable;

/// How far back the last line is looked for, in bytes.
const LINE_REACH: u64 = 4096;

/// Where the parts of a stream lie, by the limit.
#[derive(Debug, Clone)]
struct Layout {
    dir: PathBuf,
    name: &'static str,
    head: u64,
    piece: u64,
}

impl Layout {
    fn new(dir: &Path, name: &'static str, limit: u64) -> Layout {
        Layout { dir: dir.to_owned(), name, head: limit / 2, piece: (limit / 4).max(1) }
    }

    /// The file of a part: 0 is the beginning, 1 and up are the pieces after it.
    fn path(&self, part: u64) -> PathBuf {
        match part {
            0 => self.dir.join(self.name),
            part => self.dir.join(format!("{}.{part}", self.name)),
        }
    }

    /// In which part a byte lies, and how many bytes fit in there from it on.
    fn place(&self, offset: u64) -> (u64, u64) {
        match offset.checked_sub(self.head) {
            None => (0, self.head - offset),
            Some(after) => (1 + after / self.piece, self.piece - after % self.piece),
        }
    }

    /// The pieces that are there, in order.
    fn pieces(&self) -> io::Result<Vec<u64>> {
        let mut found = Vec::new();
        for entry in fs::read_dir(&self.dir)? {
            let name = entry?.file_name();
            let number = name.to_str().and_then(|name| name.strip_prefix(self.name)?.strip_prefix('.'));
            found.extend(number.and_then(|number| number.parse::<u64>().ok()));
        }
        found.sort_unstable();
        Ok(found)
    }
}

/// Writes a stream.
pub(crate) struct Keep {
    layout: Layout,
    offset: u64,
    open: Option<(u64, File)>,
    lost: u64,
}

impl Keep {
    /// Of a stream that has not begun.
    pub(crate) fn new(dir: &Path, name: &'static str, limit: u64) -> Keep {
        Keep { layout: Layout::new(dir, name, limit), offset: 0, open: None, lost: 0 }
    }

    /// Reads everything there is and keeps what fits. A disk that is full must not hold up the command: from then on
    /// the rest is counted only.
    pub(crate) fn all(mut self, mut from: impl Read) -> u64 {
        let mut buffer = vec![0; 64 << 10];
        loop {
            match from.read(&mut buffer) {
                Ok(0) => return self.lost,
                Ok(count) => self.take(&buffer[..count]),
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(_) => return self.lost,
            }
        }
    }

    fn take(&mut self, mut bytes: &[u8]) {
        while !bytes.is_empty() {
            if self.lost > 0 {
                self.lost += bytes.len() as u64;
                return;
            }
            let (part, room) = self.layout.place(self.offset);
            let (now, later) = bytes.split_at(usize::try_from(room).unwrap_or(usize::MAX).min(bytes.len()));
            match self.write(part, now) {
                Ok(()) => {
                    self.offset += now.len() as u64;
                    bytes = later;
                }
                Err(error) => {
                    eprintln!("cannot keep {}: {error}", self.layout.name);
                    self.lost = bytes.len() as u64;
                    return;
                }
            }
        }
    }

    fn write(&mut self, part: u64, bytes: &[u8]) -> io::Result<()> {
        match &mut self.open {
            Some((open, file)) if *open == part => file.write_all(bytes),
            open => {
                let (_, file) = open.insert((part, durable::create(&self.layout.path(part))?));
                file.write_all(bytes)?;
                if part > 2 {
                    fs::remove_file(self.layout.path(part - 2))?;
                }
                Ok(())
            }
        }
    }
}

/// What is kept of a stream.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Output {
    /// Its beginning; all of it, if nothing was left out.
    pub head: Vec<u8>,
    /// Its end, if something was left out.
    pub tail: Vec<u8>,
    /// How many bytes between the two were left out.
    pub left_out: u64,
}

impl Output {
    pub(crate) fn read(dir: &Path, name: &'static str, limit: u64) -> io::Result<Output> {
        let layout = Layout::new(dir, name, limit);
        // While the command runs, a piece can be gone that was there a moment ago.
        for _ in 0..8 {
            match Output::try_read(&layout) {
                Err(error) if error.kind() == ErrorKind::NotFound => {}
                read => return read,
            }
        }
        Err(io::Error::other("it is written faster than it can be read"))
    }

    fn try_read(layout: &Layout) -> io::Result<Output> {
        let pieces = layout.pieces()?;
        // A third piece may still be there, if whoever writes was killed before it removed it.
        let kept = &pieces[pieces.len().saturating_sub(2)..];
        let mut output = Output { head: read_or_empty(&layout.path(0))?, ..Output::default() };
        output.left_out = kept.first().map_or(0, |first| (first - 1) * layout.piece);
        let rest = if output.left_out == 0 { &mut output.head } else { &mut output.tail };
        for piece in kept {
            rest.extend(fs::read(layout.path(*piece))?);
        }
        Ok(output)
    }

    /// Whether something was left out.
    pub fn is_cut(&self) -> bool {
        self.left_out > 0
    }

    /// As a text, with a line in the place of what was left out. What is no UTF-8 becomes U+FFFD, but no character is
    /// damaged by the cut.
    pub fn text(&self) -> String {
        if !self.is_cut() {
            return String::from_utf8_lossy(&self.head).into_owned();
        }
        let head = &self.head[..self.head.len() - half_at_the_end(&self.head)];
        let tail = &self.tail[self.tail.iter().take(3).take_while(|byte| is_continuation(**byte)).count()..];
        let dropped = self.head.len() - head.len() + self.tail.len() - tail.len();
        let left_out = self.left_out + dropped as u64;
        let (head, tail) = (String::from_utf8_lossy(head), String::from_utf8_lossy(tail));
        format!("{head}\n[… {left_out} bytes left out …]\n{tail}")
    }
}

fn read_or_empty(path: &Path) -> io::Result<Vec<u8>> {
    match fs::read(path) {
        // Nothing was written.
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(Vec::new()),
        read => read,
    }
}

fn is_continuation(byte: u8) -> bool {
    byte & 0xC0 == 0x80
}

/// How many bytes at the end begin a character of UTF-8 that goes on after them.
fn half_at_the_end(bytes: &[u8]) -> usize {
    let behind = bytes.iter().rev().take(3).position(|byte| !is_continuation(*byte));
    let Some(behind) = behind else { return 0 };
    let length = match bytes[bytes.len() - 1 - behind] {
        0xC0..=0xDF => 2,
        0xE0..=0xEF => 3,
        0xF0..=0xF7 => 4,
        _ => 1,
    };
    if length > behind + 1 { behind + 1 } else { 0 }
}

/// How far a command's output has got.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Seen {
    /// How many bytes it has written on stdout and stderr.
    pub bytes: u64,
    /// The last whole line of the stream that was written to last.
    pub line: Option<String>,
}

impl Seen {
    pub(crate) fn look(dir: &Path, names: [&'static str; 2], limit: u64) -> Seen {
        let mut seen = Seen::default();
        let mut latest: Option<(SystemTime, PathBuf)> = None;
        for layout in names.map(|name| Layout::new(dir, name, limit)) {
            let last = layout.pieces().unwrap_or_default().last().copied().unwrap_or(0);
            let path = layout.path(last);
            let Ok(facts) = fs::metadata(&path) else { continue };
            let before = if last == 0 { 0 } else { layout.head + (last - 1) * layout.piece };
            seen.bytes += before + facts.len();
            let written = facts.modified().unwrap_or(SystemTime::UNIX_EPOCH);
            if facts.len() > 0 && latest.as_ref().is_none_or(|(at, _)| *at <= written) {
                latest = Some((written, path));
            }
        }
        seen.line = latest.and_then(|(_, path)| last_line(&path).ok().flatten());
        seen
    }
}

/// The last line that is whole. A carriage return ends one, too: that is how progress is drawn.
fn last_line(path: &Path) -> io::Result<Option<String>> {
    let mut file = File::open(path)?;
    let length = file.metadata()?.len();
    file.seek(SeekFrom::Start(length.saturating_sub(LINE_REACH)))?;
    let mut bytes = Vec::new();
    file.take(LINE_REACH).read_to_end(&mut bytes)?;
    let is_end = |byte: &u8| matches!(byte, b'\n' | b'\r');
    let Some(end) = bytes.iter().rposition(is_end) else { return Ok(None) };
    let lines = bytes[..end].rsplit(is_end).map(|line| String::from_utf8_lossy(line).trim().to_owned());
    Ok(lines.into_iter().find(|line| !line.is_empty()))
}

#[cfg(test)]
mod tests {
    use super::*;

    const LIMIT: u64 = 80;

    fn written(chunks: &[&[u8]]) -> (tempfile::TempDir, Output) {
        let dir = tempfile::tempdir().expect("a directory");
        let mut keep = Keep::new(dir.path(), "stdout", LIMIT);
        chunks.iter().for_each(|chunk| keep.take(chunk));
        let output = Output::read(dir.path(), "stdout", LIMIT).expect("it can be read");
        (dir, output)
    }

    fn on_disk(dir: &tempfile::TempDir) -> u64 {
        let entries = fs::read_dir(dir.path()).expect("a directory");
        entries.map(|entry| entry.and_then(|entry| entry.metadata()).expect("a file").len()).sum()
    }

    /// Whatever the length and however it comes: head, count and tail add up, and the disk holds no more than the limit.
    #[test]
    fn the_beginning_and_the_end_are_kept() {
        for length in (0..400).chain([4000, 4001]) {
            let all: Vec<u8> =
                (0..length).map(|number: u32| b'a' + u8::try_from(number % 23).expect("small")).collect();
            for size in [1, 7, 64, 5000] {
                let (dir, output) = written(&all.chunks(size).collect::<Vec<_>>());
                assert!(on_disk(&dir) <= LIMIT, "{length}");
                let sum = output.head.len() as u64 + output.left_out + output.tail.len() as u64;
                assert_eq!(sum, u64::from(length), "{length} in {size}");
                assert!(all.starts_with(&output.head) && all.ends_with(&output.tail), "{length} in {size}");
                assert!(output.is_cut() == (u64::from(length) > LIMIT), "{length}: {output:?}");
                assert!(!output.is_cut() || output.tail.len() as u64 > LIMIT / 4, "{length}: {output:?}");
            }
        }
    }

    /// CASE 33: a cut damages no character, and what is none does not keep the rest from being read.
    #[test]
    fn a_cut_damages_no_character() {
        for character in ["é", "漢", "😀"] {
            for shift in 0..4 {
                let text = format!("{}{}", "x".repeat(shift), character.repeat(200));
                let shown = written(&[text.as_bytes()]).1.text();
                assert!(!shown.contains('\u{FFFD}') && shown.contains("bytes left out"), "{shown}");
                let kept: usize = shown.split('\n').filter(|line| !line.starts_with('[')).map(str::len).sum();
                assert!(shown.contains(&format!("[… {} bytes", text.len() - kept)), "{shown}");
            }
        }
        let (_dir, output) = written(&[b"a\xff\xfeb\xb0\xa1"]);
        assert_eq!(output.text(), "a\u{FFFD}\u{FFFD}b\u{FFFD}\u{FFFD}");
    }

    #[test]
    fn the_last_whole_line_is_seen() {
        let line = |chunks: &[&[u8]]| {
            let (dir, _) = written(chunks);
            Seen::look(dir.path(), ["stdout", "stderr"], LIMIT)
        };
        assert_eq!(line(&[]), Seen::default());
        assert_eq!(line(&[b"half"]), Seen { bytes: 4, line: None });
        assert_eq!(line(&[b"one\ntw"]).line.as_deref(), Some("one"));
        assert_eq!(line(&[b"one\n\n  \n"]).line.as_deref(), Some("one"));
        assert_eq!(line(&[b"10%\r20%\r30"]).line.as_deref(), Some("20%"));
        let long = line(&[&[b'x'; 170], b"\nend\n"]);
        assert_eq!(long, Seen { bytes: 175, line: Some("end".to_owned()) });
    }
}
