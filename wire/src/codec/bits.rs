//! Fields that are not whole bytes, least significant bit first.
use super::DecodeError;

/// Bits that hold every value below `count`.
pub(crate) fn width_of(count: usize) -> u32 {
    usize::BITS - count.saturating_sub(1).leading_zeros()
}

/// Appends bits to bytes; the last byte is filled with zeros.
#[derive(Debug, Default)]
pub(crate) struct BitWriter {
    bytes: Vec<u8>,
    pending: u64,
    filled: u32,
}

impl BitWriter {
    /// The low `width` bits of `value`, at most 32.
    pub(crate) fn put(&mut self, value: u32, width: u32) {
        debug_assert!(width <= 32 && (width == 32 || value < 1 << width));
        self.pending |= u64::from(value) << self.filled;
        self.filled += width;
        while self.filled >= 8 {
            let [low, ..] = self.pending.to_le_bytes();
            self.bytes.push(low);
            self.pending >>= 8;
            self.filled -= 8;
        }
    }

    /// `count` zeros, then a one.
    pub(crate) fn put_unary(&mut self, count: u32) {
        for _ in 0..count / 31 {
            self.put(0, 31);
        }
        let rest = count % 31;
        self.put(1 << rest, rest + 1);
    }

    pub(crate) fn into_bytes(mut self) -> Vec<u8> {
        if self.filled > 0 {
            self.put(0, 8 - self.filled);
        }
        self.bytes
    }
}

/// Takes bits from bytes.
#[derive(Debug)]
pub(crate) struct BitReader<'a> {
    bytes: std::slice::Iter<'a, u8>,
    pending: u64,
    filled: u32,
    field: &'static str,
}

impl<'a> BitReader<'a> {
    pub(crate) fn new(field: &'static str, bytes: &'a [u8]) -> Self {
        Self { bytes: bytes.iter(), pending: 0, filled: 0, field }
    }

    /// The next `width` bits, at most 32.
    pub(crate) fn get(&mut self, width: u32) -> Result<u32, DecodeError> {
        while self.filled < width {
            let byte = self.bytes.next().ok_or(DecodeError::Truncated { field: self.field })?;
            self.pending |= u64::from(*byte) << self.filled;
            self.filled += 8;
        }
        let taken = self.pending & ((1_u64 << width) - 1);
        self.pending >>= width;
        self.filled -= width;
        // At most 32 bits were taken.
        Ok(u32::try_from(taken).unwrap_or(u32::MAX))
    }

    /// Zeros up to a one, at most `limit`.
    pub(crate) fn get_unary(&mut self, limit: u32) -> Result<u32, DecodeError> {
        for count in 0..=limit {
            if self.get(1)? == 1 {
                return Ok(count);
            }
        }
        Err(DecodeError::TooLarge { field: self.field, found: u64::from(limit) + 1, limit: u64::from(limit) })
    }

    /// Only the zeros that fill the last byte may be left.
    pub(crate) fn end(mut self) -> Result<(), DecodeError> {
        match self.bytes.next() {
            Some(_) => Err(DecodeError::Trailing { count: self.bytes.len() + 1 }),
            None if self.pending != 0 => Err(DecodeError::Unknown { field: self.field, found: self.pending }),
            None => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_width_holds_every_value_below_the_count() {
        assert_eq!([0, 1, 2, 3, 4, 5, 256, 257].map(width_of), [0, 0, 1, 2, 2, 3, 8, 9]);
    }

    #[test]
    fn long_and_short_runs_come_back() {
        let mut writer = BitWriter::default();
        for run in [0, 1, 30, 31, 32, 200] {
            writer.put_unary(run);
            writer.put(5, 3);
        }
        let bytes = writer.into_bytes();

        let mut reader = BitReader::new("runs", &bytes);

        for run in [0, 1, 30, 31, 32, 200] {
            assert_eq!((reader.get_unary(200).unwrap(), reader.get(3).unwrap()), (run, 5));
        }
        reader.end().unwrap();
    }

    #[test]
    fn a_run_beyond_its_limit_is_refused() {
        let bytes = [0, 0, 0];

        assert!(matches!(
            BitReader::new("runs", &bytes).get_unary(10),
            Err(DecodeError::TooLarge { found: 11, limit: 10, .. })
        ));
    }
}
