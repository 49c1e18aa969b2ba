import * as cdk from 'aws-cdk-lib';
import * as batch from 'aws-cdk-lib/aws-batch';
import * as ec2 from 'aws-cdk-lib/aws-ec2';
import * as ecr from 'aws-cdk-lib/aws-ecr';
import * as ecs from 'aws-cdk-lib/aws-ecs';
import { Construct } from 'constructs';

export class TrainingStack extends cdk.Stack {
  constructor(scope: Construct, id: string, props?: cdk.StackProps) {
    super(scope, id, props);

    const vpc = new ec2.Vpc(this, 'Vpc', { maxAzs: 2, natGateways: 1 });
    const repository = ecr.Repository.fromRepositoryName(this, 'Images', 'asr-training');

    const environment = new batch.ManagedEc2EcsComputeEnvironment(this, 'Hosts', {
      vpc,
      instanceTypes: [ec2.InstanceType.of(ec2.InstanceClass.M5, ec2.InstanceSize.XLARGE4)],
      useOptimalInstanceClasses: false,
      minvCpus: 0,
      maxvCpus: 64,
    });

    const queue = new batch.JobQueue(this, 'Queue', {
      computeEnvironments: [{ computeEnvironment: environment, order: 1 }],
    });

    const job = new batch.EcsJobDefinition(this, 'Train', {
      timeout: cdk.Duration.hours(12),
      container: new batch.EcsEc2ContainerDefinition(this, 'Container', {
        image: ecs.ContainerImage.fromEcrRepository(repository, '2.4'),
        command: ['python', 'train.py', '--epochs', '40'],
        cpu: 8,
        gpu: 1,
        memory: cdk.Size.gibibytes(28),
      }),
    });

    new cdk.CfnOutput(this, 'QueueArn', { value: queue.jobQueueArn });
    new cdk.CfnOutput(this, 'JobDefinitionArn', { value: job.jobDefinitionArn });
  }
}
