//! One connection to a server, and the task that reads from it.

use async_trait::async_trait;
use redis::AsyncConnectionConfig;
use redis::aio::MultiplexedConnection;
use tokio::task::JoinHandle;

use super::super::remote::{Dial, Fault, Line};
use super::address::Address;
use super::fault;

/// How a server is dialled.
pub(super) struct Dialler {
    pub(super) address: Address,
    /// The store, as errors name it.
    pub(super) name: String,
}

/// A connection.
pub(super) struct Wire {
    pub(super) connection: MultiplexedConnection,
    driver: JoinHandle<()>,
}

#[async_trait]
impl Dial for Dialler {
    type Line = Wire;

    async fn dial(&self) -> Result<Wire, Fault> {
        let stream = self.address.open().await.map_err(|error| fault::of(&self.name, &error.into()))?;
        // How long an answer is waited for is decided above.
        let config = AsyncConnectionConfig::new().set_response_timeout(None);
        let begun = MultiplexedConnection::new_with_config(&self.address.login, stream, config).await;
        let (connection, driver) = begun.map_err(|error| fault::of(&self.name, &error))?;
        Ok(Wire { connection, driver: tokio::spawn(driver) })
    }
}

#[async_trait]
impl Line for Wire {
    fn is_closed(&self) -> bool {
        self.driver.is_finished()
    }

    async fn hang_up(self) {
        drop(self.connection);
        _ = self.driver.await;
    }
}
