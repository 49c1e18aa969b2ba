#!/bin/bash
echo ECS_CLUSTER=scoring >> /etc/ecs/ecs.config
echo ECS_ENABLE_GPU_SUPPORT=true >> /etc/ecs/ecs.config
