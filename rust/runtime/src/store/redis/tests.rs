#![allow(clippy::unwrap_used, clippy::panic, reason = "a test fails by panicking")]

mod cluster;
mod faults;
mod tls;

use bytes::Bytes;
use redis::aio::MultiplexedConnection;
use redis::cmd;

use super::*;
use crate::store::testing::servers::{self, server};
use crate::store::testing::{append, body, id, touch};

/// A store with a prefix of its own; `None` without a server.
fn fresh() -> Option<RedisStore> {
    Some(on(&server("redis", &[])?, Duration::from_secs(5)))
}

fn on(url: &str, patience: Duration) -> RedisStore {
    let options = RedisOptions { prefix: servers::fresh("t"), patience, ..RedisOptions::default() };
    RedisStore::open_with(url, options).unwrap()
}

/// A way to a server beside the store.
async fn beside(url: &str) -> MultiplexedConnection {
    redis::Client::open(url).unwrap().get_multiplexed_async_connection().await.unwrap()
}

async fn say(url: &str, words: &[&str]) -> Value {
    cmd(words[0]).arg(&words[1..]).query_async(&mut beside(url).await).await.unwrap()
}
