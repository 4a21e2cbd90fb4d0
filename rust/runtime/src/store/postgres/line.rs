//! One connection to the database, and the task that reads from it.

use std::time::Duration;

use async_trait::async_trait;
use tokio::task::JoinHandle;
use tokio_postgres::Client;

use super::super::StoreError;
use super::super::remote::{Dial, Fault, Line};
use super::address::Address;
use super::fault;

/// How the database is dialled.
pub(super) struct Dialler {
    pub(super) address: Address,
    /// The store, as errors name it.
    pub(super) name: String,
    pub(super) patience: Duration,
}

/// A connection.
pub(super) struct Wire {
    pub(super) client: Client,
    driver: JoinHandle<()>,
}

#[async_trait]
impl Dial for Dialler {
    type Line = Wire;

    async fn dial(&self) -> Result<Wire, Fault> {
        let unavailable = |reason: String| StoreError::Unavailable { store: self.name.clone(), reason };
        let tls = self.address.tls().map_err(|error| unavailable(error.to_string()))?;
        let connected = self.address.config.connect(tls).await;
        let (client, connection) = connected.map_err(|error| fault::of(&self.name, self.patience, &error))?;
        // What ends it is told to whoever waits for an answer.
        let driver = tokio::spawn(async move { _ = connection.await });
        Ok(Wire { client, driver })
    }
}

#[async_trait]
impl Line for Wire {
    fn is_closed(&self) -> bool {
        self.client.is_closed()
    }

    async fn hang_up(self) {
        drop(self.client);
        _ = self.driver.await;
    }
}
