import { App } from 'aws-cdk-lib';
import { NodesStack } from '../lib/nodes';

new NodesStack(new App(), 'VoiceNodes');
