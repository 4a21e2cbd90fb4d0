//! Whom a machine trusts.

use super::*;

#[test]
fn a_machine_without_certificates_trusts_the_compiled_in_ones() {
    assert!(roots(Vec::new(), false, "no such file").is_ok_and(|roots| roots.len() > 100));
}

#[test]
fn certificates_that_the_environment_names_must_be_there() {
    let missing = roots(Vec::new(), true, "no such file");
    assert_eq!(missing.err(), Some(TlsError::NoRoots("no such file".into())));
    let junk = roots(vec![CertificateDer::from(b"junk".to_vec())], true, "");
    assert_eq!(junk.err(), Some(TlsError::NoRoots("it holds none".into())));
}

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
