#!/bin/bash
cat /etc/horovod/hosts
