echo "print('trained')" > train.py
# The emulator has the role and the profile already; the page creates them.
python - <<'END'
import boto3

iam = boto3.client("iam")
iam.create_user(UserName="ann")
names = {"RoleName": "gpuproof-ec2"}
iam.remove_role_from_instance_profile(InstanceProfileName="gpuproof-ec2", **names)
iam.delete_instance_profile(InstanceProfileName="gpuproof-ec2")
for policy in iam.list_role_policies(**names)["PolicyNames"]:
    iam.delete_role_policy(PolicyName=policy, **names)
iam.delete_role(**names)
END
