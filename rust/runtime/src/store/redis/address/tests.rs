//! URLs: what is read from them, and what is refused.
#![allow(clippy::unwrap_used, clippy::panic, reason = "a test fails by panicking")]

use super::*;

#[test]
fn a_server_is_named_without_anything_secret() {
    for (url, name, is_secure) in [
        ("redis://me:s3cret@cache.example.org:6380/2", "cache.example.org:6380/2", false),
        ("rediss://:s3cret@cache.example.org", "cache.example.org:6379/0", true),
        ("valkeys://me:s3%40cret@[::1]:7000", "::1:7000/0", true),
        ("unix:///run/redis.sock?db=3&pass=s3cret", "/run/redis.sock/3", false),
    ] {
        let Ok(address) = Address::parse(url) else { panic!("{url}") };
        assert_eq!((address.name(), address.tls.is_some()), (format!("Redis at {name}"), is_secure), "{url}");
    }
}

#[test]
fn a_url_that_leads_nowhere_is_refused_without_being_quoted() {
    for url in [
        "cache.example.org:6379",
        "http://me:s3cret@cache.example.org",
        "redis://me:s3cret/x@cache.example.org",
        "redis://me:1/s3cret@cache.example.org",
        "redis://me:s3cret@cache.example.org/zero",
        "redis://:s3cret@",
    ] {
        let Err(refused) = Address::parse(url) else { panic!("{url} was taken") };
        assert!(!refused.to_string().contains("s3cret"), "{refused}");
    }
}

#[test]
fn a_neighbour_is_spoken_to_in_the_same_way() {
    let Ok(address) = Address::parse("rediss://me:s3cret@one:7000/0") else { panic!("no address") };
    for (named, name) in [("two:7001", "two:7001/0"), (":7002", "one:7002/0"), ("::1:7003", "::1:7003/0")] {
        let neighbour = address.neighbour(named).unwrap();
        assert_eq!(neighbour.name(), format!("Redis at {name}"));
        assert_eq!((neighbour.tls.is_some(), neighbour.login.password()), (true, Some("s3cret")));
    }
    assert!(address.neighbour("nothing").is_none());
}
