//! The tables: their schema, and the numbered migrations that make them.

use std::sync::atomic::Ordering;

use async_trait::async_trait;
use tokio_postgres::types::Type;
use tokio_postgres::{Client, Transaction};

use super::super::remote::{Fault, Question};
use super::super::{InvalidUrl, StoreError};
use super::line::Wire;
use super::{Shared, fault};

/// The migrations; number N brings the tables from schema N - 1 to schema N.
pub(super) const MIGRATIONS: &[&str] = &[include_str!("0001_conversations.sql")];

/// The schema that this version reads and writes.
#[expect(clippy::cast_possible_truncation, clippy::cast_possible_wrap, reason = "there are fewer than 2^31 migrations")]
pub(super) const NEWEST: i32 = MIGRATIONS.len() as i32;

/// The schema of the database that holds the tables, and every statement, with its name in them.
pub(super) struct Schema {
    name: String,
    quoted: String,
    pub(super) load: String,
    pub(super) look: String,
    pub(super) create: String,
    pub(super) update: String,
    pub(super) delete: String,
    pub(super) why: String,
    pub(super) taken: String,
    pub(super) leases: String,
    pub(super) by_age: String,
    pub(super) by_expiry: String,
}

impl Schema {
    pub(super) fn new(name: String) -> Result<Self, InvalidUrl> {
        let is_name = (1..=LONGEST_NAME).contains(&name.len()) && !name.contains('\0');
        if !is_name {
            let reason = format!("its name has {} bytes, or a NUL", name.len());
            return Err(InvalidUrl { expected: "accompanied by a schema of 1 to 63 bytes", reason });
        }
        let quoted = format!("\"{}\"", name.replace('"', "\"\""));
        let of = |statement: &str| statement.replace("{schema}", &quoted);
        let (commit, open) = (include_str!("commit.sql"), include_str!("open.sql"));
        Ok(Self {
            load: of(include_str!("load.sql")),
            look: of(include_str!("look.sql")),
            create: of(&commit.replace("{moved}", include_str!("create.sql"))),
            update: of(&commit.replace("{moved}", include_str!("update.sql"))),
            delete: of(include_str!("delete.sql")),
            why: of(include_str!("why.sql")),
            taken: of(include_str!("taken.sql")),
            leases: of(include_str!("leases.sql")),
            by_age: of(&open.replace("{time}", "made_at_ms")),
            by_expiry: of(&open.replace("{time}", "expires_at_ms")),
            name,
            quoted,
        })
    }

    pub(super) fn name(&self) -> &str {
        &self.name
    }
}

impl Shared {
    /// Refuses tables that a newer version has taken over, as it may at any time.
    pub(super) fn still_ours(&self, newest: Option<i32>) -> Result<(), Fault> {
        let store = || self.remote.name().to_owned();
        match newest {
            None => Err(StoreError::Gone { store: store() }.into()),
            Some(found) if found > NEWEST => {
                let (found, supported) = (found.unsigned_abs(), NEWEST.unsigned_abs());
                Err(StoreError::NewerSchema { store: store(), found, supported }.into())
            }
            Some(_) => Ok(()),
        }
    }
}

/// A question to tables that are what this version expects: if they are not, they are made so first.
pub(super) struct Prepared<'s, Q> {
    pub(super) shared: &'s Shared,
    pub(super) question: Q,
}

#[async_trait]
impl<Q: Question<Wire>> Question<Wire> for Prepared<'_, Q> {
    type Answer = Q::Answer;

    async fn ask(&self, wire: &mut Wire) -> Result<Q::Answer, Fault> {
        if !self.shared.prepared.load(Ordering::Acquire) {
            self.shared.prepare(wire).await?;
            self.shared.prepared.store(true, Ordering::Release);
        }
        self.question.ask(wire).await
    }
}

impl Shared {
    async fn prepare(&self, wire: &mut Wire) -> Result<(), Fault> {
        let store = || self.remote.name().to_owned();
        let failed = |error| match fault::of(&store(), self.remote.patience(), &error) {
            // Tables with our names, and another's content.
            _ if fault::is_missing(&error) || fault::is_there(&error) => {
                StoreError::NotAStore { store: store() }.into()
            }
            fault => fault,
        };
        let encoding: String = wire.client.query_typed_one(ENCODING, &[]).await.map_err(failed)?.get(0);
        if encoding != "UTF8" {
            let reason = format!("the database has the encoding {encoding}, make one with UTF8");
            return Err(StoreError::Unavailable { store: store(), reason }.into());
        }
        let newest = self.newest(&wire.client).await.map_err(failed)?;
        if newest == Some(NEWEST) {
            return Ok(());
        }
        if newest.is_some() {
            self.still_ours(newest)?;
        }
        let transaction = wire.client.transaction().await.map_err(failed)?;
        self.migrate(&transaction).await.map_err(failed)?;
        transaction.commit().await.map_err(failed)
    }

    async fn migrate(&self, transaction: &Transaction<'_>) -> Result<(), tokio_postgres::Error> {
        let Schema { name, quoted, .. } = &self.schema;
        transaction.batch_execute(LOCK).await?;
        // Somebody else may have done it while this one waited for the lock.
        let done = self.newest(transaction.client()).await?;
        if done.is_none() {
            // Asked first, because one who may not make schemas may not even "if not exists".
            if transaction.query_typed(SCHEMA, &[(name, Type::TEXT)]).await?.is_empty() {
                transaction.batch_execute(&format!("CREATE SCHEMA {quoted}")).await?;
            }
            transaction.batch_execute(&format!("CREATE TABLE {quoted}.migration {NUMBERS}")).await?;
        }
        for (number, migration) in (1..).zip(MIGRATIONS).filter(|(number, _)| Some(*number) > done) {
            transaction.batch_execute(&migration.replace("{schema}", quoted)).await?;
            let note = format!("INSERT INTO {quoted}.migration (number) VALUES ($1)");
            transaction.query_typed(&note, &[(&number, Type::INT4)]).await?;
        }
        Ok(())
    }

    /// The number of the newest migration that was made; `None` when there are no tables of ours.
    async fn newest(&self, client: &Client) -> Result<Option<i32>, tokio_postgres::Error> {
        let Schema { name, quoted, .. } = &self.schema;
        if client.query_typed(TABLE, &[(name, Type::TEXT)]).await?.is_empty() {
            return Ok(None);
        }
        let newest = format!("SELECT coalesce(max(number), 0) FROM {quoted}.migration");
        Ok(Some(client.query_typed_one(&newest, &[]).await?.get(0)))
    }
}

const ENCODING: &str = "SELECT current_setting('server_encoding')";
/// Looked up as a row: what PostgreSQL remembers of names may be older than the lock.
const TABLE: &str = "SELECT FROM pg_class JOIN pg_namespace AS schema ON schema.oid = relnamespace
    WHERE nspname = $1 AND relname = 'migration'";
const SCHEMA: &str = "SELECT FROM pg_namespace WHERE nspname = $1";
const NUMBERS: &str = "(number integer PRIMARY KEY, made timestamptz NOT NULL DEFAULT now())";
/// One migrates, the others wait. The key is the letters `TlRl`.
const LOCK: &str = "SET LOCAL lock_timeout = '15s'; SELECT pg_advisory_xact_lock(1416385132)";

/// The longest name that PostgreSQL does not cut.
const LONGEST_NAME: usize = 63;
