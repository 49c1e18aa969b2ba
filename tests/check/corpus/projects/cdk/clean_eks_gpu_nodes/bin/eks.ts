import { App } from 'aws-cdk-lib';
import { EksStack } from '../lib/eks-stack';

new EksStack(new App(), 'Research');
