#!/usr/bin/env bash
# Codecs on one core: bytes beside the entropy, time beside the pass r += g, at five densities.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

numel=25M reps=11 build=build out=bench/results/codec.jsonl
while [ $# -gt 0 ]; do
  case $1 in
    --numel | --reps | --build | --out)
      [ $# -ge 2 ] || { echo "codec.sh: $1 needs a value" >&2; exit 2; }
      printf -v "${1#--}" %s "$2"
      shift 2 ;;
    *)
      echo "usage: bench/codec.sh [--numel N] [--reps K] [--build DIR] [--out FILE]" >&2
      exit 2 ;;
  esac
done

codecs=(--codec raw --codec half --codec half:dtype=fp16)
for density in 0.0001 0.001 0.01 0.0625 0.25; do
  codecs+=(--codec "sparse:density=$density")
done
codecs+=(--codec sparse:density=0.001,values=fp32 --codec sparse:density=0.001,index=raw)

scratch=$(mktemp)
trap 'rm -f "$scratch"' EXIT
cpu=$(awk -F ': ' '/^model name/ { print $2; exit }' /proc/cpuinfo)
read -r load _ </proc/loadavg
printf '{"bench":"codec","cpu":"%s","cores":%d,"kernel":"%s","load":%s,"commit":"%s"}\n' \
  "${cpu:-$(uname -m)}" "$(nproc)" "$(uname -r)" "$load" \
  "$(git describe --always --dirty 2>/dev/null || echo unknown)" >"$scratch"
"$build/thinwire" bench codec "${codecs[@]}" --numel "$numel" --reps "$reps" --json | tee -a "$scratch" |
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
mkdir -p "$(dirname "$out")"
cp "$scratch" "$out"
