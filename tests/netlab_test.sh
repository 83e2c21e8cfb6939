#!/usr/bin/env bash
# tools/netlab as its users meet it. Needs root and network namespaces; exits 77 (skipped) without.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
readonly netlab=tools/netlab
readonly ours=test$$ # names of the labs made here begin with this
readonly deadline_seconds=60
scratch=$(mktemp -d)
mkdir "$scratch/tmp"
failures=0

skip() {
  echo "skipped: $1"
  exit 77
}

leave() {
  "$netlab" down --name "${ours}a" || true
  "$netlab" down --name "${ours}b" || true
  rm -rf "$scratch"
}

can_make_labs() {
  local ns=netlabprobe$$ rc=0
  ip netns add "$ns" &&
    { ip -n "$ns" link add br0 type bridge && ip -n "$ns" link add name v0 type veth peer name v1 &&
      tc -n "$ns" qdisc add dev v0 root tbf rate 1gbit burst 10kb limit 10kb; } || rc=1
  ip netns delete "$ns" || rc=1
  return "$rc"
}

[ "$(id -u)" -eq 0 ] || { rm -rf "$scratch"; skip "needs root"; }
can_make_labs 2>"$scratch/probe" || {
  reason=$(tail -1 "$scratch/probe")
  rm -rf "$scratch"
  skip "no network namespaces here: $reason"
}
trap leave EXIT

expect() {  # WHAT ACTUAL EXPECTED
  if [ "$2" != "$3" ]; then
    printf 'FAILED: %s\n  expected: %s\n  actual:   %s\n' "$1" "$3" "$2"
    failures=$((failures + 1))
  fi
}

expect_match() {  # WHAT ACTUAL REGEX
  if ! grep -qE -e "$3" <<<"$2"; then
    printf 'FAILED: %s\n  expected: /%s/\n  actual:   %s\n' "$1" "$3" "$2"
    failures=$((failures + 1))
  fi
}

within_deadline() {  # CMD...: waits until it succeeds
  local end=$((SECONDS + deadline_seconds))
  until "$@"; do
    [ "$SECONDS" -lt "$end" ] || return 1
    sleep 0.05
  done
}

code_of() {  # CMD...: output goes to $scratch/{out,err}
  local code=0
  timeout "$deadline_seconds" "$@" >"$scratch/out" 2>"$scratch/err" || code=$?
  echo "$code"
}

# What a run by process PID has left behind; nothing is right.
remains() {  # PID
  ip netns list | grep "^netlab-lab$1-" || true
  find /etc/netns -name "netlab-lab$1-*" 2>/dev/null || true
  find "$scratch/tmp" -mindepth 1
  grep -lzx "NETLAB_RUN=lab$1.$1" /proc/[0-9]*/environ 2>/dev/null || true
}
nothing_remains() { [ -z "$(remains "$1")" ]; }

# --- Each rank runs on a host of its own; stdout is rank 0's alone.
# shellcheck disable=SC2016
report='echo "$(hostname) $RANK $WORLD_SIZE $LOCAL_RANK $MASTER_ADDR:$MASTER_PORT ${GLOO_SOCKET_IFNAME-none}"'
code=$(GLOO_SOCKET_IFNAME=wrong code_of "$netlab" run -n 3 -- bash -c "$report")
expect "run succeeds" "$code" 0
expect_match "rank 0 on stdout" "$(cat "$scratch/out")" '^lab[0-9]+-0 0 3 0 10.77.0.1:29500 none$'
expect "only rank 0 on stdout" "$(wc -l <"$scratch/out")" 1
for rank in 1 2; do
  expect_match "rank $rank on stderr" "$(cat "$scratch/err")" \
    "^lab[0-9]+-$rank: lab[0-9]+-$rank $rank 3 0 10.77.0.1:29500 none\$"
done

# --- Ranks share a token that nobody else has.
# shellcheck disable=SC2016
code=$(THINWIRE_TOKEN=of-the-user code_of "$netlab" run -n 2 -- bash -c 'echo "token $THINWIRE_TOKEN"')
expect "run with a token" "$code" 0
token=$(sed -nE 's/^token ([0-9a-f]{64})$/\1/p' "$scratch/out")
expect_match "a token of 256 bits" "$token" '^[0-9a-f]{64}$'
expect_match "the same on rank 1" "$(cat "$scratch/err")" "^lab[0-9]+-1: token $token\$"

# --- A rank that fails ends the others, also one that will not listen, and its code is returned.
# shellcheck disable=SC2016
fails='[ $RANK -ne 1 ] || exit 7; trap "" TERM; sleep 600'
code=$(code_of "$netlab" run -n 3 -- bash -c "$fails")
expect "the failing rank's code" "$code" 7
expect "a command that does not exist" "$(code_of "$netlab" run -n 1 -- no-such-command)" 127

# --- However netlab ends, nothing remains.
interrupt() {  # SIGNAL CODE
  local pid code=0 ready="$scratch/ready-$1"
  mkdir "$ready"
  # shellcheck disable=SC2016
  TMPDIR=$scratch/tmp env --default-signal=INT "$netlab" run -n 2 -- bash -c \
    'setsid sleep 600 & trap "" HUP; touch "$0/$RANK"; wait; sleep 600' "$ready" 2>"$scratch/err" &
  pid=$!
  within_deadline test -e "$ready/0" -a -e "$ready/1" || expect "ranks start" no yes
  kill "-$1" "$pid"
  wait "$pid" 2>/dev/null || code=$?
  expect "exit code after SIG$1" "$code" "$2"
  within_deadline nothing_remains "$pid" || expect "nothing remains after SIG$1" "$(remains "$pid")" ""
}
interrupt INT 130
interrupt TERM 143
interrupt HUP 129
interrupt KILL 137

