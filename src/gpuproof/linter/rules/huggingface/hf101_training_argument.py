"""A Trainer or its arguments get a parameter that this version of transformers, TRL or PEFT does not have: TypeError.

transformers 4.51 removed `evaluation_strategy` (now `eval_strategy`) and 5.0 removed `no_cuda` (now `use_cpu`), `tokenizer=` of Trainer
(now `processing_class`), `overwrite_output_dir` and many more; TRL 0.13 moved `max_seq_length`, `packing` and
`dataset_text_field` from SFTTrainer to SFTConfig. Some names never existed, such as `epochs`, `batch_size` and `max_target_length`.
Parameters were read from the signatures of transformers 4.6 to 5.24, TRL 0.7 to 1.16 and PEFT 0.4 to 0.21; the version is the
one that the project pins or that the job's image has. Without any of these, a parameter that only newer versions lack is a note.

Bad:

    # file: requirements.txt
    transformers==4.57.1
    # file: train.py
    from transformers import TrainingArguments

    arguments = TrainingArguments(
        "/opt/ml/model",
        evaluation_strategy="epoch",  # <-
        num_train_epochs=3,
    )

Bad: never existed

    from transformers import Seq2SeqTrainingArguments

    arguments = Seq2SeqTrainingArguments(
        output_dir="/opt/ml/model",
        max_target_length=128,  # <-
        epochs=3,  # <-
    )

Bad: the version of the job's image

    # file: launch.py
    from sagemaker.huggingface import HuggingFace

    HuggingFace(
        entry_point="train.py", role="role", instance_count=1, instance_type="ml.g5.xlarge",
        transformers_version="4.36.0", pytorch_version="2.1.0", py_version="py310",
    ).fit()
    # file: train.py
    import os
    from transformers import AutoModelForSequenceClassification, Trainer, TrainingArguments
    from data import train_set, test_set

    arguments = TrainingArguments(
        os.environ["SM_MODEL_DIR"], eval_strategy="epoch", dataloader_num_workers=4  # <-
    )
    model = AutoModelForSequenceClassification.from_pretrained("distilbert/distilbert-base-uncased")
    Trainer(model=model, args=arguments, train_dataset=train_set, eval_dataset=test_set).train()

Bad: TRL

    # file: requirements.txt
    trl==0.19.1
    # file: train.py
    from trl import SFTConfig, SFTTrainer
    from data import train_set

    trainer = SFTTrainer(
        "Qwen/Qwen3-0.6B", args=SFTConfig("/opt/ml/model"), train_dataset=train_set, max_seq_length=1024  # <-
    )

Good:

    # file: requirements.txt
    transformers==4.57.1
    # file: train.py
    from transformers import TrainingArguments

    arguments = TrainingArguments("/opt/ml/model", eval_strategy="epoch", num_train_epochs=3)

Quiet: an older version

    # file: requirements.txt
    transformers==4.38.2
    # file: train.py
    from transformers import TrainingArguments

    arguments = TrainingArguments("/opt/ml/model", evaluation_strategy="epoch", num_train_epochs=3)

Quiet: the name is another dataclass's

    # file: train.py
    from dataclasses import dataclass
    from trl import ModelConfig, SFTConfig, SFTTrainer, TrlParser

    @dataclass
    class DataArguments:
        dataset_name: str

    parser = TrlParser((ModelConfig, DataArguments, SFTConfig))
    model_args, data_args, training_args = parser.parse_args_and_config()
    SFTTrainer(model=model_args.model_name_or_path, args=training_args).train()
    # file: recipe.yaml
    model_name_or_path: Qwen/Qwen3-1.7B
    trust_remote_code: true
    output_dir: /opt/ml/model
    max_length: 2048
    packing: true
    bf16: true
    # file: requirements.txt
    trl==0.29.0

Quiet: arguments of the project

    from dataclasses import dataclass
    import transformers

    @dataclass
    class TrainingArguments(transformers.TrainingArguments):
        max_target_length: int = 128

    arguments = TrainingArguments("/opt/ml/model", max_target_length=64)
"""

from gpuproof.findings import Severity
from gpuproof.jobs.suggestions import did_you_mean
from gpuproof.linter.analysis.call import Call, calls_to
from gpuproof.linter.analysis.module import Module
from gpuproof.linter.knowledge.trainers.huggingface import Arguments, argument_sets, trainer_calls
from gpuproof.linter.knowledge.trainers.parameters import named_spans
from gpuproof.linter.knowledge.trainers.releases import library_versions, removal
from gpuproof.linter.knowledge.trainers.tables import (
    Lifetime,
    VersionRange,
    members,
    newest,
    replacement,
    takes_others,
    version,
)
from gpuproof.linter.project import Project
from gpuproof.linter.rule import Hit, Hits, Rule, lowered

