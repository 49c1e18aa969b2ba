#!/bin/bash
# Runs one GPUproof job on this instance, which powers off when the job ends or when anything fails.
#@limits
state=/run/gpuproof
mkdir -p -m 700 "$state"

# Shuts down, in the background of everything. By the uptime, because the clock may be wrong or change. It starts no program
# but sleep, writes no file, and does not depend on the rest of this script.
watchdog() {
    local start now beat last rest pause=$((silence / 4))
    ((pause > 15)) && pause=15
    ((pause < 1)) && pause=1
    read -r start rest </proc/uptime
    start=${start%%.*} last=${start%%.*}
    while :; do
        sleep "$pause"
        read -r now rest </proc/uptime
        now=${now%%.*} beat=
        { read -r beat <"$state/alive"; } 2>/dev/null
        [[ $beat =~ ^[1-9][0-9]*$ ]] && last=$beat
        ((now - start < limit)) || power_off "the instance reached its limit of $limit seconds"
        ((now - last < silence)) || power_off "the program on the instance gave no sign of life for $silence seconds"
    done
}

# Reports the reason, as far as possible, and powers off, by force if that takes too long.
power_off() {
    echo "gpuproof: $1"
    [[ -e $state/ended ]] || (report "$1") &
    local waited
    for waited in {1..300}; do
        kill -0 $! 2>/dev/null || break
        sleep 0.1
    done
    shutdown -h now
    sleep 120
    systemctl poweroff --force --force
    poweroff -f
    sleep 60
}

# The number of this instance among those of its launch; empty if that is unknown.
launch_index() {
    local address=http://169.254.169.254/latest token
    token=$(curl -sf -m 5 -X PUT -H 'X-aws-ec2-metadata-token-ttl-seconds: 60' "$address/api/token") &&
        curl -sf -m 5 -H "X-aws-ec2-metadata-token: $token" "$address/meta-data/ami-launch-index"
}

report() {
    local index=0
    ((hosts == 1)) || index=$(launch_index)
    [[ $index =~ ^[0-9]+$ ]] || return
    # The watchdog and the end of user data may report at the same time: each has a file of its own.
    local file=$state/end.$BASHPID.json uri=$hosts_uri/algo-$((index + 1))/end.json
    printf '{"version": 1, "status": "Failed", "secondary_status": "Failed", "failure_reason": "%s", "exit_code": null, "started": null, "script_started": null, "ended": %s, "interrupted": false, "stopped": false, "notes": []}\n' \
        "$1" "$(date +%s)" >"$file"
    aws s3 cp --only-show-errors "$file" "$uri" || { sleep 1; aws s3 cp --only-show-errors "$file" "$uri"; }
}

functions=$(declare -f watchdog power_off launch_index report)
export HOME=${HOME:-/root} AWS_PAGER= AWS_DEFAULT_REGION=$region AWS_REGION=$region
setsid bash -c "$functions
limit=$limit silence=$silence state=$state hosts=$hosts hosts_uri=$hosts_uri
watchdog" </dev/null >/dev/console 2>&1 &

why="user data ended early"
trap 'power_off "$why"' EXIT

# In case the watchdog is killed: a timer of systemd, which does not depend on the clock either.
systemd-run --quiet --on-active=$((limit + 120)) --timer-property=AccuracySec=1s shutdown -h now ||
    shutdown -h +$(((limit + 179) / 60))
# User data runs only at the first boot: an instance that was restarted has nothing to do.
mkdir -p /var/lib/cloud/scripts/per-boot &&
    printf '#!/bin/sh\nshutdown -h now\n' >/var/lib/cloud/scripts/per-boot/gpuproof.sh &&
    chmod 700 /var/lib/cloud/scripts/per-boot/gpuproof.sh

#@parameters
now_s() {
    local rest
    read -r now rest </proc/uptime
    now=${now%%.*}
}

now_s
end=$((now + retry_for)) pause=1
# The program counts its time from here on, as the watchdog does, however long it takes to get it.
printf '%s' "$now" >"$state/started"
printf '%s' "$parameters" >"$state/parameters.json"
code=$state/code
agent=$code/gpuproof-agent.pyz
why="the agent could not be downloaded from S3"
# With the rest of the job's code, since each start of the AWS CLI takes half a second.
until timeout 300 aws s3 cp --recursive --only-show-errors "$code_uri" "$code" 2>"$state/aws-error" && [[ -e $agent ]]; do
    cat "$state/aws-error" >&2
    now_s
    ((now < end)) || exit 1
    sleep "$pause"
    ((pause = pause < 15 ? pause * 2 : 15))
done

why="the agent on S3 is not the one that the run was submitted with"
read -r digest _ < <(sha256sum "$agent")
[[ $digest == "$agent_sha256" ]] || exit 1

why="the instance has no python3 of version 3.9 or later"
python=
# Amazon Linux 2 has 3.7 as its python3, and a newer one beside it on Deep Learning AMIs.
for found in /usr/bin/python3 python3 /usr/bin/python3.10 "${pythons[@]/%//python3}"; do
    "$found" -c "import sys; sys.exit(sys.version_info < (3, 9))" 2>/dev/null && python=$(command -v "$found") && break
done
[[ $python ]] || exit 1

# As in a container: cloud-init's service allows 1024 open files, and no locked memory, which network adapters need.
ulimit -n "$(ulimit -Hn)"
ulimit -l unlimited
why="the program on the instance was killed"
"$python" "$agent" --ec2-host "$state/parameters.json"
code=$?
((code < 128)) && why="the program on the instance ended with code $code"
((code == 0)) && why="the job has ended"
exit 0
