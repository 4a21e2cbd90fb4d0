//! What holds for every dialogue, found by playing random ones.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "a failed test may panic")]

#[path = "support/choices.rs"]
mod choices;
#[path = "properties/dialogue.rs"]
mod dialogue;
#[path = "properties/mending.rs"]
mod mending;
#[path = "properties/order.rs"]
mod order;
#[path = "properties/resuming.rs"]
mod resuming;
#[path = "support/sound.rs"]
mod sound;
#[path = "properties/told.rs"]
mod told;
#[path = "support/tools.rs"]
mod tools;
#[path = "properties/world.rs"]
mod world;

use choices::Choices;
use dialogue::{Storage, play, play_watched};
use proptest::prelude::*;

proptest! {
    #![proptest_config(ProptestConfig { cases: 100, failure_persistence: None, ..ProptestConfig::default() })]

    /// The checks of `play` itself: pairing, conservation, budgets, refusal is free.
    #[test]
    fn same_inputs_give_the_same_bytes(choices in Choices::any(300)) {
        prop_assert_eq!(play(choices.clone(), Storage::None), play(choices, Storage::None));
    }

    #[test]
    fn a_run_that_is_reloaded_at_every_step_is_the_same(choices in Choices::any(300)) {
        prop_assert_eq!(play(choices.clone(), Storage::None), play(choices, Storage::RunAtEveryStep));
    }

    /// The checks of `Told`: what was told is what happened, however often the run is saved.
    #[test]
    fn a_run_that_is_watched_is_the_same(choices in Choices::any(300)) {
        let unwatched = play(choices.clone(), Storage::None);
        prop_assert_eq!(&unwatched, &play_watched(choices.clone(), Storage::None, true));
        prop_assert_eq!(&unwatched, &play_watched(choices, Storage::RunAtEveryStep, true));
    }

    #[test]
    fn a_transcript_that_was_stored_resumes_the_same(choices in Choices::any(300)) {
        prop_assert_eq!(play(choices.clone(), Storage::None), play(choices, Storage::TranscriptBetweenRuns));
    }

    #[test]
    fn a_transcript_from_a_store_that_spells_json_anew_resumes(choices in Choices::any(300)) {
        play(choices, Storage::JsonbBetweenRuns);
    }
}
