import { App } from 'aws-cdk-lib';
import { EndpointStack } from '../lib/endpoint-stack';

new EndpointStack(new App(), 'Embeddings', { env: { region: 'us-east-1', account: '123456789012' } });
