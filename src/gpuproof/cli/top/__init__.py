"""`gpuproof top`: what the GPUs of a run or of this machine do now, in the terminal.

`lines.py` renders a snapshot of `gpuproof.app.live_view` as lines of styled text, `screen.py` shows them with Textual, and
`dialogs.py` has its questions. Only `screen.py` and `dialogs.py` need the extra.
"""
