import { App } from 'aws-cdk-lib';
import { SubtitlesStack } from '../lib/stack';

new SubtitlesStack(new App(), 'Subtitles');
