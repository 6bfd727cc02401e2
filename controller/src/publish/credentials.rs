//! Certificate files, loaded again when they change.
use std::time::SystemTime;

use penstock_wire::transport::{Credentials, CredentialsError, TlsFiles};

/// Credentials and the state of their files when they were read.
#[derive(Debug)]
pub(super) struct Watched {
    files: TlsFiles,
    stamp: Stamp,
    credentials: Credentials,
}

type Stamp = [Option<SystemTime>; 3];

impl Watched {
    pub(super) fn load(files: TlsFiles) -> Result<Self, CredentialsError> {
        let stamp = stamp(&files);
        let credentials = files.load()?;
        Ok(Self { files, stamp, credentials })
    }

    pub(super) fn credentials(&self) -> &Credentials {
        &self.credentials
    }

    /// The new credentials if a file changed. After an error the old ones stay, and the next change is looked at again.
    pub(super) fn reload(&mut self) -> Result<Option<&Credentials>, CredentialsError> {
        let stamp = stamp(&self.files);
        if stamp == self.stamp {
            return Ok(None);
        }
        self.stamp = stamp;
        self.credentials = self.files.load()?;
        Ok(Some(&self.credentials))
    }
}

fn stamp(files: &TlsFiles) -> Stamp {
    [&files.ca, &files.certificate, &files.key]
        .map(|path| std::fs::metadata(path).and_then(|metadata| metadata.modified()).ok())
}
