"""Trains a small Llama of transformers on made-up sentences in a memory budget: small_llama.py [--budget 500MB]

The loss is a sum over tokens and their count, so that parts of a batch with more padding weigh less.
"""
import argparse

import torch
import transformers
import triaccel
from torch.nn import functional as F

PADDING = -100


def made_up_sentences(step, batch, length, words):
    """Each word is the one before plus 0, 1 or 2; sentences end at a random place."""
    generator = torch.Generator().manual_seed(step)
    ids = torch.randint(3, (batch, length), generator=generator).cumsum(1) % words
    ends = torch.randint(length // 2, length, (batch, 1), generator=generator)
    labels = ids.masked_fill(torch.arange(length) > ends, PADDING)
    return {"input_ids": ids, "labels": labels}


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--budget", help="such as 500MB; default: none")
    parser.add_argument("--steps", type=int, default=200)
    parser.add_argument("--batch", type=int, default=32)
    parser.add_argument("--length", type=int, default=64)
    arguments = parser.parse_args()
    device = "cuda" if torch.cuda.is_available() else "cpu"

    torch.manual_seed(0)
    model = transformers.LlamaForCausalLM(transformers.LlamaConfig(
        vocab_size=256, hidden_size=128, intermediate_size=344, num_hidden_layers=4, num_attention_heads=4,
        num_key_value_heads=4, max_position_embeddings=arguments.length)).to(device)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3, fused=True)
    ta = triaccel.attach(model, optimizer, budget=arguments.budget)

    def loss_and_tokens(part):
        logits = model(input_ids=part["input_ids"]).logits[:, :-1]
        labels = part["labels"][:, 1:]
        total = F.cross_entropy(logits.flatten(0, 1), labels.flatten(), ignore_index=PADDING, reduction="sum")
        return total, (labels != PADDING).sum()

    for step in range(1, arguments.steps + 1):
        batch = {key: value.to(device) for key, value in made_up_sentences(step, arguments.batch, arguments.length, 256).items()}
        loss = ta.step(batch, loss_and_tokens)
        if step % 20 == 0 or step == arguments.steps:
            print(f"step {step}: loss {loss.item():.4f} (what remains is ln 3 = 1.0986), passes of {ta.plan['pass_size']}")


if __name__ == "__main__":
    main()
