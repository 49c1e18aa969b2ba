"""Notifications from the host: a message to an SNS topic and to a webhook when a run stalls, leaves its GPU unused, fails or costs much.

`events.py` writes the messages, `notifier.py` sends each once, in threads of its own; `sns.py` and `webhook.py` are the ways out, and
`aws_request.py` signs with the credentials of the host's role. A notification that cannot be sent is a note of the run.
"""