rule = Rule("HF101", "training-argument", Severity.ERROR, needs=("transformers", "trl", "peft"))


@rule.module
def check(module: Module, project: Project) -> Hits:
    for arguments in argument_sets(module, project):
        if arguments.call is not None:
            yield from _check(arguments.call, arguments.library, arguments.owner, project)
        else:
            yield from _parsed(arguments, project)
    for trainer in trainer_calls(module):
        if trainer.own is None:
            yield from _check(trainer.call, trainer.library, trainer.name, project)
    for call in calls_to(module, "peft.LoraConfig"):
        yield from _check(call, "peft", "LoraConfig", project)


def _check(call: Call, library: str, owner: str, project: Project) -> Hits:
    spans = named_spans(call)
    names = list(spans)
    own = members(library, owner)
    if not own or not names or takes_others(library, owner):
        return
    versions = library_versions(call.module, project, library)
    inherited = (
        members("transformers", "TrainingArguments") if owner.endswith("Config") and library == "trl" else {}
    )
    for name in names:
        if name in own and _is_there(own[name], versions):
            continue
        if name in inherited:
            base = library_versions(call.module, project, "transformers")
            hit = (
                None
                if _is_there(inherited[name], base)
                else _gone(call, "transformers", owner, name, inherited[name], base)
            )
        elif name in own:
            hit = _gone(call, library, owner, name, own[name], versions)
        else:
            hit = _unknown(call, library, owner, name, [*own, *inherited], versions)
        if hit is not None:
            yield hit


def _parsed(arguments: Arguments, project: Project) -> Hits:
    """Arguments that a job or a settings file passes to a parser; other names belong to other dataclasses."""
    libraries = {arguments.library: arguments.owner, "transformers": "TrainingArguments"}
    for name in arguments.passed:
        library = next((key for key, owner in libraries.items() if name in members(key, owner)), None)
        if library is None:
            continue
        lifetime = members(library, libraries[library])[name]
        found = removal(lifetime, library_versions(arguments.module, project, library), library)
        if found is None:
            continue
        instead = replacement(library, libraries[library], name)
        yield rule.hit(
            arguments.where(name),
            f"`{name}` is not a parameter of {arguments.owner} in {found.text}: the parser raises a ValueError.",
            remedy=f"Use {instead.rstrip('=')}." if instead else f"Remove {name}.",
            severity=rule.severity
            if found.certain
            else lowered(rule.severity)
            if found.known
            else Severity.NOTE,
        )


def _is_there(lifetime: Lifetime, versions: VersionRange | None) -> bool:
    """Whether a parameter exists in all versions that may run the script, as far as is known."""
    if versions is None:
        return lifetime.gone_in is None
    return lifetime.presence(versions) == "yes"


def _gone(
    call: Call, library: str, owner: str, name: str, lifetime: Lifetime, versions: VersionRange | None
) -> Hit | None:
    found = removal(lifetime, versions, library)
    if found is None:
        return None
    instead = replacement(library, owner, name)
    is_new = versions is not None and versions.high is not None and versions.high <= lifetime.since
    if is_new:
        since = ".".join(map(str, lifetime.since))
        remedy = f"Use {library} {since} or newer{_older(name)}."
    else:
        remedy = f"Use {instead}." if instead else f"Remove {name}."
    severity = rule.severity if found.certain else lowered(rule.severity) if found.known else Severity.NOTE
    return rule.hit(
        named_spans(call)[name],
        f"`{name}` is not a parameter of {owner} in {found.text}: TypeError.",
        remedy=remedy,
        severity=severity,
    )


def _older(name: str) -> str:
    """What a parameter was called before."""
    former = {
        "eval_strategy": "evaluation_strategy=",
        "use_cpu": "no_cuda=",
        "processing_class": "tokenizer=",
    }
    return f", or {former[name]}" if name in former else ""


def _unknown(
    call: Call, library: str, owner: str, name: str, known: list[str], versions: VersionRange | None
) -> Hit | None:
    if (
        versions is not None
        and versions.low is not None
        and versions.low > (*version(newest(library))[:2], 99)
    ):
        return None
    instead = replacement(library, owner, name) or replacement("transformers", owner, name)
    return rule.hit(
        named_spans(call)[name],
        f"`{name}` is not a parameter of {owner}: TypeError{'.' if instead else did_you_mean(name, known) or '.'}",
        remedy=f"Use {instead}." if instead else f"Remove {name}, or correct its name.",
    )
