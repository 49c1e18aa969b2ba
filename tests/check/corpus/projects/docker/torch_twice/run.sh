#!/bin/bash
set -e
docker build -t tts:latest .
docker rm -f tts 2>/dev/null || true
docker run -d --name tts -v /srv/texts:/texts -v /srv/audio:/audio tts:latest
