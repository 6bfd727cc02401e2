//! Bytes of an update.
use crate::{
    Content, DecodeError, Delta, Digests, Epoch, Keyframe, Layout, TableDelta, TableKeyframe, Update,
    codec::{self, MAX_ENGINES, MAX_SERVICES, MAX_TABLES, Reader, Writer},
};

pub(crate) fn put_update(writer: &mut Writer, update: &Update) {
    writer.int(update.epoch.0);
    writer.flag(update.failure_handling);
    writer.fixed_u64(update.digests.meta);
    writer.length(update.digests.tables.len());
    for table in &update.digests.tables {
        writer.fixed_u64(*table);
    }
    match &update.content {
        Content::Keyframe(keyframe) => {
            writer.u8(0);
            put_keyframe(writer, keyframe);
        }
        Content::Delta(delta) => {
            writer.u8(1);
            put_delta(writer, delta);
        }
    }
}

pub(crate) fn get_update(reader: &mut Reader<'_>) -> Result<Update, DecodeError> {
    Ok(Update {
        epoch: Epoch(reader.int("epoch")?),
        failure_handling: reader.flag("failure mark")?,
        digests: Digests {
            meta: reader.fixed_u64("hash")?,
            tables: codec::list(reader, "hashes", MAX_TABLES, |reader| reader.fixed_u64("hash"))?,
        },
        content: match reader.u8("update kind")? {
            0 => Content::Keyframe(get_keyframe(reader)?),
            1 => Content::Delta(get_delta(reader)?),
            found => return Err(DecodeError::Unknown { field: "update kind", found: u64::from(found) }),
        },
    })
}

fn put_keyframe(writer: &mut Writer, keyframe: &Keyframe) {
    codec::put_head(writer, &keyframe.head);
    writer.length(keyframe.engines.len());
    for engine in &keyframe.engines {
        codec::put_engine(writer, engine);
    }
    codec::put_service_list(writer, &keyframe.services);
    writer.length(keyframe.tables.len());
    for table in &keyframe.tables {
        writer.text(table.class.as_str());
        writer.int(u64::from(table.slot_bits));
        writer.length(table.candidates.len());
        for (engine, count) in &table.candidates {
            writer.int(u64::from(*engine));
            writer.int(u64::from(*count));
        }
        let width = codec::width_of(table.candidates.len());
        match &table.layout {
            Layout::Patch(moves) => {
                writer.u8(0);
                codec::put_moves(writer, moves, width);
            }
            Layout::Whole(positions) => {
                writer.u8(1);
                codec::put_packed(writer, positions, width);
            }
        }
    }
}

fn get_keyframe(reader: &mut Reader<'_>) -> Result<Keyframe, DecodeError> {
    Ok(Keyframe {
        head: codec::get_head(reader)?,
        engines: codec::list(reader, "engines", MAX_ENGINES, codec::get_engine)?,
        services: codec::list(reader, "services", MAX_SERVICES, codec::get_service)?,
        tables: codec::list(reader, "tables", MAX_TABLES, |reader| {
            let class = reader.text("class")?.as_str().into();
            let slot_bits = codec::get_slot_bits(reader)?;
            let candidates = codec::list(reader, "candidates", MAX_ENGINES, |reader| {
                Ok((reader.u16("candidate")?, reader.u32("slot count")?))
            })?;
            let layout = match reader.u8("table layout")? {
                0 => Layout::Patch(codec::get_moves(reader)?),
                1 => Layout::Whole(codec::get_packed(reader, slot_bits)?),
                found => return Err(DecodeError::Unknown { field: "table layout", found: u64::from(found) }),
            };
            Ok(TableKeyframe { class, slot_bits, candidates, layout })
        })?,
    })
}

fn put_delta(writer: &mut Writer, delta: &Delta) {
    writer.int(delta.base.0);
    writer.length(delta.engines.len());
    for engine in &delta.engines {
        codec::put_engine(writer, engine);
    }
    put_indexes(writer, &delta.removed_engines);
    writer.flag(delta.services.is_some());
    if let Some(services) = &delta.services {
        codec::put_service_list(writer, services);
    }
    writer.length(delta.tables.len());
    for table in &delta.tables {
        writer.int(u64::from(table.table));
        writer.flag(table.candidates.is_some());
        if let Some(candidates) = &table.candidates {
            put_indexes(writer, candidates);
        }
        codec::put_moves(writer, &table.moves, widest(table));
    }
}

fn get_delta(reader: &mut Reader<'_>) -> Result<Delta, DecodeError> {
    Ok(Delta {
        base: Epoch(reader.int("base epoch")?),
        engines: codec::list(reader, "engines", MAX_ENGINES, codec::get_engine)?,
        removed_engines: get_indexes(reader)?,
        services: match reader.flag("services")? {
            true => Some(codec::list(reader, "services", MAX_SERVICES, codec::get_service)?),
            false => None,
        },
        tables: codec::list(reader, "tables", MAX_TABLES, |reader| {
            Ok(TableDelta {
                table: reader.u16("table")?,
                candidates: match reader.flag("candidates")? {
                    true => Some(get_indexes(reader)?),
                    false => None,
                },
                moves: codec::get_moves(reader)?,
            })
        })?,
    })
}

/// Bits that the largest position among the moves needs.
fn widest(table: &TableDelta) -> u32 {
    let largest = table.moves.iter().map(|(_, position)| usize::from(*position)).max();
    codec::width_of(largest.map_or(0, |position| position + 1))
}

fn put_indexes(writer: &mut Writer, indexes: &[u16]) {
    writer.length(indexes.len());
    for index in indexes {
        writer.int(u64::from(*index));
    }
}

fn get_indexes(reader: &mut Reader<'_>) -> Result<Vec<u16>, DecodeError> {
    codec::list(reader, "engine indexes", MAX_ENGINES, |reader| reader.u16("engine index"))
}
