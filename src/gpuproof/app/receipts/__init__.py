"""Receipts: one JSON document that says what a run was made of, what it did and what it cost, signed with an SSH key.

`document.py` builds it from a run, `receipt_file.py` is its file, `canonical.py` the bytes that are signed, `ssh_signature.py`
signs and checks with `ssh-keygen`, and `verify.py` compares a receipt with its signature, its run and its source.
"""

from gpuproof.app.receipts.document import receipt_of
from gpuproof.app.receipts.receipt_file import Receipt, read_receipt, sign_receipt
from gpuproof.app.receipts.verify import Check, Signers, Verification, verify_receipt

__all__ = [
    "Check",
    "Receipt",
    "Signers",
    "Verification",
    "read_receipt",
    "receipt_of",
    "sign_receipt",
    "verify_receipt",
]
