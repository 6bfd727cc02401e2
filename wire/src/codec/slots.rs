//! Slots on the wire: moved slots as Golomb-Rice coded gaps, whole tables as packed positions.
//!
//! A slot's engine is written as its position among the table's candidates, in as few bits as they need. 300 moved
//! slots of 65,536 take about 17 bits each at 200 engines. Method: R. F. Rice, "Some practical universal noiseless
//! coding techniques", JPL 79-22 (1979).
use super::{BitReader, BitWriter, DecodeError, MAX_SLOT_BITS, Reader, Writer};

/// Slots that changed: `(slot, position of its engine among the candidates)`, by ascending slot.
pub(crate) type Moves = Vec<(u32, u16)>;

/// Bits of the best Rice coding of `moves`, headers aside, and its parameter.
pub(crate) fn moves_bits(moves: &Moves, width: u32) -> (u64, u32) {
    (0..=MAX_SLOT_BITS)
        .map(|parameter| {
            let per_move = u64::from(1 + parameter + width);
            let runs: u64 = gaps(moves).map(|gap| u64::from(gap >> parameter)).sum();
            (moves.len() as u64 * per_move + runs, parameter)
        })
        .min()
        .unwrap_or((0, 0))
}

/// Bits of a whole table.
pub(crate) fn packed_bits(slots: usize, width: u32) -> u64 {
    slots as u64 * u64::from(width)
}

pub(crate) fn put_moves(writer: &mut Writer, moves: &Moves, width: u32) {
    let (_, parameter) = moves_bits(moves, width);
    let mut bits = BitWriter::default();
    for (gap, (_, position)) in gaps(moves).zip(moves) {
        bits.put_unary(gap >> parameter);
        bits.put(gap & ((1 << parameter) - 1), parameter);
        bits.put(u32::from(*position), width);
    }
    let bytes = bits.into_bytes();
    writer.length(moves.len());
    writer.int(u64::from(parameter));
    writer.int(u64::from(width));
    writer.length(bytes.len());
    writer.raw(&bytes);
}

pub(crate) fn get_moves(reader: &mut Reader<'_>) -> Result<Moves, DecodeError> {
    let count = reader.int_up_to("moved slots", 1 << MAX_SLOT_BITS)?;
    let parameter = get_width(reader, "moved slots' parameter", MAX_SLOT_BITS)?;
    let width = get_width(reader, "engine width", u16::BITS)?;
    let length = reader.count("moved slots", super::MAX_MESSAGE)?;
    let mut bits = BitReader::new("moved slots", reader.raw("moved slots", length)?);
    let mut moves = Moves::new();
    let mut next = 0_u32;
    for _ in 0..count {
        let run = bits.get_unary((1 << MAX_SLOT_BITS) >> parameter)?;
        let slot = next + (run << parameter | bits.get(parameter)?);
        if slot >= 1 << MAX_SLOT_BITS {
            let limit = (1 << MAX_SLOT_BITS) - 1;
            return Err(DecodeError::TooLarge { field: "moved slot", found: u64::from(slot), limit });
        }
        moves.push((slot, get_position(&mut bits, width)?));
        next = slot + 1;
    }
    bits.end()?;
    Ok(moves)
}

pub(crate) fn put_packed(writer: &mut Writer, positions: &[u16], width: u32) {
    let mut bits = BitWriter::default();
    for position in positions {
        bits.put(u32::from(*position), width);
    }
    writer.int(u64::from(width));
    writer.raw(&bits.into_bytes());
}

/// A table of `2^slot_bits` positions.
pub(crate) fn get_packed(reader: &mut Reader<'_>, slot_bits: u32) -> Result<Vec<u16>, DecodeError> {
    let slots = 1_usize << slot_bits;
    let width = get_width(reader, "engine width", u16::BITS)?;
    let length = (slots * width as usize).div_ceil(8);
    let mut bits = BitReader::new("slots", reader.raw("slots", length)?);
    let positions = (0..slots).map(|_| get_position(&mut bits, width)).collect::<Result<_, _>>()?;
    bits.end()?;
    Ok(positions)
}

/// Logarithm of a table's size.
pub(crate) fn get_slot_bits(reader: &mut Reader<'_>) -> Result<u32, DecodeError> {
    get_width(reader, "slot bits", MAX_SLOT_BITS)
}

fn get_width(reader: &mut Reader<'_>, field: &'static str, limit: u32) -> Result<u32, DecodeError> {
    let width = reader.int_up_to(field, u64::from(limit))?;
    Ok(u32::try_from(width).unwrap_or(limit))
}

fn get_position(bits: &mut BitReader<'_>, width: u32) -> Result<u16, DecodeError> {
    // `width` is at most 16.
    Ok(u16::try_from(bits.get(width)?).unwrap_or(u16::MAX))
}

/// Slots skipped before each moved slot.
fn gaps(moves: &Moves) -> impl Iterator<Item = u32> + '_ {
    let mut next = 0;
    moves.iter().map(move |(slot, _)| {
        let gap = slot - next;
        next = slot + 1;
        gap
    })
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use proptest::prelude::{any, prop, prop_assert_eq, proptest};

    use super::*;

    fn encoded(moves: &Moves, width: u32) -> Vec<u8> {
        let mut writer = Writer::new();
        put_moves(&mut writer, moves, width);
        writer.into_bytes()
    }

    proptest! {
        #[test]
        fn moved_slots_come_back(map in prop::collection::btree_map(0..1_u32 << 18, 0..900_u16, 0..400)) {
            let moves: Moves = map.into_iter().collect();

            let bytes = encoded(&moves, 10);

            let mut reader = Reader::new(&bytes);
            prop_assert_eq!(get_moves(&mut reader).unwrap(), moves);
            reader.end().unwrap();
        }

        #[test]
        fn a_packed_table_comes_back(table in prop::collection::vec(0..5_u16, 64)) {
            let mut writer = Writer::new();
            put_packed(&mut writer, &table, 3);

            let mut reader = Reader::new(writer.as_bytes());

            prop_assert_eq!(get_packed(&mut reader, 6).unwrap(), table);
            reader.end().unwrap();
        }

        #[test]
        fn any_bytes_are_read_or_refused(bytes in prop::collection::vec(any::<u8>(), 0..200)) {
            let mut reader = Reader::new(&bytes);

            if let Ok(moves) = get_moves(&mut reader) {
                prop_assert_eq!(moves.is_sorted_by_key(|(slot, _)| *slot), true);
            }
        }
    }

    #[test]
    fn three_hundred_moves_at_200_engines_take_under_700_bytes() {
        // Spread by a multiplier that is odd, hence a permutation of the slots.
        let moves: BTreeMap<u32, u16> =
            (0..300_u32).map(|i| (i.wrapping_mul(40_503) & 0xffff, (i % 200) as u16)).collect();
        assert_eq!(moves.len(), 300);

        let bytes = encoded(&moves.into_iter().collect(), 8);

        assert!(bytes.len() < 700, "{}", bytes.len());
    }
}
