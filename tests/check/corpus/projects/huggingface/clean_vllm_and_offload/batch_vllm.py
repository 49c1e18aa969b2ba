"""70B over eight GPUs: vLLM shards by itself, and no process group or launcher is needed."""

import json
import sys

from vllm import LLM, SamplingParams


def main():
    llm = LLM("meta-llama/Llama-3.3-70B-Instruct", tensor_parallel_size=8, dtype="bfloat16", max_model_len=8192)
    with open(sys.argv[1]) as file:
        rows = [json.loads(line) for line in file]
    chats = [[{"role": "user", "content": row["prompt"]}] for row in rows]
    outputs = llm.chat(chats, SamplingParams(temperature=0.2, max_tokens=512))
    with open(sys.argv[2], "w") as file:
        for row, output in zip(rows, outputs):
            file.write(json.dumps({**row, "answer": output.outputs[0].text}) + "\n")


if __name__ == "__main__":
    main()
