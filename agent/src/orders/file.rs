//! `orders.json` in the state folder.
use std::{
    fs, io,
    path::{Path, PathBuf},
};

use penstock_wire::replace_file;

use super::Orders;

/// Where orders are kept.
#[derive(Clone, Debug)]
pub struct OrdersFile {
    path: PathBuf,
}

/// The orders could not be read or kept.
#[derive(Debug, thiserror::Error)]
pub enum OrdersError {
    #[error("reading {}", path.display())]
    Read { path: PathBuf, source: io::Error },
    /// The order was not carried out.
    #[error("writing {}", path.display())]
    Write { path: PathBuf, source: io::Error },
    /// Look at the file; remove it to take back all orders.
    #[error("{} is damaged", path.display())]
    Damaged { path: PathBuf, source: serde_json::Error },
}

impl OrdersFile {
    /// In an agent's state folder.
    pub fn in_folder(folder: &Path) -> Self {
        Self { path: folder.join("orders.json") }
    }

    pub fn load(&self) -> Result<Orders, OrdersError> {
        let path = || self.path.clone();
        match fs::read(&self.path) {
            Ok(text) => {
                serde_json::from_slice(&text).map_err(|source| OrdersError::Damaged { path: path(), source })
            }
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(Orders::default()),
            Err(source) => Err(OrdersError::Read { path: path(), source }),
        }
    }

    pub fn save(&self, orders: &Orders) -> Result<(), OrdersError> {
        let text = serde_json::to_vec_pretty(orders)
            .map_err(|source| OrdersError::Damaged { path: self.path.clone(), source })?;
        replace_file(&self.path, &text)
            .map_err(|source| OrdersError::Write { path: self.path.clone(), source })
    }
}
