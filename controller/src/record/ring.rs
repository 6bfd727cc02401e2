//! A bounded ring of recorded solves: segments in one folder, the oldest removed first.
//!
//! A segment starts with a magic and one frame that holds the fleet file's text, so that it stands by itself. Every
//! further frame is one solve: compressed length, checksum of the compressed bytes, and the bytes. A segment whose end
//! is torn, as after a crash, is read up to there.
use std::fs::{self, File, OpenOptions};
use std::io::{self, Write as _};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};

use super::entry::Entry;

/// First bytes of a segment; the last is the format's version.
const MAGIC: &[u8; 8] = b"pnstrec\x01";
const FRAME_HEAD: usize = 8;
/// The bound is split into so many segments, so that one of them leaves at a time.
const SEGMENTS: u64 = 8;

/// Why a solve was not recorded, or a record cannot be read. Routing does not depend on it.
#[derive(Debug, thiserror::Error)]
pub enum RecordError {
    #[error("{}", path.display())]
    Io { path: PathBuf, source: io::Error },
    /// Another program's file, or a later version's.
    #[error("{} is no record of solves that this version reads", path.display())]
    Foreign { path: PathBuf },
    #[error("the entry cannot be encoded")]
    Encode(#[from] postcard::Error),
}

/// The writing end. Appends to a segment of its own, since the fleet file may have changed.
#[derive(Debug)]
pub struct Ring {
    folder: PathBuf,
    /// Of all segments together, bytes.
    bound: u64,
    fleet_text: String,
    segment: Segment,
}

#[derive(Debug)]
struct Segment {
    number: u64,
    path: PathBuf,
    file: File,
    length: u64,
}

impl Ring {
    /// Opens a ring, in a folder that is made when missing.
    pub fn open(folder: &Path, bound: u64, fleet_text: &str) -> Result<Self, RecordError> {
        fs::create_dir_all(folder).map_err(|source| io_error(folder, source))?;
        let next = segments(folder)?.last().map_or(0, |(number, _)| number + 1);
        let segment = Segment::create(folder, next, fleet_text)?;
        Ok(Self { folder: folder.to_owned(), bound, fleet_text: fleet_text.to_owned(), segment })
    }

    /// Appends a solve, and removes the oldest segments that no longer fit the bound.
    pub fn append(&mut self, entry: &Entry) -> Result<(), RecordError> {
        if self.segment.length >= self.bound / SEGMENTS {
            self.segment = Segment::create(&self.folder, self.segment.number + 1, &self.fleet_text)?;
        }
        self.segment.append(&postcard::to_allocvec(entry)?)?;
        self.remove_excess()
    }

    fn remove_excess(&self) -> Result<(), RecordError> {
        let found = segments(&self.folder)?;
        let mut total = 0;
        for (number, path) in found.into_iter().rev() {
            total += fs::metadata(&path).map_err(|source| io_error(&path, source))?.len();
            if total > self.bound && number != self.segment.number {
                fs::remove_file(&path).map_err(|source| io_error(&path, source))?;
            }
        }
        Ok(())
    }
}

impl Segment {
    fn create(folder: &Path, number: u64, fleet_text: &str) -> Result<Self, RecordError> {
        let path = folder.join(format!("{number:012}.solves"));
        let file = OpenOptions::new().create_new(true).append(true).mode(0o600).open(&path);
        let file = file.map_err(|source| io_error(&path, source))?;
        let mut segment = Self { number, path, file, length: 0 };
        segment.write(MAGIC)?;
        segment.append(fleet_text.as_bytes())?;
        Ok(segment)
    }

    fn append(&mut self, content: &[u8]) -> Result<(), RecordError> {
        let packed = lz4_flex::compress_prepend_size(content);
        let length = u32::try_from(packed.len()).map_err(|_too_long| postcard::Error::SerializeBufferFull)?;
        let mut frame = Vec::with_capacity(FRAME_HEAD + packed.len());
        frame.extend(length.to_le_bytes());
        frame.extend(checksum(&packed).to_le_bytes());
        frame.extend(packed);
        self.write(&frame)
    }

