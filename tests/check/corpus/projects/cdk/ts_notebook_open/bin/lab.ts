import { App } from 'aws-cdk-lib';
import { NotebookStack } from '../lib/notebook';

const app = new App();
new NotebookStack(app, 'Lab');
