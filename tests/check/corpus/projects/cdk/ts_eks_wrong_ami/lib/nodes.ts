import * as cdk from 'aws-cdk-lib';
import * as ec2 from 'aws-cdk-lib/aws-ec2';
import * as eks from 'aws-cdk-lib/aws-eks';
import { KubectlV31Layer } from '@aws-cdk/lambda-layer-kubectl-v31';

export class NodesStack extends cdk.Stack {
  constructor(app: cdk.App, id: string) {
    super(app, id);

    const cluster = new eks.Cluster(this, 'Voice', {
      version: eks.KubernetesVersion.V1_31,
      defaultCapacity: 0,
      kubectlLayer: new KubectlV31Layer(this, 'Kubectl'),
    });

    cluster.addNodegroupCapacity('gpu', {
      instanceTypes: [ec2.InstanceType.of(ec2.InstanceClass.G5, ec2.InstanceSize.XLARGE2)],
      amiType: eks.NodegroupAmiType.AL2023_X86_64_STANDARD,
      desiredSize: 1,
      minSize: 0,
      maxSize: 4,
    });

    cluster.addManifest('TrainVoice', {
      apiVersion: 'batch/v1',
      kind: 'Job',
      metadata: { name: 'train-voice' },
      spec: {
        template: {
          spec: {
            restartPolicy: 'Never',
            containers: [
              {
                name: 'train',
                image: 'registry.example.org/voice/train:4-cuda12.4',
                command: ['torchrun', '--standalone', '--nproc_per_node=1', 'train.py'],
                resources: { limits: { cpu: '7', memory: '28Gi' } },
              },
            ],
          },
        },
      },
    });
  }
}
