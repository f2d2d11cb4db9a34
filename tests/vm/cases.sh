# SPDX-License-Identifier: MIT
# The table of cases: reading, running, reporting. Sourced, not run. Uses the functions of guests.sh or native.sh.
# shellcheck shell=bash

case_pattern='^[a-z0-9_]+$'
start_pattern='^(once|each|ranks:[1-9][0-9]*(\+[1-9][0-9]*)*)$'

# read_cases FILE TOPOLOGY REGEX: fills cases with "name start seconds command" of those that run in the topology. Every
# row of the file is checked.
read_cases() {
  local name topologies start seconds command number=0
  declare -gA case_start case_seconds case_command
  case_names=()
  while read -r name topologies start seconds command; do
    number=$((number + 1))
    case $name in "" | \#*) continue ;; esac
    [[ $name =~ $case_pattern && $topologies =~ ^(one|two|three|four)(,(one|two|three|four))*$ && $start =~ $start_pattern &&
       $seconds =~ ^[1-9][0-9]*$ && -n $command && -z ${case_command[$name]:-} ]] ||
      fail "$1:$number: not a case, or one whose name is taken: $name"
    case_command[$name]=$command
    case_start[$name]=$start
    case_seconds[$name]=$((seconds * slowness))
    [[ ,$topologies, == *,$2,* && $name =~ $3 ]] || continue
    [[ $start != *+* || $(wc -w <<<"${start//+/ }") -eq $guest_count ]] ||
      fail "$1:$number: $name tells ranks for other guests than $2"
    case_names+=("$name")
  done <"$1"
  [ ${#case_names[@]} -gt 0 ] || fail "$1 has no case for $2 whose name matches '$3'"
}

# run_cases SECONDS: those of case_names. Sets failed_cases and skipped_cases. What is not run by then has failed.
run_cases() {
  local name deadline=$((SECONDS + $1)) stop=
  failed_cases=() skipped_cases=()
  for name in "${case_names[@]}"; do
    [ -n "$stop" ] || [ $((SECONDS + 3)) -lt "$deadline" ] || stop="no time is left"
    if [ -n "$stop" ]; then
      printf '[FAIL] %-36s not run: %s\n' "$name" "$stop"
      failed_cases+=("$name")
      continue
    fi
    run_case "$name" "$deadline" && continue
    failed_cases+=("$name")
    [ "$place_lost" = no ] || stop="a guest was lost"
    [[ $name != guest_* ]] || stop="a case of the guest's own failed: the guest is broken, not the library"
  done
}

# ranks_of START GUEST: how many the guest has; 0 where the command is not started as ranks.
ranks_of() {
  [[ $1 == ranks:* ]] || { echo 0; return; }
  local counts
  IFS=+ read -r -a counts <<<"${1#ranks:}"
  echo "${counts[$((${#counts[@]} > 1 ? $2 - 1 : 0))]}"
}

# run_case NAME DEADLINE: prints its result line, its notes, and when it failed its output. Sets place_lost.
run_case() {
  local name=$1 start=${case_start[$1]} seconds=${case_seconds[$1]} guest ranks first=0 begin places text=
  place_lost=no
  [ $((SECONDS + seconds)) -le "$2" ] || seconds=$(($2 - SECONDS))
  places=$(seq "$guest_count")
  [ "$start" != once ] || places=1
  write_case "$name"
  begin=$(now_us)
  [ "$start" != once ] || for guest in $(seq 2 "$guest_count"); do place_serve "$guest"; done
  for guest in $places; do
    ranks=$(ranks_of "$start" "$guest")
    place_job "$guest" "$name" "$seconds" "$first" "$ranks"
    first=$((first + ranks))
  done
  for guest in $places; do
    local result=0
    # The job ends its commands in time and says so; only a guest that is lost needs the deadline here.
    place_wait "$guest" "$name" $((SECONDS + seconds + 30)) || result=$?
    [ "$result" -eq 0 ] || text+="${text:+; }$place_text"
    [ "$result" -ne 2 ] || place_lost=yes
  done
  [ "$start" != once ] || for guest in $(seq 2 "$guest_count"); do
    place_stop "$guest" || { text+="${text:+; }guest $guest does not stop"; place_lost=yes; }
  done
  report_case "$name" "$(seconds_since "$begin")" "$text"
}

write_case() {  # NAME: what ../job reads, for each guest
  local dir guest size=0 port=$((20000 + RANDOM % 10000)) secret
  for guest in $(seq "$guest_count"); do size=$((size + $(ranks_of "${case_start[$1]}" "$guest"))); done
  secret=$(od -An -N16 -tx1 /dev/urandom | tr -d ' \n')
  for guest in $(seq "$guest_count"); do
    dir=$(place_folder "$guest" "$1")
    mkdir -p "$dir"
    printf '%s\n' "${case_command[$1]}" >"$dir/command"
    {
      echo "export VM_PORT=$port"
      [ "$size" -eq 0 ] || echo "export QPMESH_ROOT=\$VM_FIRST_ADDRESS:$port QPMESH_SECRET=$secret QPMESH_JOB=$1" \
        "QPMESH_SIZE=$size QPMESH_REQUIRE=rdma"
    } >"$dir/environment"
  done
}

report_case() {  # NAME SECONDS TEXT
  if [ -z "$3" ]; then
    printf '[ ok ] %-36s %5s s\n' "$1" "$2"
    show_output "$1" | sed -n 's/^.*| note: /       /p'
  elif [ -n "${VM_NATIVE:-}" ] && [[ $3 =~ exit\ code\ $skip_status(,|;|$) ]]; then
    printf '[skip] %-36s %5s s  %s\n' "$1" "$2" "$(show_output "$1" | tail -n 1)"
    skipped_cases+=("$1")
  else
    printf '[FAIL] %-36s %5s s  %s\n' "$1" "$2" "$3"
    printf '       command: %s\n' "${case_command[$1]}"
    show_output "$1" | sed 's/^/       /'
    return 1
  fi
}

show_output() {  # NAME: of all places, each line with its place before it
  local guest file
  for guest in $(seq "$guest_count"); do
    for file in "$(place_folder "$guest" "$1")"/{output,rank*}; do
      [ ! -f "$file" ] || tail -n 200 "$file" | sed "s/^/guest $guest $(basename "$file")| /;s/ output| / | /"
    done
  done
}
