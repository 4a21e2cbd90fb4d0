#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use super::MemoryStore;
use crate::store::Store;
use crate::store::testing::{id, touch};

#[tokio::test]
async fn clones_share_what_they_keep() {
    let store = MemoryStore::new();
    let clone = store.clone();
    store.commit(&id("c"), touch(0)).await.unwrap();
    assert_eq!(clone.load(&id("c")).await.unwrap().unwrap().version, 1);
    assert_eq!(format!("{clone:?}"), "MemoryStore { conversations: 1 }");
}
