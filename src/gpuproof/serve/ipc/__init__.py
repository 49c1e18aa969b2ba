"""Inter-process communication: messages, frames and shared memory between the frontend and its workers.

Bodies from 64 KiB on are received in shared memory. While all workers are busy, a decoder process reads large JSON bodies. Without
the decoder and shared memory everything works; large JSON bodies on the CPU take longer (`bench/serve.py`).
"""
