#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use super::super::conformance::{self, conformance};
use super::MemoryStore;
use crate::store::Store;

conformance!((MemoryStore::new(), ()));

#[tokio::test]
async fn clones_share_what_they_keep() {
    let store = MemoryStore::new();
    let clone = store.clone();
    store.commit(&conformance::id("c"), conformance::touch(0)).await.unwrap();
    assert_eq!(clone.load(&conformance::id("c")).await.unwrap().unwrap().version, 1);
    assert_eq!(format!("{clone:?}"), "MemoryStore { conversations: 1 }");
}