# --- Two labs side by side. Hosts know each other's names and carry bytes at the lab's rate.
expect "up" "$(code_of "$netlab" up -n 2 --rate 100mbit --name "${ours}a")" 0
expect "a second lab" "$(code_of "$netlab" up -n 2 --name "${ours}b")" 0
expect "the same lab again" "$(code_of "$netlab" up -n 2 --name "${ours}b")" 2
expect_match "list" "$("$netlab" list)" "^${ours}a: 2 hosts at 100mbit, 0 processes\$"
expect "exec by index" "$("$netlab" exec --name "${ours}b" 1 -- hostname)" "${ours}b-1"

readonly payload=6250000 # half a second at 100 Mbit/s
# shellcheck disable=SC2016
"$netlab" exec "${ours}a-0" -- perl -MIO::Socket::INET -MTime::HiRes=time -e '
  my $server = IO::Socket::INET->new(Listen => 1, LocalPort => 5000) or die "listen: $!";
  open(my $ready, ">", $ARGV[0]); close($ready);
  my $peer = $server->accept(); my ($bytes, $start) = (0, time);
  while (my $n = sysread($peer, my $buffer, 65536)) { $bytes += $n }
  printf "%d %.1f\n", $bytes, 8e-6 * $bytes / (time - $start)' "$scratch/listening" \
  >"$scratch/received" &
server=$!
within_deadline test -e "$scratch/listening"
"$netlab" exec "${ours}a-1" -- timeout "$deadline_seconds" \
  bash -c "head -c $payload /dev/zero >/dev/tcp/${ours}a-0/5000"
wait "$server"
read -r bytes megabits <"$scratch/received"
expect "bytes that arrive" "$bytes" "$payload"
echo "rate measured in a lab at 100mbit: $megabits Mbit/s"

expect "no way out of the lab" \
  "$(code_of "$netlab" exec "${ours}a-0" -- bash -c 'exec 3<>/dev/tcp/192.0.2.1/80')" 1
expect_match "because there is no route" "$(cat "$scratch/err")" 'Network is unreachable'

# --- A run in a lab that is up leaves it up.
expect "run in a lab that is up" "$(code_of "$netlab" run --name "${ours}b" -- hostname)" 0
expect "its rank 0" "$(cat "$scratch/out")" "${ours}b-0"
expect_match "its rank 1" "$(cat "$scratch/err")" "^${ours}b-1: ${ours}b-1\$"
expect "more ranks than hosts" "$(code_of "$netlab" run --name "${ours}b" -n 3 -- true)" 2

# --- mpirun, one rank per host.
if command -v mpirun >/dev/null; then
  expect "run --mpi" "$(code_of "$netlab" run --name "${ours}b" --mpi -- hostname)" 0
  expect "MPI rank 0" "$(cat "$scratch/out")" "${ours}b-0"
  expect_match "MPI rank 1" "$(cat "$scratch/err")" "^${ours}b-1: ${ours}b-1\$"
  # shellcheck disable=SC2016
  expect "a failing MPI rank's code" "$(code_of "$netlab" run --name "${ours}b" --mpi -- \
    bash -c '[ $OMPI_COMM_WORLD_RANK -ne 1 ] || exit 9; sleep 600')" 9
else
  echo "skipped: mpirun not found"
fi

# --- down ends what runs in the lab, takes only its own lab, and may be repeated.
# shellcheck disable=SC2016
"$netlab" exec "${ours}a-0" -- bash -c 'touch "$0" && exec sleep 600' "$scratch/sleeping" &
sleeper=$!
within_deadline test -e "$scratch/sleeping"
expect "down" "$(code_of "$netlab" down --name "${ours}a")" 0
code=0
wait "$sleeper" 2>/dev/null || code=$?
expect "processes in the lab are ended" "$code" 137
expect "down again" "$(code_of "$netlab" down --name "${ours}a")" 0
expect_match "the other lab stays" "$("$netlab" list)" "^${ours}b: 2 hosts at 1gbit"
"$netlab" down --name "${ours}b"
expect "no namespace remains" "$(ip netns list | grep -c "netlab-$ours" || true)" 0

# --- Refusals say what to do.
refuses() {  # REGEX ARGUMENTS...
  expect "netlab ${*:2}" "$(code_of "$netlab" "${@:2}")" 2
  expect_match "netlab ${*:2}" "$(cat "$scratch/err")" "$1"
}
refuses 'thinwire .*--network unlimited' run -n 2 --latency 1ms -- true
refuses "--rate '1g'.*such as 100mbit" up -n 2 --rate 1g
refuses 'from 1 to 250' up -n 0
refuses 'lower-case letters' up -n 2 --name A-B
refuses "no host 'nolab-0'" exec nolab-0 -- true
refuses "'--mpi' is not one of" up -n 2 --mpi
refuses "unknown command 'upp'" upp
if command -v setpriv >/dev/null; then
  # A copy that everybody may read: the tree itself may lie where only root looks.
  readable=$(mktemp)
  cp "$netlab" "$readable" && chmod 755 "$readable"
  expect "without root" "$(code_of setpriv --reuid 65534 --clear-groups bash "$readable" up -n 2)" 2
  rm "$readable"
  expect_match "without root" "$(cat "$scratch/err")" 'needs root.*--network'
fi

[ "$failures" -eq 0 ] || { echo "$failures failed"; exit 1; }
echo "all passed"
