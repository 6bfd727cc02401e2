//! `docs/abi.md` is made from the definitions: with `PENSTOCK_WRITE_DOCS=1` this writes it, otherwise it compares.
#![expect(clippy::unwrap_used, reason = "a test stops at its first failure")]
use std::{env, fmt::Write as _, fs, path::Path};

use penstock_abi::{LAYOUT_HASH, MAPS, MapKind, Writer, total_bytes};

const SOURCES: &[&str] =
    &["config", "service", "slot", "engine", "flow", "reply", "next_hop", "stats", "hash"];

fn size(bytes: usize) -> String {
    match bytes {
        0..1024 => format!("{bytes} B"),
        1024..1_048_576 => format!("{} KiB", bytes.div_ceil(1024)),
        _ => format!("{:.1} MiB", f64::from(u32::try_from(bytes >> 10).unwrap()) / 1024.0),
    }
}

fn map_table() -> String {
    let mut table = "| map | kind | key | value | capacity | memory | written by | holds |\n".to_owned();
    table += "|---|---|--:|--:|--:|--:|---|---|\n";
    for map in MAPS {
        let kind = match map.kind {
            MapKind::Array => "array, mmapable",
            MapKind::PerCpuArray => "per-CPU array",
            MapKind::Hash => "hash",
        };
        let memory = size(map.bytes(1)) + if map.kind == MapKind::PerCpuArray { " a CPU" } else { "" };
        let writer = match map.writer {
            Writer::Agent => "agent",
            Writer::Kernel => "kernel",
        };
        writeln!(
            table,
            "| `{}` | {kind} | {} B | {} B | {} | {memory} | {writer} | {} |",
            map.name, map.key_bytes, map.value_bytes, map.capacity, map.holds
        )
        .unwrap();
    }
    table
}

/// The documentation of every struct of a source file that has an offset table.
fn layouts(source: &str) -> String {
    let mut sections = String::new();
    let mut comment = String::new();
    for line in source.lines() {
        if let Some(text) = line.strip_prefix("///") {
            comment += text.strip_prefix(' ').unwrap_or(text);
            comment.push('\n');
        } else if let Some(rest) = line.strip_prefix("pub struct ") {
            if comment.contains("|---") {
                let name = rest.split(['(', ' ', ';']).next().unwrap();
                let text = comment.replace("[`crate::", "[`").replace("[`", "`").replace("`]", "`");
                write!(sections, "\n### `{name}`\n\n{}\n", text.trim_end()).unwrap();
            }
            comment.clear();
        } else if !line.starts_with("#[") {
            comment.clear();
        }
    }
    sections
}

fn page() -> String {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("src");
    let sources = SOURCES.iter().map(|name| fs::read_to_string(folder.join(format!("{name}.rs"))).unwrap());
    let layouts: String = sources.map(|source| layouts(&source)).collect();
    format!(
        "# The kernel's maps\n\n\
         Made from crate `penstock-abi` by `PENSTOCK_WRITE_DOCS=1 cargo test -p penstock-abi --test page`; the test \
         fails when this page is out of date.\n\n\
         Layout `{LAYOUT_HASH:016x}`: the agent pins the maps below its `pin_dir` in `maps-{LAYOUT_HASH:016x}`, so \
         that no build opens the maps of another layout.\n\n\
         {}\n\
         Memory in all: {} with one CPU, {} with 64.\n\n\
         ## Values\n{layouts}",
        map_table(),
        size(total_bytes(1)),
        size(total_bytes(64)),
    )
}

#[test]
fn the_abi_page_says_what_the_definitions_say() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../docs/abi.md");
    let page = page();
    if env::var_os("PENSTOCK_WRITE_DOCS").is_some() {
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(&path, &page).unwrap();
    }

    let found = fs::read_to_string(&path).unwrap_or_default();

    assert!(
        found == page,
        "docs/abi.md is out of date: PENSTOCK_WRITE_DOCS=1 cargo test -p penstock-abi --test page"
    );
}
