#!/usr/bin/env node
import * as cdk from 'aws-cdk-lib';
import { TrainingStack } from '../lib/training-stack';

const app = new cdk.App();
new TrainingStack(app, 'Training', { env: { region: 'eu-west-1', account: '123456789012' } });
