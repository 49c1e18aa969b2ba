import evaluate
from collator import SpeechCollator
from datasets import Audio, load_dataset
from transformers import (
    Seq2SeqTrainer,
    Seq2SeqTrainingArguments,
    WhisperForConditionalGeneration,
    WhisperProcessor,
)

NAME = "openai/whisper-small"


def main():
    processor = WhisperProcessor.from_pretrained(NAME, language="Welsh", task="transcribe")
    model = WhisperForConditionalGeneration.from_pretrained(NAME)
    model.generation_config.language = "welsh"
    model.generation_config.task = "transcribe"
    model.generation_config.forced_decoder_ids = None

    speech = load_dataset("mozilla-foundation/common_voice_17_0", "cy")
    speech = speech.cast_column("audio", Audio(sampling_rate=16_000))

    def prepare(row):
        audio = row["audio"]
        features = processor.feature_extractor(audio["array"], sampling_rate=audio["sampling_rate"])
        return {
            "input_features": features.input_features[0],
            "labels": processor.tokenizer(row["sentence"]).input_ids,
        }

    speech = speech.map(prepare, remove_columns=speech["train"].column_names, num_proc=4)
    wer = evaluate.load("wer")

    def score(prediction):
        labels = prediction.label_ids.copy()
        labels[labels == -100] = processor.tokenizer.pad_token_id
        return {
            "wer": wer.compute(
                predictions=processor.batch_decode(prediction.predictions, skip_special_tokens=True),
                references=processor.batch_decode(labels, skip_special_tokens=True),
            )
        }

    arguments = Seq2SeqTrainingArguments(
        output_dir="whisper-cy",
        per_device_train_batch_size=16,
        gradient_accumulation_steps=1,
        learning_rate=1e-5,
        warmup_steps=500,
        max_steps=4000,
        gradient_checkpointing=True,
        fp16=True,
        eval_strategy="steps",
        eval_steps=1000,
        save_steps=1000,
        predict_with_generate=True,
        generation_max_length=225,
        load_best_model_at_end=True,
        metric_for_best_model="wer",
        greater_is_better=False,
        dataloader_num_workers=4,
        report_to=["tensorboard"],
    )
    trainer = Seq2SeqTrainer(
        model=model,
        args=arguments,
        train_dataset=speech["train"],
        eval_dataset=speech["validation"],
        data_collator=SpeechCollator(processor, model.config.decoder_start_token_id),
        compute_metrics=score,
        processing_class=processor.feature_extractor,
    )
    trainer.train()


if __name__ == "__main__":
    main()
