"""The tokenizer and the model are of different families: the model gets numbers that mean other words, or none of its own.

A vocabulary belongs to a model. With the tokenizer of another family, training begins from noise, and ids beyond the model's vocabulary
fail on the GPU with "device-side assert triggered". Models of one family share their vocabulary; the rule knows the families of common models
and reports a tokenizer and a model that are loaded in the same function or script, where there is only one of each.

Bad:

    from transformers import AutoModelForSequenceClassification, AutoTokenizer

    tokenizer = AutoTokenizer.from_pretrained("google-bert/bert-base-uncased")
    model = AutoModelForSequenceClassification.from_pretrained("FacebookAI/roberta-base", num_labels=2)  # <-

Good:

    from transformers import AutoModelForSequenceClassification, AutoTokenizer

    tokenizer = AutoTokenizer.from_pretrained("FacebookAI/roberta-base")
    model = AutoModelForSequenceClassification.from_pretrained("FacebookAI/roberta-base", num_labels=2)

Quiet: the same vocabulary

    from transformers import AutoModelForSequenceClassification, AutoTokenizer

    tokenizer = AutoTokenizer.from_pretrained("google-bert/bert-base-uncased")
    model = AutoModelForSequenceClassification.from_pretrained("distilbert/distilbert-base-uncased", num_labels=2)
"""

import re

from gpuproof.findings import Severity
from gpuproof.linter.analysis.call import calls_named
from gpuproof.linter.analysis.module import Module
from gpuproof.linter.knowledge.frameworks.torch import is_test
from gpuproof.linter.knowledge.trainers.tokenizers import tokenizer_loads, vocabulary
from gpuproof.linter.project import Project
from gpuproof.linter.rule import Hits, Rule, lowered

rule = Rule("HF113", "tokenizer-of-another-model", Severity.ERROR, needs=("Tokenizer",))

_MODEL = re.compile(r"^transformers\.(\w+\.)*(AutoModel\w*|\w+For\w+)\.from_pretrained$")
_TOKENIZERS = re.compile(r"^transformers\.(\w+\.)*\w*(Tokenizer(Fast)?|Processor)\.from_pretrained$")


@rule.module
def check(module: Module, _: Project) -> Hits:
    if is_test(module):
        return
    loaded = calls_named(module, "from_pretrained")
    models = [call for call in loaded if _MODEL.match(call.name or "")]
    tokenizers = [call for call in loaded if _TOKENIZERS.match(call.name or "")]
    known = tokenizer_loads(module)
    if len(models) != 1 or len(tokenizers) != 1 or len(known) != 1 or module.unit.kind == "notebook":
        return
    model, tokenizer = models[0], known[0]
    name = model.argument("pretrained_model_name_or_path", 0)
    family = vocabulary(name.text) if name.text and not name.text.startswith(("/", ".")) else None
    if family is None or family.family == tokenizer.vocabulary.family:
        return
    yield rule.hit(
        model.span,
        f"`{name.text}` has another vocabulary than the tokenizer of `{tokenizer.name.text}`.",
        remedy=f'Load the tokenizer of the model: from_pretrained("{name.text}").',
        severity=rule.severity if name.is_known and tokenizer.name.is_known else lowered(rule.severity),
    )
