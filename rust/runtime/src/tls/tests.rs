//! Whom a machine trusts.
#![allow(clippy::unwrap_used, clippy::panic, reason = "a test fails by panicking")]

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
fn a_file_of_certificates_must_hold_some() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("roots.pem");
    let tell = |told: &str| format!("{}: {told}", path.display());
    let refused = |trust: &Trust| client_config(trust, None).unwrap_err();
    assert_eq!(refused(&Trust::Chain(path.clone())), TlsError::File(tell("entity not found")));
    std::fs::write(&path, "nothing of the kind").unwrap();
    assert_eq!(refused(&Trust::Named(Some(path.clone()))), TlsError::File(tell("it holds none")));
}
