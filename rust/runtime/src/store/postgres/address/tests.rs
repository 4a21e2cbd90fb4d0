//! URLs: what is read from them, and what is refused.
#![allow(clippy::unwrap_used, clippy::panic, reason = "a test fails by panicking")]

use super::*;

fn refused(url: &str) -> String {
    let Err(refused) = Address::parse(url) else { panic!("{url} was taken") };
    let told = refused.to_string();
    assert!(!told.contains("s3cret"), "{told}");
    told
}

#[test]
fn a_server_is_named_without_anything_secret() {
    for (url, name) in [
        ("postgresql://me:s3cret@db.example.org:5433/app", "db.example.org:5433/app"),
        ("postgres://me:s3cret@db.example.org", "db.example.org:5432/me"),
        ("postgresql://me:s3%40cret%2F@[::1]:5433/app?application_name=x", "::1:5433/app"),
        ("postgresql://me@one:1,two:2/app?target_session_attrs=read-write", "one:1,two:2/app"),
        ("postgresql:///app?host=/var/run/postgresql&user=me", "/var/run/postgresql/app"),
    ] {
        let Ok(address) = Address::parse(url) else { panic!("{url}") };
        assert_eq!(address.name(), format!("PostgreSQL at {name}"), "{url}");
    }
}

#[test]
fn the_mode_says_what_of_the_server_is_checked() {
    let file = || PathBuf::from("/etc/my roots.pem");
    for (options, mode, trust) in [
        ("", SslMode::Prefer, Trust::Anyone),
        ("?sslmode=disable", SslMode::Disable, Trust::Anyone),
        ("?sslmode=require", SslMode::Require, Trust::Anyone),
        ("?sslmode=require&sslrootcert=/etc/my%20roots.pem", SslMode::Require, Trust::Chain(file())),
        ("?sslmode=verify-ca&sslrootcert=/etc/my%20roots.pem", SslMode::Require, Trust::Chain(file())),
        ("?sslmode=verify-full", SslMode::Require, Trust::Named(None)),
        ("?sslmode=verify-full&sslrootcert=system", SslMode::Require, Trust::Named(None)),
        ("?sslrootcert=/etc/my%20roots.pem&sslmode=verify-full", SslMode::Require, Trust::Named(Some(file()))),
    ] {
        let Ok(address) = Address::parse(&format!("postgresql://me@db/app{options}")) else { panic!("{options}") };
        assert_eq!((address.config.get_ssl_mode(), address.trust), (mode, trust), "{options}");
    }
}

#[test]
fn a_url_that_leads_nowhere_is_refused_without_being_quoted() {
    assert!(refused("host=db user=me password=s3cret").contains("it begins otherwise"));
    assert!(refused("mysql://me:s3cret@db/app").contains("it begins otherwise"));
    assert!(refused("postgresql://me:s3cret@/app").contains("no host"));
    for unescaped in ["me:x@s3cret@db", "me:x?s3cret=1@db", "me:x%s3cret@db:port", "me:x[s3cret@[db"] {
        refused(&format!("postgresql://{unescaped}/app"));
    }
    assert!(refused("postgresql://me@db/app?sslmode=verify").contains("sslmode is disable"));
    assert!(refused("postgresql://me@db/app?sslmode=verify-ca").contains("sslrootcert"));
    assert!(refused("postgresql://me@db/app?sslpassword=s3cret").contains("are known"));
    for half in ["sslcert=s3cret.crt", "sslkey=s3cret.key"] {
        assert!(refused(&format!("postgresql://me@db/app?{half}")).contains("sslcert and sslkey go together"));
    }
}
