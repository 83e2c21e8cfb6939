#!/usr/bin/env bash
# Dense all-reduce over a real slow network: thinwire's, and Gloo's and Open MPI's own.
set -euo pipefail
source "$(dirname "${BASH_SOURCE[0]}")/in_lab.bash"
numel=25000000 reps=5
lab_options "$@"

launch() {  # PROGRAM
  local ours=("$build/thinwire" bench allreduce --strategy dense --numel "$numel" --reps "$reps" --json) store
  local native=(--numel "$numel" --reps "$reps" --network "$rate")
  case $1 in
    thinwire-gloo) lab_run "${ours[@]}" --transport gloo ;;
    thinwire-mpi) lab_run --mpi "${ours[@]}" --transport mpi ;;
    gloo-native)
      store=$(mktemp -d "$scratch/store.XXXXXX")
      lab_run "$build/bench/native_gloo" "${native[@]}" --store "$store" ;;
    openmpi-native) lab_run --mpi "$build/bench/native_mpi" "${native[@]}" ;;
    # Open MPI with the algorithm that suits this network instead of the one it chooses.
    openmpi-native-ring)
      OMPI_MCA_coll_tuned_use_dynamic_rules=1 OMPI_MCA_coll_tuned_allreduce_algorithm=4 \
        launch openmpi-native ;;
  esac
}
lab_measure thinwire-gloo thinwire-mpi gloo-native openmpi-native openmpi-native-ring
