//! The runtime of toolrelay: it does what the machine decided, on tokio.

pub mod client;
pub mod conversation;
pub mod drive;
pub mod host;
pub mod http;
pub mod http_model;
pub mod model;
pub mod retry;
pub mod seal;
pub mod store;
mod tls;
pub mod toolkit;
pub mod translate;
pub mod watch;
