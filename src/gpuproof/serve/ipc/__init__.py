"""Inter-process communication: messages, frames and shared memory between the frontend and its workers."""
