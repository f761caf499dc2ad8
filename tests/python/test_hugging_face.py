"""TriaccelTrainer against transformers' own Trainer."""
import pytest
import torch
from conftest import library
from test_integrations import WORDS, llama, sentences

transformers = library("transformers")
library("accelerate")


def bert_classifier():
    torch.manual_seed(0)
    return transformers.BertForSequenceClassification(transformers.BertConfig(
        vocab_size=WORDS, hidden_size=16, num_hidden_layers=1, num_attention_heads=2, intermediate_size=24,
        max_position_embeddings=16, num_labels=4, hidden_dropout_prob=0.0, attention_probs_dropout_prob=0.0))


def classified():
    return [{"input_ids": one["input_ids"], "labels": one["input_ids"][0] % 4} for one in sentences()]


def mean_loss(outputs, labels, num_items_in_batch=None):
    return torch.nn.functional.cross_entropy(outputs["logits"].flatten(0, 1), labels.flatten())


def small_device(trainer_class):
    """Room for three samples."""
    class SmallDevice(trainer_class):
        def compute_loss(self, model, inputs, *args, **kwargs):
            if len(inputs["input_ids"]) > 3:
                raise torch.OutOfMemoryError("out of memory: a device with room for three")
            return super().compute_loss(model, inputs, *args, **kwargs)

    return SmallDevice


def history(trainer_class, folder, model=llama, data=sentences, steps=4, accumulated=2, resume=None, save_steps=None, **options):
    """Losses and gradient norms of all steps, and the trainer."""
    arguments = transformers.TrainingArguments(
        output_dir=str(folder), per_device_train_batch_size=8, gradient_accumulation_steps=accumulated, max_steps=steps,
        logging_steps=1, learning_rate=1e-2, report_to=[], use_cpu=True, seed=3, disable_tqdm=True,
        save_strategy="steps" if save_steps else "no", save_steps=save_steps or 500)
    trainer = trainer_class(model=model(), args=arguments, train_dataset=data(), **options)
    trainer.train(resume_from_checkpoint=resume)
    return [(one["loss"], one["grad_norm"]) for one in trainer.state.log_history if "loss" in one], trainer


def test_trains_as_the_trainer_does(tmp_path):
    from triaccel.integrations.huggingface import TriaccelTrainer

    expected, plain = history(transformers.Trainer, tmp_path / "plain", steps=6)
    found, ours = history(TriaccelTrainer, tmp_path / "ours", steps=6, precision="off")
    assert found == expected
    assert all(torch.equal(a, b) for a, b in zip(ours.model.parameters(), plain.model.parameters()))
    assert ours.attached is None  # detached at the end
    with pytest.raises(ValueError, match="bf16 and fp16"):
        TriaccelTrainer(model=llama(), args=transformers.TrainingArguments(output_dir=str(tmp_path), bf16=True, use_cpu=True))


@pytest.mark.parametrize("model, data, options", [
    (llama, sentences, {}), (bert_classifier, classified, {}), (llama, sentences, {"compute_loss_func": mean_loss})],
    ids=["shares", "means", "own"])
def test_parts_of_a_batch_have_its_loss_and_gradient(tmp_path, model, data, options):
    from triaccel.integrations.huggingface import TriaccelTrainer

    expected, _ = history(transformers.Trainer, tmp_path / "plain", model, data, **options)
    with pytest.warns(RuntimeWarning, match="passes of"):
        found, _ = history(small_device(TriaccelTrainer), tmp_path / "ours", model, data, precision="off", **options)
    for ours, theirs in zip(found, expected, strict=True):
        assert ours == pytest.approx(theirs, rel=2e-3)


@pytest.mark.parametrize("accumulated", [1, 4])
def test_a_loss_that_is_no_share(tmp_path, accumulated):
    from triaccel.integrations.huggingface import TriaccelTrainer

    def with_mean(trainer_class):
        class WithMean(trainer_class):
            loss_is_scaled_for_ga = False

            def compute_loss(self, model, inputs, return_outputs=False, num_items_in_batch=None):
                return mean_loss(model(**inputs), inputs["labels"])

        return WithMean

    expected, _ = history(with_mean(transformers.Trainer), tmp_path / "plain", accumulated=accumulated)
    found, _ = history(with_mean(TriaccelTrainer), tmp_path / "ours", accumulated=accumulated, precision="off")
    assert found == expected


def test_trains_again(tmp_path):
    from triaccel.integrations.huggingface import TriaccelTrainer

    arguments = transformers.TrainingArguments(
        output_dir=str(tmp_path), per_device_train_batch_size=8, max_steps=3, logging_steps=1, report_to=[], use_cpu=True,
        save_strategy="no", seed=3, disable_tqdm=True)
    trainer = TriaccelTrainer(model_init=llama, args=arguments, train_dataset=sentences(), precision="bf16")
    losses = []
    for _ in range(2):
        trainer.train()
        assert trainer.attached is None  # and the budget is lifted
        losses.append([one["loss"] for one in trainer.state.log_history if "loss" in one][-3:])
    assert losses[0] == losses[1]
    TriaccelTrainer(model=trainer.model, args=arguments, train_dataset=sentences(), precision="bf16").train()


def test_a_resumed_run_decides_as_one_that_went_on(tmp_path):
    from triaccel.integrations.huggingface import TriaccelTrainer

    options = {"accumulated": 1, "policy": "paper", "steps": 60}
    whole, first = history(TriaccelTrainer, tmp_path / "whole", save_steps=25, **options)
    checkpoint = tmp_path / "whole" / "checkpoint-25"
    assert (checkpoint / "triaccel.pt").exists()
    rest, second = history(TriaccelTrainer, tmp_path / "rest", resume=str(checkpoint), **options)
    assert rest == whole
    assert all(torch.equal(a, b) for a, b in zip(first.model.parameters(), second.model.parameters()))


def test_two_casts_are_refused(tmp_path, monkeypatch):
    from triaccel.integrations.huggingface import TriaccelTrainer

    monkeypatch.setenv("ACCELERATE_MIXED_PRECISION", "bf16")
    with pytest.raises(ValueError, match="mixed_precision"):
        history(TriaccelTrainer, tmp_path)
