//! How long a stream may be silent, and what breaks its silence.

use std::time::Duration;

use tokio::time::Instant;
use toolrelay_core::wire::Style;
use toolrelay_core::wire::failure::FailureKind;

use crate::crew::toolkit;
use crate::scene::{Audience, Provider, client, watch};
use crate::{HEL, LO, STOP, failure, idle};

const PING: &str = ": ping\n\n";

#[tokio::test(start_paused = true)]
async fn d21_pings_do_not_hide_a_stream_that_is_stuck() {
    let (provider, audience) = (Provider::default(), Audience::new());
    let feed = provider.stream();
    let (client, tools, crew) = (client(&provider, Style::OpenAi), toolkit(&[]), idle());
    let begun = Instant::now();
    let feeding = async {
        feed.send(HEL).await;
        while tokio::time::timeout(Duration::from_secs(5), feed.closed()).await.is_err() {
            feed.send_raw(PING).await;
        }
    };
    let (report, ()) = tokio::join!(watch(&client, &tools, &crew, &audience), feeding);
    let report = report.unwrap();
    let failure = failure(&report);
    assert_eq!((failure.kind, failure.partial_text.as_deref()), (FailureKind::Timeout, Some("Hel")));
    assert!(failure.message.contains("nothing of the reply arrived within 600s"), "{failure}");
    assert_eq!(begun.elapsed().as_secs(), 600);
}

#[tokio::test(start_paused = true)]
async fn d21_a_long_silence_before_content_is_no_failure_and_content_starts_the_time_anew() {
    let (provider, audience) = (Provider::default(), Audience::new());
    let feed = provider.stream();
    let (client, tools, crew) = (client(&provider, Style::OpenAi), toolkit(&[]), idle());
    let feeding = async {
        for _ in 0..4 {
            tokio::time::sleep(Duration::from_mins(9)).await;
            feed.send(HEL).await;
        }
        feed.send(STOP).await;
        drop(feed);
    };
    let (report, ()) = tokio::join!(watch(&client, &tools, &crew, &audience), feeding);
    assert_eq!(report.unwrap().text, "HelHelHelHel");
}

#[tokio::test(start_paused = true)]
async fn d21_content_that_nobody_is_told_of_is_content() {
    let (provider, audience) = (Provider::default(), Audience::new());
    let feed = provider.stream();
    let (client, tools, crew) = (client(&provider, Style::OpenAi), toolkit(&[]), idle());
    let feeding = async {
        for _ in 0..4 {
            tokio::time::sleep(Duration::from_mins(9)).await;
            feed.send(r#"{"choices":[{"delta":{"reasoning_details":[{"type":"reasoning.encrypted","data":"q0"}]}}]}"#)
                .await;
        }
        feed.send(HEL).await;
        feed.send(STOP).await;
        drop(feed);
    };
    let (report, ()) = tokio::join!(watch(&client, &tools, &crew, &audience), feeding);
    assert_eq!(report.unwrap().text, "Hel");
}

#[tokio::test(start_paused = true)]
async fn d21_a_watcher_may_take_its_time() {
    let (provider, audience) = (Provider::default(), Audience::with_room(1));
    let feed = provider.stream();
    let (client, tools, crew) = (client(&provider, Style::OpenAi), toolkit(&[]), idle());
    let feeding = async {
        feed.send(HEL).await;
        tokio::time::sleep(Duration::from_hours(5)).await;
        audience.make_room();
        tokio::time::sleep(Duration::from_mins(9)).await;
        feed.send(LO).await;
        audience.make_room();
        feed.send(STOP).await;
        drop(feed);
        audience.make_room();
    };
    let (report, ()) = tokio::join!(watch(&client, &tools, &crew, &audience), feeding);
    assert_eq!(report.unwrap().text, "Hello");
}

#[tokio::test(start_paused = true)]
async fn d21_a_stream_that_is_whole_and_does_not_end_is_waited_for_a_short_time() {
    let (provider, audience) = (Provider::default(), Audience::new());
    let feed = provider.stream();
    let (client, tools, crew) = (client(&provider, Style::OpenAi), toolkit(&[]), idle());
    let begun = Instant::now();
    let feeding = async {
        feed.send(HEL).await;
        tokio::time::sleep(Duration::from_secs(30)).await;
        feed.send(STOP).await;
        while tokio::time::timeout(Duration::from_secs(3), feed.closed()).await.is_err() {
            feed.send_raw(PING).await;
        }
    };
    let watching = async { (watch(&client, &tools, &crew, &audience).await, begun.elapsed().as_secs()) };
    let ((report, ended), ()) = tokio::join!(watching, feeding);
    assert_eq!((report.unwrap().text.as_str(), ended), ("Hel", 40));
}

#[tokio::test(start_paused = true)]
async fn d21_usage_behind_the_finish_reason_is_waited_for_and_is_the_end() {
    let (provider, audience) = (Provider::default(), Audience::new());
    let feed = provider.stream();
    let (client, tools, crew) = (client(&provider, Style::OpenAi), toolkit(&[]), idle());
    let begun = Instant::now();
    let feeding = async {
        feed.send(HEL).await;
        feed.send(STOP).await;
        tokio::time::sleep(Duration::from_secs(9)).await;
        feed.send(r#"{"choices":[],"usage":{"prompt_tokens":9}}"#).await;
        feed.closed().await;
    };
    let watching = async { (watch(&client, &tools, &crew, &audience).await, begun.elapsed().as_secs()) };
    let ((report, ended), ()) = tokio::join!(watching, feeding);
    assert_eq!((report.unwrap().usage.input_tokens, ended), (9, 9));
}
