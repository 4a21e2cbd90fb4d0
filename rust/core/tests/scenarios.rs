//! Runs every dialogue of `tests/scenarios/*.json` through the pure machine. The fixture language
//! is described in `tests/scenarios/README.md`; other drivers run the same files.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "a failed test may panic")]
#![allow(clippy::disallowed_methods, reason = "the fixtures are files; the machine itself reads none")]

#[path = "scenarios/drive.rs"]
mod drive;
#[path = "scenarios/fixture.rs"]
mod fixture;
#[path = "scenarios/render.rs"]
mod render;
#[path = "scenarios/stage.rs"]
mod stage;
#[path = "support/tools.rs"]
mod tools;

use std::path::{Path, PathBuf};

use drive::Reload;

#[test]
fn every_dialogue_ends_as_written() {
    run_all(Reload::Never);
}

#[test]
fn every_dialogue_ends_the_same_when_the_run_is_reloaded_at_every_step() {
    run_all(Reload::EveryStep);
}

/// Runs all fixtures and reports every one that differs, not only the first.
fn run_all(reload: Reload) {
    let files = fixtures();
    assert!(files.len() > 20, "only {} fixtures found", files.len());
    let failures: Vec<String> = files.iter().filter_map(|file| run_file(file, reload).err()).collect();
    assert!(failures.is_empty(), "{} of {} dialogues differ\n{}", failures.len(), files.len(), failures.join("\n"));
}

fn run_file(file: &Path, reload: Reload) -> Result<(), String> {
    let name = file.file_stem().unwrap_or_default().to_string_lossy().into_owned();
    let text = std::fs::read_to_string(file).map_err(|error| format!("{name}: {error}"))?;
    let scenario = serde_json::from_str(&text).map_err(|error| format!("{name}: {error}"))?;
    drive::play(&scenario, reload).map_err(|difference| format!("{name}: {difference}"))
}

fn fixtures() -> Vec<PathBuf> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/scenarios");
    let entries = std::fs::read_dir(&folder).expect("the folder of fixtures is there");
    let mut files: Vec<PathBuf> = entries.map(|entry| entry.unwrap().path()).collect();
    files.retain(|file| file.extension().is_some_and(|extension| extension == "json"));
    files.sort();
    files
}
