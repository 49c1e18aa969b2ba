# Starts GPUproof's model server in place of the image's own, where the image's entry point is a bash script: bash reads the
# file that BASH_ENV names before a script. It acts only if the script was started with the last argument `serve`, as SageMaker
# starts containers of models. `sitecustomize.py` does the same for Python programs, and explains it.
if [ -n "${GPUPROOF_SERVER:-}" ]; then
    gpuproof_last=
    # Bash sets $1 only after it has read this file.
    while IFS= read -r -d '' gpuproof_word; do gpuproof_last=$gpuproof_word; done <"/proc/$$/cmdline"
    if [ "$gpuproof_last" = serve ] && [ -f "$GPUPROOF_SERVER" ]; then
        gpuproof_python=$(unset BASH_ENV GPUPROOF_SERVER; command -v python3 || command -v python)
        if [ -n "$gpuproof_python" ]; then
            gpuproof_agent=$GPUPROOF_SERVER
            gpuproof_folder=${gpuproof_agent%/*}
            PYTHONPATH=:${PYTHONPATH:-}:
            PYTHONPATH=${PYTHONPATH//":$gpuproof_folder:"/:}
            PYTHONPATH=${PYTHONPATH#:}
            PYTHONPATH=${PYTHONPATH%:}
            [ -n "$PYTHONPATH" ] || unset PYTHONPATH
            echo "gpuproof: starting the model server of $gpuproof_agent in place of $0" >&2
            unset BASH_ENV GPUPROOF_SERVER
            exec "$gpuproof_python" "$gpuproof_agent" serve --leave-on-failure
        fi
    fi
    unset gpuproof_last gpuproof_word
fi
