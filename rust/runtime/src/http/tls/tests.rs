//! The name that a certificate must bear.

use super::*;

#[test]
fn an_address_may_name_the_server_by_name_or_by_number() {
    for (address, expected) in [
        ("https://api.example.com/v1", "api.example.com"),
        ("https://127.0.0.1:8443/", "127.0.0.1"),
        ("https://[::1]:8443/", "::1"),
    ] {
        let name = server_name(&Uri::from_static(address));
        assert!(name.is_ok_and(|name| name.to_str() == expected), "{address}");
    }
}
