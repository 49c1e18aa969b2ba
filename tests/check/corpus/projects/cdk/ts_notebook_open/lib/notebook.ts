import { Stack, StackProps } from 'aws-cdk-lib';
import * as iam from 'aws-cdk-lib/aws-iam';
import * as sagemaker from 'aws-cdk-lib/aws-sagemaker';
import { Construct } from 'constructs';

export class NotebookStack extends Stack {
  constructor(scope: Construct, id: string, props?: StackProps) {
    super(scope, id, props);

    const role = new iam.Role(this, 'Role', {
      assumedBy: new iam.ServicePrincipal('sagemaker.amazonaws.com'),
    });
    role.addToPolicy(
      new iam.PolicyStatement({
        effect: iam.Effect.ALLOW,
        actions: ['*'],
        resources: ['*'],
      }),
    );

    new sagemaker.CfnNotebookInstance(this, 'Lab', {
      instanceType: 'ml.g4dn.xlarge',
      roleArn: role.roleArn,
      notebookInstanceName: 'vision-lab',
      platformIdentifier: 'notebook-al2-v3',
      volumeSizeInGb: 50,
    });
  }
}
