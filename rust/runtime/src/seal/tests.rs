#![allow(clippy::unwrap_used, clippy::panic, reason = "tests fail by panicking")]

use toolrelay_core::transcript::Transcript;

use super::{Opened, SealError, SealKeys};

const NOW: i64 = 1_800_000_000_000;

fn keys(seeds: &[u8]) -> SealKeys {
    SealKeys::new(seeds.iter().map(|seed| [*seed; 32]).collect()).unwrap()
}

fn halted() -> Transcript {
    let json = r#"[{"role":"user","content":"list"},
        {"role":"assistant","content":null,"tool_calls":[{"id":"k1","type":"function","function":{"name":"shell","arguments":"{ \"z\": 1.0 }"}}]},
        {"role":"tool","tool_call_id":"k1","content":"","toolrelay":{"pending":{"id":"r1","turns":1}}}]"#;
    Transcript::from_json(json.into()).unwrap()
}

fn sealed(audience: Option<&str>, until_ms: Option<i64>) -> String {
    keys(&[1]).seal(&halted(), audience, until_ms).unwrap()
}

fn refused(keys: &SealKeys, token: &str, audience: Option<&str>) -> SealError {
    keys.open(token, audience, NOW).unwrap_err()
}

#[test]
fn a_sealed_halt_comes_back_byte_for_byte() {
    let token = sealed(Some("user-7"), Some(NOW + 1));
    let Opened { transcript, until_ms, id } = keys(&[1]).open(&token, Some("user-7"), NOW).unwrap();
    assert_eq!((transcript.to_json(), until_ms, id.len()), (halted().to_json(), Some(NOW + 1), 22));
}

#[test]
fn a_token_shows_nothing_of_the_transcript_and_no_two_are_alike() {
    let (one, other) = (sealed(None, None), sealed(None, None));
    assert_ne!(one, other);
    assert!(one.starts_with("tr1.") && one[4..].bytes().all(|b| b.is_ascii_alphanumeric() || b"-_".contains(&b)));
    assert_eq!(format!("{:?}", keys(&[1, 2])), "SealKeys { keys: 2, .. }");
}

#[test]
fn every_changed_character_is_noticed() {
    let token = sealed(None, None);
    for at in 4..token.len() {
        let other = if token.as_bytes()[at] == b'A' { 'B' } else { 'A' };
        let mut forged = token.clone();
        forged.replace_range(at..=at, &other.to_string());
        let why = refused(&keys(&[1]), &forged, None);
        // The last character may have bits that stand for nothing; those must be zero.
        assert!(matches!(why, SealError::Forged | SealError::UnknownKey | SealError::Malformed), "{at}: {why:?}");
    }
}

#[test]
fn every_shortened_token_is_refused() {
    let token = sealed(None, None);
    for end in 0..token.len() {
        assert!(keys(&[1]).open(&token[..end], None, NOW).is_err(), "{end}");
    }
    assert_eq!(refused(&keys(&[1]), &format!("{token}AAAA"), None), SealError::Forged);
}

#[test]
fn an_expired_token_is_refused_from_its_very_end_on() {
    let token = sealed(None, Some(NOW));
    assert!(keys(&[1]).open(&token, None, NOW - 1).is_ok());
    assert_eq!(refused(&keys(&[1]), &token, None), SealError::Expired);
}

#[test]
fn a_token_opens_for_its_audience_alone() {
    for (sealed_for, asked) in [(Some("ann"), Some("bob")), (Some("ann"), None), (None, Some("ann")), (Some(""), None)]
    {
        assert_eq!(refused(&keys(&[1]), &sealed(sealed_for, None), asked), SealError::Audience);
    }
}

#[test]
fn a_new_key_in_front_seals_and_the_old_one_still_opens() {
    let rotated = keys(&[2, 1]);
    assert!(rotated.open(&sealed(None, None), None, NOW).is_ok());
    let token = rotated.seal(&halted(), None, None).unwrap();
    assert!(keys(&[2]).open(&token, None, NOW).is_ok());
    assert_eq!(refused(&keys(&[1]), &token, None), SealError::UnknownKey);
}

#[test]
fn what_is_no_token_is_told_from_one_of_a_newer_version() {
    let old = keys(&[1]);
    for text in ["", "tr", "tr1", "tr1.", "tr1.****", "tr0.AAAA", "jwt.AAAA", "tr1.AAAA"] {
        assert_eq!(refused(&old, text, None), SealError::Malformed, "{text}");
    }
    assert_eq!(refused(&old, "tr2.AAAA", None), SealError::Newer);
}

#[test]
fn a_transcript_that_waits_for_nothing_is_not_sealed() {
    let idle = Transcript::from_json(r#"[{"role":"user","content":"hi"}]"#.into()).unwrap();
    assert_eq!(keys(&[1]).seal(&idle, None, None), Err(SealError::NotHalted));
    assert!(SealKeys::new(Vec::new()).is_none());
}
