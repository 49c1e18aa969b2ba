import * as cdk from 'aws-cdk-lib';
import * as ec2 from 'aws-cdk-lib/aws-ec2';
import * as ecs from 'aws-cdk-lib/aws-ecs';
import { Construct } from 'constructs';

export class SubtitlesStack extends cdk.Stack {
  constructor(scope: Construct, id: string, props?: cdk.StackProps) {
    super(scope, id, props);

    const vpc = new ec2.Vpc(this, 'Vpc', { maxAzs: 2 });
    const cluster = new ecs.Cluster(this, 'Cluster', { vpc });
    const task = new ecs.FargateTaskDefinition(this, 'Subtitles', {
      cpu: 4096,
      memoryLimitMiB: 16384,
    });
    task.addContainer('whisper', {
      image: ecs.ContainerImage.fromAsset('whisper'),
      gpuCount: 1,
      environment: { MODEL: 'large-v3' },
      logging: ecs.LogDrivers.awsLogs({ streamPrefix: 'subtitles' }),
    });
    new ecs.FargateService(this, 'Service', { cluster, taskDefinition: task, desiredCount: 1 });
  }
}
