import { CfnOutput, Stack, StackProps } from 'aws-cdk-lib';
import * as iam from 'aws-cdk-lib/aws-iam';
import * as s3 from 'aws-cdk-lib/aws-s3';
import * as sagemaker from 'aws-cdk-lib/aws-sagemaker';
import { Construct } from 'constructs';

const REGISTRY = '763104351884.dkr.ecr.us-east-1.amazonaws.com';

export class EndpointStack extends Stack {
  constructor(scope: Construct, id: string, props?: StackProps) {
    super(scope, id, props);

    const bucket = s3.Bucket.fromBucketName(this, 'Models', 'embedding-models-123456789012');
    const role = new iam.Role(this, 'ExecutionRole', {
      assumedBy: new iam.ServicePrincipal('sagemaker.amazonaws.com'),
    });
    bucket.grantRead(role);

    const model = new sagemaker.CfnModel(this, 'Model', {
      executionRoleArn: role.roleArn,
      primaryContainer: {
        image: `${REGISTRY}/pytorch-inference:2.1.0-gpu-py310-cu118-ubuntu20.04-sagemaker`,
        modelDataUrl: bucket.s3UrlForObject('minilm/model.tar.gz'),
        environment: { SAGEMAKER_PROGRAM: 'inference.py' },
      },
    });

    const config = new sagemaker.CfnEndpointConfig(this, 'Config', {
      productionVariants: [
        {
          variantName: 'primary',
          modelName: model.attrModelName,
          initialVariantWeight: 1,
          serverlessConfig: {
            maxConcurrency: 10,
            memorySizeInMb: 6144,
          },
        },
      ],
    });

    const endpoint = new sagemaker.CfnEndpoint(this, 'Endpoint', {
      endpointConfigName: config.attrEndpointConfigName,
    });
    new CfnOutput(this, 'Name', { value: endpoint.attrEndpointName });
  }
}
