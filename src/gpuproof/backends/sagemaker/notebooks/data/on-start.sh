#!/bin/bash
# Runs as root at each start of the notebook instance. It only starts the watcher in the background, so that a missing
# network or permission neither delays nor fails the start, which SageMaker limits to 5 minutes.
HOME_DIR=/home/ec2-user/SageMaker
DIR=/var/lib/gpuproof
umask 022
rm -rf "$DIR"; mkdir -p "$DIR/state" && cat > "$DIR/settings" <<'END_OF_SETTINGS'
{settings}
END_OF_SETTINGS
cat > "$DIR/common.sh" <<'END_OF_COMMON'
. /var/lib/gpuproof/settings
PATH="$PATH:/usr/local/bin:/usr/bin:/bin:/usr/sbin:/sbin"
METADATA=/opt/ml/metadata/resource-metadata.json
NAME=$(sed -n 's/.*"ResourceName": *"\([^"]*\)".*/\1/p' "$METADATA")
REGION=$(sed -n 's/.*"ResourceArn": *"arn:[^:]*:[^:]*:\([^:]*\):.*/\1/p' "$METADATA")
export AWS_DEFAULT_REGION="$REGION" AWS_REGION="$REGION" AWS_PAGER=""
STREAM="$NAME/gpuproof"; GROUP=/aws/sagemaker/NotebookInstances
HOME_DIR=/home/ec2-user/SageMaker; DIR=/var/lib/gpuproof; LOG=$HOME_DIR/gpuproof.log
RESULTS="s3://$BUCKET/{results}$NAME"
AS=(); OWNER=()
if [ "$(id -u)" = 0 ] && id ec2-user >/dev/null 2>&1; then OWNER=(runuser -u ec2-user --); fi

# Says something once. Into the notebook's folder, as its user: root must not write through links that the user made there.
save() {{ "${{OWNER[@]}}" bash -c 'cat '"$2"' "$1"' _ "$1"; }}
report() {{
    echo "gpuproof: $*"
    grep -qxF -- "$*" "$DIR/state/reported" 2>/dev/null && return
    echo "$*" >> "$DIR/state/reported"
    echo "$(date -u +%FT%TZ) $*" | save "$LOG" ">>"
    aws logs create-log-stream --log-group-name "$GROUP" --log-stream-name "$STREAM" >/dev/null 2>&1
    local events; events=$("$PYTHON" -c 'import json, sys, time; print(json.dumps([{{"timestamp": int(time.time() * 1000), "message": sys.argv[1]}}]))' "$*" 2>/dev/null)
    aws logs put-log-events --log-group-name "$GROUP" --log-stream-name "$STREAM" --log-events "$events" >/dev/null 2>&1
}}
# Failed: the reason, in one line.
run_aws() {{ OUTPUT=$(timeout 120 aws "$@" 2>&1) && return; OUTPUT=$(echo "$OUTPUT" | tr -s '\n ' ' ' | cut -c 1-500); return 1; }}
# The system's Python, which only root can change; else that of Jupyter, which then runs as its user.
find_python() {{
    local path
    for path in python3 python3.13 python3.12 python3.11 python3.10 python3.9; do
        path=$(command -v "$path") && "$path" -c 'import sys; sys.exit(sys.version_info < (3, 9))' 2>/dev/null && PYTHON=$path && return
    done
    for path in /home/ec2-user/anaconda3/envs/JupyterSystemEnv/bin/python3 /home/ec2-user/anaconda3/bin/python3; do
        [ -x "$path" ] && PYTHON=$path && AS=("${{OWNER[@]}}") && return
    done
    return 1
}}
find_python
END_OF_COMMON
cat > "$DIR/stop.sh" <<'END_OF_STOP'
#!/bin/bash
# Ends with an error if SageMaker refuses; the watcher repeats it. The reason is reported before, because the machine may end at once.
. /var/lib/gpuproof/common.sh
report "Stopping: $1."
run_aws sagemaker stop-notebook-instance --notebook-instance-name "$NAME" && exit
report "This notebook instance is $1, but could not be stopped. It needs the role's permission sagemaker:StopNotebookInstance (gpuproof iam policy --role) and, without internet access, a VPC endpoint for the SageMaker API. $OUTPUT"
exit 1
END_OF_STOP
cat > "$DIR/watch.sh" <<'END_OF_WATCH'
#!/bin/bash
. /var/lib/gpuproof/common.sh
download() {{
    run_aws s3 cp --only-show-errors "s3://$BUCKET/$KEY" "$DIR/agent.new" || return 1
    if ! echo "$DIGEST  $DIR/agent.new" | sha256sum --check --status; then
        OUTPUT="the file does not have the expected SHA-256"; rm -f "$DIR/agent.new"; return 1
    fi
    chmod 755 "$DIR/agent.new" && mv "$DIR/agent.new" "$DIR/agent.pyz"
}}

command -v aws >/dev/null || {{ report "The AWS CLI is not installed: this notebook instance does not stop when it is idle."; exit 1; }}
[ -n "$PYTHON" ] || {{ report "Python 3.9 or later is not installed: this notebook instance does not stop when it is idle."; exit 1; }}
until download; do
    report "GPUproof's agent could not be downloaded from s3://$BUCKET/$KEY, so that this notebook instance does not stop when it is idle. It needs the role's permission s3:GetObject and, without internet access, a VPC endpoint for S3. Trying again every minute. $OUTPUT"
    sleep 60
done
EXPECTED=""
if run_aws sagemaker describe-notebook-instance --notebook-instance-name "$NAME" --query InstanceType --output text; then
    case "$OUTPUT" in
{expectations}
    esac
fi
"${{OWNER[@]}}" "$PYTHON" "$DIR/agent.pyz" --gpu-check --expect "$EXPECTED" > "$DIR/gpu-check.txt" 2>&1
save "$HOME_DIR/gpuproof-gpu-check.txt" ">" < "$DIR/gpu-check.txt"
report "$(tr '\n' ' ' < "$DIR/gpu-check.txt")"
run_aws s3 cp --only-show-errors "$DIR/gpu-check.txt" "$RESULTS/gpu-check.txt" || report "The GPU check could not be stored in s3://$BUCKET: $OUTPUT"
[ "$IDLE_TIMEOUT" = 0 ] && exit 0

[ ${{#AS[@]}} -eq 0 ] || chown -R ec2-user "$DIR/state"
report "This notebook instance stops after $IDLE_TIMEOUT s in which no kernel and no GPU worked."
(while sleep 60; do run_aws s3 cp --only-show-errors "$DIR/state/idle.json" "$RESULTS/idle.json"; done) &
while true; do
    "${{AS[@]}}" "$PYTHON" "$DIR/agent.pyz" --idle-watch --idle-timeout "$IDLE_TIMEOUT" --jupyter-url https://localhost:8443 \
        --state "$DIR/state/idle.json" -- bash "$DIR/stop.sh" '{{reason}}'
    status=$?
    [ $status = 0 ] || report "The watcher ended with status $status; it is started again. Its log is $DIR/watch.log."
    sleep 60
done
END_OF_WATCH
setsid nohup bash "$DIR/watch.sh" </dev/null >"$DIR/watch.log" 2>&1 &
echo "gpuproof: the watcher runs; its log is $HOME_DIR/gpuproof.log"
exit 0
