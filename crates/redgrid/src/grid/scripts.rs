//! Scripts, functions, calls sent together, and transactions.

use super::Grid;

impl Grid {
    /// The scripts that the servers remember; to run one, see [`script::Script`](redgrid_script::Script).
    #[cfg(feature = "script")]
    #[doc(alias = "getScript")]
    pub fn scripts(&self) -> redgrid_script::Scripts {
        redgrid_script::Scripts::new(&self.client)
    }

    /// The libraries of functions that the servers keep. See [`Functions`](redgrid_script::Functions).
    #[cfg(feature = "script")]
    #[doc(alias = "getFunction")]
    pub fn functions(&self) -> redgrid_script::Functions {
        redgrid_script::Functions::new(&self.client)
    }

    /// Calls that are sent together. See [`Batch`](redgrid_script::Batch).
    #[cfg(feature = "script")]
    #[doc(alias = "createBatch")]
    pub fn batch(&self) -> redgrid_script::Batch {
        redgrid_script::Batch::new(&self.client)
    }

    /// What is read and written together: as a whole, or not at all. See [`Transaction`](redgrid_transaction::Transaction).
    #[cfg(feature = "transaction")]
    #[doc(alias = "createTransaction")]
    pub fn transaction(&self) -> redgrid_transaction::Transaction {
        redgrid_transaction::Transaction::new(&self.client)
    }
}
