"""The tokenizer has no padding token, and is asked to pad: ValueError.

The tokenizers of GPT-2, GPT-Neo, Llama 2 and 3, Mistral, Falcon and others have none: "Asking to pad but the tokenizer does not have a padding
token". It comes with `padding=True` or "max_length", and with DataCollatorWithPadding or DataCollatorForLanguageModeling, at the first batch.
`tokenizer.pad_token = tokenizer.eos_token` is the usual remedy. SFTTrainer and its relatives set one themselves.

Bad:

    from transformers import AutoTokenizer

    tokenizer = AutoTokenizer.from_pretrained("openai-community/gpt2")
    batch = tokenizer(["a", "longer text"], padding=True, return_tensors="pt")  # <-

Bad: the collator pads

    from transformers import AutoTokenizer, DataCollatorForLanguageModeling

    tokenizer = AutoTokenizer.from_pretrained("meta-llama/Llama-3.1-8B")
    collator = DataCollatorForLanguageModeling(tokenizer, mlm=False)  # <-

Good:

    from transformers import AutoTokenizer, DataCollatorForLanguageModeling

    tokenizer = AutoTokenizer.from_pretrained("meta-llama/Llama-3.1-8B")
    tokenizer.pad_token = tokenizer.eos_token
    collator = DataCollatorForLanguageModeling(tokenizer, mlm=False)

Quiet: a tokenizer that has one

    from transformers import AutoTokenizer

    tokenizer = AutoTokenizer.from_pretrained("google-bert/bert-base-uncased")
    batch = tokenizer(["a", "longer text"], padding=True, return_tensors="pt")
"""

import ast
import re

from gpuproof.findings import Severity
from gpuproof.linter.analysis.call import Call, all_calls
from gpuproof.linter.analysis.flow.creations import creations
from gpuproof.linter.analysis.local_imports import local_modules
from gpuproof.linter.analysis.module import Module
from gpuproof.linter.analysis.usage import uses
from gpuproof.linter.knowledge.frameworks.torch import is_test
from gpuproof.linter.knowledge.trainers.tokenizers import TokenizerLoad, tokenizer_loads
from gpuproof.linter.project import Project
from gpuproof.linter.rule import Hits, Rule, lowered

rule = Rule("HF114", "padding-token-missing", Severity.ERROR, needs=("Tokenizer",))

_SETS = re.compile(r"pad_token|add_special_tokens$|setup_chat_format|smart_tokenizer|special_tokens_map")
_COLLATORS = ("DataCollatorWithPadding", "DataCollatorForLanguageModeling", "DataCollatorForSeq2Seq")
_PADDING = (True, "longest", "max_length")


@rule.module
def check(module: Module, _: Project) -> Hits:
    loads = [
        load for load in tokenizer_loads(module) if not load.vocabulary.has_padding and not _is_given(load)
    ]
    if not loads or is_test(module):
        return
    if any(uses(local, _SETS, "attribute", "keyword", "call", "string") for local in local_modules(module)):
        return
    for call in all_calls(module):
        used = _padded(call)
        if used is None:
            continue
        made = creations(module, used)
        load = next((load for load in loads if any(other.node is load.call.node for other in made)), None)
        if load is None or len(made) != 1:
            continue
        yield rule.hit(
            call.span,
            f"The tokenizer of `{load.name.text}` has no padding token: ValueError.",
            remedy="Set tokenizer.pad_token = tokenizer.eos_token.",
            severity=rule.severity if load.name.is_known else lowered(rule.severity),
        )


def _is_given(load: TokenizerLoad) -> bool:
    return load.call.is_open or "pad_token" in load.call.keywords


def _padded(call: Call) -> ast.expr | None:
    """The tokenizer that a call asks to pad."""
    if call.method in _COLLATORS and (call.name or "").startswith("transformers."):
        return call.expression("tokenizer", 0)
    if call.method == "pad" and call.receiver is not None:
        return call.receiver
    padding = call.argument("padding")
    if padding.is_known and padding.value in _PADDING and isinstance(call.node.func, ast.Name):
        return call.node.func
    if padding.is_known and padding.value in _PADDING and call.method in ("batch_encode_plus", "encode_plus"):
        return call.receiver
    return None
