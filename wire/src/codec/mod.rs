//! Bytes of the protocol: bounds-checked reading and writing, shared by messages and by the snapshot file.
//!
//! Integers are LEB128 unless a width is named; texts and lists carry their length first. Every length is checked
//! against its limit before anything is allocated for it.
mod bits;
mod fields;
mod slots;

pub(crate) use bits::{BitReader, BitWriter, width_of};
pub(crate) use fields::{get_engine, get_head, get_service, put_engine, put_head, put_service_list};
pub(crate) use slots::{
    Moves, get_moves, get_packed, get_slot_bits, moves_bits, packed_bits, put_moves, put_packed,
};

/// Longest identifier, in bytes.
pub const MAX_TEXT: usize = 128;
/// Most engines that one snapshot describes.
pub const MAX_ENGINES: usize = 4096;
/// Most services of one frontend.
pub const MAX_SERVICES: usize = 256;
/// Most tables (classes) of one frontend.
pub const MAX_TABLES: usize = 256;
/// Largest table: 2^18 slots.
pub const MAX_SLOT_BITS: u32 = 18;
/// Largest message, and largest snapshot file, in bytes.
pub const MAX_MESSAGE: usize = 8 << 20;

/// Why bytes were not understood. Nothing of them was used.
#[derive(Clone, Debug, Eq, PartialEq, thiserror::Error)]
pub enum DecodeError {
    /// The bytes end within a field.
    #[error("message ends within {field}")]
    Truncated { field: &'static str },
    /// A length or value is above what this build accepts.
    #[error("{field} is {found}, at most {limit} is accepted")]
    TooLarge { field: &'static str, found: u64, limit: u64 },
    /// A tag or value that has no meaning in this protocol version.
    #[error("{field} has the unknown value {found}")]
    Unknown { field: &'static str, found: u64 },
    /// A text that is not UTF-8.
    #[error("{field} is not UTF-8")]
    NotText { field: &'static str },
    /// Bytes left over after the last field.
    #[error("{count} bytes follow the last field")]
    Trailing { count: usize },
    /// The checksum does not match: the bytes were damaged on their way or on disk.
    #[error("checksum is {found:016x}, the bytes give {expected:016x}")]
    Checksum { found: u64, expected: u64 },
}

/// Appends fields to a buffer.
#[derive(Debug, Default)]
pub(crate) struct Writer {
    bytes: Vec<u8>,
}

impl Writer {
    pub(crate) fn new() -> Self {
        Self::default()
    }

    pub(crate) fn into_bytes(self) -> Vec<u8> {
        self.bytes
    }

    pub(crate) fn as_bytes(&self) -> &[u8] {
        &self.bytes
    }

    pub(crate) fn u8(&mut self, value: u8) {
        self.bytes.push(value);
    }

    pub(crate) fn fixed_u64(&mut self, value: u64) {
        self.bytes.extend_from_slice(&value.to_le_bytes());
    }

    pub(crate) fn raw(&mut self, bytes: &[u8]) {
        self.bytes.extend_from_slice(bytes);
    }

    pub(crate) fn int(&mut self, value: u64) {
        let mut rest = value;
        loop {
            let [low, ..] = (rest & 0x7f).to_le_bytes();
            rest >>= 7;
            if rest == 0 {
                self.bytes.push(low);
                return;
            }
            self.bytes.push(low | 0x80);
        }
    }

    pub(crate) fn length(&mut self, value: usize) {
        self.int(value as u64);
    }

    pub(crate) fn text(&mut self, text: &str) {
        self.length(text.len());
        self.raw(text.as_bytes());
    }

    pub(crate) fn flag(&mut self, value: bool) {
        self.u8(u8::from(value));
    }
}

/// Takes fields from a buffer.
#[derive(Debug)]
pub(crate) struct Reader<'a> {
    rest: &'a [u8],
}

impl<'a> Reader<'a> {
    pub(crate) fn new(bytes: &'a [u8]) -> Self {
        Self { rest: bytes }
    }

    pub(crate) fn raw(&mut self, field: &'static str, count: usize) -> Result<&'a [u8], DecodeError> {
        let (taken, rest) = self.rest.split_at_checked(count).ok_or(DecodeError::Truncated { field })?;
        self.rest = rest;
        Ok(taken)
    }

    pub(crate) fn array<const N: usize>(&mut self, field: &'static str) -> Result<[u8; N], DecodeError> {
        let (taken, rest) = self.rest.split_first_chunk().ok_or(DecodeError::Truncated { field })?;
        self.rest = rest;
        Ok(*taken)
    }

    pub(crate) fn u8(&mut self, field: &'static str) -> Result<u8, DecodeError> {
        let [byte] = self.array(field)?;
        Ok(byte)
    }

    pub(crate) fn fixed_u64(&mut self, field: &'static str) -> Result<u64, DecodeError> {
        Ok(u64::from_le_bytes(self.array(field)?))
    }

    pub(crate) fn int(&mut self, field: &'static str) -> Result<u64, DecodeError> {
        let mut value = 0_u64;
        for shift in (0..64).step_by(7) {
            let byte = self.u8(field)?;
            let part = u64::from(byte & 0x7f);
            // The tenth byte has room for one bit only.
            if shift == 63 && part > 1 {
                return Err(DecodeError::TooLarge { field, found: u64::MAX, limit: u64::MAX });
            }
            value |= part << shift;
            if byte & 0x80 == 0 {
                return Ok(value);
            }
        }
        Err(DecodeError::TooLarge { field, found: u64::MAX, limit: u64::MAX })
    }

    /// An integer of at most `limit`.
    pub(crate) fn int_up_to(&mut self, field: &'static str, limit: u64) -> Result<u64, DecodeError> {
        let found = self.int(field)?;
        if found > limit { Err(DecodeError::TooLarge { field, found, limit }) } else { Ok(found) }
    }

    /// The number of items of a list. Each takes at least a byte, so a count above what is left is refused too.
    pub(crate) fn count(&mut self, field: &'static str, limit: usize) -> Result<usize, DecodeError> {
        let found = self.int_up_to(field, limit as u64)?;
        let count = usize::try_from(found).unwrap_or(usize::MAX);
        if count > self.rest.len() { Err(DecodeError::Truncated { field }) } else { Ok(count) }
    }

    pub(crate) fn u16(&mut self, field: &'static str) -> Result<u16, DecodeError> {
        let found = self.int(field)?;
        u16::try_from(found).map_err(|_beyond| DecodeError::TooLarge {
            field,
            found,
            limit: u64::from(u16::MAX),
        })
    }

    pub(crate) fn u32(&mut self, field: &'static str) -> Result<u32, DecodeError> {
        let found = self.int(field)?;
        u32::try_from(found).map_err(|_beyond| DecodeError::TooLarge {
            field,
            found,
            limit: u64::from(u32::MAX),
        })
    }

    pub(crate) fn text(&mut self, field: &'static str) -> Result<String, DecodeError> {
        let count = self.count(field, MAX_TEXT)?;
        let bytes = self.raw(field, count)?;
        let text = str::from_utf8(bytes).map_err(|_invalid| DecodeError::NotText { field })?;
        Ok(text.to_owned())
    }

    pub(crate) fn flag(&mut self, field: &'static str) -> Result<bool, DecodeError> {
        match self.u8(field)? {
            0 => Ok(false),
            1 => Ok(true),
            found => Err(DecodeError::Unknown { field, found: u64::from(found) }),
        }
    }

    pub(crate) fn end(self) -> Result<(), DecodeError> {
        if self.rest.is_empty() { Ok(()) } else { Err(DecodeError::Trailing { count: self.rest.len() }) }
    }
}

/// A list of at most `limit` items.
pub(crate) fn list<T>(
    reader: &mut Reader<'_>,
    field: &'static str,
    limit: usize,
    item: impl Fn(&mut Reader<'_>) -> Result<T, DecodeError>,
) -> Result<Vec<T>, DecodeError> {
    let count = reader.count(field, limit)?;
    (0..count).map(|_| item(reader)).collect()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::{any, prop_assert_eq, proptest};

    use super::*;

    proptest! {
        #[test]
        fn every_integer_comes_back(value in any::<u64>()) {
            let mut writer = Writer::new();
            writer.int(value);

            let bytes = writer.into_bytes();

            prop_assert_eq!(Reader::new(&bytes).int("value").unwrap(), value);
        }
    }

    #[test]
    fn an_integer_of_more_than_64_bits_is_refused() {
        let bytes = [0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x02];

        let error = Reader::new(&bytes).int("value").unwrap_err();

        assert!(matches!(error, DecodeError::TooLarge { field: "value", .. }));
    }

    #[test]
    fn a_list_longer_than_its_message_is_refused_before_it_is_allocated() {
        let mut writer = Writer::new();
        writer.int(4_000);

        let error = Reader::new(writer.as_bytes()).count("engines", MAX_ENGINES).unwrap_err();

        assert_eq!(error, DecodeError::Truncated { field: "engines" });
    }
}
