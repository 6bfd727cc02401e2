//! A snapshot as a file that stands by itself.
use crate::{
    DecodeError, Digests, Snapshot, Update,
    codec::Writer,
    message::{sealed, unsealed},
    update::{get_update, put_update},
};

/// First bytes of a snapshot file; the last byte is the format's version.
const FILE_MAGIC: &[u8; 8] = b"penstk\x00\x01";

impl Snapshot {
    /// A file that stands by itself: whole tables and a checksum.
    pub fn to_file(&self) -> Vec<u8> {
        let mut writer = Writer::new();
        writer.raw(FILE_MAGIC);
        put_update(&mut writer, &Update::keyframe(self, &Digests::of(self), None));
        sealed(writer)
    }

    /// The update within a file; [`Update::apply`] checks it and gives the snapshot.
    pub fn update_from_file(bytes: &[u8]) -> Result<Update, DecodeError> {
        let mut reader = unsealed(bytes)?;
        let magic = reader.fixed_u64("file magic")?;
        if magic != u64::from_le_bytes(*FILE_MAGIC) {
            return Err(DecodeError::Unknown { field: "file magic", found: magic });
        }
        let update = get_update(&mut reader)?;
        reader.end()?;
        Ok(update)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fixture;

    #[test]
    fn a_file_cut_anywhere_is_refused() {
        let snapshot = fixture::snapshot();
        let bytes = snapshot.to_file();

        for length in 0..bytes.len() {
            assert!(Snapshot::update_from_file(&bytes[..length]).is_err(), "length {length}");
        }
        let update = Snapshot::update_from_file(&bytes).unwrap();
        assert_eq!(update.apply(None, fixture::canonical).unwrap(), snapshot);
    }
}
