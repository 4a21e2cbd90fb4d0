#![allow(clippy::unwrap_used, clippy::panic, reason = "a test fails by panicking")]

mod faults;
mod migrations;
mod sizes;
mod tls;

use bytes::Bytes;
use tokio_postgres::{Client, NoTls};

use super::*;
use crate::store::Slot;
use crate::store::testing::servers::{self, server};
use crate::store::testing::{append, body, id, touch};

/// A store in a schema of its own; `None` without a server.
fn fresh() -> Option<PostgresStore> {
    Some(on(&server("postgres", &[])?, Duration::from_secs(5)))
}

fn on(url: &str, patience: Duration) -> PostgresStore {
    let options = PostgresOptions { schema: servers::fresh("t"), patience, ..PostgresOptions::default() };
    PostgresStore::open_with(url, options).unwrap()
}

/// Another store in the schema of this one.
fn again(url: &str, store: &PostgresStore) -> PostgresStore {
    let schema = store.shared.schema.name().to_owned();
    PostgresStore::open_with(url, PostgresOptions { schema, ..PostgresOptions::default() }).unwrap()
}

/// A way into the database beside the store.
async fn beside(store: &PostgresStore) -> Client {
    let url = server("postgres", &[]).unwrap();
    let (client, connection) = tokio_postgres::connect(&url, NoTls).await.unwrap();
    tokio::spawn(connection);
    client.batch_execute(&format!("SET search_path TO \"{}\"", store.shared.schema.name())).await.unwrap();
    client
}

/// Statements beside the store, with its schema as `{schema}`.
async fn execute(store: &PostgresStore, statements: &str) {
    let schema = format!("\"{}\"", store.shared.schema.name());
    beside(store).await.batch_execute(&statements.replace("{schema}", &schema)).await.unwrap();
}