    fn write(&mut self, bytes: &[u8]) -> Result<(), RecordError> {
        self.file.write_all(bytes).map_err(|source| io_error(&self.path, source))?;
        self.length += bytes.len() as u64;
        Ok(())
    }
}

/// A segment as it was read.
#[derive(Debug)]
pub struct Recorded {
    pub path: PathBuf,
    /// Text of the fleet file that its solves were made from.
    pub fleet_text: String,
    pub entries: Vec<Entry>,
    /// Whether the end is torn or damaged: what stands before it was read.
    pub is_torn: bool,
}

/// Reads one segment, or every segment of a folder, oldest first.
pub fn read(path: &Path) -> Result<Vec<Recorded>, RecordError> {
    if path.is_dir() {
        segments(path)?.into_iter().map(|(_, path)| read_segment(&path)).collect()
    } else {
        Ok(vec![read_segment(path)?])
    }
}

fn read_segment(path: &Path) -> Result<Recorded, RecordError> {
    let bytes = fs::read(path).map_err(|source| io_error(path, source))?;
    let foreign = || RecordError::Foreign { path: path.to_owned() };
    let mut rest = bytes.strip_prefix(MAGIC).ok_or_else(foreign)?;
    let fleet_text =
        next_frame(&mut rest).and_then(|text| String::from_utf8(text).ok()).ok_or_else(foreign)?;
    let mut entries = Vec::new();
    let mut is_torn = false;
    while !rest.is_empty() && !is_torn {
        match next_frame(&mut rest).and_then(|frame| postcard::from_bytes(&frame).ok()) {
            Some(entry) => entries.push(entry),
            None => is_torn = true,
        }
    }
    Ok(Recorded { path: path.to_owned(), fleet_text, entries, is_torn })
}

fn next_frame(bytes: &mut &[u8]) -> Option<Vec<u8>> {
    let (length, rest) = bytes.split_first_chunk()?;
    let (sum, rest) = rest.split_first_chunk()?;
    let (packed, rest) = rest.split_at_checked(u32::from_le_bytes(*length) as usize)?;
    if checksum(packed) != u32::from_le_bytes(*sum) {
        return None;
    }
    *bytes = rest;
    lz4_flex::decompress_size_prepended(packed).ok()
}

/// Segments of a folder by number, oldest first.
fn segments(folder: &Path) -> Result<Vec<(u64, PathBuf)>, RecordError> {
    let mut found = Vec::new();
    for entry in fs::read_dir(folder).map_err(|source| io_error(folder, source))? {
        let path = entry.map_err(|source| io_error(folder, source))?.path();
        let is_segment = path.extension().is_some_and(|extension| extension == "solves");
        let number = path.file_stem().and_then(|stem| stem.to_str()).and_then(|stem| stem.parse().ok());
        if let Some(number) = number.filter(|_| is_segment) {
            found.push((number, path));
        }
    }
    found.sort();
    Ok(found)
}

/// FNV-1a, 32 bits: finds torn writes, not attackers.
fn checksum(bytes: &[u8]) -> u32 {
    bytes.iter().fold(0x811c_9dc5, |hash, byte| (hash ^ u32::from(*byte)).wrapping_mul(0x0100_0193))
}

fn io_error(path: &Path, source: io::Error) -> RecordError {
    RecordError::Io { path: path.to_owned(), source }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fleet::settings::PolicyName;
    use crate::record::entry::{Outcome, TickInputs};

    fn entry(unix_ms: u64) -> Entry {
        let offered = (0..50).map(|at| ("A".into(), "chat".into(), f64::from(at) * 0.7)).collect();
        Entry {
            unix_ms,
            epoch: None,
            policy: PolicyName::Optimizer,
            inputs: TickInputs { offered, ..TickInputs::default() },
            outcome: Outcome { weights: vec![(0, 1.0)], digest: unix_ms },
        }
    }

    fn times(folder: &Path) -> Vec<u64> {
        let recorded = read(folder).unwrap();
        recorded.iter().flat_map(|segment| &segment.entries).map(|entry| entry.unix_ms).collect()
    }

    #[test]
    fn what_was_appended_is_read_in_order_across_restarts() {
        let folder = tempfile::tempdir().unwrap();
        for run in 0..3 {
            let mut ring = Ring::open(folder.path(), 1 << 20, "fleet").unwrap();
            ring.append(&entry(2 * run)).unwrap();
            ring.append(&entry(2 * run + 1)).unwrap();
        }

        let recorded = read(folder.path()).unwrap();

        assert_eq!(times(folder.path()), [0, 1, 2, 3, 4, 5]);
        assert_eq!(recorded[0].entries[1], entry(1));
        assert!(recorded.iter().all(|segment| segment.fleet_text == "fleet" && !segment.is_torn));
    }

    #[test]
    fn the_folder_stays_within_its_bound_and_keeps_the_newest() {
        let folder = tempfile::tempdir().unwrap();
        let bound = 32 << 10;
        let mut ring = Ring::open(folder.path(), bound, "fleet").unwrap();

        for time in 0..2_000 {
            ring.append(&entry(time)).unwrap();
        }

        let used: u64 =
            fs::read_dir(folder.path()).unwrap().map(|file| file.unwrap().metadata().unwrap().len()).sum();
        let kept = times(folder.path());
        assert!(used <= bound, "{used}");
        assert_eq!(kept.last(), Some(&1_999));
        assert!(kept.len() > 20 && kept.windows(2).all(|pair| pair[0] + 1 == pair[1]));
    }

    #[test]
    fn a_torn_end_loses_only_itself() {
        let folder = tempfile::tempdir().unwrap();
        let mut ring = Ring::open(folder.path(), 1 << 20, "fleet").unwrap();
        ring.append(&entry(1)).unwrap();
        ring.append(&entry(2)).unwrap();
        let path = ring.segment.path.clone();
        let bytes = fs::read(&path).unwrap();
        fs::write(&path, &bytes[..bytes.len() - 3]).unwrap();

        let recorded = read(&path).unwrap();

        assert_eq!(recorded[0].entries, [entry(1)]);
        assert!(recorded[0].is_torn);
    }
}
