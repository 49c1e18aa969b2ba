"""IAM policies that are enforced, with `gpuproof emulator --enforce-iam`.

`requirements.py` finds the actions and resources of a request in `data/requests.csv`, `identity.py` the policies of the user or role
that signed it, `evaluation.py` and `conditions.py` evaluate these policies, and `authorizer.py` rejects what they do not allow.
Moto's own evaluation ignores resources and most conditions (`moto/iam/access_control.py`), and the packages that simulate policies
read CloudTrail's events.
"""
