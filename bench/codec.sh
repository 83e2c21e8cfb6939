#!/usr/bin/env bash
# Codecs on one core: bytes beside the entropy, time beside the pass r += g, at five densities.
set -euo pipefail
source "$(dirname "${BASH_SOURCE[0]}")/on_core.bash"
core_options "$@"

codecs=(--codec raw --codec half --codec half:dtype=fp16)
for density in 0.0001 0.001 0.01 0.0625 0.25; do
  codecs+=(--codec "sparse:density=$density")
done
codecs+=(--codec sparse:density=0.001,values=fp32 --codec sparse:density=0.001,index=raw)

"$build/thinwire" bench codec "${codecs[@]}" --numel "$numel" --reps "$reps" --json | tee -a "$lines" |
  awk '
    function value(key) {
      return match($0, "\"" key "\": *[0-9.e+-]+") ? substr($0, RSTART + length(key) + 3, RLENGTH - length(key) - 3) + 0 : 0
    }
    BEGIN { printf "%-32s %12s %9s %9s %9s %10s %7s %10s %7s\n", "codec", "bytes", "B/coord.", "entropy", "above it", "encode ms", "x", "decode ms", "x" }
    {
      match($0, /"codec":"[^"]*"/)
      printf "%-32s %12d %9.3f %9.3f %7.2f %% %10.2f %7.2f %10.2f %7.2f\n", substr($0, RSTART + 9, RLENGTH - 10),
        value("bytes"), value("bytes_per_coordinate"), value("entropy_bytes_per_coordinate"),
        100 * (value("bytes_per_coordinate") / value("entropy_bytes_per_coordinate") - 1),
        1e3 * value("encode_seconds_median"), value("encode_ratio_to_add"),
        1e3 * value("decode_seconds_median"), value("decode_ratio_to_add")
    }'
