import * as cdk from 'aws-cdk-lib';
import * as ec2 from 'aws-cdk-lib/aws-ec2';
import * as eks from 'aws-cdk-lib/aws-eks';
import { KubectlV31Layer } from '@aws-cdk/lambda-layer-kubectl-v31';
import { Construct } from 'constructs';

export class EksStack extends cdk.Stack {
  constructor(scope: Construct, id: string, props?: cdk.StackProps) {
    super(scope, id, props);

    const cluster = new eks.Cluster(this, 'Cluster', {
      version: eks.KubernetesVersion.V1_31,
      defaultCapacity: 2,
      defaultCapacityInstance: ec2.InstanceType.of(ec2.InstanceClass.M6I, ec2.InstanceSize.LARGE),
      kubectlLayer: new KubectlV31Layer(this, 'Kubectl'),
    });

    cluster.addNodegroupCapacity('gpu', {
      instanceTypes: [new ec2.InstanceType('g5.2xlarge'), new ec2.InstanceType('g4dn.2xlarge')],
      amiType: eks.NodegroupAmiType.AL2_X86_64_GPU,
      minSize: 0,
      maxSize: 6,
      diskSize: 200,
      taints: [{ key: 'nvidia.com/gpu', value: 'true', effect: eks.TaintEffect.NO_SCHEDULE }],
    });

    cluster.addHelmChart('DevicePlugin', {
      chart: 'nvidia-device-plugin',
      repository: 'https://nvidia.github.io/k8s-device-plugin',
      namespace: 'kube-system',
    });

    cluster.addManifest('Train', {
      apiVersion: 'batch/v1',
      kind: 'Job',
      metadata: { name: 'train' },
      spec: {
        backoffLimit: 0,
        template: {
          spec: {
            restartPolicy: 'Never',
            tolerations: [{ key: 'nvidia.com/gpu', operator: 'Exists' }],
            containers: [
              {
                name: 'train',
                image: 'registry.example.org/train:7',
                resources: { limits: { 'nvidia.com/gpu': '1' } },
              },
            ],
          },
        },
      },
    });
  }
}
