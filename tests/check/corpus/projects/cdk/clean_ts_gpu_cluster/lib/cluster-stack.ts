import * as cdk from 'aws-cdk-lib';
import * as autoscaling from 'aws-cdk-lib/aws-autoscaling';
import * as ec2 from 'aws-cdk-lib/aws-ec2';
import * as ecs from 'aws-cdk-lib/aws-ecs';
import { Construct } from 'constructs';

/** An ECS cluster with a GPU group for the model and a CPU group for the rest. */
export class ClusterStack extends cdk.Stack {
  constructor(scope: Construct, id: string, props?: cdk.StackProps) {
    super(scope, id, props);

    const vpc = new ec2.Vpc(this, 'Vpc', { maxAzs: 2 });
    const cluster = new ecs.Cluster(this, 'Cluster', { vpc });

    const gpuGroup = new autoscaling.AutoScalingGroup(this, 'GpuHosts', {
      vpc,
      instanceType: ec2.InstanceType.of(ec2.InstanceClass.G4DN, ec2.InstanceSize.XLARGE),
      machineImage: ecs.EcsOptimizedImage.amazonLinux2(ecs.AmiHardwareType.GPU),
      minCapacity: 0,
      maxCapacity: 4,
    });
    const gpuProvider = new ecs.AsgCapacityProvider(this, 'GpuProvider', { autoScalingGroup: gpuGroup });
    cluster.addAsgCapacityProvider(gpuProvider);

    const cpuGroup = new autoscaling.AutoScalingGroup(this, 'CpuHosts', {
      vpc,
      instanceType: new ec2.InstanceType('m6i.large'),
      machineImage: ecs.EcsOptimizedImage.amazonLinux2(),
      maxCapacity: 2,
    });
    const cpuProvider = new ecs.AsgCapacityProvider(this, 'CpuProvider', { autoScalingGroup: cpuGroup });
    cluster.addAsgCapacityProvider(cpuProvider);

    const model = new ecs.Ec2TaskDefinition(this, 'Model');
    model.addContainer('server', {
      image: ecs.ContainerImage.fromAsset('server'),
      memoryLimitMiB: 12_000,
      gpuCount: 1,
      portMappings: [{ containerPort: 8080 }],
      logging: ecs.LogDrivers.awsLogs({ streamPrefix: 'model' }),
    });
    new ecs.Ec2Service(this, 'ModelService', {
      cluster,
      taskDefinition: model,
      capacityProviderStrategies: [{ capacityProvider: gpuProvider.capacityProviderName, weight: 1 }],
    });

    const queue = new ecs.Ec2TaskDefinition(this, 'Queue');
    queue.addContainer('redis', { image: ecs.ContainerImage.fromRegistry('redis:7'), memoryLimitMiB: 1024 });
    new ecs.Ec2Service(this, 'QueueService', {
      cluster,
      taskDefinition: queue,
      capacityProviderStrategies: [{ capacityProvider: cpuProvider.capacityProviderName, weight: 1 }],
    });
  }
}
