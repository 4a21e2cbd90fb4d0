#!/bin/bash
# Fuzzes the decoders of streams, for ever or as told: rust/fuzz/run.sh -max_total_time=600
# It needs a C++ compiler; a stable Rust will do.
set -euo pipefail
cd "$(dirname "$0")"
flags=(-Cpasses=sancov-module -Ccodegen-units=1)
for kind in level=4 inline-8bit-counters pc-table trace-compares; do
  flags+=("-Cllvm-args=-sanitizer-coverage-$kind")
done
target=$(rustc -vV | sed -n 's/^host: //p')
RUSTFLAGS="${flags[*]} --cfg fuzzing" cargo build --quiet --release --target "$target"
mkdir -p corpus
exec "${CARGO_TARGET_DIR:-target}/$target/release/streams" -dict=streams.dict -max_len=4096 "$@" corpus seeds
