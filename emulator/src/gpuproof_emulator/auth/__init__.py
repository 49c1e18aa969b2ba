"""Who may use a running emulator: its token, the credentials that it issues, signatures, and requests of web pages.

A request starts processes as the user who started the emulator, so it is served only if it is signed with the emulator's
token or with credentials that its IAM or STS issued. `signature.py` verifies signatures, `post_policy.py` those of S3's HTML
forms, `browser.py` rejects web pages.
"""
