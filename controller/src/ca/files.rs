//! PEM files, each replaced whole.
use std::{
    fs::{self, OpenOptions},
    io::Write as _,
    os::unix::fs::OpenOptionsExt as _,
    path::Path,
};

use rustls::pki_types::CertificateDer;

use super::CaError;

pub(super) fn read_text(path: &Path) -> Result<String, CaError> {
    fs::read_to_string(path).map_err(|source| CaError::Read { path: path.to_owned(), source })
}

pub(super) fn write_public(path: &Path, text: &str) -> Result<(), CaError> {
    write(path, text, 0o644)
}

/// Readable by its owner alone, from the first byte on.
pub(super) fn write_private(path: &Path, text: &str) -> Result<(), CaError> {
    write(path, text, 0o600)
}

pub(super) fn to_pem(certificate: &CertificateDer<'_>) -> String {
    let config = pem::EncodeConfig::new().set_line_ending(pem::LineEnding::LF);
    pem::encode_config(&pem::Pem::new("CERTIFICATE", certificate.to_vec()), config)
}

fn write(path: &Path, text: &str, mode: u32) -> Result<(), CaError> {
    let fault = |source| CaError::Write { path: path.to_owned(), source };
    if let Some(folder) = path.parent() {
        fs::create_dir_all(folder).map_err(fault)?;
    }
    let mut temporary = path.as_os_str().to_owned();
    temporary.push(".new");
    // A leftover of an interrupted run may have other permissions.
    if fs::exists(&temporary).map_err(fault)? {
        fs::remove_file(&temporary).map_err(fault)?;
    }
    let mut file =
        OpenOptions::new().write(true).create_new(true).mode(mode).open(&temporary).map_err(fault)?;
    file.write_all(text.as_bytes()).map_err(fault)?;
    file.sync_all().map_err(fault)?;
    fs::rename(&temporary, path).map_err(fault)
}
